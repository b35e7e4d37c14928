#pragma once

#include <algorithm>
#include <cmath>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/adjoint/tridiagonal.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct MinresOptions : AdjointOptions {
  /// As for conjugate gradients: Lanczos steps kept for the Ritz values, 0 for none.
  long ritz_steps = 300;

  Violations validate() const {
    Violations v = AdjointOptions::validate("minres");
    v.at_least("ritz_steps", ritz_steps, 0);
    return v;
  }
};

/// MINRES (Paige and Saunders 1975) for a symmetric A of any signature: the residual never grows.
/// An indefinite A is solved like any other and the message says that it is indefinite. A singular A
/// with b in its range is solved; with b outside, the iterates minimise ‖b − A·x‖, and the run ends
/// with singular once A·r vanishes although r does not, as far as rounding lets it (about √u·‖A‖·‖r‖).
template <Vector V>
class Minres final : public AdjointWithOptions<V, MinresOptions> {
 public:
  explicit Minres(MinresOptions options = {}) : AdjointWithOptions<V, MinresOptions>(options) {}
  std::string_view name() const override { return "minres"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  struct Workspace {
    V x;
    V older, v, next;  // Lanczos vectors v_{k−1}, v_k, v_{k+1}
    V w1, w2, w3;      // directions w_{k−2}, w_{k−1}, w_k
    V steady;          // the iterate with the smallest ‖A·r‖/‖r‖, kept once that is small
    Tridiagonal lanczos;
  };

  void cycle(LinearRun<V>& run, Workspace& work, bool first) const;

  using AdjointWithOptions<V, MinresOptions>::options_;
};

extern template class Minres<Eigen::VectorXd>;
extern template class Minres<Eigen::VectorXf>;

}  // namespace bilevel
