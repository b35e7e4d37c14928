#include <bilevel/problems/lasso.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>

#include "problems/lasso_curvature.hpp"
#include "problems/lasso_gram.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

Lasso::Lasso(Samples samples, std::vector<RowRange> training, std::vector<RowRange> validation,
             Standardisation standardisation, PenaltyMap penalties, bool elastic, bool intercept)
    : Lasso(samples, std::move(training), samples, std::move(validation), std::move(standardisation),
            std::move(penalties), elastic, intercept) {}

Lasso::Lasso(Samples training, std::vector<RowRange> training_rows, Samples validation,
             std::vector<RowRange> validation_rows, Standardisation standardisation, PenaltyMap penalties,
             bool elastic, bool intercept)
    : training_(make_scalar_loss(kernels::Loss::squared, std::move(training), std::move(training_rows))),
      validation_(
          make_scalar_loss(kernels::Loss::squared, std::move(validation), std::move(validation_rows))),
      standardisation_(std::move(standardisation)),
      penalties_(std::move(penalties)),
      elastic_(elastic),
      intercept_(intercept),
      features_(training_->samples().matrix->features()),
      size_(features_ + intercept) {
  if (validation_->samples().matrix->features() != features_)
    throw InvalidInput(fmt::format("lasso: the training rows have {} features and the validation rows {}",
                                   features_, validation_->samples().matrix->features()));
  if (standardisation_.shift.size() != features_ || standardisation_.inverse_scale.size() != features_)
    throw InvalidInput(fmt::format("lasso: the standardisation is of {} features, the data have {}",
                                   standardisation_.shift.size(), features_));
  penalties_.require_fits(features_, "lasso");
  training_extent_ = measure(*training_, standardisation_);
  validation_extent_ = measure(*validation_, standardisation_);
  training_sizes_ = std::make_unique<RoundingSizes>(*training_);
  validation_sizes_ = std::make_unique<RoundingSizes>(*validation_);
  gram_ = std::make_unique<Gram>(*training_, standardisation_, intercept_);
  largest_diagonal_ = training_extent_.mean_square.head(features_).size() == 0
                          ? 0
                          : training_extent_.mean_square.head(features_).maxCoeff();
  if (intercept_) largest_diagonal_ = std::max(largest_diagonal_, 1.0);
  if (!(largest_diagonal_ > 0)) largest_diagonal_ = 1;

  u_ = raw_ = Vec::Zero(features_ + 1);
  gradient_ = outer_ = Vec::Zero(size_);
  lambda_ = Vec::Zero(features_);
  evaluate(Vec::Zero(size_));
  const double slope = intercept_ ? gradient_[features_] : 0;
  null_intercept_ = -slope;
  null_loss_ = loss_ - 0.5 * slope * slope;
  for (Index j = 0; j < features_; ++j)
    lambda_max_ = std::max(lambda_max_, std::abs(gradient_[j] - gram_->means()[j] * slope));
}

Lasso::~Lasso() = default;

Vec Lasso::initial_theta() const {
  Vec theta = Vec::Zero(penalties_.thetas() + elastic_);
  theta.head(penalties_.count).setConstant(lambda_max_ > 0 ? std::log(0.1 * lambda_max_) : 0.0);
  if (elastic_) theta[penalties_.thetas()] = -2;
  return theta;
}

void Lasso::set_penalty_map(PenaltyMap penalties) {
  penalties.require_fits(features_, "lasso");
  penalties_ = std::move(penalties);
}

void Lasso::set_penalties(const Vec& theta) {
  if (theta.size() != penalties_.thetas() + elastic_)
    throw InvalidInput(fmt::format("lasso: theta has {} elements, the problem wants {}", theta.size(),
                                   penalties_.thetas() + elastic_));
  // Beyond 700 the exponential overflows; a coefficient has been zero for long by then.
  for (Index j = 0; j < features_; ++j)
    lambda_[j] = std::exp(std::min(penalties_.log_lambda(j, theta), 700.0));
  lambda2_ = elastic_ ? std::exp(std::min(theta[penalties_.thetas()], 700.0)) : 0;
  c_ = largest_diagonal_ + lambda2_;
}

void Lasso::to_stored(const Vec& phi, Vec& u) const {
  u.head(features_) = standardisation_.inverse_scale.cwiseProduct(phi.head(features_));
  u[features_] = (intercept_ ? phi[features_] : 0) - standardisation_.shift.dot(u.head(features_));
}

void Lasso::pull_back(const Vec& raw, Vec& out) const {
  out.head(features_) = standardisation_.inverse_scale.cwiseProduct(raw.head(features_) -
                                                                    standardisation_.shift * raw[features_]);
  if (intercept_) out[features_] = raw[features_];
}

void Lasso::evaluate(const Vec& phi) {
  if (point_.size() == phi.size() && point_ == phi) return;
  if (phi.size() != size_)
    throw InvalidInput(fmt::format("lasso: phi has {} elements, the problem wants {}", phi.size(), size_));
  to_stored(phi, u_);
  loss_ = training_->value(u_, &raw_);
  pull_back(raw_, gradient_);
  point_ = phi;
}

/// The sign of an active coordinate, 0 for an inactive one.
int Lasso::side(Index j, double phi_j, double gradient_j) const {
  const double y = (c_ - lambda2_) * phi_j - gradient_j;
  return y > lambda_[j] ? 1 : y < -lambda_[j] ? -1 : 0;
}

