#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include <bilevel/gradient/implicit.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace claims {
namespace {
namespace of_memory {

using Unrolled = bilevel::Unrolled<Vec>;

struct Method {
  std::string title, name;
  double (*states)(double steps) = nullptr;  ///< kept by checkpointing
  std::vector<double> bytes = {};
  std::vector<Vec> gradients = {};
};

/// The estimate after exactly `steps` steps of gradient descent.
bilevel::Estimate<Vec> after(const Laboratory& lab, bilevel::Problem<Vec>& problem, const Vec& theta,
                             const Method& method, long steps) {
  bilevel::MinimiserOptions minimiser;
  minimiser.gradient_tolerance = 0;
  minimiser.max_iterations = steps;
  const auto inner = bilevel::make_inner_solver<Vec>("gradient-descent", problem, minimiser);
  bilevel::EstimatorOptions options{.certificate = {.enabled = false},
                                    .beta = 1e-4,
                                    .step = "gradient-descent",
                                    .max_steps = steps,
                                    .truncate = 5};
  if (method.states)
    options.memory_budget =
        Unrolled::bytes_for(problem.initial_phi(), theta, bilevel::GradientDescent<Vec>(),
                            static_cast<std::size_t>(std::ceil(method.states(static_cast<double>(steps)))));
  const auto estimator = lab.estimator(method.name, problem, *inner, options);
  estimator->set_tolerances(0, 1e-10);
  return estimator->estimate(theta, {});
}

void run(Laboratory& lab, Outcome& outcome) {
  auto problem =
      bilevel::problems::Quadratic::random({.phi = 3, .theta = 2, .condition = 1e6, .seed = lab.seed(1)});
  const Vec theta = lab.vector(2, 2);
  std::vector<Method> methods{{"implicit, conjugate gradients", "implicit-cg"},
                              {"equilibrium propagation", "ep-central"},
                              {"unrolled", "unrolled"},
                              {"unrolled, truncated", "unrolled-truncated"},
                              {"unrolled, √T states", "unrolled-checkpointed", std::sqrt},
                              {"unrolled, log₂ T states", "unrolled-checkpointed", std::log2},
                              {"forward differentiation", "forward-mode"}};
  const std::vector<double> lengths{10, 32, 100, 316, 1000, 3162, 10000, 31623, 100000};
  long wrong_lengths = 0;
  for (const double length : lengths) {
    for (Method& method : methods) {
      const auto e = after(lab, problem, theta, method, static_cast<long>(length));
      wrong_lengths += e.inner_iterations != static_cast<long>(length);
      method.bytes.push_back(static_cast<double>(e.cost.bytes));
      method.gradients.push_back(e.gradient);
    }
  }
  outcome.check("runs that did not take exactly T steps", "0", fmt::format("{}", wrong_lengths),
                wrong_lengths == 0);
  const auto growth = [&](std::size_t i) { return slope(lengths, methods[i].bytes); };
  const auto last_growth = [&](std::size_t i) {
    const std::size_t n = lengths.size();
    return slope({lengths[n - 2], lengths[n - 1]}, {methods[i].bytes[n - 2], methods[i].bytes[n - 1]});
  };
  for (const std::size_t i : {0, 1, 3, 6})
    outcome.at_most(fmt::format("{}: |exponent| of the growth with T", methods[i].title), 1e-12,
                    std::abs(growth(i)));
  outcome.near("unrolled: exponent at the end", 1, last_growth(2), 0.01);
  outcome.near("unrolled: bytes a step", 24,
               (methods[2].bytes.back() - methods[2].bytes[0]) / (lengths.back() - lengths[0]), 1e-9);
  outcome.near("checkpointed, √T states: exponent at the end", 0.5, last_growth(4), 0.05);
  outcome.at_most("checkpointed, log₂ T states: exponent at the end", 0.1, last_growth(5));

  // The same gradients from less.
  double checkpointed = 0, forward = 0, truncated = 0;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const Vec& whole = methods[2].gradients[k];
    keep_worst(checkpointed, (methods[4].gradients[k] - whole).norm());
    keep_worst(checkpointed, (methods[5].gradients[k] - whole).norm());
    keep_worst(forward, (methods[6].gradients[k] - whole).norm() / whole.norm());
    keep_worst(truncated, (methods[3].gradients[k] - whole).norm() / whole.norm());
  }
  outcome.at_most("gradient: checkpointed minus unrolled", 0, checkpointed);
  outcome.at_most("gradient: forward differentiation minus unrolled, relative", 1e-8, forward);
  outcome.at_least("gradient: truncated minus unrolled, relative, the largest", 0.01, truncated);

