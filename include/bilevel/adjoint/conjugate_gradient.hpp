#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/adjoint/nystrom_sketch.hpp>
#include <bilevel/adjoint/tridiagonal.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What stands for A⁻¹ in the search directions.
enum class Preconditioner {
  none,
  jacobi,     ///< the inverse of LinearOperator::diagonal()
  own,        ///< LinearOperator::precondition()
  inherited,  ///< LinearOperator::inherited(), what phase 1 left behind
  nystrom,    ///< a NystromSketch of A
};

struct ConjugateGradientOptions : AdjointOptions {
  /// Without one the Lanczos coefficients are those of A and give its Ritz values; with one they
  /// belong to M⁻¹A, and smallest_ritz and largest_ritz stay NaN.
  Preconditioner preconditioner = Preconditioner::none;
  /// Lanczos steps kept for the Ritz values; their eigenvalues cost some 30·steps² operations at
  /// the end, and extreme ones rarely move after a few hundred. 0: no Ritz values.
  long ritz_steps = 300;
  /// With Preconditioner::nystrom; nothing is drawn where the warm start serves already.
  NystromSketchOptions sketch = {};
  /// Whether a sketch stays for later solves, whose matrices differ a little from the one it was drawn from:
  /// until a solve does not converge, or takes more iterations than the first by the sketch's rank, which is
  /// what a new one would cost.
  bool keep_sketch = true;

  Violations validate() const {
    Violations v = AdjointOptions::validate("cg");
    v.at_least("ritz_steps", ritz_steps, 0);
    sketch.check(v);
    return v;
  }
};

std::string_view name(const ConjugateGradientOptions& options);

/// Conjugate gradients (Hestenes and Stiefel 1952) for a symmetric positive definite A. The error in
/// the norm of A falls at least like 2·((√κ − 1)/(√κ + 1))^k.
///
/// A direction with pᵀAp < 0 proves that A is indefinite, and the run ends there with
/// negative_curvature; pᵀAp = 0 to rounding ends it with singular where A·p vanishes too and with
/// breakdown (a semidefinite A would have A·p = 0, so A is indefinite) where it does not. The step
/// along such a p is not taken: x is the iterate with the smallest residual before it.
template <Vector V>
class ConjugateGradient final : public AdjointWithOptions<V, ConjugateGradientOptions> {
 public:
  explicit ConjugateGradient(ConjugateGradientOptions options = {})
      : AdjointWithOptions<V, ConjugateGradientOptions>(options), sketch_(options.sketch) {}
  std::string_view name() const override;
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;
  bool inherits() const override { return options_.preconditioner == Preconditioner::inherited; }

 private:
  struct Workspace {
    V x, r, p, q;
    V z;        // preconditioned residual; unused without a preconditioner
    V lowest;   // the iterate with the smallest recurred residual, kept when the next one is worse
    V inverse;  // of the diagonal
    Tridiagonal lanczos;
    InverseApproximation<V>* approximation = nullptr;  // inherited, or the sketch
  };

  void draw_sketch(LinearRun<V>& run);
  void invert_diagonal(LinearOperator<V>& a, LinearRun<V>& run, V& inverse) const;
  const V& precondition(LinearOperator<V>& a, Workspace& w) const;
  void cycle(LinearOperator<V>& a, LinearRun<V>& run, Workspace& w, bool first) const;
  bool curvature_is_positive(LinearRun<V>& run, const Workspace& w, double curvature, double pp,
                             double& scale) const;

  using AdjointWithOptions<V, ConjugateGradientOptions>::options_;
  NystromSketch<V> sketch_;
  bool sketch_is_worn_ = true;
  long iterations_when_fresh_ = 0;
};

extern template class ConjugateGradient<Eigen::VectorXd>;
extern template class ConjugateGradient<Eigen::VectorXf>;

}  // namespace bilevel
