#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include "scratch.hpp"

namespace program {

/// Rows of four features, one of them a category, and a target: "number", "count", or that many classes.
inline std::string data_file(const std::string& name, int rows, const std::string& target,
                             std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const char* colours[] = {"red", "green", "blue, dark"};
  std::ostringstream out;
  out.precision(17);
  out << "size,weight,\"colour\",noise,answer\n";
  for (int i = 0; i < rows; ++i) {
    const double size = 30 + 5 * normal(engine), weight = normal(engine), noise = normal(engine);
    const auto colour = engine() % 3;
    const double margin = 0.3 * (size - 30) - weight + (colour == 0 ? 1 : 0) + 0.5 * normal(engine);
    out << size << "," << weight << ",\"" << colours[colour] << "\"," << noise << ",";
    if (target == "number")
      out << 100 + 10 * margin;
    else if (target == "count")
      out << std::floor(std::exp(std::min(3.0, 0.5 * margin + 0.5)));
    else
      out << (target == "2" ? (margin > 0 ? "yes" : "no")
              : margin > 1  ? "high"
              : margin > -1 ? "middle"
                            : "low");
    out << "\n";
  }
  return write(name, out.str());
}

}  // namespace program
