#pragma once

#include <cstdint>

#include <Eigen/Cholesky>

#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// Shape of a random quadratic problem.
struct QuadraticOptions {
  Index phi = 20;
  Index theta = 5;
  double condition = 100;  ///< κ(H); eigenvalues log-spaced in [1/√κ, √κ], so that neither end is special
  std::uint64_t seed = 1;

  Violations validate() const;
};

/// The workhorse Q of the notes:
///   L_in  = ½ φᵀHφ − φᵀ(Jθ + b),   L_out = ½ (φ − y)ᵀ G (φ − y),   H ≻ 0, G ⪰ 0
///   φ_β = (H + βG)⁻¹ (Jθ + b + βGy),   ∇θ = Jᵀ H⁻¹ G (φ₀ − y)
class Quadratic final : public ReferenceProblem, public Holomorphic {
 public:
  using Vector = Eigen::VectorXd;
  using Matrix = Eigen::MatrixXd;

  Quadratic(Matrix h, Matrix j, Vector b, Matrix g, Vector y);
  static Quadratic random(const QuadraticOptions& options);

  std::string_view name() const override { return "quadratic"; }
  Vector initial_phi() const override { return Vector::Zero(h_.rows()); }
  Vector initial_theta() const override { return Vector::Zero(j_.cols()); }
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

  std::optional<Vector> settled(const Vector& theta) const override { return settled(theta, 0); }
  std::optional<Vector> outer_gradient(const Vector& theta) const override;
  std::optional<Vector> best_theta() const override;

  /// φ_β, for β with H + βG ≻ 0.
  Vector settled(const Vector& theta, double beta) const;

  const Matrix& hessian() const { return h_; }
  const Matrix& coupling() const { return j_; }
  const Matrix& outer_hessian() const { return g_; }

 private:
  Matrix h_, j_, g_;
  Vector b_, y_;
  Eigen::LLT<Matrix> factor_;
  double mu_, smoothness_, outer_smoothness_, cross_norm_;
  Vector scratch_, difference_;
};

}  // namespace bilevel::problems
