#include "coloring.hpp"

#include <algorithm>
#include <utility>

namespace bilevel::adolc {

Coloring Coloring::of(Pattern pattern) {
  Coloring c;
  c.pattern = std::move(pattern);
  const std::size_t n = c.pattern.size();
  c.color.assign(n, -1);
  std::vector<std::size_t> taken_by;  // for each colour the last column that may not have it
  for (std::size_t j = 0; j < n; ++j) {
    for (const unsigned i : c.pattern[j])
      for (const unsigned k : c.pattern[i])
        if (c.color[k] >= 0) taken_by[static_cast<std::size_t>(c.color[k])] = j + 1;
    const auto free =
        std::find_if(taken_by.begin(), taken_by.end(), [&](std::size_t by) { return by != j + 1; });
    c.color[j] = static_cast<int>(free - taken_by.begin());
    if (free == taken_by.end()) taken_by.push_back(0);
  }
  c.colors = static_cast<int>(taken_by.size());
  return c;
}

}  // namespace bilevel::adolc
