#pragma once

#include <string>
#include <variant>
#include <vector>

#include <bilevel/gradient/estimator_choice.hpp>

namespace bilevel {

/// All that there is of equilibrium propagation, listed or not.
inline std::vector<std::string> equilibrium_propagation_names() {
  std::vector<std::string> names;
  for (int p = Stencil::least_points; p <= Stencil::most_points; ++p)
    names.push_back(name(EquilibriumPropagationOptions{.points = p}));
  names.push_back(name(EquilibriumPropagationOptions{.nudge = Nudge::central}));
  names.push_back(name(EquilibriumPropagationOptions{.nudge = Nudge::random_sign}));
  return names;
}

/// `options` with nudge and points as the name says.
inline EquilibriumPropagationOptions equilibrium_propagation_options(
    std::string_view name, EquilibriumPropagationOptions options = {}) {
  const auto named = std::get<EquilibriumPropagationOptions>(estimator_named(name));
  options.nudge = named.nudge;
  options.points = named.points;
  return options;
}

}  // namespace bilevel
