#pragma once

#include <vector>

#include <Eigen/Core>

#include <bilevel/space/space.hpp>

namespace bilevel::adolc {

/// For each column of a symmetric matrix the rows with entries, in ascending order.
using Pattern = std::vector<std::vector<unsigned>>;

/// Colours for the columns of a symmetric matrix so that no row has entries in two columns of one colour: a
/// product with the sum of a colour's unit vectors holds all entries of its columns (Curtis, Powell and Reid
/// 1974). Greedy, in the order of the columns.
struct Coloring {
  Pattern pattern;
  std::vector<int> color;  // of each column
  int colors = 0;

  static Coloring of(Pattern pattern);
  bool empty() const { return colors == 0; }
};

}  // namespace bilevel::adolc
