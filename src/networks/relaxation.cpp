#include <bilevel/networks/relaxation.hpp>

#include <array>
#include <cmath>

#include "block.hpp"
#include "by_name.hpp"
#include "gemm.hpp"

namespace bilevel::networks {
namespace {

constexpr std::array<std::string_view, 4> schedules{"even-odd", "synchronous", "sweep", "gradient"};

}  // namespace

std::string_view name(Schedule schedule) {
  return schedules[static_cast<std::size_t>(schedule)];
}

Schedule schedule_of(std::string_view name) {
  return by_name<Schedule>("schedule", name, schedules);
}

Violations RelaxationOptions::validate(std::string_view owner) const {
  Violations v(owner);
  v.require(step > 0 && std::isfinite(step), "step", step, "must be positive and finite");
  v.at_least("max_steps", max_steps, 1);
  // More than anyone waits for.
  v.require(max_steps <= 10'000'000, "max_steps", max_steps, "must be ten million at most");
  v.not_negative("tolerance", tolerance);
  return v;
}

struct Relaxation::Workspace {
  explicit Workspace(const Architecture& a) : couplings(a), block(couplings) {}
  LiveCouplings<double> couplings;
  Block<double> block;
};

Relaxation::Relaxation(NetworkProblem& problem, RelaxationOptions options)
    : problem_(problem),
      options_((options.validate().throw_if_any(), options)),
      workspace_(std::make_unique<Workspace>(problem.architecture())) {}

Relaxation::~Relaxation() = default;

void Relaxation::set_tolerance(double tolerance) {
  options_.tolerance = tolerance;
}

Solution<Eigen::VectorXd> Relaxation::solve(const Eigen::VectorXd& theta, double beta,
                                            const Eigen::VectorXd& start) {
  require_shapes<Eigen::VectorXd>(problem_, &start, &theta, "relaxation");
  const OneBlasThread one;
  Stopwatch watch;
  Solution<Eigen::VectorXd> solution;
  solution.phi = start;
  solution.tolerance = options_.tolerance;
  const Architecture& a = problem_.architecture();
  const Samples& samples = problem_.samples();
  workspace_->couplings.set(theta.data());
  Block<double>& block = workspace_->block;
  outcomes_.clear();
  RelaxationOptions options = options_;
  if (!options.stop) options.stop = problem_.stop_token();
  for (Index first = 0; first < problem_.batch(); first += Block<double>::most_samples) {
    const Index count = std::min(Block<double>::most_samples, problem_.batch() - first);
    block.clamp(samples.inputs.data() + first * a.inputs(), samples.targets.data() + first * a.outputs(),
                count);
    for (Index k = 1, offset = 0; k <= a.depth(); offset += a.width(k++) * problem_.batch())
      block.load(k, start.data() + offset + first * a.width(k), a.width(k));
    block.relax(beta, options);
    for (Index k = 1, offset = 0; k <= a.depth(); offset += a.width(k++) * problem_.batch())
      std::copy_n(block.states(k), a.width(k) * count, solution.phi.data() + offset + first * a.width(k));
    outcomes_.insert(outcomes_.end(), block.outcomes().begin(), block.outcomes().end());
  }
  solution.value = problem_.inner(solution.phi, theta, {}) + beta * problem_.outer(solution.phi, theta, {});
  solution.residual_norm = problem_.nudged_residual(solution.phi, theta, beta);
  Index unsettled = 0;
  double most = 0;
  for (const SampleOutcome& outcome : outcomes_) {
    solution.iterations = std::max(solution.iterations, outcome.steps);
    most = std::max(most, outcome.moved);
    if (outcome.status != Status::converged) ++unsettled;
  }
  const auto stopped = unsettled > 0 ? stop_wanted(options.stop) : std::nullopt;
  const bool finite = solution.phi.allFinite() && std::isfinite(solution.residual_norm);
  solution.status = stopped                                                          ? *stopped
                    : !finite                                                        ? Status::not_finite
                    : unsettled == 0 || solution.residual_norm <= options_.tolerance ? Status::converged
                    : most > 1e6 * (1 + start.cwiseAbs().maxCoeff())                 ? Status::diverged
                                                                     : Status::iteration_limit;
  solution.message = fmt::format(
      "{} of {} samples settled, no unit of them moved by more than {:.3g}; at most {} steps, "
      "largest movement at the end {:.3g}, ‖∂φ‖ = {:.3g}",
      problem_.batch() - unsettled, problem_.batch(), options_.tolerance, solution.iterations, most,
      solution.residual_norm);
  solution.cost.inner_gradients = solution.iterations + 1;
  solution.cost.outer_gradients = beta != 0 ? solution.iterations + 1 : 0;
  solution.cost.bytes =
      sizeof(double) * static_cast<std::size_t>(4 * a.states() * Block<double>::most_samples);
  solution.cost.seconds_inner = watch.seconds();
  return solution;
}

}  // namespace bilevel::networks
