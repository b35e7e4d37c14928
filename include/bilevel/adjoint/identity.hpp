#pragma once

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct IdentityOptions : AdjointOptions {
  /// α in x = α·b: the inverse of a typical eigenvalue of A.
  double step = 1;

  Violations validate() const {
    Violations v = AdjointOptions::validate("identity");
    v.require(std::isfinite(step), "step", step, "must be finite");
    return v;
  }
};

/// x = α·b, A replaced by I/α: the one-step, or Jacobian-free, gradient. Deliberately no solution, so the
/// status is approximate unless the residual happens to meet the target; one product tells the residual.
/// A warm start is ignored.
template <Vector V>
class Identity final : public AdjointWithOptions<V, IdentityOptions> {
 public:
  explicit Identity(IdentityOptions options = {}) : AdjointWithOptions<V, IdentityOptions>(options) {}
  std::string_view name() const override { return "identity"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  using AdjointWithOptions<V, IdentityOptions>::options_;
};

extern template class Identity<Eigen::VectorXd>;
extern template class Identity<Eigen::VectorXf>;

}  // namespace bilevel
