// A race at equal budget: certified gradients with L-BFGS against searches by values alone, and against
// gradients from values, on penalties to learn. Every oracle call of every stage is counted, those of the
// certificates too; a dense Hessian is charged as |φ| products. Prints a Markdown table: what is left of the
// start's distance to the best outer loss known, median of several seeds where a method has one.
//
//   bench_search [BUDGET = 2000 gradient equivalents] [SEEDS = 11]

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/finite_difference.hpp>
#include <bilevel/gradient/random_difference.hpp>
#include <bilevel/outer/search.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/ridge.hpp>

namespace {

using namespace bilevel;
using Vec = Eigen::VectorXd;

struct Entry {
  std::string name;
  bool seeded;
};

const std::vector<Entry> entries{{"implicit-cg, L-BFGS", false},
                                 {"implicit-direct, L-BFGS", false},
                                 {"finite-difference, L-BFGS", false},
                                 {"evolution-strategies, Adam", true},
                                 {"spsa, Adam", true},
                                 {"nlopt-bobyqa", false},
                                 {"nlopt-direct", false},
                                 {"random-search", true},
                                 {"grid-search", false}};

struct Course {
  long within = 0;  ///< evaluations that ended within the budget
  Vec theta;        ///< where it stood when it was stopped
};

/// One run of a method, stopped by the budget or after `evaluations`; empty where it cannot even begin.
std::optional<Course> run(const std::string& method, problems::ReferenceProblem& problem, double budget,
                          long evaluations, std::uint64_t seed) {
  CountedProblem<Vec> counted(problem);
  const double phis = static_cast<double>(problem.initial_phi().size());
  const auto spent = [&] {
    return counted.cost().gradient_equivalents() +
           2 * phis * static_cast<double>(counted.cost().dense_hessians);
  };
  MinimiserOptions inner_options;
  inner_options.gradient_tolerance = 1e-8;
  const auto inner = make_inner_solver<Vec>("lbfgs", counted, inner_options);
  const Vec start = problem.initial_theta();
  const Box box{Vec::Constant(start.size(), -10), Vec::Constant(start.size(), 10)};
  Course course;
  const auto watch = [&](const HistoryEntry&) {
    course.within += spent() <= budget;
    return spent() < budget && course.within < evaluations;
  };

  if (is_search(method)) {
    SettledValue<Vec> value(counted, *inner);
    SearchOptions options;
    options.max_evaluations = 10000000;
    options.max_gradient_equivalents = budget;
    options.box = box;
    options.seed = seed;
    options.callback = watch;
    try {
      course.theta = search<Vec>(method, value, start, options).theta;
    } catch (const InvalidInput&) {
      return {};
    }
    return course;
  }
  SolveOptions options;
  options.max_iterations = 1000000;
  options.gradient_tolerance = 1e-7;
  options.box = box;
  options.callback = watch;
  EstimatorChoice choice = estimator_named(method.substr(0, method.find(',')));
  if (auto* random = std::get_if<RandomDifferenceOptions>(&choice)) {
    random->pairs = 8;
    random->seed = seed;
  }
  const auto estimator = make_estimator<Vec>(choice, counted, *inner);
  const bool adam = method.ends_with("Adam");
  // Sharper tolerances do not make random directions any better.
  if (adam) options.tolerances = ToleranceSchedule::fixed(1e-6, 1e-6);
  const auto optimizer = adam ? make_optimizer("adam", 0.3) : make_optimizer("lbfgs");
  course.theta = solve<Vec>(*estimator, *optimizer, start, options).theta;
  return course;
}

/// The outer loss itself, whatever a method believes.
double true_value(problems::ReferenceProblem& problem, const Vec& theta) {
  MinimiserOptions tight;
  tight.gradient_tolerance = 1e-12;
  const auto inner = make_inner_solver<Vec>("newton", problem, tight);
  return SettledValue<Vec>(problem, *inner).at(theta).value;
}

/// What a method has after the last evaluation that the budget covers: runs repeat themselves, so the second
/// one can be stopped there.
std::optional<double> reached(const std::string& method, problems::ReferenceProblem& problem, double budget,
                              std::uint64_t seed) {
  const auto first = run(method, problem, budget, std::numeric_limits<long>::max(), seed);
  if (!first) return {};
  if (first->within == 0) return true_value(problem, problem.initial_theta());
  return true_value(problem, run(method, problem, budget, first->within, seed)->theta);
}

std::unique_ptr<problems::ReferenceProblem> make(bool logistic, Index penalties) {
  problems::LinearModelOptions data;
  data.features = penalties == 1 ? 20 : penalties;
  data.strong = penalties == 5 ? 1 : 4;
  data.penalty = penalties == 1 ? problems::Penalty::global : problems::Penalty::per_feature;
  data.rows = 60;
  data.validation_rows = 60;
  data.noise = 3;
  if (logistic) return std::make_unique<problems::Logistic>(problems::Logistic::random(data));
  return std::make_unique<problems::Ridge>(problems::Ridge::random(data));
}

}  // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 2000;
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 11;
  if (!(budget > 0) || seeds < 1) {
    fmt::print(stderr, "usage: bench_search [BUDGET > 0] [SEEDS > 0]\n");
    return 2;
  }
  const std::vector<Index> sizes{1, 5, 20};
  std::vector<std::vector<std::string>> cells(entries.size());
  for (const bool logistic : {false, true})
    for (const Index penalties : sizes) {
      const auto problem = make(logistic, penalties);
      const double first = true_value(*problem, problem->initial_theta());
      double best = everywhere;
      std::vector<std::optional<double>> values;
      for (const Entry& entry : entries) {
        std::vector<double> all;
        bool began = true;
        for (int seed = 1; began && seed <= (entry.seeded ? seeds : 1); ++seed) {
          const auto value = reached(entry.name, *problem, budget, static_cast<std::uint64_t>(seed));
          began = value.has_value();
          if (began) all.push_back(*value);
        }
        if (began) {
          best = std::min(best, *std::min_element(all.begin(), all.end()));
          std::nth_element(all.begin(), all.begin() + static_cast<long>(all.size() / 2), all.end());
          values.emplace_back(all[all.size() / 2]);
        } else {
          values.emplace_back();
        }
      }
      // No budget: what the certified gradient finds when it may take as long as it likes.
      best = std::min(best, *reached("implicit-direct, L-BFGS", *problem, everywhere, 1));
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const double left = values[i] ? (*values[i] - best) / (first - best) : unknown;
        cells[i].push_back(!values[i]     ? "too many points"
                           : left < 1e-10 ? "< 1e-10"
                                          : fmt::format("{:.1e}", left));
      }
    }
  fmt::print(
      "| {:.0f} gradient equivalents | ridge, 1 | ridge, 5 | ridge, 20 | logistic, 1 | logistic, 5 | "
      "logistic, 20 |\n",
      budget);
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < entries.size(); ++i)
    fmt::print("| {} | {} |\n", entries[i].name, fmt::join(cells[i], " | "));
}
