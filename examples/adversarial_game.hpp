#pragma once

// A generator that leads and a discriminator that answers, for torch_adversarial.cpp and
// torch_adversarial_digits.cpp. The game has one value,
//   V(d, g) = E log σ(d(x)) + E log(1 − σ(d(g(z)))),
// which the discriminator, held back by a decay and by what its slope costs, maximises and the generator
// minimises:
//   L_in = −V + ½·decay·‖d‖² + ½·slope·E‖∂d/∂x‖²,   L_out = V,
// or, where `saturates` is false, L_out = −E log σ(d(g(z))), whose slope does not vanish where the
// discriminator is sure.

#include <functional>

#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

#include "learning_run.hpp"

namespace adversarial {

using bilevel::torch::Tensors;
using learning_run::through;
using torch::Tensor;

/// Who plays, for what, and with which data.
struct Game {
  std::function<Tensor(long)> sample;             ///< so many rows of data
  std::function<Tensor(const Tensor&)> pictures;  ///< the last map of the generator
  Tensors generator, discriminator;               ///< where both start
  long batch = 256;
  double decay = 3e-4;
  bool saturates = true;
  double slope = 0;  ///< at the data (R₁)
  /// Decay towards the start. Towards zero a network of several layers may end there, where d says nothing.
  bool at_start = false;

