#include <algorithm>
#include <numbers>

#include <bilevel/problems/generalised_linear_model.hpp>

#include "complex_functions.hpp"

namespace bilevel::problems {

using Complex = std::complex<double>;

/// loss′ and loss″ at the margins x_i·φ.
void GeneralisedLinearModel::bend_at(Part& part, const Eigen::VectorXcd& phi) {
  const auto x = part.x.matrix();
  Eigen::VectorXcd& margins = part.complex_slopes;
  margins.resize(x.rows());
  part.complex_bends.resize(x.rows());
  margins.real().noalias() = x * phi.real();
  margins.imag().noalias() = x * phi.imag();
  for (Index i = 0; i < margins.size(); ++i) {
    const double label = part.y[i];
    if (loss_ == kernels::Loss::squared) {
      margins[i] -= label;
      part.complex_bends[i] = 1;
    } else {
      const Complex product = label * margins[i];
      part.complex_bends[i] = complex_logistic_slope(product);
      margins[i] = -label * complex_logistic(-product);
    }
  }
}

void GeneralisedLinearModel::complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta,
                                                 Complex beta, ComplexWanted wanted) {
  set_penalties(theta);
  if (wanted.phi) {
    *wanted.phi = phi.array() * penalties_.array().cast<Complex>();
    complex_scratch_.resize(phi.size());
    const auto add = [&](Part& part, Complex weight) {
      bend_at(part, phi);
      complex_scratch_.real().noalias() = part.x.matrix().transpose() * part.complex_slopes.real();
      complex_scratch_.imag().noalias() = part.x.matrix().transpose() * part.complex_slopes.imag();
      *wanted.phi += (weight * part.inverse_rows) * complex_scratch_;
    };
    add(training_, 1);
    if (beta != 0.0) add(validation_, beta);
  }
  if (!wanted.theta) return;
  // Only the penalty depends on θ: ½ exp(θ_j) φ_j², the square without conjugation.
  Complex sum = 0;
  for (Index j = 0; j < phi.size(); ++j) {
    const Complex each = 0.5 * penalties_[j] * phi[j] * phi[j];
    sum += each;
    if (penalty_ == Penalty::per_feature) (*wanted.theta)[j] = each;
  }
  if (penalty_ == Penalty::global) (*wanted.theta)[0] = sum;
}

bool GeneralisedLinearModel::complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta, Complex beta,
                                             Eigen::MatrixXcd& out) {
  set_penalties(theta);
  out.setZero(phi.size(), phi.size());
  const auto add = [&](Part& part, Complex weight) {
    if (part.gram.size() > 0) {
      out += weight * part.gram;
      return;
    }
    bend_at(part, phi);
    const auto x = part.x.matrix();
    const Complex scale = weight * part.inverse_rows;
    const Matrix real = x.transpose() * part.complex_bends.real().asDiagonal() * x;
    out += scale * real;
    if (loss_ == kernels::Loss::squared) return;
    const Matrix imaginary = x.transpose() * part.complex_bends.imag().asDiagonal() * x;
    out += (scale * Complex(0, 1)) * imaginary;
  };
  add(training_, 1);
  if (beta != 0.0) add(validation_, beta);
  for (Index j = 0; j < phi.size(); ++j) out(j, j) += penalties_[j];
  return true;
}

double GeneralisedLinearModel::margin(const Eigen::VectorXcd& phi, const Vector&) {
  if (loss_ == kernels::Loss::squared) return 1;
  // σ has its poles at odd multiples of iπ; labels are ±1.
  const Vector imaginary = phi.imag();
  double widest = 0;
  for (const Part* part : {&training_, &validation_})
    widest = std::max(widest, (part->x.matrix() * imaginary).cwiseAbs().maxCoeff());
  return 1 - widest / std::numbers::pi;
}

}  // namespace bilevel::problems
