#include "tune.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <bilevel/gradient/together.hpp>
#include <bilevel/outcome/side_by_side.hpp>

#include "fold_model.hpp"
#include "grid.hpp"

namespace tuning {
namespace {

using bilevel::Status;

/// Of the fits with one λ, a gradient in units in which curvatures are about one; the best is fitted once
/// more.
constexpr double grid_tolerance = 1e-7;

/// Whether a fit ended because it was told to.
bool cut_short(const std::vector<FoldModel::Settled>& settled) {
  return std::any_of(settled.begin(), settled.end(), [](const FoldModel::Settled& each) {
    return each.status == Status::interrupted || each.status == Status::time_limit;
  });
}

class Run {
 public:
  Run(const Task& task, const Prepared& prepared, const TuneControl& control)
      : task_(task), prepared_(prepared), control_(control), stop_(control.interrupted, task.seconds) {
    folds_.resize(prepared.folds.size());
    // Each reads its own rows and forms its own matrices.
    bilevel::side_by_side(folds_.size(),
                          [&](std::size_t k) { folds_[k] = make_fold_model(prepared, prepared.folds[k]); });
    if (prepared.refits) final_ = make_fold_model(prepared, prepared.final);
    obey(&stop_);
    scale2_ = prepared.target_scale * prepared.target_scale;
  }

  TuneResult run();

 private:
  std::vector<FoldModel::Settled> settle(const Vec& theta, const std::vector<Vec>& warm, double tolerance,
                                         bool with_final);
  Fitted fit(const Vec& theta, const std::vector<Vec>& warm);
  bilevel::Summary descend(const Vec& start, std::size_t number, double reserve);
  void warn(TuneResult& result) const;
  std::optional<double> best_inside(const std::vector<GridPoint>& points) const;
  void obey(const bilevel::StopToken* stop) {
    for (auto& fold : folds_) fold->obey(stop);
    if (final_) final_->obey(stop);
  }
  void finish(TuneResult& result, double best);
  Vec constant(double value) const { return Vec::Constant(prepared_.thetas(), value); }

