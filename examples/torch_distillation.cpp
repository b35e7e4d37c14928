// Ten pictures that teach what thousands do: θ holds ten pictures, one a digit. The inner loss trains a
// linear softmax model on these ten until it has settled, the outer loss asks all rows what it has learned.
// docs/learning-problems.md has the long run.
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

#include "learning_run.hpp"

using bilevel::torch::Losses;
using bilevel::torch::Tensors;
using learning_run::Json;
using learning_run::right;
using learning_run::squares;
using torch::Tensor;

namespace {
Tensor scores(const Tensors& w, const Tensor& x) {
  return x.matmul(w[0]) + w[1];
}
Tensor error(const Tensors& w, const Tensor& x, const Tensor& y) {
  return learning_run::cross_entropy(scores(w, x), y);
}
Tensors untrained(const Tensor& x) {
  return {torch::zeros({x.size(1), 10}, x.options()), torch::zeros({10}, x.options())};
}

/// A linear model trained on these rows, at the best of some decays: its share of right answers.
double taught_by(const Tensor& x, const Tensor& y, const learning_run::Digits& d) {
  Losses problem([&](const Tensors& w,
                     const Tensors& theta) { return error(w, x, y) + 0.5 * theta[0].exp() * squares(w); },
                 [&](const Tensors& w, const Tensors&) { return error(w, d.x, d.y); },
                 {untrained(x), Tensors{torch::zeros({}, x.options())}});
  const auto train = bilevel::make_inner_solver<Tensor>("lbfgs", problem,
                                                        {.gradient_tolerance = 1e-4, .max_iterations = 1000});
  Tensor w = problem.initial_phi();
  double best = 0;
  for (const double decay : {1.0, 1e-1, 1e-2, 1e-3, 1e-4}) {
    w = train->solve(torch::full({1}, std::log(decay), x.options()), 0, w).phi;
    best = std::max(best, right(scores(problem.phi_list(w), d.test_x), d.test_y));
  }
  return best;
}

bool distil(const learning_run::Told& told) {
  const auto d = learning_run::digits(told, told.whole("--rows", 10), told.whole("--test-rows"));
  torch::manual_seed(told.whole("--seed", 0));
  const Tensor classes = torch::arange(10, d.y.options());
  const auto of_class = [&](long c) { return d.x.index_select(0, (d.y == c).nonzero().flatten()); };
  Tensors averages;
  for (long c = 0; c < 10; ++c) {
    if (of_class(c).size(0) == 0)
      throw bilevel::InvalidInput(fmt::format("no row is a {}: take more --rows", c));
    averages.push_back(of_class(c).mean(0));
  }
  const Tensor means = torch::stack(averages);

  const double decay = told.number("--decay");
  bilevel::torch::LossesOptions known;
  // A convex loss and the decay: that is what L_in is strongly convex by.
  known.constants = [=](const Tensor&, const Tensor&, double) { return bilevel::Constants{.mu = decay}; };
  Losses problem([=](const Tensors& w,
                     const Tensors& ten) { return error(w, ten[0], classes) + 0.5 * decay * squares(w); },
                 [=](const Tensors& w, const Tensors&) { return error(w, d.x, d.y); },
                 {untrained(d.x), Tensors{means}}, known);

  const auto train = bilevel::make_inner_solver<Tensor>("lbfgs", problem, {.gradient_tolerance = 1e-12});
  const auto [first, apart] = learning_run::first_gradient(problem, *train, 1e-4);

  bilevel::MinimiseOptions options{.inner = bilevel::LbfgsOptions{}, .estimator = bilevel::ImplicitMethod{}};
  options.outer = learning_run::outer_options(told, fmt::format("{} rows, decay {}", d.x.size(0), decay));
  options.outer.gradient_tolerance = 1e-5;
  const bilevel::Summary s = bilevel::minimise(problem, options);
  const Tensor learned = learning_run::learned_theta(s, problem.initial_theta());
  const Tensor ten = problem.theta_list(learned)[0];

  const double by_learned = right(
      scores(problem.phi_list(train->solve(learned, 0, problem.initial_phi()).phi), d.test_x), d.test_y);
  const double by_means = taught_by(means, classes, d), by_all = taught_by(d.x, d.y, d);
  const long draws = told.whole("--draws");
  Tensor real = torch::empty({draws}, torch::kDouble);
  for (long i = 0; i < draws; ++i) {
    Tensors drawn;
    for (long c = 0; c < 10; ++c)
      drawn.push_back(of_class(c)[torch::randint(of_class(c).size(0), {1}).item<long>()]);
    real[i] = taught_by(torch::stack(drawn), classes, d);
  }
  const double by_real = real.mean().item<double>(), by_best = real.max().item<double>();

  Json result{{"learned_numbers", learned.numel()}, {"rows", d.x.size(0)}, {"test_rows", d.test_x.size(0)}};
  for (const auto& [what, share] : {std::pair{"test_accuracy", by_learned},
                                    {"ten_means", by_means},
                                    {"ten_real", by_real},
                                    {"ten_real_best", by_best},
                                    {"all_rows", by_all},
                                    {"gradient_apart", apart}})
    result[what] = share;
  learning_run::add_run(result, s);
  using learning_run::percent, learning_run::yes;
  const std::vector<std::string> names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  learning_run::write(
      told, result,
      learning_run::page(
          "Ten pictures that teach",
          fmt::format("A linear model that has seen these ten alone tells {} of {} test digits right.",
                      percent(by_learned), d.test_x.size(0)),
          {{"learned numbers", fmt::format("{}", learned.numel())},
           {"first gradient and differences of trainings", fmt::format("apart by {:.1e}", apart)}},
          {learning_run::section(
               "What they teach",
               {learning_run::table(
                    {"trained on", "test digits right"},
                    {{"the ten learned ones", percent(by_learned)},
                     {"the ten means", percent(by_means)},
                     {fmt::format("ten real ones, mean of {} draws", draws), percent(by_real)},
                     {"ten real ones, the best draw", percent(by_best)},
                     {fmt::format("all {} rows", d.x.size(0)), percent(by_all)}}),
                learning_run::pictures("Learned", ten.cpu(), d.height, d.width, names,
                                       ten.abs().max().item<double>()),
                learning_run::pictures("Where they began: the mean of each class", means.cpu(), d.height,
                                       d.width, names)}),
           learning_run::progress(s, "cross-entropy of all rows", true)}));

  fmt::print("the gradient is {}, {}\n", name(first.certificate.kind), name(first.certificate.verdict));
  fmt::print("and the difference of trainings: {}\n", yes(apart < 1e-6));
  fmt::print("ten learned pictures teach more than ten means: {}\n", yes(by_learned > by_means + 0.02));
  fmt::print("and than the best of {} draws of ten real ones: {}\n", draws, yes(by_learned > by_best + 0.02));
  fmt::print("and as much as all rows, to five in a hundred: {}\n", yes(by_learned > by_all - 0.05));
  return by_learned > by_means;
}

}  // namespace

int main(int argc, char** argv) {
  return learning_run::run(argc, argv,
                           learning_run::kept({{"--data", ""},
                                               {"--rows", "3000"},
                                               {"--test-rows", "1000"},
                                               {"--steps", "60"},
                                               {"--decay", "0.001"},
                                               {"--draws", "10"},
                                               {"--seed", "1"}}),
                           distil);
}
