#include <bilevel/problems/penalised_model.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>

#include "problems/penalised_curvature.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

PenalisedModel::PenalisedModel(std::unique_ptr<DataLoss> training, std::unique_ptr<DataLoss> validation,
                               Standardisation standardisation, PenaltyMap penalties, bool intercept)
    : training_(std::move(training)),
      validation_(std::move(validation)),
      standardisation_(std::move(standardisation)),
      penalties_(std::move(penalties)),
      intercept_(intercept),
      features_(training_->samples().matrix->features()),
      outputs_(training_->outputs()),
      coefficients_(features_ * outputs_),
      intercepts_(!intercept      ? 0
                  : outputs_ == 1 ? 1
                                  : outputs_ - 1),
      size_(coefficients_ + intercepts_) {
  if (validation_->samples().matrix->features() != features_ || validation_->outputs() != outputs_)
    throw InvalidInput("penalised model: training and validation differ in their features or classes");
  if (standardisation_.shift.size() != features_ || standardisation_.inverse_scale.size() != features_)
    throw InvalidInput("penalised model: the standardisation does not fit the features");
  penalties_.require_fits(coefficients_, "penalised model");
  // Helmert's contrasts: column k compares output k + 1 with the mean of those before it.
  basis_ = Mat::Zero(outputs_, intercepts_);
  for (Index k = 0; k < intercepts_; ++k) {
    if (outputs_ == 1) {
      basis_(0, 0) = 1;
      break;
    }
    const double length = std::sqrt(static_cast<double>((k + 1) * (k + 2)));
    basis_.col(k).head(k + 1).setConstant(-1 / length);
    basis_(k + 1, k) = static_cast<double>(k + 1) / length;
  }
  training_extent_ = measure(*training_, standardisation_);
  validation_extent_ = measure(*validation_, standardisation_);
  const auto moments = [&](DataLoss& loss) {
    Mat m;
    if (!loss.second_moments(m)) return Mat();
    // Tᵀ·M·T for one output and units of one.
    const Index d = features_;
    const Vec &shift = standardisation_.shift, &inverse = standardisation_.inverse_scale;
    for (Index j = 0; j < d; ++j) m.row(j) = inverse[j] * (m.row(j) - shift[j] * m.row(d));
    for (Index j = 0; j < d; ++j) m.col(j) = inverse[j] * (m.col(j) - shift[j] * m.col(d));
    return m;
  };
  training_moments_ = moments(*training_);
  validation_moments_ = moments(*validation_);
  lambda_ = Vec::Zero(size_);
  u_ = g_ = h_ = Vec::Zero((features_ + 1) * outputs_);
  seen_.u = seen_at_zero_.u = gram_at_ = Vec::Constant(u_.size(), unknown);
  adopt_units(initial_theta());
}

PenalisedModel::~PenalisedModel() = default;

std::string_view PenalisedModel::name() const {
  return training_->kind() ? training_->kind()->model : "softmax";
}

void PenalisedModel::keep_units_of_one() {
  units_of_one_ = true;
  units_.setOnes();
  for (Index k = 0; k < coefficients_; ++k) stored_scale_[k] = standardisation_.inverse_scale[k / outputs_];
  measured_ = false;
}

void PenalisedModel::adopt_units(const Vec& theta) {
  if (units_of_one_) return;
  // 1/√(Hessian's diagonal), with a loss″ of typical size: it need not be exact, only of the right order. A
  // power of two, so that changing units changes no digit of a state.
  const auto rounded = [](double unit) { return std::exp2(std::round(std::log2(unit))); };
  const double typical = training_->shape().typical_curvature;
  units_.resize(size_);
  stored_scale_.resize(coefficients_);
  for (Index k = 0; k < coefficients_; ++k) {
    const Index j = k / outputs_;
    const double lambda = std::exp(penalties_.log_lambda(k, theta));
    units_[k] = rounded(1 / std::sqrt(lambda + typical * training_extent_.mean_square[j]));
    stored_scale_[k] = units_[k] * standardisation_.inverse_scale[j];
  }
  units_.tail(intercepts_).setConstant(rounded(1 / std::sqrt(typical)));
  measured_ = false;
}

void PenalisedModel::set_penalties(const Vec& theta) {
  double exponent = 0;
  for (Index k = 0; k < coefficients_; ++k) {
    const double log_lambda = penalties_.log_lambda(k, theta);
    exponent = std::max(exponent, std::abs(log_lambda));
    lambda_[k] = std::exp(log_lambda) * units_[k] * units_[k];
  }
  // θ + offset + γ·slope is a sum of three terms, each of the size of the largest at most twice: its error
  // is a relative one of λ.
  exponent_depth_ = penalties_.offset.size() + penalties_.slope.size() > 0 ? 8 * (exponent + 1) : 0;
}

Vec PenalisedModel::initial_theta() const {
  Vec theta = Vec::Constant(penalties_.thetas(), -2.0);
  theta.tail(penalties_.thetas() - penalties_.count).setZero();
  return theta;
}