  const Task& task_;
  const Prepared& prepared_;
  const TuneControl& control_;
  bilevel::StopToken stop_;
  std::vector<std::unique_ptr<FoldModel>> folds_;
  std::unique_ptr<FoldModel> final_;
  double scale2_ = 1;
  bilevel::Stopwatch watch_;
};

/// All folds side by side, and after them, where asked for and there is one, the model that is kept.
std::vector<FoldModel::Settled> Run::settle(const Vec& theta, const std::vector<Vec>& warm, double tolerance,
                                            bool with_final) {
  std::vector<FoldModel::Settled> settled(folds_.size() + (with_final && final_ ? 1 : 0));
  bilevel::side_by_side(settled.size(), [&](std::size_t k) {
    FoldModel& model = k < folds_.size() ? *folds_[k] : *final_;
    const std::size_t from = k < folds_.size() ? k : 0;
    // What was kept in a file may have any size.
    const bool fits = from < warm.size() && warm[from].size() == model.parameters();
    settled[k] = model.settle(theta, fits ? &warm[from] : nullptr, tolerance);
  });
  return settled;
}

Fitted Run::fit(const Vec& theta, const std::vector<Vec>& warm) {
  Fitted fitted;
  fitted.theta = theta;
  const auto settled = settle(theta, warm, 1e-10, true);
  if (cut_short(settled)) {
    fitted.coefficients =
        (final_ ? *final_ : *folds_[0]).standardised_coefficients((final_ ? settled.back() : settled[0]).phi);
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
  Judged validation(prepared_);
  double train = 0, value = 0;
  const auto parts = static_cast<double>(folds_.size());
  for (std::size_t k = 0; k < folds_.size(); ++k) {
    const Vec u = folds_[k]->stored_coefficients(settled[k].phi);
    train += folds_[k]->training().value(u, nullptr) / parts;
    value += settled[k].outer_value / parts;
    validation.add(folds_[k]->validation(), u);
  }
  fitted.train_loss = scale2_ * train;
  fitted.validation_loss = scale2_ * value;
  fitted.validation = validation.quality();

  FoldModel& kept = final_ ? *final_ : *folds_[0];
  const Vec& phi = final_ ? settled.back().phi : settled[0].phi;
  const Vec stored = kept.stored_coefficients(phi);
  if (prepared_.has_test) {
    const auto loss = make_loss(prepared_, prepared_.final.validation);
    Judged test(prepared_);
    test.add(*loss, stored);
    fitted.test = test.quality();
    fitted.test_losses = test.losses();
    fitted.test_weights = test.weights();
  }
  fitted.coefficients = prepared_.target_scale * kept.standardised_coefficients(phi);
  // stored = (x − shift)/scale, target = shift + scale·margin.
  const Index c = prepared_.outputs, d = static_cast<Index>(prepared_.names.size());
  fitted.raw = prepared_.target_scale * stored;
  for (Index j = 0; j < d; ++j) {
    fitted.raw.segment(j * c, c) /= prepared_.stored_scale[j];
    fitted.raw.tail(c) -= prepared_.stored_shift[j] * fitted.raw.segment(j * c, c);
  }
  fitted.raw.tail(c).array() += prepared_.target_shift;
  return fitted;
}

bilevel::Summary Run::descend(const Vec& start, std::size_t number, double reserve) {
  std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
  for (auto& fold : folds_) estimators.push_back(fold->estimator());
  const std::vector<double> weights(folds_.size(), 1 / static_cast<double>(folds_.size()));
  std::unique_ptr<bilevel::Estimator<Vec>> estimator;
  if (folds_.size() == 1)
    estimator = std::move(estimators[0]);
  else
    estimator = std::make_unique<bilevel::Together>(std::move(estimators), weights);

  bilevel::SolveOptions options;
  options.gradient_tolerance = task_.tolerance;
  options.max_iterations = task_.iterations;
  // What is left but for the final fits, and a moment at least: the limit says so itself then.
  const double left = task_.seconds - watch_.seconds();
  const bilevel::StopToken stop(control_.interrupted, task_.seconds > 0 ? std::max(left - reserve, 1e-3) : 0);
  obey(&stop);
  options.stop = &stop;
  options.box = box_of(task_, prepared_);
  options.identity = fmt::format("{} start {} at {}", control_.identity, number, start[0]);
  if (!control_.checkpoint.empty()) {
    options.checkpoint =
        number == 0 ? control_.checkpoint : fmt::format("{}.{}", control_.checkpoint, number);
    options.resume = control_.resume && std::filesystem::exists(options.checkpoint);
  }
  options.callback = [&](const bilevel::HistoryEntry& h) {
    control_.progress(fmt::format("step {:>3}  validation loss {:.8g}  gradient {:.1e} ± {:.0e} ({})",
                                  h.iteration, scale2_ * h.outer_value, h.gradient_norm, h.bound,
                                  name(h.verdict)));
    return !control_.interrupted();
  };
  const auto optimizer = bilevel::make_lbfgs();
  bilevel::Summary summary = bilevel::solve<Vec>(*estimator, *optimizer, start, options);
  obey(&stop_);
  return summary;
}

/// The best log λ of the grid within the middle half of the box.
std::optional<double> Run::best_inside(const std::vector<GridPoint>& points) const {
  const double quarter = 0.25 * (task_.upper - task_.lower);
  std::optional<GridPoint> best;
  for (const GridPoint& point : points)
    if (point.log_lambda >= task_.lower + quarter && point.log_lambda <= task_.upper - quarter &&
        std::isfinite(point.validation_loss) && !(best && best->validation_loss <= point.validation_loss))
      best = point;
  return best ? std::optional(best->log_lambda) : std::nullopt;
}

TuneResult Run::run() {
  TuneResult result;
  result.loss_scale = scale2_;
  result.solvers = folds_[0]->solvers();

  // From strong penalties to weak ones, each fit from the one before it.
  Grid grid(control_.checkpoint.empty() ? std::string() : control_.checkpoint + ".grid", control_.identity,
            control_.resume);
  for (int k = static_cast<int>(grid.points().size()); k < task_.grid; ++k) {
    const double log_lambda = task_.upper - (task_.upper - task_.lower) * static_cast<double>(k) /
                                                static_cast<double>(task_.grid - 1);
    control_.progress(fmt::format("one λ for all: {} of {}", k + 1, task_.grid));
    bilevel::Stopwatch own;
    const auto settled = settle(constant(log_lambda), grid.phi(), grid_tolerance, false);
    if (cut_short(settled)) break;
    double value = 0;
    std::vector<Vec> phi;
    for (const auto& each : settled) {
      const bool settled_well = each.status == Status::converged || each.status == Status::stalled;
      value += settled_well ? each.outer_value / static_cast<double>(folds_.size()) : bilevel::unknown;
      phi.push_back(each.phi);
    }
    grid.add({log_lambda, scale2_ * value, own.seconds()}, std::move(phi));
    if (stop_.wanted()) break;
  }
  result.points = grid.points();
  if (const auto why = stop_.wanted();
      result.points.empty() ||
      (why == Status::interrupted && static_cast<int>(result.points.size()) < task_.grid)) {
    result.interrupted = why == Status::interrupted;
    result.summary.status = why.value_or(Status::interrupted);
    result.summary.message = sentence(result.summary.status);
    return result;
  }
  result.grid_seconds = result.points.back().seconds;
  result.grid_fits = static_cast<long>(result.points.size() * folds_.size());
  const auto best = std::min_element(
      result.points.begin(), result.points.end(), [](const GridPoint& a, const GridPoint& b) {
        const bool known = std::isfinite(a.validation_loss);
        return known && (!std::isfinite(b.validation_loss) || a.validation_loss < b.validation_loss);
      });

  std::vector<double> starts{best->log_lambda};
  starts.insert(starts.end(), task_.starts.begin(), task_.starts.end());
  for (std::size_t k = 0; k < starts.size(); ++k) {
    // The final fits are three more of the same kind.
    const double reserve =
        std::min(0.25 * task_.seconds, 4 * result.grid_seconds / static_cast<double>(result.points.size()));
    bilevel::Summary summary = descend(constant(std::clamp(starts[k], task_.lower, task_.upper)), k, reserve);
    const bool stopped = summary.status == Status::interrupted;
    if (k == 0 || summary.outer_value < result.summary.outer_value) result.summary = std::move(summary);
    if (stopped) {
      result.interrupted = true;
      break;
    }
    // Towards the bounds the loss is flat: penalties of no effect, or coefficients of zero. Where the best
    // single λ lies there and the descent ends at once, it gets a second start from the best one inside.
    if (k == 0 && result.summary.iterations == 0 && prepared_.thetas() > 1)
      if (const auto inside = best_inside(result.points)) starts.push_back(*inside);
  }
  if (result.summary.status == Status::time_limit)
    result.summary.message = fmt::format(
        "the {:g} s asked for are over, {:.1f} of them for the single λ, after {} iterations; "
        "projected gradient norm {:.3g}",
        task_.seconds, result.grid_seconds, result.summary.iterations, result.summary.gradient_norm);
  finish(result, best->log_lambda);
  result.seconds = watch_.seconds();
  return result;
}

/// The models that are kept and compared. Of a run that was to end they get a moment only.
void Run::finish(TuneResult& result, double best) {
  control_.progress("fitting the final models");
  const bool hurried = stop_.wanted().has_value();
  const bilevel::StopToken stop(hurried ? std::function<bool()>() : control_.interrupted,
                                hurried             ? control_.grace
                                : task_.seconds > 0 ? task_.seconds - watch_.seconds() + control_.grace
                                                    : 0);
  obey(&stop);
  std::vector<Vec> warm;
  Index place = 0;
  for (const auto& fold : folds_) {
    if (result.summary.phi.size() == 0) break;
    warm.push_back(result.summary.phi.segment(place, fold->parameters()));
    place += fold->parameters();
  }
  result.tuned = fit(result.summary.theta, warm);
  result.grid = fit(constant(best), warm);
  if (result.tuned.validation_loss > result.grid.validation_loss) {
    result.warnings.push_back("tuning found nothing better than the best single λ, which is kept");
    result.tuned = result.grid;
  }
  const double standard = -std::log(static_cast<double>(
      prepared_.held_out
          ? prepared_.training_rows
          : prepared_.training_rows - prepared_.training_rows / static_cast<Index>(folds_.size())));
  result.standard = fit(constant(standard), warm);
  if (!result.tuned.warning.empty()) result.warnings.push_back(result.tuned.warning);
  if (result.tuned.fitted && !(result.grid.fitted && result.standard.fitted))
    result.warnings.push_back("there was no time to fit the models that the tuned one is compared with");
  if (!result.tuned.fitted && stop.wanted() == Status::interrupted) result.interrupted = true;
  if (result.tuned.fitted && result.grid.fitted) warn(result);
}

void Run::warn(TuneResult& result) const {
  const auto thetas = prepared_.thetas();
  const Index judges = prepared_.held_out ? prepared_.validation_rows : prepared_.training_rows;
  const std::string share = task_.penalty == Penalty::global ? ""
                            : task_.penalty == Penalty::per_group
                                ? "share penalties (--penalty global)"
                                : "share penalties (--penalty per-group, or global)";
  const std::string remedy = !prepared_.held_out ? (share.empty() ? "more rows would tell" : share)
                             : share.empty()     ? "judge by K folds (--cv 5)"
                                                 : "judge by K folds (--cv 5) or " + share;
  const auto& tuned = result.tuned.test;
  const auto& grid = result.grid.test;
  if (tuned && grid) {
    // Does the test agree with what validation promised? Both models face the same rows: their differences
    // tell.
    const double promised = result.grid.validation_loss - result.tuned.validation_loss;
    const double noise = std::max(tuned->standard_error, grid->standard_error);
    std::vector<double> rises = result.tuned.test_losses;
    for (std::size_t i = 0; i < rises.size(); ++i) rises[i] -= result.grid.test_losses[i];
    const auto [rise, error] = weighted_mean(rises, result.tuned.test_weights);
    result.test_difference_error = error;
    // The error of a mean over a handful of rows is itself a guess.
    if (promised > 0 && rise > 2 * error && tuned->rows >= 10)
      result.warnings.push_back(
          fmt::format("{} penalties overfit the {} rows they were judged by: the validation loss fell from "
                      "{:.6g} to {:.6g}, but the test loss rose from {:.6g} to {:.6g}; {}",
                      thetas, judges, result.grid.validation_loss, result.tuned.validation_loss, grid->loss,
                      tuned->loss, remedy));
    else if (promised > 0 && rise > 0.5 * error)
      result.warnings.push_back(
          fmt::format("the test does not confirm the gain: its loss rose from {:.6g} to {:.6g}, though {} "
                      "rows are too few "
                      "to be sure (the rise is {:.2g} ± {:.2g}); {}",
                      grid->loss, tuned->loss, tuned->rows, rise, error, remedy));
    else if (grid->loss - result.grid.validation_loss > 2 * noise)
      result.warnings.push_back(fmt::format(
          "the test loss {:.6g} is above the validation loss {:.6g} by more than two standard errors "
          "({:.2g}), and so it is with one λ for all: the test rows differ from the others",
          tuned->loss, result.tuned.validation_loss, noise));
    else if (tuned->loss - result.tuned.validation_loss > 2 * noise + promised)
      result.warnings.push_back(fmt::format(
          "the test loss {:.6g} is above the validation loss {:.6g} by more than two standard errors "
          "({:.2g}): the {} rows that judge are few for {} penalties, or the test rows differ; {}",
          tuned->loss, result.tuned.validation_loss, noise, judges, thetas, remedy));
  } else if (thetas * 10 > judges) {
    result.warnings.push_back(fmt::format(
        "{} penalties are judged by {} rows and there is no test: the validation loss may flatter; "
        "keep rows for a test (--test 0.2), or {}",
        thetas, judges, remedy));
  }
}

}  // namespace

bilevel::Box box_of(const Task& task, const Prepared& prepared) {
  return {Vec::Constant(prepared.thetas(), task.lower), Vec::Constant(prepared.thetas(), task.upper)};
}

std::optional<std::string> at_bound(const Task& task, double theta) {
  if (theta <= task.lower) return "lower";
  if (theta >= task.upper) return "upper";
  return {};
}

TuneResult tune(const Task& task, const Prepared& prepared, const TuneControl& control) {
  return Run(task, prepared, control).run();
}

}  // namespace tuning
