#include "folds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <bilevel/gradient/sum_of_estimators.hpp>
#include "threads/side_by_side.hpp"

namespace bilevel::models {

using bilevel::Status;

Folds::Folds(const Prepared& prepared) : prepared_(prepared), folds_(prepared.folds.size()) {
  // Each reads its own rows and forms its own matrices.
  bilevel::side_by_side(folds_.size() + (prepared.refits ? 1 : 0), [&](std::size_t k) {
    if (k < folds_.size())
      folds_[k] = make_fold_model(prepared, prepared.folds[k]);
    else
      kept_ = make_fold_model(prepared, prepared.final);
  });
}

void Folds::use(const Family& family) {
  for (std::size_t k = 0; k < folds_.size(); ++k) folds_[k]->use(family.folds[k]);
  // A fold that is also kept has learned its penalties from the same rows.
  if (kept_) kept_->use(family.final);
}

void Folds::obey(const bilevel::StopToken* stop) {
  for (auto& fold : folds_) fold->obey(stop);
  if (kept_) kept_->obey(stop);
}

bool Folds::cut_short(const All& settled) {
  return std::any_of(settled.begin(), settled.end(),
                     [](const FoldModel::Settled& each) { return bilevel::models::cut_short(each.status); });
}

std::vector<Vec> Folds::states(const All& settled) {
  std::vector<Vec> all;
  for (const auto& each : settled) all.push_back(each.phi);
  return all;
}

Folds::All Folds::settle(const Vec& theta, const std::vector<Vec>& warm, double tolerance, bool with_kept) {
  All settled(folds_.size() + (with_kept && kept_ ? 1 : 0));
  fits_ += static_cast<long>(settled.size());
  bilevel::side_by_side(settled.size(), [&](std::size_t k) {
    FoldModel& model = k < folds_.size() ? *folds_[k] : *kept_;
    const std::size_t from = k < warm.size() ? k : 0;
    // What was kept in a file may have any size.
    const bool fits = from < warm.size() && warm[from].size() == model.parameters();
    settled[k] = model.settle(theta, fits ? &warm[from] : nullptr, tolerance);
  });
  return settled;
}

double Folds::value(const All& settled) const {
  double sum = 0;
  for (std::size_t k = 0; k < folds_.size(); ++k) {
    const bool well = settled[k].status == Status::converged || settled[k].status == Status::stalled;
    sum += well ? settled[k].outer_value : bilevel::unknown;
  }
  return sum / static_cast<double>(folds_.size());
}

Judged Folds::judged(const All& settled) {
  Judged judged(prepared_);
  for (std::size_t k = 0; k < folds_.size(); ++k)
    judged.add(folds_[k]->validation(), folds_[k]->stored_coefficients(settled[k].phi));
  return judged;
}

std::vector<Vec> Folds::coefficients(const All& settled) const {
  std::vector<Vec> all;
  for (std::size_t k = 0; k < settled.size(); ++k)
    all.push_back((k < folds_.size() ? *folds_[k] : *kept_).standardised_coefficients(settled[k].phi));
  return all;
}

Fitted Folds::fit(const Family& family, const Vec& theta, const std::vector<Vec>& warm, double tolerance) {
  use(family);
  Fitted fitted;
  fitted.theta = theta;
  fitted.log_lambda = reported_penalties(prepared_, family, theta);
  fitted.names = family.names;
  const All settled = settle(theta, warm, tolerance, true);
  if (cut_short(settled)) {
    fitted.coefficients = kept().standardised_coefficients(settled.back().phi);
    fitted.coefficients.setConstant(bilevel::unknown);
    return fitted;
  }
  fitted.fitted = true;
  for (const auto& each : settled) {
    if (!each.warning.empty() && fitted.warning.empty()) fitted.warning = each.warning;
    if (each.status != Status::converged && fitted.warning.empty())
      fitted.warning = fmt::format("a final fit did not settle to the last digit ({}): {}", name(each.status),
                                   each.message);
  }
  const double scale2 = prepared_.target_scale * prepared_.target_scale;
  double train = 0, value = 0;
  const auto parts = static_cast<double>(folds_.size());
  for (std::size_t k = 0; k < folds_.size(); ++k) {
    train += folds_[k]->training().value(folds_[k]->stored_coefficients(settled[k].phi), nullptr) / parts;
    value += settled[k].outer_value / parts;
  }
  fitted.train_loss = scale2 * train;
  fitted.validation_loss = scale2 * value;
  fitted.validation = judged(settled).quality();

  const Vec& phi = settled.back().phi;
  const Vec stored = kept().stored_coefficients(phi);
  if (prepared_.has_test) {
    const auto loss = make_row_losses(prepared_, prepared_.final.validation);
    Judged test(prepared_);
    test.add(*loss, stored);
    fitted.test = test.quality();
    fitted.test_losses = test.losses();
    fitted.test_weights = test.weights();
  }
  // stored = (x − shift)/scale of what enters the first layer, target = shift + scale·margin of what leaves
  // the last; a linear model's are the same.
  const problems::PerceptronShape shape = prepared_.shape();
  const Index c = shape.units(0), d = shape.features, last = shape.size() - shape.place(shape.layers() - 1);
  fitted.coefficients = kept().standardised_coefficients(phi);
  fitted.coefficients.tail(last) *= prepared_.target_scale;
  fitted.raw = stored;
  fitted.raw.tail(last) *= prepared_.target_scale;
  for (Index j = 0; j < d; ++j) {
    fitted.raw.segment(j * c, c) /= prepared_.stored_scale[j];
    fitted.raw.segment(d * c, c) -= prepared_.stored_shift[j] * fitted.raw.segment(j * c, c);
  }
  fitted.raw.tail(prepared_.outputs).array() += prepared_.target_shift;
  return fitted;
}

std::unique_ptr<bilevel::Estimator<Vec>> Folds::estimator(const Family& family) {
  use(family);
  std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
  for (auto& fold : folds_) estimators.push_back(fold->estimator());
  std::unique_ptr<bilevel::Estimator<Vec>> estimator;
  if (folds_.size() == 1)
    estimator = std::move(estimators[0]);
  else
    estimator = std::make_unique<bilevel::SumOfEstimators>(
        std::move(estimators), std::vector<double>(folds_.size(), 1 / static_cast<double>(folds_.size())));
  return with_prior(std::move(estimator), family.prior);
}

std::vector<Vec> Folds::apart(const Vec& phi) const {
  std::vector<Vec> parts;
  Index place = 0;
  for (const auto& fold : folds_) {
    if (place + fold->parameters() > phi.size()) return {};
    parts.push_back(phi.segment(place, fold->parameters()));
    place += fold->parameters();
  }
  return parts;
}

std::vector<std::unique_ptr<RowHypergradients>> Folds::row_hypergradients(const Vec& theta,
                                                                          const All& settled) {
  std::vector<std::unique_ptr<RowHypergradients>> rows(folds_.size());
  bilevel::side_by_side(
      folds_.size(), [&](std::size_t k) { rows[k] = folds_[k]->row_hypergradients(theta, settled[k].phi); });
  return rows;
}

std::vector<std::vector<double>> Folds::row_weights() const {
  std::vector<std::vector<double>> all;
  for (const auto& fold : folds_) {
    const auto& loss = fold->validation();
    std::vector<double>& own = all.emplace_back();
    for (const auto& [first, last] : loss.ranges())
      for (Index i = first; i < last; ++i)
        own.push_back(loss.samples().weights ? (*loss.samples().weights)[i] : 1);
  }
  return all;
}

double Folds::judges() const {
  double squares = 0;
  for (const auto& own : row_weights()) {
    const double total = std::accumulate(own.begin(), own.end(), 0.0) * static_cast<double>(folds_.size());
    for (const double weight : own) squares += weight * weight / (total * total);
  }
  return 1 / squares;
}

double Folds::likelihood_scale(const All& settled) {
  if (prepared_.model.probable()) return 1;
  const auto weights = row_weights();
  double slopes = 0, curvatures = 0;
  for (std::size_t k = 0; k < folds_.size(); ++k) {
    auto& loss = folds_[k]->validation();
    const Vec u = folds_[k]->stored_coefficients(settled[k].phi);
    Vec slope;
    loss.slopes(u, slope);
    const auto own = Eigen::Map<const Vec>(weights[k].data(), slope.size());
    slopes += own.dot(slope.cwiseAbs2()) / own.sum();
    curvatures += loss.mean_curvature(u);
  }
  const double scale = slopes / curvatures;
  return scale > 0 && std::isfinite(scale) ? scale : 1;
}

}  // namespace bilevel::models
