#include "gradient_probe.hpp"

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/gradient/stencil.hpp>

namespace bilevel::networks {

GradientProbe::GradientProbe(const TrainSettings& settings, const TrainingData& data) : settings_(settings) {
  const Index count = std::min(settings.probe, data.test.rows());
  inputs_ = data.test.inputs.leftCols(count);
  const std::vector<int> labels(data.test.labels.begin(), data.test.labels.begin() + count);
  targets_ = one_hot(labels, settings.architecture.outputs()).cast<float>();
}

Probe GradientProbe::compare(BatchEstimator& estimator, const Eigen::VectorXf& theta, bool certified) {
  Estimate<Eigen::VectorXf> e;
  estimator.set_batch(inputs_.data(), targets_.data(), inputs_.cols());
  estimator.estimate_into(theta, e);
  return {estimator.compare(theta, e, certified, settings_.propagation.free.stop), inputs_.cols()};
}

std::vector<Trace> GradientProbe::traces(const Eigen::VectorXf& theta) const {
  NetworkProblem problem(settings_.architecture, {inputs_.cast<double>(), targets_.cast<double>()},
                         theta.cast<double>());
  problem.obey(settings_.propagation.free.stop);
  const Eigen::VectorXd wide = problem.initial_theta();
  const auto follow = [&](double beta, const RelaxationOptions& options, Eigen::VectorXd& phi) {
    // One step after the other; sweeps go up and down in turn, so theirs are all taken from the start.
    const bool from_the_start = options.schedule == Schedule::sweep;
    const Eigen::VectorXd start = phi;
    Trace trace{.beta = beta, .energy = {}, .moved = {}};
    trace.energy.push_back(problem.inner(phi, wide, {}) + beta * problem.outer(phi, wide, {}));
    RelaxationOptions some = options;
    some.max_steps = 1;
    some.tolerance = 1e-300;
    std::optional<Relaxation> relaxation(std::in_place, problem, some);
    for (long step = 1; step <= options.max_steps; ++step, some.max_steps += from_the_start ? 1 : 0) {
      if (from_the_start) relaxation.emplace(problem, some);
      const auto solution = relaxation->solve(wide, beta, from_the_start ? start : phi);
      phi = solution.phi;
      trace.energy.push_back(solution.value);
      double moved = 0;
      for (const SampleOutcome& each : relaxation->samples()) moved += each.moved;
      trace.moved.push_back(moved / static_cast<double>(problem.batch()));
    }
    return trace;
  };
  Eigen::VectorXd free = problem.initial_phi();
  std::vector<Trace> traces{follow(0, settings_.propagation.free, free)};
  // The energy of a complex state is no height that falls.
  if (settings_.route != GradientRoute::propagation || settings_.propagation.circle > 0) return traces;
  const Stencil stencil = stencil_of(settings_.propagation.nudge, settings_.propagation.points);
  for (const int point : stencil.points()) {
    if (point == 0) continue;
    Eigen::VectorXd phi = free;
    traces.push_back(follow(point * settings_.propagation.beta, settings_.propagation.nudged, phi));
  }
  return traces;
}

}  // namespace bilevel::networks
