#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

namespace bilevel::models {

/// The classes of a target: levels of text, or the distinct numbers in ascending order.
struct Classes {
  std::vector<double> values;
  std::vector<std::string> names;  ///< of 1,000 classes at most: more are none

  /// −1 where it is none of them.
  int of(double value) const;
};

Classes classes_of(const bilevel::data::Dataset& d);

}  // namespace bilevel::models
