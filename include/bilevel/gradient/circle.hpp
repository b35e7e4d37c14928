#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/status.hpp>
#include <bilevel/problem/holomorphic.hpp>

namespace bilevel {

/// How the complex phases settle.
enum class ComplexMethod { automatic, newton, gradient };

std::string_view name(ComplexMethod method);

/// Options of holomorphic equilibrium propagation.
struct HolomorphicOptions {
  /// N: points on the circle; even, 2 to 64. The bias falls like |β|^N and N/2 phases are settled, since the
  /// others are complex conjugates. 8 leaves twelve digits at a thirtieth of the way to the pole.
  int points = 8;
  /// Radius of the circle; ≥ 0. 0 chooses: with R the distance to the pole, R·max(tolerance^(1/N),
  /// u^(1/(N+1))), at most R/2, which makes the bias as small as the noise, and a quarter of that each time
  /// the circle turns out to reach a singularity of a loss that is not quadratic.
  double beta = 0;
  /// newton: complex LU of the dense Hessian. gradient: fixed steps. automatic: newton where the problem
  /// offers its Hessian and |φ| ≤ newton_limit.
  ComplexMethod method = ComplexMethod::automatic;
  /// ≥ 1. A factorization is |φ|³ operations in complex numbers: 0.1 s at 400.
  Index newton_limit = 400;
  /// A phase has settled when ‖∂φ L‖ ≤ tolerance·|β|·‖∂φ L_out(φ̂)‖, or at the level of rounding; in (0, 1).
  /// Relative to what the nudge changes, so it is the relative error that a phase adds to the gradient.
  double tolerance = 1e-12;
  /// Of each phase; ≥ 1. Newton takes three to six, gradient descent about 30·κ.
  long max_iterations = 10000;
  /// Length of a gradient step; ≥ 0. 0 chooses 2/(3(L + |β|·L_out)): the complex Hessian is a little larger
  /// than the real one.
  double step = 0;
  /// Where the problem offers curvature: measure ĝ − π̂Ĥ for the π̂ = −dφ_b/db that the circle yields, at the
  /// price of one Hessian and one cross product. The certificate is then that of implicit differentiation,
  /// rigorous where constants are known. Otherwise it is estimated from the Fourier coefficients.
  bool adjoint_check = true;
  CertificateOptions certificate = {};
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;

  Violations validate() const;
};

/// Where the nudged equilibria are known to exist: H + bG ≻ 0 for real |b| < radius.
struct Disc {
  double radius = unknown;
  double mu = unknown;
  double smoothness = unknown;
  double outer_smoothness = unknown;
  std::string source = "unknown";

  /// How far the distance to the nearest pole of the nudged equilibria has been used up.
  double used_by(double beta) const { return beta / radius; }
};

/// What the phases around a circle show. Vectors are real: conjugate points cancel their imaginary parts.
struct CircleFindings {
  Status status = Status::not_run;
  bool refused = false;  ///< there is no gradient: the circle reaches a pole, or a phase was not finite
  std::string message;
  Eigen::VectorXd gradient;   ///< f₁ of f(b) = ∂θ L(φ_b, θ, b) = Σ f_m b^m
  Eigen::VectorXd tangent;    ///< dφ_b/db at 0, i.e. −π
  std::vector<double> sizes;  ///< ‖f_m‖·|β|^m for m = 0…N, the last one by f(0)
  double mean_residual = 0;   ///< of the phases' ‖∂φ L‖
  double rounding = 0;        ///< the level of rounding in ‖∂φ L‖
  double margin = 1;          ///< the smallest `Holomorphic::margin` of the phases
  double coupling = 0;        ///< largest ‖f(b) − f(0)‖ / ‖φ_b − φ_0‖
  long iterations = 0;
  long factorizations = 0;
};

/// Settles the complex phases of one problem. Everything is in host memory and sized once.
class Circle {
 public:
  Circle(Holomorphic& problem, const HolomorphicOptions& options, Index phis, Index thetas);

  bool newton() const { return newton_; }
  void set_tolerance(double tolerance) { options_.tolerance = tolerance; }
  std::size_t bytes() const;
  /// The disc by eigenvalues of the dense Hessians at φ; radius 0 where H is not positive definite, unknown
  /// where phases do not settle by Newton.
  Disc measure(const Eigen::VectorXd& phi, const Eigen::VectorXd& theta);
  /// Settles once more at b = 0 from φ, then at the points of the circle with Im b > 0. `outer_norm` is
  /// ‖∂φ L_out(φ)‖.
  CircleFindings run(const Eigen::VectorXd& phi, const Eigen::VectorXd& theta, double beta, double outer_norm,
                     const Disc& disc);

 private:
  using Complex = std::complex<double>;
  struct Phase {
    Status status;
    double residual;
    long iterations;
  };

  Phase settle(const Eigen::VectorXd& theta, Complex b);
  Phase settle_by_newton(const Eigen::VectorXd& theta, Complex b);
  Phase settle_by_gradient(const Eigen::VectorXd& theta, Complex b);
  double level_of_rounding() const;
  bool refuse(CircleFindings& findings, const Eigen::VectorXd& theta, Complex b, const Phase& phase);
  void transform(double beta, CircleFindings& findings) const;

  Holomorphic& problem_;
  HolomorphicOptions options_;
  bool newton_ = false;
  double step_ = 0, target_ = 0, outer_norm_ = 0, size_ = 0;
  Eigen::VectorXcd phi_, moved_, residual_, direction_, origin_, tangent_sum_;
  Eigen::VectorXcd origin_theta_, theta_value_;  // f(0), f(b)
  Eigen::MatrixXcd values_;                      // f(b_k) − f(0), one point a column
  Eigen::MatrixXcd hessian_;
  Eigen::MatrixXd real_part_;
  Eigen::PartialPivLU<Eigen::MatrixXcd> lu_;
  Eigen::LLT<Eigen::MatrixXd> cholesky_;
};

/// Estimates the error of a circle's gradient from the decay of its coefficients and from the residuals of
/// its phases; docs/holomorphic-and-agnostic.md has the formula.
Certificate certify_circle(const CircleFindings& findings, double beta, const Disc& disc,
                           double unit_roundoff);

}  // namespace bilevel