void Lasso::residual(const Vec& phi, const Vec& theta, Vec& out) {
  set_penalties(theta);
  evaluate(phi);
  for (Index j = 0; j < features_; ++j) {
    const int s = side(j, phi[j], gradient_[j]);
    out[j] = s == 0 ? c_ * phi[j] : gradient_[j] + s * lambda_[j] + lambda2_ * phi[j];
  }
  if (intercept_) out[features_] = gradient_[features_];
}

/// ‖F‖ at the point last evaluated.
double Lasso::residual_norm(const Vec& phi) const {
  double squares = intercept_ ? gradient_[features_] * gradient_[features_] : 0;
  for (Index j = 0; j < features_; ++j) {
    const int s = side(j, phi[j], gradient_[j]);
    const double each = s == 0 ? c_ * phi[j] : gradient_[j] + s * lambda_[j] + lambda2_ * phi[j];
    squares += each * each;
  }
  return std::sqrt(squares);
}

double Lasso::penalised_value(const Vec& phi) const {
  double absolute = 0;
  for (Index j = 0; j < features_; ++j)
    if (phi[j] != 0) absolute += lambda_[j] * std::abs(phi[j]);
  return loss_ + absolute + 0.5 * lambda2_ * phi.head(features_).squaredNorm();
}

double Lasso::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  to_stored(phi, u_);
  const double value = validation_->value(u_, wanted.phi ? &raw_ : nullptr);
  if (wanted.phi) pull_back(raw_, *wanted.phi);
  if (wanted.theta) wanted.theta->setZero();
  return value;
}

void Lasso::linearise(const Vec& phi, const Vec& theta, double beta, std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<LassoCurvature>(*this);
  auto& at = static_cast<LassoCurvature&>(*reuse);
  set_penalties(theta);
  evaluate(phi);
  at.lambda2 = lambda2_;
  at.c = c_;
  at.beta = beta;
  at.formed = at.factored = false;
  if (beta != 0) outer(phi, theta, {.phi = &outer_});
  at.active.clear();
  at.cross.resize(size_);
  at.cross2.resize(size_);
  Index k = 0;
  for (Index j = 0; j < features_; ++j) {
    const int s = side(j, phi[j], gradient_[j] + (beta != 0 ? beta * outer_[j] : 0));
    if (s == 0) continue;
    at.active.push_back(j);
    at.cross[k] = s * lambda_[j];
    at.cross2[k++] = lambda2_ * phi[j];
  }
  if (intercept_) {
    at.active.push_back(features_);
    at.cross[k] = at.cross2[k] = 0;
  }
  to_stored(phi, u_);
  training_->curvature_at(u_, at.rows);
  if (beta != 0) validation_->curvature_at(u_, at.validation_rows);
}

/// Features that are active at the point last evaluated.
std::vector<Index> Lasso::active_set(const Vec& phi) const {
  std::vector<Index> active;
  for (Index j = 0; j < features_; ++j)
    if (side(j, phi[j], gradient_[j]) != 0) active.push_back(j);
  return active;
}

Lasso::Support Lasso::support(const Vec& phi, const Vec& theta) {
  set_penalties(theta);
  evaluate(phi);
  Support s;
  std::vector<Index> active;
  double largest = 0;
  for (Index j = 0; j < features_; ++j) {
    const double size = std::abs(phi[j]) * std::sqrt(training_extent_.mean_square[j]);
    if (phi[j] != 0) {
      active.push_back(j);
      largest = std::max(largest, size);
      if (size < s.least_active) {
        s.least_active = size;
        s.weakest_active = j;
      }
    } else {
      const double slack = (lambda_[j] - std::abs(gradient_[j])) / lambda_[j];
      if (slack < s.least_slack) {
        s.least_slack = slack;
        s.weakest_inactive = j;
      }
    }
  }
  s.active = static_cast<Index>(active.size());
  if (largest > 0) s.least_active /= largest;

  std::vector<std::string> reasons;
  if (s.least_slack < degenerate_below)
    reasons.push_back(
        fmt::format("feature {} is zero and about to enter (its slack is {:.2g} of its penalty)",
                    s.weakest_inactive, s.least_slack));
  if (s.least_active < degenerate_below)
    reasons.push_back(fmt::format("feature {} is about to leave (its coefficient is {:.2g} of the largest)",
                                  s.weakest_active, s.least_active));
  if (lambda2_ == 0 && s.active > 0) {
    bool dependent = s.active > training_->row_count();
    if (!dependent && s.active <= LassoCurvature::formed_limit) {
      gram_->hold(active);
      Mat hessian;
      gram_->hessian(active, hessian);
      // Scaled to a unit diagonal, so that the pivots say how much of a column the others do not explain.
      const Vec scale = hessian.diagonal().cwiseMax(1e-300).cwiseSqrt().cwiseInverse();
      hessian = scale.asDiagonal() * hessian * scale.asDiagonal();
      const Cholesky factor(hessian);
      dependent = !factor.succeeded() || factor.pivots().minCoeff() < 1e-7;
    }
    if (dependent)
      reasons.push_back(
          "the active features depend on each other, so the solution is not unique: an elastic net would "
          "make "
          "it so");
  }
  s.degenerate = !reasons.empty();
  if (s.degenerate)
    s.warning = fmt::format(
        "the support is degenerate, and the outer gradient one-sided at best: {} (features "
        "are counted from 0)",
        fmt::join(reasons, "; "));
  return s;
}

Vec Lasso::stored_coefficients(const Vec& phi) const {
  Vec u(features_ + 1);
  to_stored(phi, u);
  return u;
}

}  // namespace bilevel::problems
