#include <bilevel/models/tune.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "grid.hpp"
#include "make_saved.hpp"
#include "stoppable.hpp"
#include "test_comparison.hpp"
#include "tune_run.hpp"

namespace bilevel::models {
namespace {

using bilevel::Status;

/// The box of log λ goes down to here at most where nobody gave one.
constexpr double deepest = -30;
/// Widening the box is worth its time where it may lower the loss by this share.
constexpr double worthwhile = 1e-3;
/// The grid of a network ends after so many values in a row above the best, the last by this share.
constexpr int turned = 3;
/// A question has an answer, or none that could be heard above its standard error, after so many steps.
constexpr long steps_of_question = 10;
constexpr double worse = 0.02;
/// So often at most, by 4 each time.
constexpr int most_widenings = 5;

}  // namespace

Vec Run::constant(const Family& family, double log_lambda) const {
  Vec theta = Vec::Constant(family.final.thetas() + prepared_.elastic(), log_lambda);
  if (family.final.slope.size() > 0) theta[family.final.count] = 0;
  return theta;
}

void Run::set_box(Family& family) const {
  family.box = {constant(family, lower_), constant(family, options_.upper)};
  const PenaltyMap& map = family.final;
  const bool spread = map.slope.size() > 0;
  if (spread) family.box.upper[map.count] = largest_gamma;
  if (!options_.bounds_given) return;
  // Every log λ of every fold stays in the box that a person gave, whatever its offset and γ are.
  for (Index k = 0; k < map.offset.size(); ++k) {
    const Index j = map.of[static_cast<std::size_t>(k)];
    family.box.lower[j] = std::max(family.box.lower[j], lower_ - map.offset[k]);
    family.box.upper[j] = std::min(family.box.upper[j], options_.upper - map.offset[k]);
  }
  if (spread) {
    double least = std::min(0.0, map.slope.minCoeff()), most = std::max(0.0, map.slope.maxCoeff());
    for (const PenaltyMap& fold : family.folds) {
      least = std::min(least, fold.slope.minCoeff());
      most = std::max(most, fold.slope.maxCoeff());
    }
    double& gamma = family.box.upper[map.count];
    if (most > least) gamma = std::min(gamma, (options_.upper - lower_) / (most - least));
    family.box.lower.head(map.count).array() -= gamma * least;
    family.box.upper.head(map.count).array() -= gamma * most;
  }
  family.box.upper = family.box.upper.cwiseMax(family.box.lower);  // rounding
}

/// From strong penalties to weak ones, each fit from the one before it; on beyond the lower end of the box
/// while that lowers the loss, unless a person has set it. False where it was stopped.
bool Run::search_grid() {
  Grid grid(control_.checkpoint.empty() ? std::string() : control_.checkpoint + ".grid", control_.identity,
            control_.resume);
  folds_.use(single_);
  const double step = grid_step();
  const auto still_falling = [&] {
    const auto& points = grid.points();
    if (options_.bounds_given || points.size() < 2 || points.back().log_lambda - step < deepest) return false;
    const double last = points.back().validation_loss, before = points[points.size() - 2].validation_loss;
    double least = last;
    for (const GridPoint& p : points)
      if (std::isfinite(p.validation_loss)) least = std::min(least, p.validation_loss);
    return last <= least && before - last > worthwhile * std::abs(before);
  };
  // Of networks the weakest penalties take the longest, and lead nowhere once the loss has turned.
  const auto only_rises = [&] {
    const auto& points = grid.points();
    if (!prepared_.network() || points.size() <= turned) return false;
    double least = bilevel::everywhere;
    for (const GridPoint& p : points) least = std::fmin(least, p.validation_loss);
    const double clearly = least + worse * std::abs(least);
    return points.front().validation_loss > clearly && points.back().validation_loss > clearly &&
           std::all_of(points.end() - turned, points.end(),
                       [&](const GridPoint& p) { return p.validation_loss > least; });
  };
  for (int k = static_cast<int>(grid.points().size());
       (k < options_.grid || still_falling()) && !only_rises(); ++k) {
    const double log_lambda = options_.upper - step * static_cast<double>(k);
    control_.progress(fmt::format("one λ for all: {} of {}", k + 1, std::max(k + 1, options_.grid)));
    bilevel::Stopwatch own;
    // Of a network's minima the start decides: all values of the grid have the same one, and none inherits
    // units that a stronger penalty has put to sleep.
    const auto settled =
        folds_.settle(constant(single_, log_lambda), prepared_.network() ? std::vector<Vec>() : grid.phi(),
                      prepared_.network() ? network_grid_tolerance : grid_tolerance, false);
    if (Folds::cut_short(settled)) break;
    grid.add({log_lambda, scale2_ * folds_.value(settled), own.seconds()}, Folds::states(settled));
    // Time for the final fits, which are of the best value.
    if (to_end() || (options_.seconds > 0 && time_left() < 4 * own.seconds())) break;
  }
  result_.points = grid.points();
  best_phi_ = grid.best_phi();
  const auto why = stop_.wanted();
  if (result_.points.empty() || (why == Status::interrupted &&
                                 static_cast<int>(result_.points.size()) < options_.grid && !only_rises())) {
    result_.interrupted = why == Status::interrupted;
    result_.summary.status = why.value_or(Status::interrupted);
    result_.summary.message = sentence(result_.summary.status);
    result_.reached = fmt::format("after {} of {} single λ", result_.points.size(), options_.grid);
    return false;
  }
  result_.grid_seconds = result_.points.back().seconds;
  if (options_.seconds > 0) {
    const bool all = static_cast<int>(result_.points.size()) >= options_.grid || only_rises();
    stop_ = bilevel::StopToken(control_.interrupted, all ? std::max(time_left() - reserve(), 1e-3) : 1e-9);
  }
  result_.grid_fits = static_cast<long>(result_.points.size() * folds_.count());
  const auto inside =
      result_.points.begin() +
      std::min<std::ptrdiff_t>(options_.grid, static_cast<std::ptrdiff_t>(result_.points.size()));
  best_ = *std::min_element(result_.points.begin(), inside, [](const GridPoint& a, const GridPoint& b) {
    const bool known = std::isfinite(a.validation_loss);
    return known && (!std::isfinite(b.validation_loss) || a.validation_loss < b.validation_loss);
  });
  for (auto point = inside; point != result_.points.end() && point->validation_loss < best_.validation_loss;
       ++point) {
    if (!certified_at(point->log_lambda)) {
      result_.warnings.push_back(fmt::format(
          "one λ of exp({:g}) would lower the validation loss by {:.2g} %, but gradients cannot be certified "
          "there",
          point->log_lambda,
          100 * (best_.validation_loss - point->validation_loss) / std::abs(best_.validation_loss)));
      result_.grid_uncertified = true;
      break;
    }
    best_ = *point;
  }
  lower_ = std::min(lower_, best_.log_lambda);
  return true;
}

/// Whether the gradient by one λ can be proven well within the tolerance: then families around it can too.
bool Run::certified_at(double log_lambda) {
  const auto estimator = folds_.estimator(single_);
  estimator->set_tolerances(1e-11, 1e-11);
  estimator->set_outer_tolerance(0.1 * options_.tolerance_for(prepared_.network()));
  return estimator->estimate(constant(single_, log_lambda), {}).certificate.bound <= 0.1 * options_.tolerance_for(prepared_.network());
}

/// The states of the best single λ, one after another as an estimate has them.
Vec Run::pilot_phi() const {
  const std::vector<Vec> states = pilot_.settled.empty() ? best_phi_ : Folds::states(pilot_.settled);
  Vec all(0);
  for (std::size_t k = 0; k < std::min(states.size(), folds_.count()); ++k) {
    const Index before = all.size();
    all.conservativeResize(before + states[k].size());
    all.tail(states[k].size()) = states[k];
  }
  return all;
}

bilevel::Summary Run::descend(const Family& family, const Vec& start, const std::string& ending,
                              const Vec& phi, bool roughly) {
  const auto estimator = folds_.estimator(family);
  bilevel::SolveOptions options;
  options.gradient_tolerance = options_.tolerance_for(prepared_.network());
  options.ordinary_scale = 0;  // losses are in units of the target: a small one is a good one
  options.max_iterations = options_.iterations;
  if (roughly) {
    options.max_iterations = std::min(options_.iterations, steps_of_question);
    options.relative_decrease = worthwhile;
  }
  if (prepared_.network()) {
    // A state on its way has no minimum's curvature, and another start may lead to another minimum.
    options.tolerances.inner = options.tolerances.adjoint = 1e-10;
    options.phi = phi;
  }
  options.stop = &stop_;
  options.box = family.box;
  options.identity = fmt::format("{} {}{} at {} above {}", control_.identity, family.kind, ending, start[0],
                                 family.box.lower[0]);
  if (!control_.checkpoint.empty()) {
    options.checkpoint = control_.checkpoint + ending;
    options.resume = control_.resume && std::filesystem::exists(options.checkpoint);
  }
  options.callback = [&](const bilevel::HistoryEntry& h) {
    control_.progress(fmt::format("{}: step {:>3}  {} {:.8g}  gradient {:.1e} ± {:.0e} ({})",
                                  asking_.empty() ? family.kind : asking_, h.iteration,
                                  family.prior.precision > 0 ? "loss with prior" : "validation loss",
                                  scale2_ * h.outer_value, h.gradient_norm, h.bound, name(h.verdict)));
    bilevel::HistoryEntry said = h;
    said.outer_value *= scale2_;
    return (!control_.callback || control_.callback(said)) && !control_.interrupted();
  };
  // In log λ a tenth is felt, and far from everything.
  const auto optimizer = bilevel::make_lbfgs({.first_step = 0.1});
  bilevel::Summary summary = bilevel::solve<Vec>(*estimator, *optimizer, start, options);
  result_.fits += summary.evaluations * static_cast<long>(folds_.count());
  return summary;
}

/// The best log λ of the grid within the middle half of the box.
std::optional<double> Run::best_inside() const {
  const double quarter = 0.25 * (options_.upper - lower_);
  std::optional<GridPoint> best;
  for (const GridPoint& point : result_.points)
    if (point.log_lambda >= lower_ + quarter && point.log_lambda <= options_.upper - quarter &&
        std::isfinite(point.validation_loss) && !(best && best->validation_loss <= point.validation_loss))
      best = point;
  return best ? std::optional(best->log_lambda) : std::nullopt;
}

/// From the best of the grid and from wherever else a person wants.
void Run::minimise(Family& family) {
  if (adaptive_) {
    result_.summary = adaptive_->second;
    return;
  }
  std::vector<double> starts{pilot_.settled.empty() ? best_.log_lambda : pilot_.log_lambda};
  starts.insert(starts.end(), options_.starts.begin(), options_.starts.end());
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const Vec start = constant(family, starts[k]).cwiseMax(family.box.lower).cwiseMin(family.box.upper);
    bilevel::Summary summary =
        descend(family, start, k == 0 ? "" : fmt::format(".{}", k), k == 0 ? pilot_phi() : Vec());
    const Status status = summary.status;
    if (k == 0 || summary.outer_value < result_.summary.outer_value) result_.summary = std::move(summary);
    result_.interrupted = status == Status::interrupted;
    if (cut_short(status)) return;
    // Towards the bounds the loss is flat: penalties of no effect, or coefficients of zero. Where the best
    // single λ lies there and the descent ends at once, it gets a second start from the best one inside.
    if (k == 0 && result_.summary.iterations == 0 && family.prior.parts > 1)
      if (const auto inside = best_inside()) starts.push_back(*inside);
  }
  if (options_.penalty != Penalty::automatic) widen(family);
}

