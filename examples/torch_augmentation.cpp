// How strongly training pictures should be shifted and blurred by noise: θ holds the logarithms of two
// deviations. What is drawn is drawn once, outside of the losses, and scaled by the deviations, so that both
// losses are smooth functions of them; rows kept aside, as they are, say what it was worth.
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

/// The matrices that move a line of `length` pixels by so many pixels each: cubic interpolation, whose slope
/// has no jumps.
Tensor moves(const Tensor& by, long length) {
  const Tensor at = torch::arange(length, by.options());
  const Tensor t = (at.unsqueeze(1) - at - by.reshape({-1, 1, 1})).abs();
  const Tensor near = (1.5 * t - 2.5) * t * t + 1, far = ((2.5 - 0.5 * t) * t - 4) * t + 2;
  return torch::where(t < 1, near, torch::where(t < 2, far, torch::zeros_like(t)));
}

bool augment(const learning_run::Told& told) {
  const long rows = told.whole("--rows", 10), kept = told.whole("--kept", 10), width = told.whole("--width"),
             copies = told.whole("--copies");
  const double decay = told.number("--decay");
  const auto d = learning_run::digits(told, rows + kept, told.whole("--test-rows"));
  if (d.x.size(0) < rows + kept)
    throw bilevel::InvalidInput(fmt::format("there are {} rows, not {}", d.x.size(0), rows + kept));
  torch::manual_seed(told.whole("--seed", 0));
  const Tensor x = d.x.narrow(0, 0, rows).repeat({copies, 1}), y = d.y.narrow(0, 0, rows).repeat({copies});
  const Tensor kept_x = d.x.narrow(0, rows, kept), kept_y = d.y.narrow(0, rows, kept);
  const Tensor down = torch::randn({x.size(0)}, x.options()), right = torch::randn_like(down),
               noise = torch::randn_like(x);
  const auto varied = [=](const Tensor& log_deviations) {
    const Tensor deviation = log_deviations.exp();
    const Tensor moved = moves(deviation[0] * down, d.height)
                             .matmul(x.reshape({-1, d.height, d.width}))
                             .matmul(moves(deviation[0] * right, d.width).transpose(1, 2));
    return moved.reshape(x.sizes()) + deviation[1] * noise;
  };
  bilevel::torch::Losses<Tensor> problem(
      [=](const Tensors& w, const Tensors& theta) {
        return learning_run::cross_entropy(learning_run::through(w, varied(theta[0])), y) +
               0.5 * decay * learning_run::squares(w);
      },
      [=](const Tensors& w, const Tensors&) {
        return learning_run::cross_entropy(learning_run::through(w, kept_x), kept_y);
      },
      {learning_run::network({x.size(1), width, 10}, x.options()),
       Tensors{torch::tensor({std::log(told.number("--shift")), std::log(told.number("--noise"))},
                             x.options())}});

  const auto train =
      bilevel::make_inner_solver<Tensor>("trust-region", problem, {.gradient_tolerance = 1e-11});
  const auto checked = learning_run::first_gradient(problem, *train, 1e-4);
  const auto& [first, apart] = checked;

  auto outer =
      learning_run::outer_options(told, fmt::format("augmentation, {} rows, {} copies", rows, copies));
  outer.box = {Eigen::VectorXd::Constant(2, std::log(1e-3)), Eigen::VectorXd::Constant(2, std::log(5.0))};
  const bilevel::Summary s = bilevel::minimise(problem, learning_run::by_adam(0.15, outer));
  const Tensor theta = problem.initial_theta(), learned = learning_run::learned_theta(s, theta);

  const auto settle = bilevel::make_inner_solver<Tensor>("lbfgs", problem, {.gradient_tolerance = 1e-4});
  const auto tested = [&](const Tensor& at) {
    const Tensor phi = settle->solve(at, 0, problem.initial_phi()).phi;
    const Tensor scores = learning_run::through(problem.phi_list(phi), d.test_x);
    return std::pair{learning_run::cross_entropy(scores, d.test_y).item<double>(),
                     learning_run::right(scores, d.test_y)};
  };
  const auto [none_loss, none] = tested(torch::full_like(theta, -30));
  const auto [with_loss, with] = tested(learned);
  // What anybody would try first: a grid of both, judged by the same rows.
  const long grid = told.whole("--grid", 0);
  double best = bilevel::everywhere;
  Tensor fixed = torch::full_like(theta, -30);
  for (const double log_shift : Eigen::VectorXd(Eigen::VectorXd::LinSpaced(grid, std::log(0.1), std::log(2))))
    for (const double log_noise :
         Eigen::VectorXd(Eigen::VectorXd::LinSpaced(grid, std::log(0.02), std::log(0.5)))) {
      const Tensor at = torch::tensor({log_shift, log_noise}, theta.options());
      const double value = problem.outer(settle->solve(at, 0, problem.initial_phi()).phi, at, {});
      if (value < best) best = value, fixed = at;
    }
  const auto [fixed_loss, fixed_right] = tested(fixed);
  const double shift = std::exp(s.theta[0]), blur = std::exp(s.theta[1]);
  Json result{{"rows", rows},
              {"kept", kept},
              {"copies", copies},
              {"shift", shift},
              {"noise", blur},
              {"test_accuracy", with},
              {"without", none},
              {"test_loss", with_loss},
              {"loss_without", none_loss},
              {"grid", grid},
              {"best_fixed", fixed_right},
              {"best_fixed_loss", fixed_loss},
              {"best_fixed_deviations", {fixed[0].exp().item<double>(), fixed[1].exp().item<double>()}}};
  learning_run::add_certificate(result, checked);
  learning_run::add_run(result, s);
  using namespace learning_run;
  write(
      told, result,
      page("How strongly pictures should be varied",
           fmt::format(
               "Shifts of {:.2f} pixels and noise of {:.3f}: {} of the test digits are right, {} without.",
               shift, blur, percent(with), percent(none)),
           {{"first gradient and differences of trainings",
             fmt::format("apart by {:.1e}, {}", apart, name(first.certificate.verdict))}},
           {section("What a network sees",
                    {pictures("Rows as they are", x.narrow(0, 0, 20).cpu(), d.height, d.width),
                     pictures("Rows as varied", varied(learned).narrow(0, 0, 20).cpu(), d.height, d.width)}),
            progress(s, "loss of the rows kept aside")}));

  fmt::print("the gradient is the difference of trainings: {}\n", yes(apart < 1e-4));
  fmt::print("shifts and noise are learned, and worth a twentieth of the test loss: {}\n",
             yes(with_loss < 0.95 * none_loss));
  return with_loss < none_loss;
}

}  // namespace

int main(int argc, char** argv) {
  return learning_run::run(argc, argv,
                           learning_run::kept({{"--data", ""},
                                               {"--rows", "100"},
                                               {"--kept", "500"},
                                               {"--copies", "4"},
                                               {"--grid", "0"},
                                               {"--test-rows", "1000"},
                                               {"--width", "12"},
                                               {"--decay", "0.01"},
                                               {"--steps", "12"},
                                               {"--shift", "1"},
                                               {"--noise", "0.2"},
                                               {"--seed", "1"}}),
                           augment);
}
