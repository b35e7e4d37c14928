#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>

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
/// cycle, by modified Gram–Schmidt, a second time where cancellation asks for it, and Givens rotations.
template <Vector V>
class Gmres final : public AdjointWithOptions<V, GmresOptions> {
 public:
  explicit Gmres(GmresOptions options = {}) : AdjointWithOptions<V, GmresOptions>(options) {}
  std::string_view name() const override { return "gmres"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  struct Workspace {
    V x;
    std::vector<V> basis;          // one more than the length of a cycle
    Eigen::MatrixXd triangle;      // the Hessenberg matrix, rotated into R column by column
    Eigen::VectorXd cosine, sine;  // the rotations
    Eigen::VectorXd g;             // the rotated ‖r_0‖·e_1; |g_k| is the residual norm after k steps
  };

  void cycle(LinearRun<V>& run, Workspace& w) const;
  bool orthogonalise(Workspace& w, Index k, double& length) const;
  void rotate(Workspace& w, Index k) const;

  using AdjointWithOptions<V, GmresOptions>::options_;
};

extern template class Gmres<Eigen::VectorXd>;
extern template class Gmres<Eigen::VectorXf>;

}  // namespace bilevel