/// A penalty at the lower bound still costs about its own slope: far down a loss is c₀ + c₁·exp(θ), whose
/// slope is what is left to gain. Where that matters the box is widened, as long as it helps and the
/// certificate follows. Not with a prior, which does not want them there.
void Run::widen(Family& family) {
  if (family.prior.precision > 0) return;
  for (int k = 1; !to_end(); ++k) {
    const bilevel::Summary& s = result_.summary;
    if (s.gradient.size() != s.theta.size() || s.theta.size() == 0) return;
    double cost = 0;
    for (Index j = 0; j < s.theta.size(); ++j)
      if (s.theta[j] <= family.box.lower[j]) cost += std::max(0.0, s.gradient[j]);
    if (!(cost > worthwhile * std::abs(s.outer_value))) return;
    const auto say = [&](std::string_view why) {
      result_.warnings.push_back(
          fmt::format("the lower end {:g} of the box of log λ costs up to {:.2g} of the loss ({:.2g} %); {}",
                      lower_, scale2_ * cost, 100 * cost / std::abs(s.outer_value), why));
    };
    if (options_.bounds_given) return say("a lower TuneOptions.lower would gain it");
    if (lower_ - 4 < deepest || k > most_widenings) return say("it is not widened further");
    const double before = lower_;
    lower_ -= 4;
    Family wider = family;
    set_box(wider);
    bilevel::Summary next = descend(wider, s.theta, fmt::format(".wide{}", k), s.phi);
    const bool better = next.outer_value < s.outer_value - 1e-4 * std::abs(s.outer_value);
    if (cut_short(next.status)) {
      // To be gone on with here.
      result_.interrupted = next.status == Status::interrupted;
      if (better) {
        result_.summary = std::move(next);
        family = std::move(wider);
      } else {
        lower_ = before;
        result_.summary.status = next.status;
        result_.summary.message = std::move(next.message);
      }
      return;
    }
    const bool followed = next.certificate.verdict >= s.certificate.verdict;
    if (!better || !followed) {
      lower_ = before;
      return better ? say("beyond it the certificate does not follow") : void();
    }
    result_.summary = std::move(next);
    family = std::move(wider);
  }
}

