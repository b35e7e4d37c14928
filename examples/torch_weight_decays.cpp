// A small network learns its own weight decays, one for each layer: the inner loss is what training sees, the
// outer loss what held-out rows say. Two functions of tensors are the whole problem.
#include <fmt/format.h>
#include <torch/torch.h>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

#include "arguments.hpp"

using bilevel::torch::Tensors;

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  torch::manual_seed(1);
  const auto numbers = torch::dtype(torch::kDouble);
  // Few noisy rows to learn from, many to be judged by.
  const auto rows = [&](long count) {
    const auto x = 2 * torch::rand({count, 2}, numbers) - 1;
    return std::pair{x, torch::sin(3 * x.narrow(1, 0, 1)) + 0.3 * torch::randn({count, 1}, numbers)};
  };
  const auto [x, y] = rows(30);
  const auto [held_out_x, held_out_y] = rows(200);
  const auto error = [](const Tensors& w, const torch::Tensor& in, const torch::Tensor& out) {
    return (torch::tanh(in.matmul(w[0]) + w[1]).matmul(w[2]) - out).pow(2).mean();
  };

  bilevel::torch::Losses problem(
      [=](const Tensors& w, const Tensors& theta) {
        const auto decay = theta[0].exp();
        return error(w, x, y) + decay[0] * (w[0].pow(2).sum() + w[1].pow(2).sum()) +
               decay[1] * w[2].pow(2).sum();
      },
      [=](const Tensors& w, const Tensors&) { return error(w, held_out_x, held_out_y); },
      {Tensors{torch::randn({2, 8}, numbers), torch::zeros({8}, numbers), torch::randn({8, 1}, numbers)},
       Tensors{torch::full({2}, -6.0, numbers)}});

  bilevel::MinimiseOptions options;
  options.outer.max_iterations = 40;
  options.outer.gradient_tolerance = 1e-5;
  options.outer.box = {.lower = Eigen::VectorXd::Constant(2, -12), .upper = Eigen::VectorXd::Constant(2, 2)};
  double first = 0;
  options.outer.callback = [&](const bilevel::HistoryEntry& entry) {
    if (first == 0) first = entry.outer_value;
    return true;
  };
  const bilevel::Summary s = bilevel::minimise(problem, options);

  // The gradient where it starts, against a difference of two whole trainings.
  const auto train =
      bilevel::make_inner_solver<torch::Tensor>("newton", problem, {.gradient_tolerance = 1e-12});
  const auto estimator = bilevel::make_estimator<torch::Tensor>("implicit-cg", problem, *train);
  const torch::Tensor theta = problem.initial_theta();
  const auto e = estimator->estimate(theta, {});
  const auto value = [&](double step) {
    auto moved = theta.clone();
    moved[0] += step;
    return problem.outer(train->solve(moved, 0, e.phi).phi, moved, {});
  };
  const double difference = (value(1e-4) - value(-1e-4)) / 2e-4;

  fmt::print("the gradient is {}, {}\n", name(e.certificate.kind), name(e.certificate.verdict));
  fmt::print(
      "and the difference of two trainings: {}\n",
      std::abs(e.gradient[0].item<double>() - difference) < 1e-5 * std::abs(difference) ? "yes" : "no");
  fmt::print("held-out error falls: {}\n", s.outer_value < first ? "yes" : "no");
  fmt::print("each layer has its own decay: {}\n", std::abs(s.theta[0] - s.theta[1]) > 0.1 ? "yes" : "no");
}
