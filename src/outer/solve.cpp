#include <bilevel/outer/impl/solve.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/files/kept_run.hpp>

namespace bilevel {
namespace {

/// "1 iteration", "2 iterations".
std::string steps(long count) {
  return fmt::format("{} iteration{}", count, count == 1 ? "" : "s");
}

}  // namespace

Violations ToleranceSchedule::validate() const {
  Violations v("tolerances");
  v.positive("inner", inner)
      .positive("adjoint", adjoint)
      .positive("floor", floor)
      .not_negative("factor", factor);
  return v;
}

Violations SolveOptions::validate() const {
  Violations v("solve");
  v.positive("gradient_tolerance", gradient_tolerance);
  v.not_negative("ordinary_scale", ordinary_scale);
  v.require(std::isnan(trust) || (trust > 0 && trust <= 1), "trust", trust, "must lie in (0, 1]");
  v.at_least("max_iterations", max_iterations, 0);
  v.not_negative("relative_decrease", relative_decrease);
  v.require(max_seconds > 0, "max_seconds", max_seconds, "must be positive");
  v.require(!resume || !checkpoint.empty(), "resume", resume, "needs the checkpoint file to be named");
  v.add(tolerances.validate());
  return v;
}

namespace detail {
namespace {

/// Bounds as a few letters: a run with other bounds is another run.
std::string fingerprint(const Box& box) {
  if (box.lower.size() == 0 && box.upper.size() == 0) return "none";
  return fmt::format("{:016x}-{:016x}", checksum(box.lower), checksum(box.upper));
}

}  // namespace

OuterRun::OuterRun(SolveOptions given, std::string_view estimator, Optimizer& optimizer,
                   const Eigen::VectorXd& start, States states)
    : options_(std::move(given)),
      optimizer_(optimizer),
      states_(std::move(states)),
      kink_(options_.box, options_.gradient_tolerance) {
  const SolveOptions& options = options_;
  options.box.validate(start.size()).throw_if_any();
  summary_.estimator = estimator;
  summary_.optimizer = optimizer.name();
  summary_.asked_gradient_tolerance = options.gradient_tolerance;
  const std::string identity =
      fmt::format("{} [{}, {}, |theta| = {}, bounds {}]", options.identity, estimator, optimizer.name(),
                  start.size(), fingerprint(options.box));
  optimizer_.begin(options.box);
  if (!options.resume) KeptRun(options.checkpoint).require_ours();
  if (options.resume) {
    now_ = read_checkpoint(options.checkpoint, identity);
    if (now_.theta.size() != start.size() || now_.optimizer != optimizer.name())
      throw InvalidInput(
          fmt::format("cannot resume from {}: it holds {} parameters for {}, this run has {} for {}",
                      options.checkpoint, now_.theta.size(), now_.optimizer, start.size(), optimizer.name()));
    try {
      optimizer_.load(now_.state);
      kink_.load(now_.search);
    } catch (const std::exception& error) {
      throw InvalidInput(fmt::format("cannot resume from {}: it is damaged ({}); start without resuming",
                                     options.checkpoint, error.what()));
    }
    seconds_before_ = now_.seconds;
    summary_.resumed = true;
    find_scale();
    return;
  }
  now_.identity = identity;
  now_.optimizer = optimizer.name();
  now_.theta = start;
  options.box.project(now_.theta);
  now_.inner_tolerance = options.tolerances.inner;
  now_.adjoint_tolerance = options.tolerances.adjoint;
}

/// From the history, which a resumed run has too.
void OuterRun::find_scale() {
  for (const HistoryEntry& h : now_.history) {
    if (!std::isfinite(h.outer_value) || !std::isfinite(h.gradient_norm)) continue;
    scale_ = std::max(std::abs(h.outer_value), h.gradient_norm);
    scale_is_final_ = true;
    kink_.set_tolerance(tolerance());
    return;
  }
}

void OuterRun::require_states(Index parameters) const {
  if (!now_.accepted) return;
  const Index phi = now_.accepted->phi.size(), pi = now_.accepted->pi.size();
  if (phi != parameters || pi != parameters)
    throw InvalidInput(
        fmt::format("cannot resume from {}: its states have {} and {} numbers, the problem's {}",
                    options_.checkpoint, phi, pi, parameters));
}

void OuterRun::abandon(Status status) {
  // As if the evaluation had not begun, also where it had asked for more accuracy on its way: a resumed run
  // repeats it from the same state.
  now_.inner_tolerance = begun_inner_;
  now_.adjoint_tolerance = begun_adjoint_;
  stop(status, now_.accepted ? fmt::format("{}; projected gradient norm {:.3g} after {}", sentence(status),
                                           now_.accepted->gradient_norm, steps(now_.iterations))
                             : fmt::format("{}; no point was evaluated to its end", sentence(status)));
}

bool OuterRun::begin_evaluation() {
  begun_inner_ = now_.inner_tolerance;
  begun_adjoint_ = now_.adjoint_tolerance;
  now_.seconds = seconds_before_ + watch_.seconds();
  if (!options_.checkpoint.empty()) {
    // Losing the way back is worth stopping for only at the start, where nothing is lost by it.
    const std::string problem = write(seconds_durable_ + 1 < now_.seconds);
    if (!problem.empty() && now_.evaluations == 0) throw InvalidInput(problem);
  }
  if (now_.seconds > options_.max_seconds)
    return stop(Status::time_limit, fmt::format("{:.1f} s are over after {}; projected gradient norm {:.3g}",
                                                options_.max_seconds, steps(now_.iterations),
                                                now_.accepted ? now_.accepted->gradient_norm : unknown));
  if (const auto why = stop_wanted(options_.stop)) {
    abandon(*why);
    return false;
  }
  if (now_.accepted && now_.iterations >= options_.max_iterations)
    return stop(Status::iteration_limit,
                fmt::format("projected gradient norm {:.3g} after {}, the limit; asked for {:.3g}",
                            now_.accepted->gradient_norm, steps(now_.iterations), tolerance()));
  return true;
}

void OuterRun::bring_states() {
  if (!states_here_) states_.to_host(*now_.accepted);
  states_here_ = true;
}

/// A killed process loses nothing that the system has taken; only a power cut does, against which the file is
/// flushed to the disk about once a second.
std::string OuterRun::write(bool durable) {
  bring_states();
  now_.state = optimizer_.save();
  now_.search = kink_.save();
  std::string problem = write_checkpoint(options_.checkpoint, now_, durable);
  if (durable) seconds_durable_ = now_.seconds;
  checkpoint_problem_ = problem;
  return problem;
}

void OuterRun::judge(Certificate& certificate, const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient,
                     double outer_value, bool phases_converged) {
  const double norm = gradient.allFinite() ? options_.box.projected_gradient_norm(theta, gradient) : unknown;
  // Around a kink large gradients are added up to a small one: their errors must be small beside that.
  if (!scale_is_final_ && std::isfinite(outer_value) && std::isfinite(norm))
    scale_ = std::max(std::abs(outer_value), norm);
  if (!std::isnan(options_.trust)) certificate.trust = options_.trust;
  certificate.judge(kink_.active() && !std::isnan(norm) ? 0 : norm, tolerance(), phases_converged);
}

bool OuterRun::tighten(Verdict verdict, bool phases_converged) {
  const ToleranceSchedule& schedule = options_.tolerances;
  if (schedule.factor == 0 || verdict == Verdict::trusted || !phases_converged) return false;
  if (now_.inner_tolerance <= schedule.floor && now_.adjoint_tolerance <= schedule.floor) return false;
  const auto sharper = [&](double tolerance) {
    return std::min(tolerance, std::max(schedule.floor, 0.1 * tolerance));
  };
  now_.inner_tolerance = sharper(now_.inner_tolerance);
  now_.adjoint_tolerance = sharper(now_.adjoint_tolerance);
  return true;
}

/// Descent zigzags across a kink in ever smaller steps for ever: many steps that gain less than a single one
/// of the search would, while the gradient does not shrink.
bool OuterRun::crawls() const {
  constexpr int window = 20;
  int count = 0;
  double least = everywhere, most = 0, before = unknown;
  for (std::size_t k = now_.history.size();
       k-- > static_cast<std::size_t>(now_.searched) && count < window;) {
    const HistoryEntry& h = now_.history[k];
    if (!h.accepted) continue;
    least = std::min(least, h.gradient_norm);
    most = std::max(most, h.gradient_norm);
    before = h.outer_value;
    ++count;
  }
  const double gain = before - now_.accepted->outer_value;
  return count == window && least > 0.5 * most && gain >= 0 && gain < KinkSearch::first_gain * least;
}

void OuterRun::begin_kink_search() {
  now_.searched = static_cast<long>(now_.history.size());
  const AcceptedPoint& base = *now_.accepted;
  now_.theta = kink_.begin({base.theta, base.gradient, base.certificate}, base.corrected_value);
}

/// The optimiser's step, and where it knows none a search around the kink that may be the reason.
Move OuterRun::advance(const AcceptedPoint& point, bool finite) {
  const double value = finite ? point.corrected_value : everywhere;
  if (!kink_.active()) {
    const Move move = optimizer_.advance(value, point.gradient, now_.theta);
    if (move != Move::stuck || !now_.accepted) return move;
    begin_kink_search();
    return Move::rejected;
  }
  if (point.gradient_norm <= tolerance() && point.certificate.verdict == Verdict::trusted &&
      value <= now_.accepted->corrected_value + 1e-12 * std::abs(value)) {
    kink_.end();
    return Move::accepted;  // no kink at all
  }
  finding_ = kink_.advance({point.theta, point.gradient, point.certificate}, value, now_.theta);
  if (finding_ == KinkSearch::Finding::released) {
    kink_.end();
    now_.searched = static_cast<long>(now_.history.size());
    now_.theta = point.theta;
    if (optimizer_.advance(value, point.gradient, now_.theta) != Move::accepted) {
      optimizer_.begin(options_.box);
      now_.theta = point.theta;
      optimizer_.advance(value, point.gradient, now_.theta);
    }
  }
  if (kink_.moved()) return Move::accepted;
  return finding_ == KinkSearch::Finding::searching ? Move::rejected : Move::stuck;
}

bool OuterRun::end_evaluation(AcceptedPoint point, Status status, const std::string& message,
                              const Cost& cost) {
  ++now_.evaluations;
  now_.cost += cost;
  const bool finite = std::isfinite(point.corrected_value) && point.gradient.allFinite();
  point.gradient_norm = finite ? options_.box.projected_gradient_norm(point.theta, point.gradient) : unknown;

  if (!scale_is_final_ && finite && std::isfinite(point.outer_value)) {
    scale_is_final_ = true;
    scale_ = std::max(std::abs(point.outer_value), point.gradient_norm);
    kink_.set_tolerance(tolerance());
  }
  if (!finite) trouble_ = fmt::format("; evaluation {} was not finite: {}", now_.evaluations, message);
  const Move move = advance(point, finite);
  HistoryEntry entry{now_.iterations,           move == Move::accepted,  point.outer_value,
                     point.gradient_norm,       point.certificate.bound, point.certificate.kind,
                     point.certificate.verdict, now_.inner_tolerance,    seconds_before_ + watch_.seconds()};
  double last_value = unknown;
  if (move == Move::accepted) {
    if (now_.accepted) {
      entry.iteration = ++now_.iterations;
      last_value = now_.accepted->outer_value;
    }
    now_.accepted = point;
    states_.accept();
    states_here_ = false;
    const ToleranceSchedule& schedule = options_.tolerances;
    const double wanted = std::max(schedule.floor, schedule.factor * point.gradient_norm);
    if (schedule.factor > 0) {
      now_.inner_tolerance = std::min(now_.inner_tolerance, wanted);
      now_.adjoint_tolerance = std::min(now_.adjoint_tolerance, wanted);
    }
  }
  now_.history.push_back(entry);
  const bool go_on = !options_.callback || options_.callback(entry);

  if (!now_.accepted)
    return stop(finite                        ? Status::stalled
                : status == Status::converged ? Status::not_finite
                                              : status,
                message);
  const double length = now_.accepted->gradient_norm;
  const std::string where =
      fmt::format("projected gradient norm {:.3g} after {}", length, steps(now_.iterations));
  const Certificate& c = now_.accepted->certificate;
  const bool small = length <= tolerance();
  if (small && c.verdict == Verdict::trusted)
    return stop(Status::converged, fmt::format("{} (asked for {:.3g}); {} error bound {:.3g}", where,
                                               tolerance(), name(c.kind), c.bound));
  if (finding_ == KinkSearch::Finding::stationary) {
    const KinkSearch::Least& least = kink_.least();
    now_.accepted->certificate = least.certificate;
    now_.accepted->gradient_norm = least.norm;
    summary_.at_kink = true;
    return stop(
        Status::converged,
        fmt::format(
            "stationary within {:.0e} of θ, where the outer loss has a kink or bends sharply, after {}: "
            "{} gradients there combine to norm {:.3g} (asked for {:.3g}; that at θ has "
            "{:.3g}); "
            "{} error bound {:.3g}",
            least.radius, steps(now_.iterations), least.gradients, least.norm, tolerance(), length,
            name(c.kind), c.bound));
  }
  if (finding_ == KinkSearch::Finding::nothing) {
    const std::string around = fmt::format(
        "nor does a kink explain it: {} trusted gradients within {:.0e} of θ "
        "combine to norm {:.3g}",
        kink_.least().gradients, kink_.least().radius, kink_.least().norm);
    return stop(
        Status::stalled,
        small ? fmt::format("{}, but that gradient is {}, its error bound is {:.3g}: {} ({}); {}", where,
                            name(c.verdict), c.bound, c.reason, message, around)
              : fmt::format("no step lowers the outer loss any further; {}; the last gradient was {} ({}); "
                            "{}{}",
                            where, name(c.verdict), c.reason, around, trouble_));
  }
  // Right at a kink no gradient can be trusted; beside it each can.
  if (!kink_.active() && (small || crawls())) begin_kink_search();
  if (!std::isnan(last_value) &&
      std::abs(last_value - point.outer_value) <= options_.relative_decrease * std::abs(point.outer_value) &&
      options_.relative_decrease > 0)
    return stop(Status::relative_decrease,
                fmt::format("the outer loss went from {:.10g} to {:.10g}, hardly any change; {}", last_value,
                            point.outer_value, where));
  if (!go_on) return stop(Status::interrupted, where);
  return true;
}

bool OuterRun::stop(Status status, std::string message) {
  summary_.status = status;
  summary_.message = std::move(message);
  // What stopped only because it was told to can be taken up where it was left.
  if (status == Status::interrupted || status == Status::iteration_limit || status == Status::time_limit) {
    if (!options_.checkpoint.empty()) {
      now_.seconds = seconds_before_ + watch_.seconds();
      if (write(true).empty()) summary_.message += fmt::format("; resume from {}", options_.checkpoint);
    }
  }
  return false;
}

Summary OuterRun::finish() {
  if (!checkpoint_problem_.empty()) summary_.message += "; " + checkpoint_problem_;
  bring_states();
  if (now_.accepted) {
    summary_.theta = now_.accepted->theta;
    summary_.phi = now_.accepted->phi;
    summary_.gradient = now_.accepted->gradient;
    summary_.outer_value = now_.accepted->outer_value;
    summary_.gradient_norm = now_.accepted->gradient_norm;
    summary_.certificate = now_.accepted->certificate;
  } else {
    summary_.theta = now_.theta;
  }
  summary_.iterations = now_.iterations;
  summary_.evaluations = now_.evaluations;
  summary_.cost = now_.cost;
  summary_.history = now_.history;
  summary_.seconds = seconds_before_ + watch_.seconds();
  summary_.used_gradient_tolerance = tolerance();
  summary_.used_inner_tolerance = now_.inner_tolerance;
  summary_.used_adjoint_tolerance = now_.adjoint_tolerance;
  return summary_;
}

}  // namespace detail

template Summary solve(Estimator<Eigen::VectorXd>&, Optimizer&, const Eigen::VectorXd&, const SolveOptions&);
template Summary solve(Estimator<Eigen::VectorXf>&, Optimizer&, const Eigen::VectorXf&, const SolveOptions&);

}  // namespace bilevel
