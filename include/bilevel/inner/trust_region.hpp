#pragma once

#include <algorithm>
#include <optional>

#include <bilevel/inner/step.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct TrustRegionOptions {
  /// Radius of the first ball; > 0. Steps of order 1 until the model has proved itself.
  double first_radius = 1;
  /// Hessian products in one iteration; ≥ 0. 0, the default, is 2·|φ| + 10: exact arithmetic needs |φ|.
  long max_products = 0;

  Violations validate() const {
    Violations v("trust-region");
    v.positive("first_radius", first_radius);
    v.at_least("max_products", max_products, 0);
    return v;
  }
};

/// Newton's method for large |φ|: the model gᵀp + ½pᵀHp is minimised over ‖p‖ ≤ Δ by the conjugate
/// gradients of Steihaug and Toint (Nocedal and Wright 2006, algorithms 4.1 and 7.2), which follow a
/// direction of negative curvature to the boundary. The forcing term min(½, √‖g‖) makes it
/// superlinear near the solution.
template <Vector V>
class TrustRegion final : public Step<V> {
 public:
  explicit TrustRegion(TrustRegionOptions options = {});
  std::string_view name() const override { return "trust-region"; }
  void check(Nudged<V>& nudged, const State<V>& state) override;
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  bool searches() const override { return true; }
  std::string note() const override;
  std::size_t bytes() const override { return work_.empty() ? 0 : work_.size() * bytes_of(work_[0]); }

 private:
  struct Model {
    double predicted = 0;  // the model's decrease, ≥ 0
    double length = 0;     // ‖p‖
    bool at_boundary = false;
  };
  std::optional<Stop> minimise_model(const Nudged<V>& nudged, Curvature<V>& curvature, const State<V>& state,
                                     Model& model);

  TrustRegionOptions options_;
  std::vector<V> work_;  // p, the model's gradient r = g + Hp, the direction d, Hd, trial φ, trial gradient
  double radius_ = 1;
  long products_ = 0;
  long negative_ = 0;
};

extern template class TrustRegion<Eigen::VectorXd>;
extern template class TrustRegion<Eigen::VectorXf>;

}  // namespace bilevel
