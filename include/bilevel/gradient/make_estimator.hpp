#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/implicit.hpp>

namespace bilevel {

/// Every name that make_estimator knows: `exact`, `first-order`, `one-step`, and `implicit-` with the name of
/// an adjoint solver.
inline std::vector<std::string> estimator_names() {
  std::vector<std::string> names{"exact"};
  for (const std::string_view adjoint : adjoint_solver_names()) names.push_back(estimator_name(adjoint));
  return names;
}

/// An estimator by name. The problem and the inner solver must outlive it.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner, const AdjointOptions& adjoint = {},
                                             const ImplicitOptions& options = {}) {
  if (name == "exact") return std::make_unique<Exact<V>>(problem, inner, options);
  for (const std::string_view solver : adjoint_solver_names())
    if (name == estimator_name(solver))
      return std::make_unique<Implicit<V>>(problem, inner, make_adjoint_solver<V>(solver, adjoint), options);
  throw InvalidInput(
      fmt::format("there is no estimator '{}'; there are: {}", name, fmt::join(estimator_names(), ", ")));
}

}  // namespace bilevel
