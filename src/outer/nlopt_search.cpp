#include <cmath>
#include <exception>
#include <memory>

#include <nlopt.h>

#include "outer/search_run.hpp"

namespace bilevel::detail {
namespace {

/// What NLopt's callback sees. NLopt is C: no exception may cross it.
struct Objective {
  SearchRun& run;
  nlopt_opt optimizer;
  double start_value;
  double lowest, highest;  // of the finite values so far
  std::exception_ptr error = {};

  double operator()(const Eigen::VectorXd& theta) {
    // It was evaluated before NLopt began, which has a look of its own at its start.
    const double value = theta == run.start() ? start_value : run.evaluate(theta);
    if (std::isfinite(value)) {
      lowest = std::fmin(lowest, value);
      highest = std::fmax(highest, value);
      return value;
    }
    // Infinity would spoil a quadratic model for ever; this is merely much worse than all that has been seen.
    const double range = highest - lowest;
    return std::isfinite(range) ? highest + 10 * range + std::abs(highest) : 1e10;
  }
};

double call(unsigned n, const double* x, double* /*gradient*/, void* data) {
  auto& objective = *static_cast<Objective*>(data);
  double value = HUGE_VAL;
  if (!objective.run.over() && !objective.error) {
    try {
      value = objective(Eigen::Map<const Eigen::VectorXd>(x, n));
    } catch (...) {
      objective.error = std::current_exception();
    }
  }
  if (objective.run.over() || objective.error) nlopt_force_stop(objective.optimizer);
  return value;
}

}  // namespace

void nlopt_search(std::string_view name, SearchRun& run) {
  const double start_value = run.evaluate(run.start());
  if (run.over()) return;
  const auto n = static_cast<unsigned>(run.size());
  const Box& box = run.options().box;
  const bool local = name == "nlopt-bobyqa";
  const std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> owner(
      nlopt_create(local ? NLOPT_LN_BOBYQA : NLOPT_GN_DIRECT_L, n), &nlopt_destroy);
  if (!owner) throw std::bad_alloc();
  nlopt_opt optimizer = owner.get();
  const double seen = std::isfinite(start_value) ? start_value : unknown;
  Objective objective{run, optimizer, start_value, seen, seen};
  nlopt_set_min_objective(optimizer, call, &objective);
  if (box.lower.size()) nlopt_set_lower_bounds(optimizer, box.lower.data());
  if (box.upper.size()) nlopt_set_upper_bounds(optimizer, box.upper.data());
  if (local) {
    // A tenth of the box, or of θ's own size: the first model is built from points this far apart.
    Eigen::VectorXd step(run.size());
    for (Index i = 0; i < run.size(); ++i) {
      const double width = box.lower.size() && box.upper.size() ? box.upper[i] - box.lower[i] : everywhere;
      step[i] =
          width > 0 && std::isfinite(width) ? 0.1 * width : 0.25 * std::max(1.0, std::abs(run.start()[i]));
    }
    nlopt_set_initial_step(optimizer, step.data());
    nlopt_set_xtol_abs1(optimizer, run.options().theta_tolerance);
  }
  Eigen::VectorXd theta = run.start();
  double value = 0;
  const nlopt_result result = nlopt_optimize(optimizer, theta.data(), &value);
  if (objective.error) std::rethrow_exception(objective.error);
  if (run.over()) return;
  if (result > 0)
    run.stop(Status::converged, fmt::format("NLopt: {}; {}", nlopt_result_to_string(result), run.best()));
  else if (result == NLOPT_ROUNDOFF_LIMITED)
    run.stop(Status::stalled, fmt::format("NLopt: rounding errors end the search; {}", run.best()));
  else
    run.stop(Status::breakdown,
             fmt::format("NLopt: {} {}; {}", nlopt_result_to_string(result),
                         nlopt_get_errmsg(optimizer) ? nlopt_get_errmsg(optimizer) : "", run.best()));
}

}  // namespace bilevel::detail