  Tensor noise(long rows) const { return torch::randn({rows, generator[0].size(0)}, generator[0].options()); }
  Tensor generated(const Tensors& g, const Tensor& z) const { return pictures(through(g, z)); }
  Tensor value(const Tensors& d, const Tensors& g, const Tensor& x, const Tensor& z) const {
    namespace F = torch::nn::functional;
    return -F::softplus(-through(d, x)).mean() - F::softplus(through(d, generated(g, z))).mean();
  }
  Tensor generators(const Tensors& d, const Tensors& g, const Tensor& x, const Tensor& z) const {
    if (saturates) return value(d, g, x, z);
    return torch::nn::functional::softplus(-through(d, generated(g, z))).mean();
  }
  Tensor held_back(const Tensors& d, const Tensor& x) const {
    Tensors from = d;
    for (std::size_t i = 0; at_start && i < d.size(); ++i) from[i] = d[i] - discriminator[i];
    const Tensor held = 0.5 * decay * learning_run::squares(from);
    return slope > 0 ? held + 0.5 * slope * slopes(d, x).pow(2).sum(1).mean() : held;
  }
  /// ∂d/∂x, a row for each of x: what autograd would give, without a pass within the loss.
  static Tensor slopes(const Tensors& d, Tensor x) {
    Tensors seen;
    for (std::size_t i = 0; i + 2 < d.size(); i += 2)
      seen.push_back(x = torch::tanh(x.matmul(d[i]) + d[i + 1]));
    Tensor back = d[d.size() - 2].t();
    for (std::size_t i = seen.size(); i-- > 0;) back = (back * (1 - seen[i].pow(2))).matmul(d[2 * i].t());
    return back;
  }
};

/// After so many steps of the generator: its weights, averaged where the player averages.
using Watch = std::function<void(long step, const Tensors& generator)>;

struct Played {
  bilevel::Cost cost;
  long steps = 0;
  double seconds = 0;
  std::map<std::string, long> verdicts;                     ///< of the gradients that were looked at
  std::string reason;                                       ///< of the last of them
  learning_run::Json bounds = learning_run::Json::array();  ///< of their errors, relative, at which steps
};

/// The options that say how the leader learns.
inline std::map<std::string, std::string> leader_options() {
  return {
      {"--estimator", "implicit"},    {"--inner-steps", "10"}, {"--products", "10"},   {"--rate", "0.01"},
      {"--decay", "0.0003"},          {"--looks", "4"},        {"--game", "zero-sum"}, {"--slope", "0"},
      {"--decays-to", "zero"},        {"--tolerance", "1e-6"}, {"--inner", "lbfgs"},   {"--seconds", "1e9"},
      {"--alternating-rate", "0.001"}};
}

inline bool saturates(const learning_run::Told& told) {
  const std::string& game = told.text("--game");
  if (game != "zero-sum" && game != "non-saturating")
    throw bilevel::InvalidInput(fmt::format("--game {}: there are zero-sum and non-saturating", game));
  return game == "zero-sum";
}

inline bool at_start(const learning_run::Told& told) {
  const std::string& where = told.text("--decays-to");
  if (where != "zero" && where != "start")
    throw bilevel::InvalidInput(fmt::format("--decays-to {}: there are zero and start", where));
  return where == "start";
}

/// The generator leads: each of its steps is along the gradient through a discriminator that has answered, on
/// data drawn for this step.
inline Played lead(const learning_run::Told& told, const Game& game, long steps, const Watch& watch) {
  const Tensor x = game.sample(game.batch), z = game.noise(game.batch);  // drawn anew in place
  bilevel::torch::Losses<Tensor> problem(
      [=](const Tensors& d, const Tensors& g) { return game.held_back(d, x) - game.value(d, g, x, z); },
      [=](const Tensors& d, const Tensors& g) { return game.generators(d, g, x, z); },
      {game.discriminator, game.generator}, {.graphs = bilevel::torch::Graphs::whole});
  const long inner_steps = told.whole("--inner-steps");
  const auto answer = bilevel::make_inner_solver<Tensor>(
      told.text("--inner"), problem,
      {.gradient_tolerance = told.number("--tolerance"), .max_iterations = inner_steps});
  // A look costs more than a step: not every gradient is certified.
  const auto estimator = [&](bool certified) {
    bilevel::ConjugateGradientOptions products;
    products.max_iterations = told.whole("--products");
    bilevel::ImplicitOptions common;
    common.certificate.enabled = certified;
    bilevel::EstimatorChoice choice = bilevel::ImplicitMethod{.adjoint = products, .common = common};
    if (told.text("--estimator") == "first-order")
      choice = bilevel::ImplicitMethod{.adjoint = bilevel::ZeroOptions{}, .common = common};
    else if (told.text("--estimator") == "unrolled")
      choice = bilevel::UnrolledOptions{.run = {.steps = inner_steps},
                                        .certificate = common.certificate,
                                        .step = bilevel::AdamOptions{.step = 0.01, .first_decay = 0.5}};
    else if (told.text("--estimator") != "implicit")
      throw bilevel::InvalidInput(fmt::format("--estimator {}: there are implicit, first-order and unrolled",
                                              told.text("--estimator")));
    return bilevel::make_estimator<Tensor>(choice, problem, *answer);
  };
  const auto plain = estimator(false), certified = estimator(true);
  const auto adam =
      bilevel::make_optimizer(bilevel::AdamOptimizerOptions{.step = told.number("--rate"), .beta1 = 0.5});
  adam->begin({});

  Played played;
  bilevel::Stopwatch clock;
  Tensor theta = problem.initial_theta(), average = theta.clone();
  Eigen::VectorXd host = bilevel::host_copy(theta);
  bilevel::Warm<Tensor> warm;
  const long looks = std::max<long>(1, steps / told.whole("--looks"));
  const double seconds = told.number("--seconds");
  for (long step = 1; step <= steps && clock.seconds() < seconds; ++step) {
    x.data().copy_(game.sample(game.batch));
    z.data().copy_(game.noise(game.batch));
    const bool look = step % looks == 0;
    const auto e = (look ? certified : plain)->estimate(theta, warm);
    if (look) {
      ++played.verdicts[std::string(name(e.certificate.verdict))];
      played.reason = e.certificate.reason;
      played.bounds.push_back({step, e.certificate.bound / bilevel::norm(e.gradient)});
    }
    if (!std::isfinite(e.outer_value) || !bilevel::all_finite(e.gradient))
      throw std::runtime_error(fmt::format("step {}: {}", step, e.message));
    played.cost += e.cost;
    warm.phi = e.phi;
    adam->advance(e.outer_value, bilevel::host_copy(e.gradient), host);
    theta = torch::empty_like(theta);
    bilevel::Space<Tensor>::from_host(host.data(), theta);
    average = 0.95 * average + 0.05 * theta;
    played.steps = step;
    watch(step, problem.theta_list(average));
  }
  played.seconds = clock.seconds();
  return played;
}

/// How far the gradient at the start is from the slope of whole solves, the discriminator settled in each.
/// Held back ten times as much or more, or it tells all points from the data and the gradient vanishes.
inline double apart(Game game) {
  game.decay = 1e-2;
  const Tensor x = game.sample(game.batch), z = game.noise(game.batch);
  bilevel::torch::Losses<Tensor> problem(
      [=](const Tensors& d, const Tensors& g) { return game.held_back(d, x) - game.value(d, g, x, z); },
      [=](const Tensors& d, const Tensors& g) { return game.generators(d, g, x, z); },
      {game.discriminator, game.generator});
  const auto settle =
      bilevel::make_inner_solver<Tensor>("trust-region", problem, {.gradient_tolerance = 1e-11});
  bilevel::ImplicitOptions common;
  common.certificate.enabled = false;
  const Tensor theta = problem.initial_theta();
  const auto e = bilevel::make_estimator<Tensor>(bilevel::ImplicitMethod{.common = common}, problem, *settle)
                     ->estimate(theta, {});
  return learning_run::apart(e.gradient, theta, 1e-4, [&](const Tensor& moved) {
    return problem.outer(settle->solve(moved, 0, e.phi).phi, moved, {});
  });
}

/// The usual way: a step of one, a step of the other, both by Adam, until `budget` gradients or the time are
/// spent. The generator maximises E log σ(d(g(z))), as is usual, the discriminator plays as above.
inline Played alternate(const learning_run::Told& told, const Game& game, double budget, const Watch& watch) {
  Game usual = game;
  usual.saturates = false;
  Tensors g, d;
  for (const Tensor& w : game.generator) g.push_back(w.clone().set_requires_grad(true));
  for (const Tensor& w : game.discriminator) d.push_back(w.clone().set_requires_grad(true));
  const auto options = torch::optim::AdamOptions(told.number("--alternating-rate")).betas({0.5, 0.999});
  torch::optim::Adam generator(g, options), discriminator(d, options);
  const double seconds = told.number("--seconds");
  Played played;
  bilevel::Stopwatch clock;
  for (long step = 1; step <= static_cast<long>(budget / 2) && clock.seconds() < seconds; ++step) {
    const Tensor x = game.sample(game.batch), z = game.noise(game.batch);
    discriminator.zero_grad();
    (game.held_back(d, x) - game.value(d, g, x, z)).backward();
    discriminator.step();
    generator.zero_grad();
    usual.generators(d, g, x, z).backward();
    generator.step();
    const torch::NoGradGuard guard;
    played.steps = step;
    watch(step, g);
  }
  played.seconds = clock.seconds();
  return played;
}

}  // namespace adversarial
