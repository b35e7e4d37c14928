#pragma once

#include <cstdint>

#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// Shape of a random log-cosh problem.
struct LogCoshOptions {
  Index phi = 20;
  Index theta = 5;
  double condition = 100;  ///< κ(H); eigenvalues log-spaced in [1/√κ, √κ], so that neither end is special
  double epsilon = 1;      ///< ε: weight of what makes L_in not quadratic
  std::uint64_t seed = 1;

  Violations validate() const;
};

/// A problem that meets every assumption of the theorem on implicit differentiation, with no term of it zero:
///   L_in  = ½ φᵀHφ + ε Σ ln cosh(φ − Jθ)_i,   L_out = Σ ln cosh(φ − y − Kθ)_i,   H ≻ 0, ε > 0
/// With a = φ − Jθ and c = φ − y − Kθ, t(x) = tanh x and s(x) = sech² x element by element:
///   ∂φ L_in = Hφ + ε t(a)      ∂θ L_in = −ε Jᵀt(a)      ∂φ L_out = t(c)      ∂θ L_out = −Kᵀt(c)
///   J_β = H + ε diag s(a) + β diag s(c)      χ_β = −ε diag s(a)·J − β diag s(c)·K
/// All constants hold everywhere: |s| ≤ 1 and |s′| = 2·s·|t| ≤ 4/(3√3), so
///   μ = λ_min(H), L = λ_max(H) + ε, ρ_H = 4ε/(3√3), ρ_χ = ρ_H‖J‖, ‖χ‖ ≤ ε‖J‖, B = √n, L_out = 1, M_out =
///   ‖K‖.
/// φ* has no closed form.
class LogCosh final : public ReferenceProblem, public Holomorphic {
 public:
  using Vector = Eigen::VectorXd;
  using Matrix = Eigen::MatrixXd;

  LogCosh(Matrix h, Matrix j, Vector y, Matrix k, double epsilon);
  static LogCosh random(const LogCoshOptions& options);

  std::string_view name() const override { return "log-cosh"; }
  Vector initial_phi() const override { return Vector::Zero(h_.rows()); }
  /// Not zero: there φ* = 0 whatever H is, which tests nothing.
  Vector initial_theta() const override { return Vector::Ones(j_.cols()); }
  double inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  double outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  void linearise(const Vector& phi, const Vector& theta, double beta,
                 std::unique_ptr<Curvature<Vector>>& reuse) override;
  Constants constants(const Vector& theta, const Vector& center, double radius) override;
  Rounding rounding(const Vector& phi, const Vector& theta, const Vector& pi) override;

  // Continued to complex φ and β.
  Holomorphic* holomorphic() override { return this; }
  void complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                           ComplexWanted wanted) override;
  bool complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                       Eigen::MatrixXcd& out) override;
  double margin(const Eigen::VectorXcd& phi, const Vector& theta) override;

  const Matrix& hessian() const { return h_; }         ///< H, the quadratic part
  const Matrix& coupling() const { return j_; }        ///< J
  const Matrix& outer_coupling() const { return k_; }  ///< K
  const Vector& target() const { return y_; }          ///< y
  double epsilon() const { return epsilon_; }

 private:
  Matrix h_, j_, k_;
  Vector y_;
  double epsilon_;
  double mu_, smoothness_, coupling_norm_, outer_coupling_norm_;
  Vector argument_, tangent_, product_;
};

/// ln cosh x, accurate for small and for large x.
double log_cosh(double x);
/// sech² x = 1 − tanh² x without the cancellation.
double sech_squared(double x);

}  // namespace bilevel::problems
