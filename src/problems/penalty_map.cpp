#include <bilevel/problems/penalty_map.hpp>

#include <cmath>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::problems {

PenaltyMap PenaltyMap::global(Index features, Index outputs) {
  return {std::vector<Index>(static_cast<std::size_t>(features * outputs), 0), 1, {}, {}};
}

PenaltyMap PenaltyMap::per_feature(Index features, Index outputs) {
  PenaltyMap map{{}, features, {}, {}};
  for (Index j = 0; j < features; ++j) map.of.insert(map.of.end(), static_cast<std::size_t>(outputs), j);
  return map;
}

PenaltyMap PenaltyMap::per_class(Index features, Index outputs) {
  PenaltyMap map{{}, outputs, {}, {}};
  for (Index j = 0; j < features; ++j)
    for (Index c = 0; c < outputs; ++c) map.of.push_back(c);
  return map;
}

PenaltyMap PenaltyMap::per_group(const std::vector<Index>& group, Index groups, Index outputs) {
  PenaltyMap map{{}, groups, {}, {}};
  for (const Index each : group) {
    if (each < 0 || each >= groups)
      throw InvalidInput(fmt::format("there is no group {} of {}", each, groups));
    map.of.insert(map.of.end(), static_cast<std::size_t>(outputs), each);
  }
  return map;
}

double PenaltyMap::spread() const {
  if (slope.size() == 0) return 1;
  const double steepest = slope.lpNorm<Eigen::Infinity>();
  return std::sqrt(1 + steepest * steepest);
}

void PenaltyMap::require_fits(Index coefficients, std::string_view owner) const {
  if (static_cast<Index>(of.size()) != coefficients || count < 1)
    throw InvalidInput(
        fmt::format("{}: there are penalties for {} coefficients of {}", owner, of.size(), coefficients));
  for (const Index each : of)
    if (each < 0 || each >= count)
      throw InvalidInput(fmt::format("{}: there is no penalty {} of {}", owner, each, count));
  for (const Eigen::VectorXd* list : {&offset, &slope})
    if (list->size() != 0 && (list->size() != coefficients || !list->allFinite()))
      throw InvalidInput(fmt::format(
          "{}: offsets and slopes of the penalties must be finite, one for each of the {} coefficients", owner,
          coefficients));
}

}  // namespace bilevel::problems
