#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include <Eigen/LU>

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/gradient/impl/spectrum.hpp>
#include <bilevel/problem/equilibrium.hpp>

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
  bool diagonal(V& out) override { return curvature_.diagonal(out); }
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
  explicit Sensitivity(Equilibrium<V>& problem)
      : problem_(problem), symmetric_(problem.capabilities().symmetric) {}

  /// Linearise here, into the storage of the last time.
  void move_to(const V& phi, const V& theta) {
    require_shapes(problem_, &phi, &theta, "sensitivity");
    problem_.linearise(phi, theta, 0, curvature_);
    phi_ = duplicate(phi);
    theta_ = duplicate(theta);
  }

  /// What is known about J⁻¹ wherever this is moved to, for the solvers that inherit it; must outlive this.
  void inherit(InverseApproximation<V>* inverse) { inverse_ = inverse; }

  /// Solves π·J = w and writes −π·χ, i.e. w·dφ*/dθ, to `out`: the vector–Jacobian product. The solution π is
  /// returned.
  LinearSolution<V> pullback(const V& w, AdjointSolver<V>& solver, V& out, const V* warm = nullptr) {
    LinearSolution<V> solution = solve(w, true, solver, warm);
    curvature_->cross_times(solution.x, out);
    Space<V>::scale(-1, out);
    return solution;
  }

  /// Returns dφ*/dθ·u as `.x`: the Jacobian–vector product, from J·x = −χ·u.
  LinearSolution<V> pushforward(const V& u, AdjointSolver<V>& solver) {
    V rhs = Space<V>::zeros_like(phi_);
    curvature().cross_apply(u, rhs);
    Space<V>::scale(-1, rhs);
    return solve(rhs, false, solver, nullptr);
  }

  /// The whole of dφ*/dθ, |φ|×|θ|, for small problems; empty where J is singular and there is no derivative.
  std::optional<Eigen::MatrixXd> jacobian() {
    const Eigen::FullPivLU<Eigen::MatrixXd> lu(dense_matrix(curvature(), phi_));
    if (!lu.isInvertible()) return {};
    return Eigen::MatrixXd(-lu.solve(dense_cross(curvature(), phi_, theta_)));
  }

  Curvature<V>& curvature() {
    if (!curvature_) throw InvalidInput("sensitivity: call move_to(phi, theta) first");
    return *curvature_;
  }

 private:
  /// J·x = b or Jᵀ·x = b. A right side so small or large that squares of it leave the range of double is
  /// solved for in units of its own norm.
  LinearSolution<V> solve(const V& b, bool transposed, AdjointSolver<V>& solver, const V* warm) {
    CurvatureOperator<V> a(curvature(), symmetric_, transposed, inverse_, problem_.stop_token());
    const double size = norm(b);
    if (size == 0 || !std::isfinite(size) || (size > 1e-100 && size < 1e100)) return solver.solve(a, b, warm);
    V unit = duplicate(b);
    Space<V>::scale(1 / std::sqrt(size), unit);
    Space<V>::scale(1 / std::sqrt(size), unit);
    LinearSolution<V> solution = solver.solve(a, unit, nullptr);
    Space<V>::scale(size, solution.x);
    solution.residual_norm *= size;
    solution.rhs_norm *= size;
    solution.target *= size;
    solution.message += fmt::format("; in units of ‖b‖ = {:.3g}", size);
    return solution;
  }

  Equilibrium<V>& problem_;
  bool symmetric_;
  InverseApproximation<V>* inverse_ = nullptr;
  V phi_, theta_;
  std::unique_ptr<Curvature<V>> curvature_;
};

}  // namespace bilevel
