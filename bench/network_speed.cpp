// Training steps of settling networks (a gradient and a plain weight update) against the fastest sgemm that
// the same process reaches on the same cores. Prints markdown.
//
//   bench_network_speed [rounds = 3] [part of a case's name]
//
// Only the matrix products that the method needs are counted: that with the clamped inputs once, two for each
// pair of neighbouring layers in every step of relaxation, one weight gradient a layer (layer 1 sums its
// phases, the others have them side by side). Everything else costs time and counts for nothing.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cblas.h>
#include <fmt/format.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/networks/propagation.hpp>
#include <bilevel/networks/weight_steps.hpp>

using namespace bilevel::networks;
using bilevel::Nudge;
using bilevel::Stopwatch;
using Matrix = Eigen::MatrixXf;
using Vector = Eigen::VectorXf;

namespace {

struct Case {
  std::string label;
  Architecture a;
  PropagationOptions options;
  Index batch = 0;
  double aim = 0;
};

/// A Hopfield network of clipped units and a circuit of diodes settle by exact updates; predictive coding
/// starts its free phase at its minimum and takes gradient steps in the nudged one.
std::vector<Case> cases() {
  const auto hopfield = [](std::vector<Index> layers) { return Architecture{.layers = std::move(layers)}; };
  const auto resistive = [](std::vector<Index> layers) {
    return Architecture{.energy = Energy::resistive,
                        .layers = std::move(layers),
                        .activation = Activation::diode,
                        .input_gain = 100,
                        .gain = 4};
  };
  const auto options = [](Nudge nudge, long free, long nudged, double step = 1) {
    return PropagationOptions{.nudge = nudge,
                              .free = {.step = step, .max_steps = free},
                              .nudged = {.step = step, .max_steps = nudged}};
  };
  return {
      {"hopfield 784-512-10, one-sided, 20/4", hopfield({784, 512, 10}), options(Nudge::forward, 20, 4), 128,
       0.6},
      {"hopfield 784-512-10, central, 20/4", hopfield({784, 512, 10}), options(Nudge::central, 20, 4), 128,
       0.6},
      {"hopfield 784-500-500-10, one-sided, 20/4", hopfield({784, 500, 500, 10}),
       options(Nudge::forward, 20, 4), 512, 0.8},
      {"hopfield 784-500-500-10, central, 20/4", hopfield({784, 500, 500, 10}),
       options(Nudge::central, 20, 4), 512, 0.8},
      {"hopfield 784-500-500-10, one-sided, 100/20", hopfield({784, 500, 500, 10}),
       options(Nudge::forward, 100, 20), 512, 0.8},
      {"predictive coding 784-1000-10, 20 nudged steps",
       {.energy = Energy::predictive_coding, .layers = {784, 1000, 10}, .activation = Activation::tanh},
       options(Nudge::forward, 1, 20, 0.1),
       100},
      {"resistive 784-100-10, central, 4/4", resistive({784, 100, 10}), options(Nudge::central, 4, 4), 4},
      {"resistive 784-1024-10, central, 4/4", resistive({784, 1024, 10}), options(Nudge::central, 4, 4), 32},
  };
}

double needed_flops(const Case& c) {
  const bool predictive = c.a.energy == Energy::predictive_coding,
             central = c.options.nudge == Nudge::central;
  const double nudges = central ? 2 : 1;
  const double steps = nudges * static_cast<double>(c.options.nudged.max_steps) +
                       (predictive ? 0 : static_cast<double>(c.options.free.max_steps));
  double sum = 0;
  for (Index k = 1; k <= c.a.depth(); ++k) {
    const double product = 2.0 * static_cast<double>(c.a.width(k) * c.a.width(k - 1) * c.batch);
    if (k == 1)
      sum += 2 * product;
    else  // The free phase of predictive coding is one forward pass, and has no error that counts.
      sum += product * (2 * steps + (predictive ? 1 + nudges : 2));
  }
  return sum;
}

/// The best of a few products so large that nothing but arithmetic matters, on all cores.
class Peak {
 public:
  void measure() {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      const Stopwatch watch;
      cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a_.data(), n, b_.data(), n, 0.0f,
                  c_.data(), n);
      best = std::max(best, 2.0 * n * n * n / watch.seconds());
    }
    all_.push_back(best);
  }
  double best() const { return *std::max_element(all_.begin(), all_.end()); }
  const std::vector<double>& all() const { return all_; }

 private:
  static constexpr int n = 2048;
  Matrix a_ = Matrix::Random(n, n), b_ = Matrix::Random(n, n), c_ = Matrix::Zero(n, n);
  std::vector<double> all_;
};

