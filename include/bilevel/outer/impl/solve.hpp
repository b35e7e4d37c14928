#pragma once

#include <bilevel/outer/impl/kink.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/space/dots.hpp>

namespace bilevel {

namespace detail {

/// φ and π of the evaluations, which stay where V keeps them: on the host they are wanted in checkpoints and
/// in the summary only.
struct States {
  std::function<void()> accept;                 ///< the last evaluation's become the accepted point's
  std::function<void(AcceptedPoint&)> to_host;  ///< fills in those of the accepted point
};

/// The loop's bookkeeping, which needs no vector type.
class OuterRun {
 public:
  OuterRun(SolveOptions options, std::string_view estimator, Optimizer& optimizer,
           const Eigen::VectorXd& start, States states);

  const Eigen::VectorXd& theta() const { return now_.theta; }
  /// The accepted point of the checkpoint that a run goes on from, at its start.
  const std::optional<AcceptedPoint>& accepted() const { return now_.accepted; }
  double inner_tolerance() const { return now_.inner_tolerance; }
  double adjoint_tolerance() const { return now_.adjoint_tolerance; }

  /// Throws InvalidInput where a resumed run's inner states have another size.
  void require_states(Index parameters) const;
  /// Before an evaluation: limits and the checkpoint. False when the run must stop.
  bool begin_evaluation();
  /// The verdict with the norm that counts here, that of the projected gradient: components held by a bound
  /// do not make the others more accurate.
  void judge(Certificate& certificate, const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient,
             double outer_value, bool phases_converged);
  /// Errors of the gradient below this do not matter at present.
  double error_that_matters() const {
    return now_.accepted && !kink_.active() ? std::max(trust() * now_.accepted->gradient_norm, tolerance())
                                            : tolerance();
  }
  /// The norm of the projected gradient to reach, at the scale of the first point.
  double tolerance() const {
    // NaN and zero are no scale at all.
    return scale_ > 0 && scale_ < options_.ordinary_scale
               ? options_.gradient_tolerance * (scale_ / options_.ordinary_scale)
               : options_.gradient_tolerance;
  }
  /// Halfway: is the gradient good enough to act on, or shall the phases be repeated more accurately?
  bool tighten(Verdict verdict, bool phases_converged);
  /// The run ends within an evaluation, of which nothing is kept.
  void abandon(Status status);
  /// After an evaluation, with a point whose states are not on the host. False when the run is over.
  bool end_evaluation(AcceptedPoint point, Status status, const std::string& message, const Cost& cost);
  Summary finish();

 private:
  double trust() const { return std::isnan(options_.trust) ? Certificate::usual_trust : options_.trust; }
  void find_scale();
  Move advance(const AcceptedPoint& point, bool finite);
  void begin_kink_search();
  bool crawls() const;
  bool stop(Status status, std::string message);
  std::string write(bool durable);
  void bring_states();

  SolveOptions options_;
  Optimizer& optimizer_;
  States states_;
  bool states_here_ = true;  // those of the accepted point are on the host, or there is none
  KinkSearch kink_;
  KinkSearch::Finding finding_ = KinkSearch::Finding::searching;
  Checkpoint now_;
  Summary summary_;
  Stopwatch watch_;
  double seconds_before_ = 0, seconds_durable_ = -everywhere;
  double scale_ = unknown;       // of loss and gradient at the first point that was finite
  bool scale_is_final_ = false;  // until then it is that of a first, less accurate estimate
  double begun_inner_ = unknown, begun_adjoint_ = unknown;  // tolerances when the evaluation began
  std::string checkpoint_problem_, trouble_;
};

}  // namespace detail

template <Vector V>
Summary solve(Estimator<V>& estimator, Optimizer& optimizer, const V& start, const SolveOptions& options) {
  options.validate().throw_if_any();
  if (Space<V>::size(start) != Space<V>::size(estimator.initial_theta()))
    throw InvalidInput(fmt::format("solve: the start has {} elements, the problem's theta has {}",
                                   Space<V>::size(start), Space<V>::size(estimator.initial_theta())));
  if (!all_finite(start)) throw InvalidInput("solve: the start theta holds NaN or infinity");
  if (const Index size = Space<V>::size(estimator.initial_phi());
      options.phi.size() > 0 && options.phi.size() != size)
    throw InvalidInput(fmt::format("solve: SolveOptions.phi has {} elements, the problem's phi has {}",
                                   options.phi.size(), size));
  Warm<V> last, accepted;
  detail::OuterRun run(options, estimator.name(), optimizer, host_copy(start),
                       // Copies: an estimator may hand out vectors whose elements it goes on using.
                       {.accept =
                            [&] {
                              accepted = {duplicate(*last.phi), duplicate(*last.pi)};
                            },
                        .to_host =
                            [&](AcceptedPoint& point) {
                              point.phi = host_copy(*accepted.phi);
                              point.pi = host_copy(*accepted.pi);
                            }});
  run.require_states(Space<V>::size(estimator.initial_phi()));

  const auto from_host = [](const Eigen::VectorXd& host, const V& like) {
    V x = Space<V>::zeros_like(like);
    Space<V>::from_host(host.data(), x);
    return x;
  };
  if (const auto& point = run.accepted())
    accepted = {from_host(point->phi, estimator.initial_phi()),
                from_host(point->pi, estimator.initial_phi())};
  else if (options.phi.size() > 0)
    accepted.phi = from_host(options.phi, estimator.initial_phi());
  std::string choice;
  while (run.begin_evaluation()) {
    const V theta = from_host(run.theta(), start);
    // From the accepted point, which a checkpoint holds, so that a resumed run starts from the same numbers.
    Warm<V> warm = options.warm_start ? accepted : Warm<V>{};
    Estimate<V> e;
    Cost cost;
    Eigen::VectorXd gradient;
    const long waited = synchronisations<V>();
    do {
      estimator.set_outer_tolerance(run.error_that_matters());
      estimator.set_tolerances(run.inner_tolerance(), run.adjoint_tolerance());
      e = estimator.estimate(theta, warm);
      cost += e.cost;
      if (options.warm_start) warm = {e.phi, e.pi};
      gradient = host_copy(e.gradient);
      run.judge(e.certificate, run.theta(), gradient, e.outer_value, succeeded(e.status));
      // Half an evaluation is none: a resumed run repeats it.
      if (const auto why = stop_wanted(options.stop); why && !succeeded(e.status)) {
        run.abandon(*why);
        return run.finish();
      }
    } while (run.tighten(e.certificate.verdict, succeeded(e.status)));
    cost.synchronisations = synchronisations<V>() - waited;
    choice = e.choice;
    last = {std::move(e.phi), std::move(e.pi)};
    AcceptedPoint point{run.theta(),      {}, {}, gradient, e.outer_value, unknown, e.certificate,
                        e.corrected_value};
    if (!run.end_evaluation(std::move(point), e.status, e.message, cost)) break;
  }
  Summary summary = run.finish();
  summary.choice = std::move(choice);
  return summary;
}

}  // namespace bilevel
