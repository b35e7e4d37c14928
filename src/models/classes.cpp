#include "classes.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace bilevel::models {

int Classes::of(double value) const {
  const auto place = std::lower_bound(values.begin(), values.end(), value);
  return place != values.end() && *place == value ? static_cast<int>(place - values.begin()) : -1;
}

Classes classes_of(const bilevel::data::Dataset& d) {
  Classes c{{d.target.begin(), d.target.end()}, {}};
  std::sort(c.values.begin(), c.values.end());
  c.values.erase(std::unique(c.values.begin(), c.values.end()), c.values.end());
  for (std::size_t k = 0; k < std::min<std::size_t>(c.values.size(), 1000); ++k)
    c.names.push_back(d.levels.empty() ? fmt::format("{}", c.values[k])
                                       : d.levels[static_cast<std::size_t>(c.values[k])]);
  return c;
}

}  // namespace bilevel::models
