#include <bilevel/networks/batch_estimator.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/stencil.hpp>
#include <bilevel/networks/backpropagation.hpp>

namespace bilevel::networks {
namespace {

/// Until nothing moves any more. Predictive coding needs shorter steps the larger its weights are.
RelaxationOptions until_settled(const TrainSettings& s, const StopToken* stop) {
  RelaxationOptions options = s.propagation.free;
  options.max_steps = 20000;
  options.tolerance = 1e-11;
  options.stop = stop;
  return options;
}

NetworkProblem problem_of(const Architecture& a, const Eigen::VectorXd& theta, const float* inputs,
                          const float* targets, Index batch) {
  return {a,
          {Eigen::Map<const Eigen::MatrixXf>(inputs, a.inputs(), batch).cast<double>(),
           Eigen::Map<const Eigen::MatrixXf>(targets, a.outputs(), batch).cast<double>()},
          theta};
}

/// States are held sample by sample by the kernels and layer by layer by NetworkProblem:
/// act(layer k of all samples here, where it begins there).
template <class States, class Act>
void for_each_layer(const Architecture& a, States&& samples, Act&& act) {
  for (Index k = 1, at = 0; k <= a.depth(); at += a.width(k++))
    act(samples.middleRows(at, a.width(k)), at * samples.cols());
}

Eigen::VectorXd layer_by_layer(const Architecture& a, const float* states, Index batch) {
  Eigen::VectorXd phi(a.states() * batch);
  for_each_layer(
      a, Eigen::Map<const Eigen::MatrixXf>(states, a.states(), batch), [&](const auto& layer, Index at) {
        Eigen::Map<Eigen::MatrixXd>(phi.data() + at, layer.rows(), batch) = layer.template cast<double>();
      });
  return phi;
}

void sample_by_sample(const Architecture& a, const Eigen::VectorXd& phi, Index batch, float* states) {
  for_each_layer(a, Eigen::Map<Eigen::MatrixXf>(states, a.states(), batch), [&](auto layer, Index at) {
    layer = Eigen::Map<const Eigen::MatrixXd>(phi.data() + at, layer.rows(), batch).template cast<float>();
  });
}

class ByPropagation final : public BatchEstimator {
 public:
  explicit ByPropagation(const TrainSettings& s)
      : BatchEstimator(s), propagation_(s.architecture, s.propagation) {
    const PropagationOptions& p = s.propagation;
    nudged_ = phases_ = p.circle / 2;
    if (p.circle > 0) return;
    const Stencil stencil = stencil_of(p.nudge, p.points);
    phases_ = static_cast<long>(stencil.points().size());
    nudged_ = phases_ - std::count(stencil.points().begin(), stencil.points().end(), 0);
  }
  BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                        float* states, Vector& out) override {
    const BatchOutcome outcome =
        propagation_.gradient(theta.data(), inputs, targets, batch, states, out.data());
    cost_ = {};
    cost_.outer_values = 1;
    cost_.outer_gradients = nudged_ * propagation_.options().nudged.max_steps;
    cost_.inner_gradients = std::lround(std::ceil(outcome.steps)) + cost_.outer_gradients + phases_;
    return outcome;
  }
  void seek(std::uint64_t batches) override { propagation_.seek(batches); }

 private:
  Propagation<float> propagation_;
  long phases_ = 0, nudged_ = 0;  // whose ∂θE are summed; and those that settle with a nudge
};

class ByBackpropagation final : public BatchEstimator {
 public:
  explicit ByBackpropagation(const TrainSettings& s) : BatchEstimator(s), backpropagation_(s.architecture) {}
  BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                        float* /*states*/, Vector& out) override {
    cost_ = {};
    cost_.outer_values = 1;
    cost_.inner_gradients = cost_.outer_gradients = 1;  // forwards, and back
    return backpropagation_.gradient(theta.data(), inputs, targets, batch, out.data());
  }

 private:
  Backpropagation<float> backpropagation_;
};

