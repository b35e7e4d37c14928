#pragma once

#include <memory>
#include <optional>

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/gradient/spectrum.hpp>

namespace bilevel {

/// J or Jᵀ of a curvature as phase 2's matrix.
template <Vector V>
class CurvatureOperator final : public LinearOperator<V> {
 public:
  CurvatureOperator(Curvature<V>& curvature, bool symmetric, bool transposed,
                    InverseApproximation<V>* inverse = nullptr, const StopToken* stop = nullptr)
      : curvature_(curvature),
        symmetric_(symmetric),
        transposed_(transposed && !symmetric),
        inverse_(symmetric ? inverse : nullptr),
        stop_(stop) {}

  void apply(const V& x, V& out) override {
    transposed_ ? curvature_.transpose_times(x, out) : curvature_.times(x, out);
  }
  bool symmetric() const override { return symmetric_; }
  bool dense(Eigen::MatrixXd& out) override {
    if (!curvature_.dense(out)) return false;
    if (transposed_) out.transposeInPlace();
    return true;
  }
  long sparse(SparseMatrix& out) override { return symmetric_ ? curvature_.sparse(out) : 0; }
  bool diagonal(V& out) override { return curvature_.diagonal(out); }
  bool drawn_apply(const V& x, V& out) override { return symmetric_ && curvature_.drawn_times(x, out) > 0; }
  bool precondition(const V& r, V& out) override { return symmetric_ && curvature_.precondition(r, out); }
  InverseApproximation<V>* inherited() override { return inverse_; }
  const StopToken* stop_token() const override { return stop_; }

 private:
  Curvature<V>& curvature_;
  bool symmetric_, transposed_;
  InverseApproximation<V>* inverse_;
  const StopToken* stop_;
};

/// How the settled state answers to θ: dφ*/dθ = −J⁻¹χ, applied from either side, all from one
/// linearisation at (φ, θ). An input of an implicit layer is a block of θ like any other.
template <Vector V>
class Sensitivity {
 public:
  explicit Sensitivity(Equilibrium<V>& problem);

  /// Linearise here, into the storage of the last time.
  void move_to(const V& phi, const V& theta);
  /// What is known about J⁻¹ wherever this is moved to, for the solvers that inherit it; must outlive this.
  void inherit(InverseApproximation<V>* inverse) { inverse_ = inverse; }

  /// Solves π·J = w and writes −π·χ, i.e. w·dφ*/dθ, to `out`: the vector–Jacobian product. The solution π is
  /// returned.
  LinearSolution<V> pullback(const V& w, AdjointSolver<V>& solver, V& out, const V* warm = nullptr);
  /// Returns dφ*/dθ·u as `.x`: the Jacobian–vector product, from J·x = −χ·u.
  LinearSolution<V> pushforward(const V& u, AdjointSolver<V>& solver);
  /// The whole of dφ*/dθ, |φ|×|θ|, for small problems; empty where J is singular and there is no derivative.
  std::optional<Eigen::MatrixXd> jacobian();

  /// Throws InvalidInput before the first move_to().
  Curvature<V>& curvature();

 private:
  LinearSolution<V> solve(const V& b, bool transposed, AdjointSolver<V>& solver, const V* warm);

  Equilibrium<V>& problem_;
  bool symmetric_;
  InverseApproximation<V>* inverse_ = nullptr;
  V phi_, theta_;
  std::unique_ptr<Curvature<V>> curvature_;
};

extern template class Sensitivity<Eigen::VectorXd>;
extern template class Sensitivity<Eigen::VectorXf>;

}  // namespace bilevel