void Run::finish(const Family& family) {
  control_.progress("fitting the final models");
  // Whoever interrupts waits a moment; a time limit has left its reserve.
  const bool hurried = stop_.wanted() == Status::interrupted;
  const bilevel::StopToken stop(hurried ? std::function<bool()>() : control_.interrupted,
                                hurried                ? control_.grace
                                : options_.seconds > 0 ? std::max(time_left(), 0.0) + control_.grace
                                                       : 0);
  folds_.obey(&stop);
  if (result_.summary.status == Status::time_limit)
    result_.summary.message =
        fmt::format("the {:g} s asked for are over, {:.1f} of them for the single λ, after {} iteration{}{}",
                    options_.seconds, result_.grid_seconds, result_.summary.iterations,
                    result_.summary.iterations == 1 ? "" : "s",
                    std::isfinite(result_.summary.gradient_norm)
                        ? fmt::format("; projected gradient norm {:.3g}", result_.summary.gradient_norm)
                        : std::string());
  std::vector<Vec> warm = folds_.apart(result_.summary.phi);
  const std::vector<Vec> near = pilot_.settled.empty() ? best_phi_ : Folds::states(pilot_.settled);
  if (warm.empty()) warm = near;
  const Vec best = constant(single_, best_.log_lambda);
  result_.chosen = folds_.fit(family, result_.summary.theta, warm, close());
  const bool single = family.kind == single_.kind;
  result_.grid =
      single && result_.chosen.theta == best ? result_.chosen : folds_.fit(single_, best, near, close());
  if (single && result_.grid.fitted) {
    // Few rows that make up the loss do not know which λ between two values of the grid is best for others.
    const double least = result_.chosen.theta[0];
    if (pilot_.rows < many_rows || !(result_.chosen.validation_loss <= result_.grid.validation_loss))
      result_.chosen = result_.grid;
    if (result_.summary.evaluations > 0) {
      std::string answer = fmt::format("One λ for all: {:.4g}", std::exp(result_.chosen.theta[0]));
      if (result_.chosen.theta[0] == least)
        answer += ", where the validation loss is least";
      else if (pilot_.rows < many_rows)
        answer += fmt::format(
            " of the grid; about {:.0f} rows make up the loss, too few to tell it from {:.4g}, where "
            "that is least{}",
            pilot_.rows, std::exp(least),
            result_.summary.certificate.verdict == bilevel::Verdict::trusted ? " and was certified" : "");
      else
        answer +=
            fmt::format(" of the grid; {:.4g}, where the descent ended, does no better", std::exp(least));
      result_.choice.answers.push_back(std::move(answer));
    }
  } else if (result_.chosen.validation_loss > result_.grid.validation_loss) {
    result_.warnings.push_back("tuning found nothing better than the best single λ, which is kept");
    result_.chosen = result_.grid;
    if (options_.penalty == Penalty::automatic) result_.choice.kind = single_.kind;
  }
  if (options_.bounds_given && options_.penalty == Penalty::automatic &&
      best_.log_lambda <= options_.lower + 1e-9)
    result_.warnings.push_back(
        fmt::format("the best single λ lies at the lower end {:g} of the bounds asked for "
                    "(TuneOptions.lower): a lower one may do better",
                    options_.lower));
  const double standard = -std::log(static_cast<double>(
      prepared_.held_out
          ? prepared_.training_rows
          : prepared_.training_rows - prepared_.training_rows / static_cast<Index>(folds_.count())));
  result_.standard = folds_.fit(single_, constant(single_, standard), near, close());
  if (!result_.chosen.warning.empty()) result_.warnings.push_back(result_.chosen.warning);
  if (result_.chosen.fitted && !(result_.grid.fitted && result_.standard.fitted))
    result_.warnings.push_back("there was no time to fit the models that the tuned one is compared with");
  if (!result_.chosen.fitted && stop.wanted() == Status::interrupted) result_.interrupted = true;
  if (result_.chosen.fitted && result_.grid.fitted && result_.standard.fitted)
    compare_on_test(options_, prepared_, result_);
}

