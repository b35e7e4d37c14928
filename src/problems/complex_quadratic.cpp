#include <bilevel/problems/quadratic.hpp>

namespace bilevel::problems {

using Complex = std::complex<double>;

void Quadratic::complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta, Complex beta,
                                    ComplexWanted wanted) {
  if (wanted.phi) {
    // Hφ − Jθ − b + βG(φ − y), real and imaginary parts apart: the matrices are real.
    Eigen::VectorXcd& out = *wanted.phi;
    scratch_ = phi.real() - y_;
    out.real().noalias() = g_ * scratch_;
    scratch_ = phi.imag();
    out.imag().noalias() = g_ * scratch_;
    out *= beta;
    out.imag().noalias() += h_ * scratch_;
    scratch_ = phi.real();
    out.real().noalias() += h_ * scratch_;
    out.real().noalias() -= j_ * theta;
    out.real() -= b_;
  }
  if (wanted.theta) {
    wanted.theta->real().noalias() = -(j_.transpose() * phi.real());
    wanted.theta->imag().noalias() = -(j_.transpose() * phi.imag());
  }
}

bool Quadratic::complex_hessian(const Eigen::VectorXcd&, const Vector&, Complex beta, Eigen::MatrixXcd& out) {
  out = h_.cast<Complex>();
  out += beta * g_;
  return true;
}

}  // namespace bilevel::problems
