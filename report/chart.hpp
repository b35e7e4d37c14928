#pragma once

#include <string>

#include "reading.hpp"

namespace report {

/// A chart of a page, checked, and in the form that page.js draws.
struct Chart {
  /// x, y: name, log, min, max; categories, horizontal; series: name, style, and x, y (with categories y
  /// alone, or x alone if horizontal);
  /// field: x, y, shades (255 at the largest value). Numbers have six significant digits.
  Json drawing;
  /// What someone hears who cannot see it.
  std::string spoken;
  /// What the drawing leaves out, "" if nothing.
  std::string omitted;
  /// The field's name and the ends of its scale, "" if there is none.
  std::string field_name, field_smallest, field_largest;
};

Chart read_chart(const Reading& block);

}  // namespace report
