#include <algorithm>
#include <cmath>

#include <bilevel/problems/penalised_model.hpp>

namespace bilevel::problems {
namespace {

using Complex = std::complex<double>;
using ComplexVec = Eigen::VectorXcd;

/// Calls work(i, margin, share) for the rows of a loss: the margin at complex coefficients, and what the row
/// weighs of the whole.
template <class Work>
void for_each_margin(const DataLoss& loss, const ComplexVec& u, Work&& work) {
  const Samples& s = loss.samples();
  for (const auto& [first, last] : loss.ranges())
    for (Index i = first; i < last; ++i) {
      Complex margin = u[s.matrix->features()] + (s.offsets ? (*s.offsets)[i] : 0);
      s.matrix->for_each(i, [&](Index j, double x) { margin += x * u[j]; });
      work(i, margin, (s.weights ? (*s.weights)[i] : 1) / loss.total_weight());
    }
}

/// out += factor·∂ loss / ∂u
void add_gradient(const DataLoss& loss, const ComplexVec& u, Complex factor, ComplexVec& out) {
  const Samples& s = loss.samples();
  const auto slope_of = loss.kind()->continued->slope;
  for_each_margin(loss, u, [&](Index i, Complex margin, double share) {
    const Complex slope = factor * share * slope_of(margin, (*s.labels)[i]);
    s.matrix->for_each(i, [&](Index j, double x) { out[j] += x * slope; });
    out[s.matrix->features()] += slope;
  });
}

/// out += factor·∂² loss / ∂u². Dense features only.
void add_hessian(DataLoss& loss, const ComplexVec& u, Complex factor, Eigen::MatrixXcd& out) {
  const LossShape shape = loss.shape();
  if (shape.least_curvature == shape.largest_curvature) {  // loss″ is one real number, as on the real axis
    RowCurvature rows;
    Eigen::MatrixXd real;
    loss.curvature_at(u.real(), rows);
    loss.dense(rows, real);
    out += factor * real;
    return;
  }
  const Samples& s = loss.samples();
  const auto curvature_of = loss.kind()->continued->curvature;
  ComplexVec curvature(loss.row_count());
  Index place = 0;
  for_each_margin(loss, u, [&](Index i, Complex margin, double share) {
    curvature[place++] = factor * share * curvature_of(margin, (*s.labels)[i]);
  });
  place = 0;
  for (const RowRange& range : loss.ranges()) {
    const auto x = s.matrix->dense_map(range);
    const auto own = curvature.segment(place, x.rows());
    out.real() += x.transpose() * own.real().asDiagonal() * x;
    out.imag() += x.transpose() * own.imag().asDiagonal() * x;
    place += x.rows();
  }
}

}  // namespace

Holomorphic* PenalisedModel::holomorphic() {
  return training_->kind() && training_->kind()->continued ? this : nullptr;
}

ComplexVec PenalisedModel::to_stored(const ComplexVec& psi) const {
  // T is real and linear.
  Vec real(u_.size()), imaginary(u_.size());
  to_stored(psi.real(), real);
  to_stored(psi.imag(), imaginary);
  return real + Complex(0, 1) * imaginary;
}

void PenalisedModel::complex_derivatives(const ComplexVec& psi, const Vec& theta, Complex beta,
                                         ComplexWanted wanted) {
  set_penalties(theta);
  if (wanted.phi) {
    const ComplexVec u = to_stored(psi);
    ComplexVec g = ComplexVec::Zero(u.size());
    add_gradient(*training_, u, 1, g);
    if (beta != 0.0) add_gradient(*validation_, u, beta, g);
    Vec real(size_), imaginary(size_);
    pull_back(Vec(g.real()).data(), real.data());
    pull_back(Vec(g.imag()).data(), imaginary.data());
    wanted.phi->real() = real.array() + lambda_.array() * psi.real().array();
    wanted.phi->imag() = imaginary.array() + lambda_.array() * psi.imag().array();
  }
  if (!wanted.theta) return;
  // Only the penalty depends on θ: ½ λ_k ψ_k², the square without conjugation.
  Vec real = Vec::Zero(theta.size()), imaginary = real;
  for (Index k = 0; k < coefficients_; ++k) {
    const Complex each = 0.5 * lambda_[k] * psi[k] * psi[k];
    penalties_.add(k, each.real(), real);
    penalties_.add(k, each.imag(), imaginary);
  }
  wanted.theta->real() = real;
  wanted.theta->imag() = imaginary;
}

bool PenalisedModel::complex_hessian(const ComplexVec& psi, const Vec& theta, Complex beta,
                                     Eigen::MatrixXcd& out) {
  if (training_->samples().matrix->sparse() || validation_->samples().matrix->sparse()) return false;
  set_penalties(theta);
  const ComplexVec u = to_stored(psi);
  Eigen::MatrixXcd stored = Eigen::MatrixXcd::Zero(u.size(), u.size());
  add_hessian(*training_, u, 1, stored);
  if (beta != 0.0) add_hessian(*validation_, u, beta, stored);
  Mat real = stored.real(), imaginary = stored.imag(), half, part;
  out.resize(size_, size_);
  congruent(real, half, part);
  part.diagonal() += lambda_;
  out.real() = part;
  congruent(imaginary, half, part);
  out.imag() = part;
  return true;
}

double PenalisedModel::margin(const ComplexVec& psi, const Vec&) {
  const double pole = training_->kind()->continued->nearest_pole;
  if (!std::isfinite(pole)) return 1;
  const ComplexVec u = to_stored(psi);
  double widest = 0;
  for (const DataLoss* loss : {training_.get(), validation_.get()})
    for_each_margin(
        *loss, u, [&](Index, Complex margin, double) { widest = std::max(widest, std::abs(margin.imag())); });
  return 1 - widest / pole;
}

}  // namespace bilevel::problems
