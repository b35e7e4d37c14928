// No method may say "trusted" of a gradient that is beyond its bound: situations of the kinds in which one
// did, and random smooth losses. BILEVEL_TRUST_GRADIENTS sets how many of the latter are drawn,
// BILEVEL_TRUST_SEED where they begin.

#include <cstdlib>
#include <iostream>
#include <map>

#include <gtest/gtest.h>

#include <bilevel/problems/ridge.hpp>

#include "trust_battery.hpp"

namespace bilevel {
namespace trust_battery_test {

using namespace written;

std::unique_ptr<Estimator<Vec>> estimator(const std::string& method, Problem<Vec>& problem,
                                          InnerSolver<Vec>& solver) {
  if (method == "finite-difference of order 4")
    return make_estimator<Vec>(EstimatorChoice(FiniteDifferenceOptions{.order = 4}), problem, solver);
  return make_estimator<Vec>(method, problem, solver, {.max_steps = 3000});
}

bool needs_curvature(const std::string& method, const std::string& solver) {
  return solver == "newton" || method == "unrolled" || method == "forward-mode" || method == "exact" ||
         method.starts_with("implicit-");
}

const std::vector<std::string> all_methods = {
    "ep-forward-2", "ep-forward-3",      "ep-forward-4",
    "ep-central",   "ep-random-sign",    "ep-agnostic",
    "auto",         "finite-difference", "finite-difference of order 4",
    "spsa",         "implicit-cg"};
// Of the last two every step is differentiated, which takes seconds by dual numbers.
const std::vector<std::string> with_own_steps = {"unrolled", "forward-mode"};

struct Outcome {
  Estimate<Vec> estimate;
  double error = everywhere;  // infinite where no gradient is right
  bool trusted() const { return estimate.certificate.verdict == Verdict::trusted; }
  bool wrong() const {
    // The truth itself was rounded to double.
    return trusted() && !(error <= estimate.certificate.bound + 4e-16 * estimate.gradient.norm());
  }
};

Outcome run(const Trial& trial, const std::string& solver, const std::string& method) {
  const Both<Losses> known(trial.losses, trial.phi, trial.theta);
  auto curved = make_problem<Vec>(Curved<Losses>(trial.losses, trial.phi, trial.theta));
  auto first = make_problem<Vec>(known);
  Problem<Vec>& problem = needs_curvature(method, solver) ? static_cast<Problem<Vec>&>(curved) : first;
  const auto settling = [&](double tolerance) -> std::unique_ptr<InnerSolver<Vec>> {
    if (trial.own) return std::make_unique<Told>(trial.own);
    return make_inner_solver<Vec>(solver, problem, {.gradient_tolerance = tolerance});
  };
  const auto inner = settling(trial.tolerance);
  Outcome outcome{estimator(method, problem, *inner)->estimate(trial.theta, {})};
  std::optional<Vec> truth = trial.truth;
  if (!trial.minimum)
    truth = outcome.estimate.phi.allFinite() ? known.gradient(outcome.estimate.phi, trial.theta) : truth;
  else if (!truth)
    truth = known.gradient(settling(std::min(trial.tolerance, 1e-10))->solve(trial.theta, 0, trial.phi).phi,
                           trial.theta);
  if (truth) outcome.error = (outcome.estimate.gradient - *truth).norm();
  return outcome;
}

void expect_honest(const std::vector<Trial>& trials, const std::vector<std::string>& methods,
                   std::size_t stride = 1) {
  long asked = 0, trusted = 0;
  for (std::size_t i = 0; i < trials.size(); i += stride)
    for (const std::string& solver : trials[i].solvers)
      for (const std::string& method : methods) {
        const Outcome o = run(trials[i], solver, method);
        ++asked;
        trusted += o.trusted();
        EXPECT_FALSE(o.wrong()) << trials[i].name << ", " << solver << ", " << method << ": error " << o.error
                                << ", bound " << o.estimate.certificate.bound << ", ‖∇̂‖ "
                                << o.estimate.gradient.norm() << "; " << o.estimate.certificate.reason << "; "
                                << o.estimate.message;
      }
  std::cout << "[ numbers  ] " << trials.size() << " situations, " << asked << " gradients, " << trusted
            << " trusted\n";
}

TEST(TrustBattery, SaddlesAreNoMinima) {
  expect_honest(saddles(), all_methods);
}

TEST(TrustBattery, KinksNearerThanTheStep) {
  expect_honest(kinks(), all_methods);
}

TEST(TrustBattery, StatesAtAKink) {
  expect_honest(at_kinks(), {"implicit-cg", "implicit-direct", "exact", "auto"});
}

TEST(TrustBattery, ScalesAndSoftDirections) {
  expect_honest(scales(), all_methods);
}

TEST(TrustBattery, MinimisersOtherThanTheSolvers) {
  expect_honest(other_minimisers(), all_methods);
  expect_honest(other_minimisers(), with_own_steps);
}

TEST(TrustBattery, TheHealthyKeepTheirTrust) {
  std::map<std::string, std::pair<long, long>> counts;
  for (const Trial& trial : healthy())
    for (const std::string& solver : trial.solvers)
      for (const std::string& method : all_methods) {
        const Outcome o = run(trial, solver, method);
        EXPECT_FALSE(o.wrong()) << trial.name << ", " << method << ": error " << o.error << ", bound "
                                << o.estimate.certificate.bound << "; " << o.estimate.certificate.reason;
        auto& [trusted, asked] = counts[method];
        trusted += o.trusted();
        ++asked;
      }
  for (const auto& [method, count] : counts) {
    const auto& [trusted, asked] = count;
    std::cout << "[ numbers  ] " << method << ": " << trusted << " of " << asked << " trusted\n";
    // Random directions have too much of a variance of their own.
    EXPECT_GE(static_cast<double>(trusted), (method == "spsa" ? 0.5 : 0.95) * static_cast<double>(asked))
        << method;
  }
}

// The inner residual is below its tolerance before anything has moved, and χ vanishes there.
TEST(TrustBattery, NothingIsKnownOfFeaturesThatNobodySettled) {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  const auto draw = [&](Index rows) {
    return Mat(Mat::NullaryExpr(rows, 3, [&] { return normal(engine); }));
  };
  for (const double scale : {1.0, 1e-2, 1e-3, 3e-4, 1e-4})
    for (const double tolerance : {1e-2, 1e-3, 1e-4, 1e-6})
      for (const char* method : {"ep-forward-2", "ep-forward-3", "ep-central", "ep-random-sign", "auto"})
        for (const double beta : {0.0, 1e-9}) {
          engine.seed(1);
          const Mat x = draw(40), v = draw(40);
          const Vec noise = Vec::NullaryExpr(80, [&] { return normal(engine); });
          problems::Ridge problem(scale * x, x.rowwise().sum() + noise.head(40), scale * v,
                                  v.rowwise().sum() + noise.tail(40));
          const Vec theta = Vec::Constant(3, 2 * std::log(scale)), truth = *problem.outer_gradient(theta);
          const auto inner = make_inner_solver<Vec>("lbfgs", static_cast<Problem<Vec>&>(problem),
                                                    {.gradient_tolerance = tolerance});
          const auto e = make_estimator<Vec>(method, static_cast<Problem<Vec>&>(problem), *inner,
                                             {.outer_tolerance = 1e-4, .beta = beta})
                             ->estimate(theta, {});
          const double error = (e.gradient - truth).norm();
          EXPECT_TRUE(e.certificate.verdict != Verdict::trusted || error <= e.certificate.bound)
              << method << ", features of size " << scale << ", tolerance " << tolerance << ", β " << beta
              << ": error " << error << ", bound " << e.certificate.bound << "; " << e.certificate.reason
              << "; " << e.message;
        }
}

/// A number from the environment.
std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(TrustBattery, RandomSmoothLosses) {
  const std::uint64_t first = setting("BILEVEL_TRUST_SEED", 1),
                      many = setting("BILEVEL_TRUST_GRADIENTS", 1000);
  std::vector<std::string> methods = all_methods;
  methods.insert(methods.end(), with_own_steps.begin(), with_own_steps.end());
  std::map<std::string, std::array<long, 3>> counts;  // asked, trusted, wrong
  std::array<long, 3> sum{};
  for (std::uint64_t seed = first; seed < first + many; ++seed) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::normal_distribution<double> normal;
    const auto power = [&](double from, double to) {
      return std::pow(10.0, from + (to - from) * uniform(engine));
    };
    const Index n = 1 + static_cast<Index>(engine() % 4), m = 1 + static_cast<Index>(engine() % 3);
    // Half of them of size one throughout.
    const bool scaled = engine() % 2 == 0;
    const double phi_scale = scaled ? power(-2, 2) : 1, theta_scale = scaled ? power(-2, 2) : 1,
                 loss_scale = scaled ? power(-2, 2) : 1;
    Trial trial{.kind = "random", .name = "seed " + std::to_string(seed)};
    trial.losses =
        drawn_losses(engine, n, m, 2 * uniform(engine), power(0, 3), phi_scale, theta_scale, loss_scale);
    trial.phi = Vec::NullaryExpr(n, [&] { return phi_scale * normal(engine); });
    trial.theta = Vec::NullaryExpr(m, [&] { return theta_scale * normal(engine); });
    trial.tolerance = power(-10, -4) * loss_scale / phi_scale;
    const char* solvers[] = {"lbfgs", "newton", "gradient-descent-backtracking"};
    const std::string solver = solvers[engine() % 3], &method = methods[engine() % methods.size()];
    const Outcome o = run(trial, solver, method);
    for (std::array<long, 3>* count : {&counts[method], &sum}) {
      ++(*count)[0];
      (*count)[1] += o.trusted();
      (*count)[2] += o.wrong();
    }
    if (o.wrong())
      std::cout << "[ beyond   ] seed " << seed << ", " << solver << " to " << trial.tolerance << ", "
                << method << ": error " << o.error << ", bound " << o.estimate.certificate.bound << ", ‖∇̂‖ "
                << o.estimate.gradient.norm() << "; " << o.estimate.certificate.reason << '\n';
  }
  for (const auto& [method, count] : counts)
    std::cout << "[ numbers  ] " << method << ": " << count[0] << " gradients, " << count[1] << " trusted, "
              << count[2] << " of them beyond the bound\n";
  std::cout << "[ numbers  ] seeds " << first << " … " << first + many - 1 << ": " << sum[1] << " of "
            << sum[0] << " trusted, " << sum[2] << " of them beyond the bound\n";
  EXPECT_LT(1000 * sum[2], std::max(sum[1], 1001L));
}

}  // namespace trust_battery_test
}  // namespace bilevel
