#include <bilevel/outer/impl/search.hpp>
#include <algorithm>
#include <cmath>
#include <random>

#include "outer/search_run.hpp"

namespace bilevel {

Violations SearchOptions::validate() const {
  Violations v("search");
  v.at_least("max_evaluations", max_evaluations, 1);
  v.require(max_gradient_equivalents > 0, "max_gradient_equivalents", max_gradient_equivalents,
            "must be positive");
  v.require(max_seconds > 0, "max_seconds", max_seconds, "must be positive");
  v.not_negative("theta_tolerance", theta_tolerance);
  return v;
}

std::vector<std::string> search_names() {
  return {"random-search", "grid-search", "nlopt-bobyqa", "nlopt-direct"};
}

bool is_search(std::string_view name) {
  const auto names = search_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

namespace detail {

SearchRun::SearchRun(std::string_view name, const Evaluate& evaluate, const Eigen::VectorXd& start,
                     const SearchOptions& options)
    : evaluate_(evaluate), options_(options), start_(start) {
  options.box.project(start_);
  summary_.optimizer = name;
  summary_.estimator = "settled-value";
  summary_.certificate.reason = "a search of values has no gradient";
  summary_.outer_value = everywhere;
  summary_.theta = start_;
}

double SearchRun::evaluate(const Eigen::VectorXd& theta) {
  Evaluation e = evaluate_(theta);
  ++summary_.evaluations;
  summary_.cost += e.cost;
  const bool counts =
      std::isfinite(e.value) && e.status != Status::diverged && e.status != Status::not_finite;
  if (!counts)
    trouble_ = fmt::format("; evaluation {} counted as infinite: {}", summary_.evaluations, e.message);
  HistoryEntry entry;
  entry.accepted = counts && e.value < summary_.outer_value;
  entry.outer_value = e.value;
  entry.inner_tolerance = e.tolerance;
  entry.seconds = watch_.seconds();
  if (entry.accepted) {
    if (std::isfinite(summary_.outer_value)) ++summary_.iterations;
    summary_.outer_value = e.value;
    summary_.theta = theta;
    summary_.phi = e.phi();
    summary_.used_inner_tolerance = e.tolerance;
    best_message_ =
        succeeded(e.status) ? "" : fmt::format("; its inner solve ended {}: {}", name(e.status), e.message);
  }
  entry.iteration = summary_.iterations;
  summary_.history.push_back(entry);

  if (options_.callback && !options_.callback(entry)) {
    stop(Status::interrupted, best());
  } else if (summary_.evaluations >= options_.max_evaluations) {
    stop(Status::iteration_limit,
         fmt::format("the budget of {} evaluations is spent; {}", options_.max_evaluations, best()));
  } else if (const double spent = summary_.cost.gradient_equivalents();
             spent >= options_.max_gradient_equivalents) {
    stop(Status::iteration_limit,
         fmt::format("{:.1f} of a budget of {:.1f} gradient equivalents are spent; {}", spent,
                     options_.max_gradient_equivalents, best()));
  } else if (entry.seconds > options_.max_seconds) {
    stop(Status::time_limit, fmt::format("{:.3g} s are over; {}", options_.max_seconds, best()));
  }
  return counts ? e.value : everywhere;
}

double SearchRun::evaluations_left() const {
  const double by_count = static_cast<double>(options_.max_evaluations - summary_.evaluations);
  const double spent = summary_.cost.gradient_equivalents();
  const double each = spent / static_cast<double>(std::max(1L, summary_.evaluations));
  return each > 0 ? std::min(by_count, (options_.max_gradient_equivalents - spent) / each) : by_count;
}

void SearchRun::stop(Status status, std::string message) {
  if (over()) return;
  summary_.status = status;
  summary_.message = std::move(message);
}

std::string SearchRun::best() const {
  return fmt::format("best outer loss {:.10g} after {} evaluations and {} improvements", summary_.outer_value,
                     summary_.evaluations, summary_.iterations);
}

Summary SearchRun::finish() {
  if (!std::isfinite(summary_.outer_value)) {
    summary_.outer_value = unknown;
    if (summary_.status != Status::interrupted) summary_.status = Status::not_finite;
    summary_.message = fmt::format("no evaluation of {} gave a finite outer loss", summary_.evaluations);
  }
  summary_.message += best_message_ + trouble_;
  summary_.seconds = watch_.seconds();
  return std::move(summary_);
}

namespace {

void random_search(SearchRun& run) {
  const Box& box = run.options().box;
  std::mt19937_64 engine(run.options().seed);
  run.evaluate(run.start());
  Eigen::VectorXd theta(run.size());
  while (!run.over()) {
    for (Index i = 0; i < theta.size(); ++i) {
      // 53 bits, by hand: the standard leaves its distributions to the implementation.
      const double fraction = static_cast<double>(engine() >> 11) * 0x1p-53;
      theta[i] = box.lower[i] + fraction * (box.upper[i] - box.lower[i]);
    }
    run.evaluate(theta);
  }
}

/// The most levels with levels^dimensions ≤ points.
long levels_for(double points, Index dimensions) {
  long levels = 1;
  while (levels < 1'000'000 &&
         std::pow(static_cast<double>(levels + 1), static_cast<double>(dimensions)) <= points)
    ++levels;
  return levels;
}

void grid_search(SearchRun& run) {
  const Box& box = run.options().box;
  std::vector<Index> free;
  for (Index i = 0; i < run.size(); ++i)
    if (box.lower[i] < box.upper[i]) free.push_back(i);
  const auto dimensions = static_cast<Index>(free.size());
  const double needed = std::pow(2.0, static_cast<double>(dimensions)) + 1;
  const auto refuse = [&](double allowed) {
    return InvalidInput(fmt::format(
        "grid-search: two levels in each of {} dimensions and the start are {:.6g} evaluations, the "
        "budget allows {:.0f}: raise it, or use another search or a gradient",
        dimensions, needed, std::floor(allowed)));
  };
  if (needed > static_cast<double>(run.options().max_evaluations))
    throw refuse(static_cast<double>(run.options().max_evaluations));

  run.evaluate(run.start());
  const double left = run.evaluations_left();
  if (run.over()) return;
  const long levels = dimensions > 0 ? levels_for(left, dimensions) : 1;
  if (levels < 2 && dimensions > 0) throw refuse(1 + left);

  // To and fro in each dimension, so that neighbours follow each other and warm starts are near.
  std::vector<long> place(free.size(), 0), way(free.size(), 1);
  Eigen::VectorXd theta = box.lower;
  while (!run.over()) {
    for (std::size_t k = 0; k < free.size(); ++k) {
      const Index i = free[k];
      const double fraction = static_cast<double>(place[k]) / static_cast<double>(levels - 1);
      theta[i] =
          place[k] == levels - 1 ? box.upper[i] : box.lower[i] + fraction * (box.upper[i] - box.lower[i]);
    }
    run.evaluate(theta);
    std::size_t k = 0;
    while (k < free.size() && (place[k] + way[k] < 0 || place[k] + way[k] >= levels)) way[k] = -way[k], ++k;
    if (k == free.size()) {
      run.stop(Status::iteration_limit, fmt::format("the grid of {} levels in {} dimensions is complete; {}",
                                                    levels, dimensions, run.best()));
      break;
    }
    place[k] += way[k];
  }
}

void require_finite_box(std::string_view name, const Box& box) {
  if (box.lower.size() == 0 || box.upper.size() == 0 || !box.lower.allFinite() || !box.upper.allFinite())
    throw InvalidInput(
        fmt::format("{} looks everywhere within bounds: give finite lower and upper bounds of every "
                    "element of theta, or use nlopt-bobyqa",
                    name));
}

}  // namespace

Summary search(std::string_view name, const Evaluate& evaluate, const Eigen::VectorXd& start,
               const SearchOptions& options) {
  if (!is_search(name))
    throw InvalidInput(
        fmt::format("there is no search '{}'; there are: {}", name, fmt::join(search_names(), ", ")));
  options.validate().add(options.box.validate(start.size())).throw_if_any();
  if (name != "nlopt-bobyqa") require_finite_box(name, options.box);
  SearchRun run(name, evaluate, start, options);
  if (name == "random-search")
    random_search(run);
  else if (name == "grid-search")
    grid_search(run);
  else
    nlopt_search(name, run);
  return run.finish();
}

}  // namespace detail

template Summary search(std::string_view, SettledValue<Eigen::VectorXd>&, const Eigen::VectorXd&, const SearchOptions&);
template Summary search(std::string_view, SettledValue<Eigen::VectorXf>&, const Eigen::VectorXf&, const SearchOptions&);

}  // namespace bilevel
