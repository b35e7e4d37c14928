#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/gradient/settled_value.hpp>
#include <bilevel/outer/solve.hpp>

namespace bilevel {

/// When a search of θ by values alone ends, and where it may look. The budget comes in two currencies;
/// whichever is spent first ends the search.
struct SearchOptions {
  /// Whole solves, the start's among them; ≥ 1. 200 are what `solve` may take as iterations.
  long max_evaluations = 200;
  /// Cost::gradient_equivalents, for races with methods that use gradients; > 0. An evaluation that has begun
  /// is finished, so that the last one may exceed it. No limit unless given.
  double max_gradient_equivalents = std::numeric_limits<double>::infinity();
  double max_seconds = std::numeric_limits<double>::infinity();
  /// Where to look. Needed, with finite sides, by all but nlopt-bobyqa.
  Box box;
  /// Of random-search.
  std::uint64_t seed = 1;
  /// nlopt-bobyqa has converged when its trust region is at most this wide; ≥ 0. 1e-6 is finer than values
  /// that are accurate to twelve digits can tell.
  double theta_tolerance = 1e-6;
  /// Called after every evaluation; false stops the search with status `interrupted`.
  std::function<bool(const HistoryEntry&)> callback;

  Violations validate() const;
};

/// random-search, grid-search, nlopt-bobyqa, nlopt-direct.
std::vector<std::string> search_names();
bool is_search(std::string_view name);

/// Looks for the θ of smallest L_out(φ*(θ), θ) with no gradient, and returns the best θ it has seen. The
/// first evaluation is that of the start, projected onto the box.
///   random-search  uniform in the box
///   grid-search    as many levels in each dimension as the budget allows, the ends of the box among them
///   nlopt-bobyqa   a quadratic model in a trust region (Powell), local; NLopt's
///   nlopt-direct   dividing rectangles, locally biased (Gablonsky), global; NLopt's
/// Values that are not finite, and those of solves that diverged, count as infinite. There is no certificate.
template <Vector V>
Summary search(std::string_view name, SettledValue<V>& value, const V& start, const SearchOptions& options);

}  // namespace bilevel
