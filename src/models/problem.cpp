#include <bilevel/models/problem.hpp>

#include <cmath>
#include <utility>

#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>

#include "coordinate_descent.hpp"
#include "fold_model.hpp"
#include "stoppable.hpp"
#include "tune_run.hpp"

namespace bilevel::models {
namespace {

using bilevel::problems::Lasso;

bool is_lasso(const Prepared& p) {
  return p.model == Model::lasso || p.elastic();
}

template <class Smooth>
PosedFold of_smooth(std::unique_ptr<Smooth> model) {
  PosedFold fold;
  fold.problem = model.get();
  fold.units = model.get();
  fold.equilibrium = std::move(model);
  return fold;
}

PosedFold posed_fold(const Prepared& p, const Split& split) {
  if (p.network()) return of_smooth(make_perceptron(p, split));
  if (!is_lasso(p)) return of_smooth(make_linear(p, split));
  PosedFold fold;
  auto lasso = std::make_unique<Lasso>(p.samples, split.training, split.validation, split.standardisation,
                                       of_scaled_target(p.penalties, p), p.elastic(), p.intercept);
  fold.inner = std::make_unique<CoordinateDescent>(*lasso);
  fold.equilibrium = std::move(lasso);
  return fold;
}

}  // namespace

Vec LogPrior::apart(const Vec& theta) const {
  return theta.head(parts).array() - centre;
}

double LogPrior::value(const Vec& theta) const {
  return 0.5 * precision * apart(theta).squaredNorm();
}

Posed pose(const Prepared& p, const TuneOptions& options, const TuneControl& asked) {
  require_prepared(p, options);
  const TuneControl control = stoppable(asked);
  if (options.penalty == Penalty::automatic)
    throw InvalidInput(
        "TuneOptions.penalty: the data choose a family while they are tuned; name one of global, "
        "per-feature, "
        "per-group, per-class, per-layer, per-parameter");
  bilevel::Stopwatch watch;
  Posed posed;
  for (const Split& split : p.folds) posed.folds.push_back(posed_fold(p, split));
  posed.lower = options.lower;
  posed.upper = options.upper;
  posed.initial = posed.folds.front().equilibrium->initial_theta();
  // Lasso's own is for the scaled target.
  if (is_lasso(p)) posed.initial.head(p.penalties.count).array() += std::log(p.target_scale);
  posed.start = posed.initial;
  if (p.penalties.count < 2 || !std::isfinite(options.prior_width)) return posed;
  const auto family = Run(options, p, control).asked();
  posed.seconds = watch.seconds();
  if (!family) {
    posed.status = control.interrupted() ? bilevel::Status::interrupted : bilevel::Status::time_limit;
    return posed;
  }
  posed.prior = family->prior;
  posed.start = family->start;
  posed.lower = family->box.lower.minCoeff();
  return posed;
}

std::unique_ptr<bilevel::Estimator<Vec>> make_estimator(std::string_view method, PosedFold& fold,
                                                        bilevel::InnerSolver<Vec>& inner,
                                                        const bilevel::EstimatorOptions& options) {
  auto made = fold.problem ? bilevel::make_estimator<Vec>(method, *fold.problem, inner, options)
                           : bilevel::make_estimator<Vec>(method, *fold.equilibrium, inner, options);
  if (fold.units) made = std::make_unique<bilevel::InUnits<Vec>>(std::move(made), *fold.units);
  return made;
}

std::unique_ptr<bilevel::Estimator<Vec>> with_prior(std::unique_ptr<bilevel::Estimator<Vec>> estimator,
                                                    const LogPrior& prior) {
  if (!(prior.precision > 0)) return estimator;
  return std::make_unique<WithPrior>(std::move(estimator), prior);
}

std::vector<std::unique_ptr<bilevel::Problem<Vec>>> make_problems(const Prepared& p) {
  if (is_lasso(p))
    throw InvalidInput(
        fmt::format("{} minimises no smooth loss: pose() makes an equilibrium of it", name(p.model)));
  std::vector<std::unique_ptr<bilevel::Problem<Vec>>> problems;
  for (const Split& split : p.folds) {
    if (p.network())
      problems.push_back(make_perceptron(p, split));
    else
      problems.push_back(make_linear(p, split));
  }
  return problems;
}

std::unique_ptr<bilevel::Problem<Vec>> make_problem(TuningData data, const TuneOptions& options) {
  if (!options.validation && !data.validation && data.data.split.empty())
    throw InvalidInput(
        "TuneOptions.validation: one problem has one set of rows to judge by; K folds are K problems");
  auto problems = make_problems(prepare(std::move(data), options));
  if (problems.size() > 1) throw InvalidInput("the data's own split names folds, which are a problem each");
  return std::move(problems.front());
}

}  // namespace bilevel::models
