#include "gradient_source.hpp"

#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/networks/backpropagation.hpp>

namespace training {
namespace {

namespace networks = bilevel::networks;
using networks::BatchOutcome;

class ByPropagation final : public GradientSource {
 public:
  explicit ByPropagation(const Settings& s) : propagation_(s.architecture, s.propagation) {}
  BatchOutcome gradient(const Eigen::VectorXf& theta, const float* inputs, const float* targets, Index batch,
                        float* states, Eigen::VectorXf& out) override {
    return propagation_.gradient(theta.data(), inputs, targets, batch, states, out.data());
  }
  void seek(std::uint64_t batches) override { propagation_.seek(batches); }

 private:
  networks::Propagation<float> propagation_;
};

class ByBackpropagation final : public GradientSource {
 public:
  explicit ByBackpropagation(const Settings& s) : backpropagation_(s.architecture) {}
  BatchOutcome gradient(const Eigen::VectorXf& theta, const float* inputs, const float* targets, Index batch,
                        float* /*states*/, Eigen::VectorXf& out) override {
    return backpropagation_.gradient(theta.data(), inputs, targets, batch, out.data());
  }

 private:
  networks::Backpropagation<float> backpropagation_;
};

/// Any estimator by name, on a problem made of each batch. Slower by far: everything is in double, settled
/// tightly.
class ByLibrary final : public GradientSource {
 public:
  explicit ByLibrary(const Settings& s) : settings_(s) {}
  BatchOutcome gradient(const Eigen::VectorXf& theta, const float* inputs, const float* targets, Index batch,
                        float* /*states*/, Eigen::VectorXf& out) override {
    const networks::Architecture& a = settings_.architecture;
    const Eigen::VectorXd wide = theta.cast<double>();
    networks::NetworkProblem problem(
        a,
        {Eigen::Map<const Eigen::MatrixXf>(inputs, a.inputs(), batch).cast<double>(),
         Eigen::Map<const Eigen::MatrixXf>(targets, a.outputs(), batch).cast<double>()},
        wide);
    problem.obey(settings_.propagation.free.stop);
    networks::RelaxationOptions tight = settings_.propagation.free;
    tight.max_steps = std::max(1000l, 50 * tight.max_steps);
    tight.tolerance = settings_.propagation.free.tolerance > 0 ? settings_.propagation.free.tolerance : 1e-6;
    networks::Relaxation relaxation(problem, tight);
    bilevel::EstimatorOptions options;
    options.certificate.enabled = false;
    options.adjoint.relative_tolerance = 1e-6;
    const bilevel::EstimatorChoice choice = bilevel::estimator_named(settings_.estimator);
    options.beta = bilevel::nudges(choice) ? settings_.propagation.beta : 0;
    options.seed = settings_.seed;
    const auto estimator =
        bilevel::make_estimator<Eigen::VectorXd>(bilevel::with_options(choice, options), problem, relaxation);
    const auto estimate = estimator->estimate(wide, {});
    BatchOutcome outcome;
    out = estimate.gradient.cast<float>();
    outcome.finite = out.allFinite() && estimate.phi.allFinite();
    outcome.cost = estimate.outer_value;
    complaint_ = outcome.finite ? std::string() : estimate.message;
    ++batches_;
    if (!succeeded(estimate.status) && ++failed_ == 1)
      first_failure_ = fmt::format("{}: {}", name(estimate.status), estimate.message);
    if (estimate.phi.size() == a.states() * batch) outcome.wrong = problem.wrong(estimate.phi);
    for (const networks::SampleOutcome& each : relaxation.samples()) {
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
  const Settings& settings_;
  std::string complaint_, first_failure_;
  long batches_ = 0, failed_ = 0;
};

}  // namespace

std::unique_ptr<GradientSource> make_gradient_source(const Settings& settings) {
  switch (settings.route) {
    case Route::propagation:
      return std::make_unique<ByPropagation>(settings);
    case Route::backpropagation:
      return std::make_unique<ByBackpropagation>(settings);
    case Route::library:
      break;
  }
  return std::make_unique<ByLibrary>(settings);
}

}  // namespace training