Tuned Run::run() {
  result_.loss_scale = scale2_;
  result_.solvers = folds_.solvers();
  if (!search_grid()) return std::move(result_);
  // One λ, or many of which nothing is believed, ask nothing of the best single one.
  const bool asks = options_.penalty == Penalty::automatic ||
                    (prepared_.penalties.count > 1 && std::isfinite(options_.prior_width));
  Family family = to_end() || (asks && !look_closer()) ? Family() : choose();
  if (family.kind.empty()) {
    // To end before anything was chosen: the best single λ serves.
    family = single_;
    result_.reached = "after the single λ";
    result_.summary.status = stop_.wanted().value_or(Status::interrupted);
    result_.summary.message = sentence(result_.summary.status);
    if (!asking_.empty()) {
      result_.reached += fmt::format(", while asking: {}", asking_);
      result_.summary.message += fmt::format("; it was asking: {}", asking_);
    }
    result_.summary.theta = constant(single_, best_.log_lambda);
    result_.interrupted = result_.summary.status == Status::interrupted;
  } else {
    minimise(family);
  }
  result_.choice.kind = family.kind;
  finish(family);
  result_.fits += folds_.fits();
  result_.lower = lower_;
  result_.upper = options_.upper;
  result_.seconds = watch_.seconds();
  return std::move(result_);
}

