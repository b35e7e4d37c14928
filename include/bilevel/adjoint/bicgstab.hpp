#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct BicgstabOptions : AdjointOptions {
  /// Breakdowns in a row that did not halve the residual before the run gives up. Each begins again
  /// from the best x with another shadow vector; a breakdown by bad luck is over after one.
  long max_restarts = 5;
  /// Of the shadow vectors used after a breakdown.
  std::uint64_t seed = 1;

  Violations validate() const {
    Violations v = AdjointOptions::validate("bicgstab");
    v.at_least("max_restarts", max_restarts, 0);
    return v;
  }
};

/// BiCGSTAB (van der Vorst 1992) for any A: seven vectors whatever the number of steps, two products a
/// step, and no bound on its residual, which is why the best x on the way is the one returned.
template <Vector V>
class Bicgstab final : public AdjointWithOptions<V, BicgstabOptions> {
 public:
  explicit Bicgstab(BicgstabOptions options = {}) : AdjointWithOptions<V, BicgstabOptions>(options) {}
  std::string_view name() const override { return "bicgstab"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  struct Workspace {
    V x, r, p, v, s, t;
    V shadow;
    V lowest;  // the iterate with the smallest recurred residual, kept when the next one is worse
  };

  /// Why a cycle ended before its residual was small: the divisor that vanished, and its value.
  struct Breakdown {
    std::string_view divisor;
    double value = 0;
  };

  Breakdown cycle(LinearRun<V>& run, Workspace& w, long restarts) const;

  using AdjointWithOptions<V, BicgstabOptions>::options_;
};

extern template class Bicgstab<Eigen::VectorXd>;
extern template class Bicgstab<Eigen::VectorXf>;

}  // namespace bilevel