  // |φ|·|θ| of forward differentiation.
  std::vector<double> sizes{16, 32, 64, 128, 256}, by_size;
  for (const double size : sizes) {
    const Index n = static_cast<Index>(size);
    bilevel::problems::Quadratic wide(Mat::Identity(n, n), lab.matrix(n, n, 3), lab.vector(n, 4),
                                      Mat::Identity(n, n), lab.vector(n, 5));
    by_size.push_back(static_cast<double>(after(lab, wide, wide.initial_theta(), methods[6], 10).cost.bytes));
  }
  outcome.near("forward differentiation: exponent in |φ| = |θ| at the end", 2,
               slope({sizes[3], sizes[4]}, {by_size[3], by_size[4]}), 0.1);
  outcome.near("forward differentiation: bytes over 8|φ|·|θ| at 256", 1, by_size[4] / (8 * 256 * 256), 0.15);

  Chart chart("Bytes held for one outer gradient");
  chart.x("inner steps T", true).y("bytes", true);
  for (const Method& method : methods) chart.path(method.title, lengths, method.bytes);
  chart.caption("Three inner variables and two parameters; a state is 24 bytes.");
  outcome.show(chart);
  outcome.show(Chart("Forward differentiation")
                   .x("|φ| = |θ|", true)
                   .y("bytes", true)
                   .dots("bytes held", sizes, by_size)
                   .line("8|φ|·|θ|", {16, 256}, {8 * 16.0 * 16, 8 * 256.0 * 256}, true));
  outcome.measured = fmt::format("{:.0f}, {:.0f}; {:.2f}; {:.2f}; {:.0f} as exponents", std::abs(growth(0)),
                                 std::abs(growth(1)), last_growth(2), last_growth(4), std::abs(growth(6)));
}

}  // namespace of_memory
}  // namespace

const Claim memory{
    .name = "memory",
    .title = "Memory over the length of the inner optimisation",
    .place = "Section 1.3, Section 2 and Section 4.1",
    .statement =
        "Implicit differentiation and equilibrium propagation need φ̂ alone, whatever the number T of "
        "inner steps. Backpropagation through the inner optimisation stores all T states; following only "
        "the last steps back, or storing some states and computing the others again, avoids that. Forward "
        "differentiation stores |φ|·|θ| numbers, whatever T.",
    .protocol =
        "A quadratic problem with |φ| = 3, |θ| = 2 and κ = 10⁶, so that gradient descent does not settle; "
        "T = 10 … 10⁵ steps, exactly; the peak of the bytes that each estimator holds by its own ledger. "
        "Checkpointed with √T and with log₂ T states, truncated to 5 steps. Forward differentiation also "
        "for |φ| = |θ| = 16 … 256 and T = 10.",
    .truth =
        "Exponents of the growth: 0 for what forgets the way, 1 for what stores it, 24 bytes a state of "
        "three numbers; 2 for forward differentiation in |φ| = |θ|. Storing less must not change the "
        "gradient: checkpointed to the last bit, forward differentiation to rounding.",
    .slip = "",
    .expected = "implicit, EP 0; unrolled 1; √T ½; forward 0",
    .run = of_memory::run};

}  // namespace claims