bilevel::KeptRun kept_run(const std::string& checkpoint, const TuneOptions& options) {
  std::vector<std::string> beside{".grid", ".asked", ".adaptive"};
  for (std::size_t k = 1; k <= options.starts.size() + 1; ++k) beside.push_back(fmt::format(".{}", k));
  for (int k = 1; k <= most_widenings; ++k) beside.push_back(fmt::format(".wide{}", k));
  return bilevel::KeptRun(checkpoint, beside);
}

std::optional<std::string> at_bound(const Tuned& result, double log_lambda) {
  // Adaptive penalties follow two numbers, and no box of their own.
  if (result.choice.kind == "adaptive") return {};
  if (log_lambda <= result.lower) return "lower";
  if (log_lambda >= result.upper) return "upper";
  return {};
}

bool Tuned::trustworthy() const {
  return succeeded(summary.status) && summary.certificate.verdict == bilevel::Verdict::trusted;
}

Tuned tune(const Prepared& prepared, const TuneOptions& options, const TuneControl& control) {
  options.validate().throw_if_any();
  require_prepared(prepared, options);
  TuneControl begun = stoppable(control);
  if (begun.identity.empty() && !begun.checkpoint.empty()) begun.identity = identity_of(prepared, options);
  const bilevel::KeptRun kept = kept_run(control.checkpoint, options);
  kept.require_place(control.resume, begun.identity);
  Tuned result = Run(options, prepared, begun).run();
  result.model = make_saved(prepared, result.chosen);
  result.model.status = name(result.summary.status);
  result.model.verdict = name(result.summary.certificate.verdict);
  if (control.forget && result.chosen.fitted && !result.interrupted && !unfinished(result.summary.status))
    kept.forget();
  return result;
}

Tuned tune(TuningData data, const TuneOptions& options, const TuneControl& control) {
  return tune(prepare(std::move(data), options), options, control);
}

}  // namespace bilevel::models
