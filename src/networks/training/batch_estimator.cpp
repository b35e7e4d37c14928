#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/networks/backpropagation.hpp>
#include <bilevel/networks/batch_estimator.hpp>


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

class ByPropagation final : public BatchEstimator {
 public:
  explicit ByPropagation(const TrainSettings& s)
      : BatchEstimator(s), propagation_(s.architecture, s.propagation) {}
  BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                        float* states, Vector& out) override {
    return propagation_.gradient(theta.data(), inputs, targets, batch, states, out.data());
  }
  void seek(std::uint64_t batches) override { propagation_.seek(batches); }

 private:
  Propagation<float> propagation_;
};

class ByBackpropagation final : public BatchEstimator {
 public:
  explicit ByBackpropagation(const TrainSettings& s) : BatchEstimator(s), backpropagation_(s.architecture) {}
  BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                        float* /*states*/, Vector& out) override {
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
    NetworkProblem problem(a,
                           {Eigen::Map<const Eigen::MatrixXf>(inputs, a.inputs(), batch).cast<double>(),
                            Eigen::Map<const Eigen::MatrixXf>(targets, a.outputs(), batch).cast<double>()},
                           wide);
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
      if (states) sample_by_sample(estimate.phi, batch, states);
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
  /// From layer after layer to a sample's layers one after the other.
  void sample_by_sample(const Eigen::VectorXd& phi, Index batch, float* states) const {
    const Architecture& a = settings_.architecture;
    Eigen::Map<Eigen::MatrixXf> to(states, a.states(), batch);
    for (Index k = 1, at = 0; k <= a.depth(); at += a.width(k++))
      to.middleRows(at, a.width(k)) =
          Eigen::Map<const Eigen::MatrixXd>(phi.data() + at * batch, a.width(k), batch).cast<float>();
  }

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

void BatchEstimator::estimate_into(const Vector& theta, Estimate<Vector>& e) {
  if (batch_ == 0) throw InvalidInput("there is no batch to estimate a gradient on: see set_batch");
  e.gradient.resize(theta.size());
  outcome_ = gradient(theta, inputs_, targets_, batch_, states_, e.gradient);
  e.outer_value = e.corrected_value = outcome_.cost;
  e.status = e.inner_status = outcome_.finite ? Status::converged : Status::not_finite;
}

Estimate<BatchEstimator::Vector> BatchEstimator::estimate(const Vector& theta, const Warm<Vector>& warm) {
  require_parameters(settings_.architecture, theta.cast<double>());
  const Stopwatch watch;
  Estimate<Vector> e;
  float* const given = states_;
  if (given) {
    e.phi = Eigen::Map<const Vector>(given, settings_.architecture.states() * batch_);
  } else {
    e.phi = warm.phi ? *warm.phi : initial_phi();
    states_ = e.phi.data();
  }
  estimate_into(theta, e);
  if (given) e.phi = Eigen::Map<const Vector>(given, e.phi.size());
  states_ = given;
  e.pi = Vector::Zero(e.phi.size());
  e.cost.seconds_inner = watch.seconds();
  e.cost.bytes = sizeof(float) * static_cast<std::size_t>(e.gradient.size() + e.phi.size());
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
    e.certificate = compare(theta, e, true, settings_.propagation.free.stop).certificate;
    e.cost.seconds_certificate = certifying.seconds();
  }
  return e;
}

ExactComparison BatchEstimator::compare(const Vector& theta, const Estimate<Vector>& e, bool certified,
                                        const StopToken* stop) const {
  const Architecture& a = settings_.architecture;
  ExactComparison result;
  NetworkProblem problem(a,
                         {Eigen::Map<const Eigen::MatrixXf>(inputs_, a.inputs(), batch_).cast<double>(),
                          Eigen::Map<const Eigen::MatrixXf>(targets_, a.outputs(), batch_).cast<double>()},
                         theta.cast<double>());
  problem.obey(stop);
  Relaxation relaxation(problem, until_settled(settings_, stop));
  EstimatorOptions options;
  options.certificate.enabled = certified;
  // The clamped layer, nearly all of the weights, has no part in the Hessian: its products cost next to
  // nothing.
  result.exact = "implicit-cg-jacobi";
  const auto exact = make_estimator<Eigen::VectorXd>(result.exact, problem, relaxation, options)
                         ->estimate(problem.initial_theta(), {});
  const Eigen::VectorXd mine = e.gradient.cast<double>();
  result.norm = mine.norm();
  const double distance = (mine - exact.gradient).norm(), size = exact.gradient.norm();
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
