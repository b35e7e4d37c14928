#pragma once

#include <string>
#include <vector>

#include "reading.hpp"

// The blocks of docs/report.md that are looked at rather than read, in HTML, without heading and caption.
namespace report {

/// The classes of the figure, its images as a list, and where they have signs, what the colours mean.
struct Images {
  std::string classes, html;
};
Images read_images(const Reading& block);

/// Counts in as many rows as columns; null is none.
std::vector<std::vector<double>> read_counts(const Reading& rows);

/// A block `confusion` as a table: how often each class was taken for each.
std::string confusion_table(const Reading& block);

}  // namespace report
