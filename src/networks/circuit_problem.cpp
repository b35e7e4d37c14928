#include <bilevel/networks/circuit_problem.hpp>

#include <cmath>
#include <numeric>

namespace bilevel::networks {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

Circuit with_output_pulls(Circuit circuit, const std::vector<int>& outputs) {
  for (const int node : outputs) circuit.pulls.push_back({.node = node});
  return circuit;
}

/// One block for each sample; the conductances enter E linearly, so that χ has no part of β.
class CircuitCurvature final : public Curvature<Vec> {
 public:
  void move_to(CircuitProblem& problem, const Vec& phi, const Vec& theta, double beta) {
    problem_ = &problem;
    phi_ = phi;
    theta_ = theta;
    blocks_.resize(static_cast<std::size_t>(problem.samples()));
    problem.set_theta(theta);
    const Index n = problem.nodes();
    for (Index k = 0; k < problem.samples(); ++k) {
      Mat& block = blocks_[static_cast<std::size_t>(k)];
      problem.set_sample(k, beta);
      problem.equations().hessian(phi.segment(k * n, n), block);
      block *= weight();
    }
  }

  void times(const Vec& v, Vec& out) override {
    const Index n = problem_->nodes();
    for (Index k = 0; k < problem_->samples(); ++k)
      out.segment(k * n, n).noalias() = blocks_[static_cast<std::size_t>(k)] * v.segment(k * n, n);
  }
  void cross_times(const Vec& v, Vec& out) override {
    const Index n = problem_->nodes();
    out.setZero();
    problem_->set_theta(theta_);
    for (Index k = 0; k < problem_->samples(); ++k) {
      problem_->set_sample(k, 0);
      problem_->equations().add_cross_times(phi_.segment(k * n, n), v.segment(k * n, n), weight(), out);
    }
  }
  void cross_apply(const Vec& u, Vec& out) override {
    const Index n = problem_->nodes();
    out.setZero();
    problem_->set_theta(theta_);
    for (Index k = 0; k < problem_->samples(); ++k) {
      problem_->set_sample(k, 0);
      problem_->equations().add_cross_apply(phi_.segment(k * n, n), u, weight(), out.segment(k * n, n));
    }
  }
  bool dense(Mat& out) override {
    const Index n = problem_->nodes(), all = n * problem_->samples();
    out.setZero(all, all);
    for (Index k = 0; k < problem_->samples(); ++k)
      out.block(k * n, k * n, n, n) = blocks_[static_cast<std::size_t>(k)];
    return true;
  }
  bool diagonal(Vec& out) override {
    const Index n = problem_->nodes();
    for (Index k = 0; k < problem_->samples(); ++k)
      out.segment(k * n, n) = blocks_[static_cast<std::size_t>(k)].diagonal();
    return true;
  }

 private:
  double weight() const { return 1 / static_cast<double>(problem_->samples()); }

  CircuitProblem* problem_ = nullptr;
  Vec phi_, theta_;
  std::vector<Mat> blocks_;
};

}  // namespace

CircuitProblem::CircuitProblem(Circuit circuit, std::vector<int> outputs, Mat sources, Mat targets)
    : first_pull_(circuit.pulls.size()),
      equations_(with_output_pulls(std::move(circuit), outputs)),
      outputs_(std::move(outputs)),
      sources_(std::move(sources)),
      targets_(std::move(targets)) {
  const Circuit& c = equations_.circuit();
  if (c.resistors.empty()) throw InvalidInput("circuit problem: the circuit has no resistor to learn");
  if (nodes() == 0)
    throw InvalidInput("circuit problem: every node is held, so there is nothing that settles");
  if (outputs_.empty()) throw InvalidInput("circuit problem: there is no output node");
  for (const int node : outputs_)
    if (equations_.place(node).free < 0)
      throw InvalidInput(fmt::format("circuit problem: output node {} is held by a source", node));
  if (sources_.cols() == 0) throw InvalidInput("circuit problem: there is no sample");
  if (sources_.rows() != static_cast<Index>(c.sources.size()) ||
      targets_.rows() != static_cast<Index>(outputs_.size()) || targets_.cols() != sources_.cols())
    throw InvalidInput(fmt::format(
        "circuit problem: sources are {}x{} and targets {}x{}, the circuit has {} sources and {} outputs",
        sources_.rows(), sources_.cols(), targets_.rows(), targets_.cols(), c.sources.size(),
        outputs_.size()));
  const auto refuse = [](std::string_view what, const Mat& values) {
    for (Index k = 0; k < values.cols(); ++k)
      for (Index i = 0; i < values.rows(); ++i)
        if (!std::isfinite(values(i, k)))
          throw InvalidInput(
              fmt::format("circuit problem: {} {} of sample {} is {}", what, i, k, values(i, k)));
  };
  refuse("source", sources_);
  refuse("target", targets_);
  start_.resize(static_cast<Index>(c.resistors.size()));
  for (std::size_t i = 0; i < c.resistors.size(); ++i) start_[static_cast<Index>(i)] = c.resistors[i].siemens;
  selected_.resize(static_cast<std::size_t>(sources_.cols()));
  std::iota(selected_.begin(), selected_.end(), 0);
}

