#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace bilevel::data::testing {

template <class Number>
std::string bytes_of(Number number, bool big_endian) {
  std::string bytes(reinterpret_cast<const char*>(&number), sizeof(Number));
  if (big_endian == (std::endian::native == std::endian::little)) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

template <class Number>
std::string elements(const std::vector<double>& values, bool big_endian) {
  std::string bytes;
  for (const double value : values) bytes += bytes_of(static_cast<Number>(value), big_endian);
  return bytes;
}

inline std::string idx(unsigned char type, const std::vector<std::uint32_t>& shape,
                       const std::string& cells) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) bytes += bytes_of(size, true);
  return bytes + cells;
}

inline std::string npy_with(const std::string& header, const std::string& cells, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  bytes += version == 1 ? bytes_of(static_cast<std::uint16_t>(header.size()), false)
                        : bytes_of(static_cast<std::uint32_t>(header.size()), false);
  return bytes + header + cells;
}

inline std::string npy(const std::string& descr, bool fortran, const std::string& shape,
                       const std::string& cells, int version = 1) {
  return npy_with(fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}          \n", descr,
                              fortran ? "True" : "False", shape),
                  cells, version);
}

}  // namespace bilevel::data::testing