/// Any estimator by name, on a problem made of each batch. Slower by far: everything is in double, settled
/// tightly.
class ByLibrary final : public BatchEstimator {
 public:
  explicit ByLibrary(const TrainSettings& s) : BatchEstimator(s) {}
  BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                        float* states, Vector& out) override {
    const Architecture& a = settings_.architecture;
    const Eigen::VectorXd wide = theta.cast<double>();
    NetworkProblem problem = problem_of(a, wide, inputs, targets, batch);
    problem.obey(settings_.propagation.free.stop);
    RelaxationOptions tight = settings_.propagation.free;
    tight.max_steps = std::max(1000l, 50 * tight.max_steps);
    tight.tolerance = settings_.propagation.free.tolerance > 0 ? settings_.propagation.free.tolerance : 1e-6;
    Relaxation relaxation(problem, tight);
    EstimatorOptions options;
    options.certificate.enabled = false;
    options.adjoint.relative_tolerance = 1e-6;
    options.beta = settings_.nudges ? settings_.propagation.beta : 0;
    options.seed = settings_.seed;
    const auto estimator = make_estimator<Eigen::VectorXd>(settings_.estimator, problem, relaxation, options);
    const auto estimate = estimator->estimate(wide, {});
    cost_ = estimate.cost;
    BatchOutcome outcome;
    out = estimate.gradient.cast<float>();
    outcome.finite = out.allFinite() && estimate.phi.allFinite();
    outcome.cost = estimate.outer_value;
    complaint_ = outcome.finite ? std::string() : estimate.message;
    ++batches_;
    if (!succeeded(estimate.status) && ++failed_ == 1)
      first_failure_ = fmt::format("{}: {}", bilevel::name(estimate.status), estimate.message);
    if (estimate.phi.size() == a.states() * batch) {
      outcome.wrong = problem.wrong(estimate.phi);
      if (states) sample_by_sample(a, estimate.phi, batch, states);
    }
    for (const SampleOutcome& each : relaxation.samples()) {
      outcome.residual += each.moved / static_cast<double>(batch);
      outcome.steps += static_cast<double>(each.steps) / static_cast<double>(batch);
    }
    return outcome;
  }

  std::string complaint() const override { return complaint_; }
  std::string warning() const override {
    if (failed_ == 0) return {};
    return fmt::format("{} did not succeed on {} of {} batches, the first time as {}", settings_.estimator,
                       failed_, batches_, first_failure_);
  }

 private:
  std::string complaint_, first_failure_;
  long batches_ = 0, failed_ = 0;
};

}  // namespace

BatchEstimator::BatchEstimator(TrainSettings settings) : settings_(std::move(settings)) {}

void BatchEstimator::set_batch(const float* inputs, const float* targets, Index batch, float* states) {
  inputs_ = inputs;
  targets_ = targets;
  batch_ = batch;
  states_ = states;
}

BatchEstimator::Vector BatchEstimator::initial_phi() const {
  return Vector::Zero(
      settings_.route == GradientRoute::backpropagation ? 0 : settings_.architecture.states() * batch_);
}

BatchEstimator::Vector BatchEstimator::initial_theta() const {
  return settings_.start
             ? *settings_.start
             : Vector(
                   initial_parameters(settings_.architecture, settings_.seed, settings_.scale).cast<float>());
}

void BatchEstimator::estimate_from(float* states, const Vector& theta, Estimate<Vector>& e) {
  if (batch_ == 0) throw InvalidInput("there is no batch to estimate a gradient on: see set_batch");
  e.gradient.resize(theta.size());
  outcome_ = gradient(theta, inputs_, targets_, batch_, states, e.gradient);
  e.outer_value = e.corrected_value = outcome_.cost;
  e.status = e.inner_status = outcome_.finite ? Status::converged : Status::not_finite;
}

