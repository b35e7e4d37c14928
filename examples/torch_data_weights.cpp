// Rows with wrong labels, found by a network that is not linear: θ weighs the rows that it trains on, a few
// rows that somebody has looked at say what that is worth.
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

bool clean(const learning_run::Told& told) {
  const long rows = told.whole("--rows", 10), checked = told.whole("--checked", 10),
             width = told.whole("--width");
  const double share = told.number("--wrong"), decay = told.number("--decay");
  if (share < 0 || share > 0.9) throw bilevel::InvalidInput("--wrong is a share of the rows, in 0 … 0.9");
  const auto d = learning_run::digits(told, rows + checked, told.whole("--test-rows"));
  if (d.x.size(0) < rows + checked)
    throw bilevel::InvalidInput(fmt::format("there are {} rows, not {}", d.x.size(0), rows + checked));
  torch::manual_seed(told.whole("--seed", 0));
  const Tensor x = d.x.narrow(0, 0, rows), true_y = d.y.narrow(0, 0, rows);
  const Tensor kept_x = d.x.narrow(0, rows, checked), kept_y = d.y.narrow(0, rows, checked);
  const Tensor wrong = (torch::rand({rows}) < share).to(x.device());
  const Tensor y =
      torch::where(wrong, (true_y + torch::randint(1, 10, {rows}, true_y.options())) % 10, true_y);

  const Tensors start = learning_run::network({x.size(1), width, 10}, x.options());
  bilevel::torch::Losses<Tensor> problem(
      [=](const Tensors& w, const Tensors& theta) {
        const Tensor each = torch::nn::functional::cross_entropy(
            learning_run::through(w, x), y,
            torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
        return (torch::sigmoid(theta[0]) * each).mean() + 0.5 * decay * learning_run::squares(w);
      },
      [=](const Tensors& w, const Tensors&) {
        return learning_run::cross_entropy(learning_run::through(w, kept_x), kept_y);
      },
      {start, Tensors{torch::zeros({rows}, x.options())}});

  // The gradient at the start, settled tightly, against whole trainings beside it.
  const auto train =
      bilevel::make_inner_solver<Tensor>("trust-region", problem, {.gradient_tolerance = 1e-11});
  const auto checked_gradient = learning_run::first_gradient(problem, *train, 1e-3);
  const auto& [first, apart] = checked_gradient;

  auto outer = learning_run::outer_options(told, fmt::format("weights, {} rows, {} wrong", rows, share));
  outer.box = {Eigen::VectorXd::Constant(rows, -6), Eigen::VectorXd::Constant(rows, 6)};
  const bilevel::Summary s = bilevel::minimise(problem, learning_run::by_adam(0.5, outer));
  const Tensor theta = problem.initial_theta(), learned = learning_run::learned_theta(s, theta);

  const auto right = [&](const Tensor& phi) {
    return learning_run::right(learning_run::through(problem.phi_list(phi), d.test_x), d.test_y);
  };
  const auto settle = bilevel::make_inner_solver<Tensor>("lbfgs", problem, {.gradient_tolerance = 1e-4});
  const auto trained = [&](const Tensor& at) {
    return right(settle->solve(at, 0, problem.initial_phi()).phi);
  };
  const double all = right(first.phi), weighed = trained(learned),
               ideal =
                   trained(torch::where(wrong, torch::full_like(theta, -20), torch::full_like(theta, 20)));
  // What there is without: one weight for all rows, the best of many by the checked rows, and these alone.
  double best = bilevel::everywhere, alike = 0;
  for (const double each : {-4.0, -2.0, 0.0, 2.0, 4.0}) {
    const Tensor at = torch::full_like(theta, each);
    const double value = problem.outer(settle->solve(at, 0, problem.initial_phi()).phi, at, {});
    if (value < best) best = value, alike = trained(at);
  }
  const auto on_checked = [=](const Tensors& w, const Tensors& none) {
    return learning_run::cross_entropy(learning_run::through(w, kept_x), kept_y) +
           0.5 * decay * learning_run::squares(w) + 0 * none[0].sum();
  };
  bilevel::torch::Losses<Tensor> few(on_checked, on_checked, {start, Tensors{theta}}, {.look_first = false});
  const double alone = right(bilevel::make_inner_solver<Tensor>("lbfgs", few, {.gradient_tolerance = 1e-4})
                                 ->solve(theta, 0, few.initial_phi())
                                 .phi);
  // Found: weighed less than at the start.
  const Tensor found = learned < 0;
  const double hits = (found & wrong).sum().item<double>();
  const double f1 = 2 * hits / (found.sum().item<double>() + wrong.sum().item<double>());

  Json result{{"rows", rows},
              {"checked", checked},
              {"wrong", wrong.sum().item<long>()},
              {"found", found.sum().item<long>()},
              {"found_right", hits},
              {"f1", f1},
              {"test_accuracy", weighed},
              {"unweighted", all},
              {"best_single_weight", alike},
              {"checked_alone", alone},
              {"without_the_wrong", ideal}};
  learning_run::add_certificate(result, checked_gradient);
  learning_run::add_run(result, s);
  using namespace learning_run;
  const Tensor order = learned.argsort().cpu();
  std::vector<std::string> captions;
  Tensors worst;
  for (long i = 0; i < 40; ++i) {
    const long row = order[i].item<long>();
    worst.push_back(x[row].cpu());
    captions.push_back(fmt::format("labelled {}", y[row].item<long>()));
  }
  write(told, result,
        page("Rows with wrong labels",
             fmt::format("{} of {} rows are suspected, {:.0f} of them rightly; {} are wrong.",
                         found.sum().item<long>(), rows, hits, wrong.sum().item<long>()),
             {{"F1", fmt::format("{:.3f}", f1)},
              {"first gradient and differences of trainings",
               fmt::format("apart by {:.1e}, {}", apart, name(first.certificate.verdict))}},
             {section("What it is worth", {table({"trained on", "test digits right"},
                                                 {{"all rows alike", percent(all)},
                                                  {"the same, at the best weight for all", percent(alike)},
                                                  {"the checked rows alone", percent(alone)},
                                                  {"rows as weighed", percent(weighed)},
                                                  {"the right ones only, were they known", percent(ideal)}}),
                                           pictures("The forty least trusted", torch::stack(worst), d.height,
                                                    d.width, captions)}),
              progress(s, "loss of the checked rows")}));

  fmt::print("the gradient is {}, and the difference of trainings: {}\n", name(first.certificate.verdict),
             yes(apart < 1e-5));
  fmt::print("wrong labels are found, F1 above 0.75: {}\n", yes(f1 > 0.75));
  fmt::print("half of what they cost in test accuracy is won back: {}\n",
             yes(ideal - all > 0.05 && weighed - all > 0.5 * (ideal - all)));
  return f1 > 0.75;
}

}  // namespace

int main(int argc, char** argv) {
  return learning_run::run(argc, argv,
                           learning_run::kept({{"--data", ""},
                                               {"--rows", "500"},
                                               {"--checked", "800"},
                                               {"--wrong", "0.4"},
                                               {"--test-rows", "1000"},
                                               {"--width", "12"},
                                               {"--decay", "0.01"},
                                               {"--steps", "60"},
                                               {"--seed", "1"}}),
                           clean);
}
