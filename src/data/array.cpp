#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/complaint.hpp"
#include "data/formats.hpp"

namespace bilevel::data {
namespace {

template <class Number>
void decode(const char* bytes, Index count, bool swap, double* into) {
  for (Index k = 0; k < count; ++k) {
    char raw[sizeof(Number)];
    std::memcpy(raw, bytes + k * static_cast<Index>(sizeof(Number)), sizeof(Number));
    if (swap) std::reverse(raw, raw + sizeof(Number));
    Number number;
    std::memcpy(&number, raw, sizeof(Number));
    into[k] = static_cast<double>(number);
  }
}

/// IEEE 754 binary16: sign, five bits of exponent (bias 15), ten of fraction.
double half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double magnitude = std::ldexp(fraction, -24);
  if (exponent == 31) {
    magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

void decode_half(const char* bytes, Index count, bool swap, double* into) {
  for (Index k = 0; k < count; ++k) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * k, 2);
    if (swap) bits = static_cast<std::uint16_t>((bits << 8) | (bits >> 8));
    into[k] = half(bits);
  }
}

void decode(const Element& element, const char* bytes, Index count, double* into) {
  const bool swap = element.big_endian == (std::endian::native == std::endian::little);
  const auto with = [&]<class Number>(Number) { decode<Number>(bytes, count, swap, into); };
  if (element.kind == 'f') {
    if (element.bytes == 2) return decode_half(bytes, count, swap, into);
    return element.bytes == 4 ? with(float{}) : with(double{});
  }
  const bool is_signed = element.kind == 'i';
  switch (element.bytes) {
    case 1:
      return is_signed ? with(std::int8_t{}) : with(std::uint8_t{});
    case 2:
      return is_signed ? with(std::int16_t{}) : with(std::uint16_t{});
    case 4:
      return is_signed ? with(std::int32_t{}) : with(std::uint32_t{});
    default:
      return is_signed ? with(std::int64_t{}) : with(std::uint64_t{});
  }
}

}  // namespace

std::pair<Index, Index> checked_shape(const Array& array, const std::string& file, const Limits& limits) {
  const std::string shape = fmt::format("{}", fmt::join(array.shape, " × "));
  std::int64_t columns = 1;
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    const std::int64_t size = array.shape[axis];
    if (size <= 0) complain(file, "declares an array of {}, which has no cells", shape);
    if (axis > 0 && size > limits.columns / columns) {
      complain(file, "declares an array of {}, more than {} columns, the limit; is the file damaged?", shape,
               limits.columns);
    }
    if (axis > 0) columns *= size;
  }
  if (array.shape.front() > limits.cells / columns) {
    complain(file, "declares an array of {}, more than {} cells, the limit; is the file damaged?", shape,
             limits.cells);
  }
  return {array.shape.front(), columns};
}

void Elements::await(Index count) {
  const auto bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(element_.bytes);
  const std::size_t held = stream_.ahead(bytes).size();
  if (held < bytes) {
    complain(stream_.name(),
             "ends at byte {} with {} of the {} cells it declares; make or fetch the file again",
             stream_.consumed() + held, taken_ + static_cast<Index>(held) / element_.bytes, total_);
  }
}

void Elements::take(Index count, double* into) {
  const auto bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(element_.bytes);
  decode(element_, stream_.ahead(bytes).data(), count, into);
  stream_.consume(bytes);
  taken_ += count;
}

void Elements::finish() {
  if (!stream_.ahead(1).empty()) {
    complain(stream_.name(), "goes on at byte {} after the {} cells it declares; is the file damaged?",
             stream_.consumed(), total_);
  }
}

}  // namespace bilevel::data
