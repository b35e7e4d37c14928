// A network learns how fast each of its layers should learn. The inner loop is cut after a few steps of
// gradient descent, and what is differentiated is that very run. Its step length is one; the rates come in by
// measuring each layer's way from the start in a unit of its own, w = w₀ + e^(θ/2)·φ: a step along −∂φ L(w₀ +
// e^(θ/2)φ) is one along −e^θ·∂w L, so that e^θ is the layer's learning rate.
#include <fmt/format.h>
#include <torch/torch.h>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

#include "learning_run.hpp"

using learning_run::Json;
using learning_run::Tensors;
using learning_run::yes;
using torch::Tensor;

namespace {

bool learn(const learning_run::Told& told) {
  const long rows = told.whole("--rows", 10), steps = told.whole("--inner-steps"),
             width = told.whole("--width");
  const auto d = learning_run::digits(told, 2 * rows, told.whole("--test-rows"));
  torch::manual_seed(told.whole("--seed", 0));
  const long trained = d.x.size(0) / 2, kept = d.x.size(0) - trained;
  const Tensor x = d.x.narrow(0, 0, trained), y = d.y.narrow(0, 0, trained);
  const Tensor kept_x = d.x.narrow(0, trained, kept), kept_y = d.y.narrow(0, trained, kept);
  const Tensors start = learning_run::network({d.x.size(1), width, width, 10}, d.x.options());
  const auto weights = [=](const Tensors& phi, const Tensor& log_rates) {
    Tensors w;
    for (std::size_t i = 0; i < start.size(); ++i)
      w.push_back(start[i] + (0.5 * log_rates[static_cast<long>(i)]).exp() * phi[i]);
    return w;
  };
  const auto loss = [=](const Tensors& w, const Tensor& in, const Tensor& labels) {
    return learning_run::cross_entropy(learning_run::through(w, in), labels);
  };
  Tensors still;
  for (const Tensor& w : start) still.push_back(torch::zeros_like(w));
  const auto count = static_cast<long>(start.size());
  bilevel::torch::Losses<Tensor> problem(
      [=](const Tensors& phi, const Tensors& theta) { return loss(weights(phi, theta[0]), x, y); },
      [=](const Tensors& phi, const Tensors& theta) { return loss(weights(phi, theta[0]), kept_x, kept_y); },
      {still, Tensors{torch::zeros({count}, d.x.options())}});
  bilevel::UnrolledOptions run{.run = {.steps = steps}, .step = bilevel::GradientDescentOptions{.step = 1}};
  run.certificate.enabled = false;  // it would speak of where the run ends after for ever
  const auto estimator =
      bilevel::make_estimator<Tensor>(run, problem, *bilevel::make_inner_solver<Tensor>("lbfgs", problem));

  // The best of many single rates, by the rows kept aside: what anybody would try first.
  double best = bilevel::everywhere, log_rate = 0;
  for (double each = -4; each <= 2; each += 0.25) {
    const double value = estimator->estimate(torch::full({count}, each, d.x.options()), {}).outer_value;
    if (value < best) best = value, log_rate = each;
  }
  const Tensor theta = torch::full({count}, log_rate, d.x.options());
  const auto single = estimator->estimate(theta, {});
  const double apart = learning_run::apart(single.gradient, theta, 1e-3, [&](const Tensor& moved) {
    return estimator->estimate(moved, {}).outer_value;
  });

  // The best single rate is at the edge of what is stable, where the loss of a run is rugged: learning begins
  // below.
  const double below = 0.7;
  auto outer = learning_run::outer_options(told, fmt::format("rates, {} steps, {} rows", steps, trained));
  outer.warm_start = false;  // every run begins at the same weights
  outer.tolerances = bilevel::ToleranceSchedule::fixed(1e-10, 1e-10);
  const auto optimizer = bilevel::make_optimizer(bilevel::AdamOptimizerOptions{.step = 0.05});
  const bilevel::Summary s = bilevel::solve<Tensor>(*estimator, *optimizer, theta - below, outer);
  const Tensor learned = learning_run::learned_theta(s, theta);
  const auto last = estimator->estimate(learned, {});

  // The same run written down by hand: a step of each layer along its own gradient at its own rate.
  Tensors w;
  for (const Tensor& each : start) w.push_back(each.clone().set_requires_grad(true));
  for (long step = 0; step < steps; ++step) {
    const Tensors slopes = torch::autograd::grad({loss(w, x, y)}, w);
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < w.size(); ++i) w[i].sub_(learned[static_cast<long>(i)].exp() * slopes[i]);
  }
  const torch::NoGradGuard guard;
  const Tensors ours = weights(problem.phi_list(last.phi), learned);
  double by_hand = 0;
  for (std::size_t i = 0; i < w.size(); ++i)
    by_hand = std::max(by_hand, (w[i] - ours[i]).abs().max().item<double>());

  const auto tested = [&](const Tensor& phi, const Tensor& at) {
    const Tensor scores = learning_run::through(weights(problem.phi_list(phi), at), d.test_x);
    return std::pair{learning_run::cross_entropy(scores, d.test_y).item<double>(),
                     learning_run::right(scores, d.test_y)};
  };
  const auto [single_loss, single_right] = tested(single.phi, theta);
  const auto [learned_loss, learned_right] = tested(last.phi, learned);
  Json result{{"inner_steps", steps},
              {"rows", trained},
              {"single_rate", std::exp(log_rate)},
              {"rates", Json::array()},
              {"gradient_apart", apart},
              {"single", {{"test_loss", single_loss}, {"test_accuracy", single_right}}},
              {"learned", {{"test_loss", learned_loss}, {"test_accuracy", learned_right}}}};
  learning_run::Cells rates;
  for (long i = 0; i < count; ++i) {
    const double rate = std::exp(s.theta[i]);
    result["rates"].push_back(rate);
    rates.push_back(
        {fmt::format("layer {}, {}", i / 2 + 1, i % 2 ? "biases" : "weights"), fmt::format("{:.4g}", rate)});
  }
  learning_run::add_run(result, s);
  using namespace learning_run;
  write(told, result,
        page("How fast each layer should learn",
             fmt::format("After {} steps {} of the test digits are right with a rate for each layer, {} with "
                         "the best single one.",
                         steps, percent(learned_right), percent(single_right)),
             {{"first gradient and differences of runs", fmt::format("apart by {:.1e}", apart)}},
             {section("Rates", {table({"parameters", "learning rate"}, rates),
                                table({"", "test loss", "test digits right"},
                                      {{fmt::format("best single rate, {:.3g}", std::exp(log_rate)),
                                        fmt::format("{:.4f}", single_loss), percent(single_right)},
                                       {"learned rates", fmt::format("{:.4f}", learned_loss),
                                        percent(learned_right)}})}),
              progress(s, "loss of the rows kept aside")}));

  fmt::print("the gradient is the difference of whole runs: {}\n", yes(apart < 1e-6));
  fmt::print("the run is that of a rate for each layer: {}\n", yes(by_hand < 1e-9));
  fmt::print("its test loss is a tenth below that of the best single rate: {}\n",
             yes(learned_loss < 0.9 * single_loss));
  return learned_loss < single_loss;
}

}  // namespace

int main(int argc, char** argv) {
  return learning_run::run(argc, argv,
                           learning_run::kept({{"--data", ""},
                                               {"--rows", "500"},
                                               {"--test-rows", "1000"},
                                               {"--width", "24"},
                                               {"--inner-steps", "20"},
                                               {"--steps", "60"},
                                               {"--seed", "1"}}),
                           learn);
}
