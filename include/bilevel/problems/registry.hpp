#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// What can be said about a ready-made problem from outside; 0 (or empty) leaves the family's own default. A
/// family that does not have a setting refuses it.
struct Settings {
  Index phi = 0;
  Index theta = 0;
  Index samples = 0;
  double condition = 0;
  std::string penalty = {};  ///< "global" or "per-feature"
  std::uint64_t seed = 1;
};

struct Family {
  std::string_view name;
  std::string_view summary;
  std::function<std::unique_ptr<ReferenceProblem>(const Settings&)> make;
};

/// Every ready-made family, in the order of the documentation.
const std::vector<Family>& families();

/// Throws InvalidInput that lists the names where there is no such family.
std::unique_ptr<ReferenceProblem> make(std::string_view name, const Settings& settings = {});

}  // namespace bilevel::problems
