#pragma once

#include <optional>

#include <bilevel/inner/backtracking.hpp>
#include <bilevel/space/cholesky.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/sparse_cholesky.hpp>

namespace bilevel {

struct NewtonOptions {
  /// Largest |φ| for which a problem with neither Curvature::sparse nor dense is asked for |φ| products an
  /// iteration; ≥ 1. Beyond 2,000 they and the |φ|³/3 of Cholesky cost more than trust-region's few products.
  long max_assembled = 2000;
  /// Whether a factor serves further iterations while its steps shrink the gradient by more than a new one
  /// would be worth (a chord; Kelley 2003, section 2.3): cheaper where Hessians are sums over many data, but
  /// no longer quadratic convergence.
  bool keep_factor = false;

  Violations validate() const {
    Violations v("newton");
    v.at_least("max_assembled", max_assembled, 1);
    return v;
  }
};

/// Newton's method with a Cholesky factor in host memory, for small |φ| and for an H with few entries, of
/// which the factor is sparse then. Where H is not positive definite H + τD is factored instead, D its
/// diagonal in size, τ doubling until it is (Nocedal and Wright 2006, algorithm 3.3, after scaling), so the
/// direction always descends and units of φ do not matter. Full steps first, shortened by Armijo's search.
/// The last factor, of an iterate before the last, is the inverse Hessian that it leaves behind.
template <Vector V>
class Newton final : public Step<V>, public InverseApproximation<V> {
 public:
  explicit Newton(NewtonOptions options = {});
  std::string_view name() const override { return "newton"; }
  void check(Nudged<V>& nudged, const State<V>& state) override;
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  bool searches() const override { return true; }
  InverseApproximation<V>* inverse_hessian() override { return this; }
  void apply(const V& b, V& out) override;
  Index rank() const override { return factored_ ? host_.size() : 0; }
  std::string note() const override;
  std::size_t bytes() const override;

 private:
  std::optional<Stop> form_hessian(Nudged<V>& nudged, const State<V>& state);
  std::optional<Stop> factor(Nudged<V>& nudged, const State<V>& state);
  void scale_to_unit_diagonal();
  std::optional<Stop> step(Nudged<V>& nudged, State<V>& state);
  /// A Hessian and its factor cost about |φ|/32 gradients where the loss is a sum over data, which such a
  /// factor's first steps would shrink to a twentieth at least.
  double worthwhile_share() const { return std::pow(0.05, 1 / (1 + static_cast<double>(host_.size()) / 32)); }

  NewtonOptions options_;
  std::optional<Backtracking<V>> search_;
  std::optional<V> direction_, column_;
  Eigen::MatrixXd hessian_;
  Cholesky factor_;
  SparseMatrix sparse_;  // in place of the Hessian, where is_sparse_
  SparseCholesky sparse_factor_;
  bool is_sparse_ = false;
  Eigen::VectorXd host_, scale_;
  bool factored_ = false;
  bool serves_ = false;  // the factor is good enough for one more iteration
  long shifted_ = 0;     // iterations whose H had to be shifted
  double largest_shift_ = 0;
};

extern template class Newton<Eigen::VectorXd>;
extern template class Newton<Eigen::VectorXf>;

}  // namespace bilevel