/// One network with its data; keeps the fastest of everything that was ever timed.
class Runner {
 public:
  explicit Runner(const Case& c)
      : c_(c),
        whole_(c.a, c.options),
        short_(c.a, shortened(c.options)),
        theta_(initial_parameters(c.a, 1, 0.5).cast<float>()),
        gradient_(Vector::Zero(theta_.size())),
        inputs_(0.5f * (Matrix::Random(c.a.inputs(), c.batch).array() + 1)),
        targets_(Matrix::Zero(c.a.outputs(), c.batch)) {
    for (Index n = 0; n < c.batch; ++n) targets_(n % c.a.outputs(), n) = 1;
  }

  void run(double seconds) {
    const Stopwatch all;
    for (int i = 0; i < 3 || all.seconds() < seconds; ++i) {
      time(short_, short_best_);
      time(whole_, best_);
    }
  }

  double best() const { return best_; }
  double update() const { return update_best_; }
  /// What relaxation takes of a training step: from the difference to a run with fewer steps.
  double relaxation() const {
    const double whole = steps(c_.options), fewer = steps(shortened(c_.options));
    return whole > fewer ? (best_ - short_best_) * whole / (whole - fewer) : 0;
  }

 private:
  static PropagationOptions shortened(PropagationOptions o) {
    o.free.max_steps = (o.free.max_steps + 1) / 2;
    o.nudged.max_steps = (o.nudged.max_steps + 1) / 2;
    return o;
  }
  static double steps(const PropagationOptions& o) {
    return static_cast<double>(o.free.max_steps + (o.nudge == Nudge::central ? 2 : 1) * o.nudged.max_steps);
  }

  void time(Propagation<float>& propagation, double& best) {
    const Stopwatch watch;
    const BatchOutcome outcome = propagation.gradient(theta_.data(), inputs_.data(), targets_.data(),
                                                      c_.batch, nullptr, gradient_.data());
    const double before = watch.seconds();
    // So small a rate leaves the states what they are, run after run.
    descent_step(theta_.size(), 1, 1e-7, gradient_.data(),
                 c_.a.resistive() ? 0 : -std::numeric_limits<float>::infinity(), theta_.data());
    const double after = watch.seconds();
    if (!outcome.finite) throw std::runtime_error(fmt::format("{} did not settle", c_.label));
    best = std::min(best, after);
    update_best_ = std::min(update_best_, after - before);
  }

  const Case& c_;
  Propagation<float> whole_, short_;
  Vector theta_, gradient_;
  Matrix inputs_, targets_;
  double best_ = HUGE_VAL, short_best_ = HUGE_VAL, update_best_ = HUGE_VAL;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  const std::string wanted = argc > 2 ? argv[2] : "";
  std::vector<Case> chosen;
  for (const Case& each : cases())
    if (each.label.find(wanted) != std::string::npos) chosen.push_back(each);
  std::vector<std::unique_ptr<Runner>> runners;
  for (const Case& each : chosen) runners.push_back(std::make_unique<Runner>(each));

  Peak peak;
  peak.measure();
  for (int round = 0; round < rounds; ++round)
    for (const auto& each : runners) {
      each->run(0.5);
      peak.measure();
    }

  fmt::print(
      "{} thread(s); sgemm in Gflop/s, best of 5 before, between and after the cases: best {:.0f}; all:",
      openblas_get_num_threads(), peak.best() * 1e-9);
  for (const double each : peak.all()) fmt::print(" {:.0f}", each * 1e-9);
  fmt::print(
      "\n\n| network | batch | ms a training step | samples/s | Gflop/s | of sgemm | aim | relaxation | "
      "weight update |\n|--|--|--|--|--|--|--|--|--|\n");
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Case& c = chosen[i];
    const Runner& r = *runners[i];
    const double speed = needed_flops(c) / r.best();
    fmt::print("| {} | {} | {:.3f} | {:.0f} | {:.1f} | {:.2f} | {} | {:.0f} % | {:.0f} % |\n", c.label,
               c.batch, 1e3 * r.best(), static_cast<double>(c.batch) / r.best(), speed * 1e-9,
               speed / peak.best(), c.aim > 0 ? fmt::format("{:.1f}", c.aim) : "–",
               100 * r.relaxation() / r.best(), 100 * r.update() / r.best());
  }
}
