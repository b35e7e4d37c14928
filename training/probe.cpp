#include "probe.hpp"

#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/stencil.hpp>

namespace training {
namespace {

namespace networks = bilevel::networks;

/// Until nothing moves any more. Predictive coding needs shorter steps the larger its weights are.
networks::RelaxationOptions tight(const Settings& s) {
  networks::RelaxationOptions options = s.propagation.free;
  options.max_steps = 20000;
  options.tolerance = 1e-11;
  return options;
}

networks::NetworkProblem problem_of(const Settings& s, const Matrix& inputs, const Matrix& targets,
                                    const Eigen::VectorXf& theta) {
  return {s.architecture, {inputs.cast<double>(), targets.cast<double>()}, theta.cast<double>()};
}

}  // namespace

GradientProbe::GradientProbe(const Settings& settings, const TrainData& data) : settings_(settings) {
  const Index count = std::min(settings.probe, data.test.rows());
  inputs_ = data.test.inputs.leftCols(count);
  const std::vector<int> labels(data.test.labels.begin(), data.test.labels.begin() + count);
  targets_ = networks::one_hot(labels, settings.architecture.outputs()).cast<float>();
}

Probe GradientProbe::compare(GradientSource& source, const Eigen::VectorXf& theta, bool certified) {
  Probe probe;
  probe.samples = inputs_.cols();
  Eigen::VectorXf used = Eigen::VectorXf::Zero(theta.size());
  const auto outcome = source.gradient(theta, inputs_.data(), targets_.data(), inputs_.cols(), nullptr, used);
  networks::NetworkProblem problem = problem_of(settings_, inputs_, targets_, theta);
  problem.obey(settings_.propagation.free.stop);
  networks::Relaxation relaxation(problem, tight(settings_));
  bilevel::EstimatorOptions options;
  options.certificate.enabled = certified;
  // The clamped layer, nearly all of the weights, has no part in the Hessian: its products cost next to
  // nothing.
  probe.exact = "implicit-cg-jacobi";
  const auto exact = bilevel::make_estimator<Eigen::VectorXd>(probe.exact, problem, relaxation, options)
                         ->estimate(problem.initial_theta(), {});
  const Eigen::VectorXd mine = used.cast<double>();
  probe.norm = mine.norm();
  const double distance = (mine - exact.gradient).norm(), size = exact.gradient.norm();
  // Where every output sits at its target there is no gradient to agree with.
  if (size > 0 && probe.norm > 0) probe.cosine = mine.dot(exact.gradient) / (probe.norm * size);
  if (size > 0) probe.relative_error = distance / size;
  probe.certificate = exact.certificate;
  if (!certified) return probe;
  bilevel::Certificate& c = probe.certificate;
  c.reason = fmt::format("{:.3g} from the exact gradient, whose own bound is {:.3g}: {}", distance, c.bound,
                         c.reason);
  c.bound += distance;
  c.judge(probe.norm, 1e-6, succeeded(exact.status) && outcome.finite);
  if (!succeeded(exact.status)) c.reason += fmt::format("; the exact one: {}", exact.message);
  return probe;
}

std::vector<Trace> GradientProbe::traces(const Eigen::VectorXf& theta) const {
  networks::NetworkProblem problem = problem_of(settings_, inputs_, targets_, theta);
  problem.obey(settings_.propagation.free.stop);
  const Eigen::VectorXd wide = problem.initial_theta();
  const auto follow = [&](double beta, const networks::RelaxationOptions& options, Eigen::VectorXd& phi) {
    // One step after the other; sweeps go up and down in turn, so theirs are all taken from the start.
    const bool from_the_start = options.schedule == networks::Schedule::sweep;
    const Eigen::VectorXd start = phi;
    Trace trace{.beta = beta, .energy = {}, .moved = {}};
    trace.energy.push_back(problem.inner(phi, wide, {}) + beta * problem.outer(phi, wide, {}));
    networks::RelaxationOptions some = options;
    some.max_steps = 1;
    some.tolerance = 1e-300;
    std::optional<networks::Relaxation> relaxation(std::in_place, problem, some);
    for (long step = 1; step <= options.max_steps; ++step, some.max_steps += from_the_start ? 1 : 0) {
      if (from_the_start) relaxation.emplace(problem, some);
      const auto solution = relaxation->solve(wide, beta, from_the_start ? start : phi);
      phi = solution.phi;
      trace.energy.push_back(solution.value);
      double moved = 0;
      for (const networks::SampleOutcome& each : relaxation->samples()) moved += each.moved;
      trace.moved.push_back(moved / static_cast<double>(problem.batch()));
    }
    return trace;
  };
  Eigen::VectorXd free = problem.initial_phi();
  std::vector<Trace> traces{follow(0, settings_.propagation.free, free)};
  // The energy of a complex state is no height that falls.
  if (settings_.route != Route::propagation || settings_.propagation.circle > 0) return traces;
  const bilevel::Stencil stencil =
      bilevel::stencil_of(settings_.propagation.nudge, settings_.propagation.points);
  for (const int point : stencil.points()) {
    if (point == 0) continue;
    Eigen::VectorXd phi = free;
    traces.push_back(follow(point * settings_.propagation.beta, settings_.propagation.nudged, phi));
  }
  return traces;
}

}  // namespace training