void CircuitProblem::select(std::vector<Index> samples) {
  if (samples.empty()) throw InvalidInput("circuit problem: no sample was selected");
  for (const Index k : samples)
    if (k < 0 || k >= sources_.cols())
      throw InvalidInput(
          fmt::format("circuit problem: there is no sample {}, only 0 to {}", k, sources_.cols() - 1));
  selected_ = std::move(samples);
}

Vec CircuitProblem::initial_theta() const {
  return start_;
}

void CircuitProblem::set_sample(Index k, double beta) {
  equations_.set_sources(sources(k));
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    equations_.set_pull(first_pull_ + i,
                        targets_(static_cast<Index>(i), selected_[static_cast<std::size_t>(k)]), beta);
}

double CircuitProblem::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  const Index n = nodes();
  double total = 0;
  if (wanted.theta) wanted.theta->setZero();
  equations_.set_conductances(theta);
  for (Index k = 0; k < samples(); ++k) {
    set_sample(k, 0);
    const auto x = phi.segment(k * n, n);
    if (wanted.phi) {
      Eigen::Ref<Vec> gradient = wanted.phi->segment(k * n, n);
      total += equations_.energy(x, &gradient);
    } else {
      total += equations_.energy(x, nullptr);
    }
    if (wanted.theta) equations_.add_conductance_slopes(x, weight(), *wanted.theta);
  }
  if (wanted.phi) *wanted.phi *= weight();
  return total * weight();
}

double CircuitProblem::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  const Index n = nodes();
  double total = 0;
  if (wanted.phi) wanted.phi->setZero();
  if (wanted.theta) wanted.theta->setZero();
  for (Index k = 0; k < samples(); ++k)
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const auto& place = equations_.place(outputs_[i]);
      const double miss = place.scale * phi[k * n + place.free] - targets(k)[static_cast<Index>(i)];
      total += 0.5 * miss * miss;
      if (wanted.phi) (*wanted.phi)[k * n + place.free] += weight() * place.scale * miss;
    }
  return total * weight();
}

void CircuitProblem::linearise(const Vec& phi, const Vec& theta, double beta,
                               std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<CircuitCurvature>();
  static_cast<CircuitCurvature&>(*reuse).move_to(*this, phi, theta, beta);
}

Constants CircuitProblem::constants(const Vec&, const Vec&, double) {
  Constants c;
  // ∂φ²L_out is diagonal unless several outputs follow one node: then their squares add up.
  Vec sums = Vec::Zero(nodes());
  for (const int node : outputs_) {
    const auto& place = equations_.place(node);
    sums[place.free] += place.scale * place.scale;
  }
  c.outer_smoothness = sums.maxCoeff() * weight() * (1 + 0x1p-40);
  c.outer_cross_lipschitz = 0;
  return c;
}

Mat CircuitProblem::output_volts(const Vec& phi) const {
  Mat out(static_cast<Index>(outputs_.size()), samples());
  for (Index k = 0; k < samples(); ++k)
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      out(static_cast<Index>(i), k) = equations_.volts(outputs_[i], phi.segment(k * nodes(), nodes()));
  return out;
}

void CircuitProblem::require_conductances(const Vec& theta, std::string_view what) const {
  if (theta.size() != start_.size())
    throw InvalidInput(fmt::format("{}: theta has {} elements, the circuit {} resistors", what, theta.size(),
                                   start_.size()));
  for (Index i = 0; i < theta.size(); ++i)
    if (!(theta[i] >= 0 && std::isfinite(theta[i])))
      throw InvalidInput(
          fmt::format("{}: conductance {} = {} S must be zero or more and finite", what, i, theta[i]));
}

}  // namespace bilevel::networks
