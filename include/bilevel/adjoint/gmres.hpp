#pragma once

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/minimal_residual.hpp>

namespace bilevel {

struct GmresOptions : AdjointOptions {
  /// Length of a cycle: this many vectors of b's size are held, and the work of a step grows with
  /// their number. Long cycles converge where short ones stagnate; |x| or more never restarts.
  long restart = 100;

  Violations validate() const {
    Violations v = AdjointOptions::validate("gmres");
    v.at_least("restart", restart, 1);
    return v;
  }
};

/// Restarted GMRES (Saad and Schultz 1986) for any A: minimises ‖b − A·x‖ over the Krylov space of each
/// cycle (MinimalResidual).
template <Vector V>
class Gmres final : public AdjointWithOptions<V, GmresOptions> {
 public:
  explicit Gmres(GmresOptions options = {}) : AdjointWithOptions<V, GmresOptions>(options) {}
  std::string_view name() const override { return "gmres"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  void cycle(LinearRun<V>& run, MinimalResidual<V>& space, V& x) const;

  using AdjointWithOptions<V, GmresOptions>::options_;
};

extern template class Gmres<Eigen::VectorXd>;
extern template class Gmres<Eigen::VectorXf>;

}  // namespace bilevel
