#pragma once

#include <string>
#include <vector>

#include <bilevel/files/container.hpp>
#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// Version 1 had no checksum, 2 not the best states.
inline constexpr FileKind grid_file{"bilevel-grid", 3};

/// The values of a grid so far with the states at the last and at the best one, kept in a file so that a
/// killed run goes on from there with the same numbers.
class Grid {
 public:
  /// `path` empty: kept nowhere. Throws InvalidInput where the file belongs to another run.
  Grid(std::string path, std::string identity, bool resume);

  const std::vector<GridPoint>& points() const { return points_; }
  const std::vector<Vec>& phi() const { return phi_; }
  const std::vector<Vec>& best_phi() const { return best_phi_; }
  /// `point.seconds` is how long this fit took.
  void add(GridPoint point, std::vector<Vec> phi);

 private:
  std::string path_, identity_;
  std::vector<GridPoint> points_;
  std::vector<Vec> phi_, best_phi_;
  double least_ = bilevel::everywhere;
};

}  // namespace bilevel::models