void PenalisedModel::set_penalty_map(PenaltyMap penalties) {
  penalties.require_fits(coefficients_, "penalised model");
  penalties_ = std::move(penalties);
  adopt_units(initial_theta());
}

void PenalisedModel::to_stored(const Vec& psi, Vec& u) const {
  const Index c = outputs_;
  auto intercept = u.tail(c);
  intercept.setZero();
  for (Index k = 0; k < intercepts_; ++k)
    intercept += basis_.col(k) * (units_[coefficients_ + k] * psi[coefficients_ + k]);
  u.head(coefficients_) = stored_scale_.cwiseProduct(psi.head(coefficients_));
  for (Index j = 0; j < features_; ++j) intercept -= standardisation_.shift[j] * u.segment(j * c, c);
}

void PenalisedModel::pull_back(const double* g, double* out) const {
  const Index c = outputs_;
  const double* intercept = g + features_ * c;
  for (Index j = 0; j < features_; ++j)
    for (Index o = 0; o < c; ++o) {
      const Index k = j * c + o;
      out[k] = stored_scale_[k] * (g[k] - standardisation_.shift[j] * intercept[o]);
    }
  for (Index k = 0; k < intercepts_; ++k) {
    double sum = 0;
    for (Index o = 0; o < c; ++o) sum += basis_(o, k) * intercept[o];
    out[coefficients_ + k] = units_[coefficients_ + k] * sum;
  }
}

/// out = TᵀMT, where T is to_stored. M is symmetric and is overwritten; `half` is scratch.
void PenalisedModel::congruent(Mat& stored, Mat& half, Mat& out) const {
  const Index n = stored.rows();
  half.resize(size_, n);
  for (Index j = 0; j < n; ++j) pull_back(stored.col(j).data(), half.col(j).data());
  stored.leftCols(size_) = half.transpose();
  out.resize(size_, size_);
  for (Index j = 0; j < size_; ++j) pull_back(stored.col(j).data(), out.col(j).data());
}

double PenalisedModel::training_value(bool with_gradient) {
  if (!with_gradient) return training_->value(u_, nullptr);
  for (const Seen* seen : {&seen_, &seen_at_zero_})
    if (seen->u == u_) {
      g_ = seen->gradient;
      return seen->value;
    }
  const double value = training_->value(u_, &g_);
  Seen& seen = u_.isZero(0) ? seen_at_zero_ : seen_;
  seen.u = u_;
  seen.gradient = g_;
  seen.value = value;
  return value;
}

double PenalisedModel::inner(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) {
  set_penalties(theta);
  to_stored(psi, u_);
  double value = training_value(wanted.phi != nullptr);
  double penalty = 0;
  for (Index k = 0; k < coefficients_; ++k) penalty += lambda_[k] * psi[k] * psi[k];
  value += 0.5 * penalty;
  if (wanted.phi) {
    pull_back(g_.data(), wanted.phi->data());
    wanted.phi->array() += lambda_.array() * psi.array();
  }
  if (wanted.theta) {
    wanted.theta->setZero();
    for (Index k = 0; k < coefficients_; ++k)
      penalties_.add(k, 0.5 * lambda_[k] * psi[k] * psi[k], *wanted.theta);
  }
  return value;
}

double PenalisedModel::outer(const Vec& psi, const Vec&, Wanted<Vec> wanted) {
  to_stored(psi, u_);
  const double value = validation_->value(u_, wanted.phi ? &g_ : nullptr);
  if (wanted.phi) pull_back(g_.data(), wanted.phi->data());
  if (wanted.theta) wanted.theta->setZero();
  return value;
}

void PenalisedModel::linearise(const Vec& psi, const Vec& theta, double beta,
                               std::unique_ptr<Curvature<Vec>>& reuse) {
  // One that was prepared before the model moved belongs to the place that it moved from.
  if (auto* before = static_cast<PenalisedCurvature*>(reuse.get()); !before || &before->model != this)
    reuse = std::make_unique<PenalisedCurvature>(*this);
  auto& c = static_cast<PenalisedCurvature&>(*reuse);
  set_penalties(theta);
  c.lambda = lambda_;
  c.cross = lambda_.cwiseProduct(psi);
  c.beta = beta;
  c.formed = false;
  to_stored(psi, u_);
  c.at = u_;
  training_->curvature_at(u_, c.rows);
  if (beta != 0) validation_->curvature_at(u_, c.validation_rows);
}

Vec PenalisedModel::stored_coefficients(const Vec& phi) const {
  Vec u((features_ + 1) * outputs_);
  to_stored(phi.cwiseQuotient(units_), u);
  return u;
}

Vec PenalisedModel::standardised_coefficients(const Vec& phi) const {
  Vec out((features_ + 1) * outputs_);
  out.head(coefficients_) = phi.head(coefficients_);
  out.tail(outputs_) = basis_ * phi.tail(intercepts_);
  return out;
}

}  // namespace bilevel::problems
