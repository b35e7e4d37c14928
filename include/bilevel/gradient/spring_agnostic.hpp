#pragma once

#include <bilevel/gradient/agnostic.hpp>
#include <bilevel/inner/spring_controlled.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// The agnostic estimator on a problem that is loaded with springs: what would be learnt if the problem were
/// a system that can only settle. The springs bias the gradient of the problem itself by O(ε); the same at
/// half the compliance shows how much, and the bound includes twice that.
template <Vector V>
class SpringAgnostic final : public Estimator<V> {
 public:
  explicit SpringAgnostic(Problem<V>& problem, const AgnosticOptions& options = {},
                          SpringOptions springs = {})
      : options_(options),
        soft_(problem, springs),
        stiff_(problem, stiffer(springs)),
        from_soft_(soft_, options),
        from_stiff_(stiff_, options) {}

  std::string_view name() const override { return from_stiff_.name(); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_outer_tolerance(double tolerance) override {
    options_.outer_tolerance = tolerance;
    from_soft_.set_outer_tolerance(tolerance);
    from_stiff_.set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return soft_.initial_phi(); }
  V initial_theta() const override { return soft_.initial_control(); }

 private:
  static SpringOptions stiffer(SpringOptions springs) {
    springs.compliance /= 2;
    return springs;
  }

  AgnosticOptions options_;
  SpringControlled<V> soft_, stiff_;
  Agnostic<V> from_soft_, from_stiff_;
};

extern template class SpringAgnostic<Eigen::VectorXd>;
extern template class SpringAgnostic<Eigen::VectorXf>;

}  // namespace bilevel
