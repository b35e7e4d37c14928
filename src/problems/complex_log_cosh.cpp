#include <bilevel/problems/log_cosh.hpp>

#include <numbers>

#include "complex_functions.hpp"

namespace bilevel::problems {

using Complex = std::complex<double>;

void LogCosh::complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta, Complex beta,
                                  ComplexWanted wanted) {
  if (wanted.phi) {
    product_ = phi.real();
    wanted.phi->real().noalias() = h_ * product_;
    product_ = phi.imag();
    wanted.phi->imag().noalias() = h_ * product_;
  }
  if (wanted.theta) wanted.theta->setZero();
  // ε·t(a) with Jᵀ, then β·t(c) with Kᵀ.
  const auto add = [&](const Vector& shift, const Matrix& coupling, Complex weight) {
    for (Index i = 0; i < phi.size(); ++i) {
      const Complex slope = weight * complex_tanh(phi[i] - shift[i]);
      if (wanted.phi) (*wanted.phi)[i] += slope;
      tangent_[i] = slope.real();
      product_[i] = slope.imag();
    }
    if (wanted.theta) {
      wanted.theta->real().noalias() -= coupling.transpose() * tangent_;
      wanted.theta->imag().noalias() -= coupling.transpose() * product_;
    }
  };
  argument_.noalias() = j_ * theta;
  add(argument_, j_, epsilon_);
  argument_.noalias() = k_ * theta;
  argument_ += y_;
  add(argument_, k_, beta);
}

bool LogCosh::complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta, Complex beta,
                              Eigen::MatrixXcd& out) {
  out = h_.cast<Complex>();
  argument_.noalias() = j_ * theta;
  tangent_.noalias() = k_ * theta;
  tangent_ += y_;
  for (Index i = 0; i < phi.size(); ++i)
    out(i, i) += epsilon_ * complex_sech_squared(phi[i] - argument_[i]) +
                 beta * complex_sech_squared(phi[i] - tangent_[i]);
  return true;
}

double LogCosh::margin(const Eigen::VectorXcd& phi, const Vector&) {
  // Both arguments are φ less something real, and tanh has its poles at ±iπ/2 + kπi.
  return 1 - phi.imag().cwiseAbs().maxCoeff() / (std::numbers::pi / 2);
}

}  // namespace bilevel::problems