Estimate<BatchEstimator::Vector> BatchEstimator::estimate(const Vector& theta, const Warm<Vector>& warm) {
  require_parameters(settings_.architecture, theta.cast<double>());
  const Stopwatch watch;
  Estimate<Vector> e;
  e.phi = initial_phi();
  if (!states_ && warm.phi && warm.phi->size() == e.phi.size()) e.phi = *warm.phi;
  estimate_from(states_ ? states_ : e.phi.size() > 0 ? e.phi.data() : nullptr, theta, e);
  if (states_) e.phi = Eigen::Map<const Vector>(states_, e.phi.size());
  e.pi = Vector::Zero(e.phi.size());
  e.cost = cost_;
  e.cost.seconds_adjoint = 0;  // all of it is in the next line
  e.cost.seconds_inner = watch.seconds();
  e.cost.bytes =
      std::max(e.cost.bytes, sizeof(float) * static_cast<std::size_t>(e.gradient.size() + e.phi.size()));
  e.message = fmt::format("{}: mean cost {:.4g} on {} samples, {:.2g} moved in the last free step", name(),
                          outcome_.cost, batch_, outcome_.residual);
  if (!outcome_.finite) {
    e.message += complaint().empty() ? "; a state or a gradient is not finite" : "; " + complaint();
    e.certificate.reason = "a state or the gradient is not finite";
  } else if (outcome_.stiffness <= 0) {
    e.status = e.adjoint_status = Status::negative_curvature;
    e.certificate.reason = fmt::format(
        "a negative nudge outweighs an output by {:.3g}, so that it settles nowhere", -outcome_.stiffness);
    e.message += "; " + e.certificate.reason;
  } else if (certified_) {
    const Stopwatch certifying;
    ExactComparison exact = compare(theta, e, true, settings_.propagation.free.stop);
    e.certificate = exact.certificate;
    exact.cost.seconds_inner = exact.cost.seconds_adjoint = 0;
    exact.cost.seconds_certificate = certifying.seconds();
    e.cost += exact.cost;
  }
  return e;
}

ExactComparison BatchEstimator::compare(const Vector& theta, const Estimate<Vector>& e, bool certified,
                                        const StopToken* stop) const {
  const Architecture& a = settings_.architecture;
  ExactComparison result;
  const Eigen::VectorXd wide = theta.cast<double>();
  NetworkProblem problem = problem_of(a, wide, inputs_, targets_, batch_);
  problem.obey(stop);
  Relaxation relaxation(problem, until_settled(settings_, stop));
  // Another start could lead to another minimum. Of predictive coding the forward pass is one.
  const float* const own = e.phi.size() == a.states() * batch_ ? e.phi.data() : states_;
  Warm<Eigen::VectorXd> warm;
  if (own && a.energy != Energy::predictive_coding) {
    auto settled = relaxation.solve(wide, 0, layer_by_layer(a, own, batch_));
    result.cost += settled.cost;
    warm.phi = std::move(settled.phi);
  }
  EstimatorOptions options;
  options.certificate.enabled = certified;
  // The clamped layer, nearly all of the weights, has no part in the Hessian: its products cost next to
  // nothing.
  result.exact = "implicit-cg-jacobi";
  const auto exact =
      make_estimator<Eigen::VectorXd>(result.exact, problem, relaxation, options)->estimate(wide, warm);
  result.cost += exact.cost;
  const Eigen::VectorXd mine = e.gradient.cast<double>();
  result.norm = mine.norm();
  const double distance = (mine - exact.gradient).norm(), size = exact.gradient.norm();
  if (!std::isfinite(result.norm)) {
    result.certificate.reason = "the gradient is not finite";
    return result;
  }
  if (!std::isfinite(distance)) {
    result.certificate.reason = exact.certificate.reason;
    return result;
  }
  // Where every output sits at its target there is no gradient to agree with.
  if (size > 0 && result.norm > 0) result.cosine = mine.dot(exact.gradient) / (result.norm * size);
  if (size > 0) result.relative_error = distance / size;
  result.certificate = exact.certificate;
  if (!certified) return result;
  Certificate& c = result.certificate;
  c.reason = fmt::format("{:.3g} from the exact gradient, whose own bound is {:.3g}: {}", distance, c.bound,
                         c.reason);
  c.bound += distance;
  c.judge(result.norm, outer_tolerance_, succeeded(exact.status) && succeeded(e.status));
  if (!succeeded(exact.status)) c.reason += fmt::format("; the exact one: {}", exact.message);
  return result;
}

std::unique_ptr<BatchEstimator> make_batch_estimator(const TrainSettings& settings) {
  switch (settings.route) {
    case GradientRoute::propagation:
      return std::make_unique<ByPropagation>(settings);
    case GradientRoute::backpropagation:
      return std::make_unique<ByBackpropagation>(settings);
    case GradientRoute::library:
      return std::make_unique<ByLibrary>(settings);
  }
  throw InvalidInput("there is no such way to a gradient");
}

}  // namespace bilevel::networks
