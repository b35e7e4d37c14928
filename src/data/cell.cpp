#include "data/cell.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

constexpr std::array<double, 23> powers_of_ten = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

/// Of a number beyond the range of double: whether it is too small, not too large.
bool underflows(const char* at, const char* end) {
  long magnitude = 0;  // the value is 0.d… · 10^magnitude with d ≠ 0
  bool seen = false, point = false;
  for (; at != end && (is_digit(*at) || *at == '.' || *at == '-'); ++at) {
    if (*at == '.') {
      point = true;
    } else if (is_digit(*at)) {
      seen = seen || *at != '0';
      if (!point && seen) ++magnitude;
      if (point && !seen) --magnitude;
    }
  }
  long exponent = 0;
  if (at != end && (*at | 0x20) == 'e') {
    ++at;
    const bool negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    for (; at != end && is_digit(*at); ++at)
      exponent = std::min(exponent * 10 + (*at - '0'), 100'000'000'000L);
    if (negative) exponent = -exponent;
  }
  return magnitude + exponent < 0;
}

bool equals_lower(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char left, char right) {
    return (left >= 'A' && left <= 'Z' ? static_cast<char>(left + 32) : left) == right;
  });
}

enum class Extent { finite, infinite, none };

Extent parse(const char*& at, const char* end, double& value) {
  const char* const start = at != end && *at == '+' ? at + 1 : at;
  const char* place = start;
  const bool negative = place != end && *place == '-' && start == at;
  if (negative) ++place;
  std::uint64_t digits = 0;
  const char* const whole = place;
  for (; place != end && is_digit(*place); ++place)
    digits = digits * 10 + static_cast<unsigned>(*place - '0');
  auto count = place - whole;
  std::ptrdiff_t decimals = 0;
  if (place != end && *place == '.') {
    const char* const fraction = ++place;
    for (; place != end && is_digit(*place); ++place)
      digits = digits * 10 + static_cast<unsigned>(*place - '0');
    decimals = place - fraction;
    count += decimals;
  }
  if (count == 0) return Extent::none;
  // Both numbers are exact in double, so their quotient is rounded correctly.
  const bool exact = count <= 19 && digits <= (std::uint64_t{1} << 53);
  if (exact && (place == end || (*place | 0x20) != 'e')) {
    const double magnitude = static_cast<double>(digits) / powers_of_ten[static_cast<std::size_t>(decimals)];
    value = negative ? -magnitude : magnitude;
    at = place;
    return Extent::finite;
  }
  const auto [stop, error] = std::from_chars(start, end, value);
  if (error == std::errc::result_out_of_range) {
    const bool small = underflows(start, stop);
    if (small) value = negative ? -0.0 : 0.0;
    at = stop;
    return small ? Extent::finite : Extent::infinite;
  }
  if (error != std::errc{}) return Extent::none;
  at = stop;
  return Extent::finite;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

const char* parse_number(const char* at, const char* end, double& value) {
  return parse(at, end, value) == Extent::finite ? at : nullptr;
}

CellKind classify(std::string_view cell, double& value) {
  const char* at = cell.data();
  const char* const end = at + cell.size();
  const Extent extent = cell.empty() ? Extent::none : parse(at, end, value);
  if (extent != Extent::none && at == end) {
    return extent == Extent::finite ? CellKind::number : CellKind::infinite;
  }
  for (const std::string_view mark : {"", "na", "nan", "-nan", "n/a", "null", "?"}) {
    if (equals_lower(cell, mark)) return CellKind::missing;
  }
  if (cell.front() == '+' || cell.front() == '-') cell.remove_prefix(1);
  return equals_lower(cell, "inf") || equals_lower(cell, "infinity") ? CellKind::infinite : CellKind::text;
}

void Cells::begin(std::string_view line, Index number) {
  at_ = line.data();
  end_ = line.data() + line.size();
  number_ = number;
  if (delimiter_ == ' ') at_ = skip_blanks(at_, end_);
  more_ = delimiter_ != ' ' || at_ != end_;
}

const char* Cells::skip_inner_blanks(const char* at) const {
  while (at != end_ && is_blank(*at) && *at != delimiter_) ++at;
  return at;
}

void Cells::advance(const char* cell_end) {
  at_ = cell_end;
  if (delimiter_ == ' ') {
    at_ = skip_blanks(at_, end_);
    more_ = at_ != end_;
  } else {
    more_ = at_ != end_;
    if (more_) ++at_;
  }
}

bool Cells::next_number(double& value) {
  if (!more_) return false;
  const char* const start = delimiter_ == ' ' ? at_ : skip_inner_blanks(at_);
  const char* stop = parse_number(start, end_, value);
  if (stop == nullptr) return false;
  if (delimiter_ != ' ') stop = skip_inner_blanks(stop);
  if (!ends_at(stop)) return false;
  advance(stop);
  return true;
}

const char* Cells::quoted(const char* at, std::string_view& cell) {
  const char* piece = ++at;
  unescaped_.clear();
  while (true) {
    const auto* quote = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end_ - at)));
    if (quote == nullptr) {
      complain(file_, "line {}: a quoted cell is never closed; write a quote inside it twice", number_);
    }
    if (quote + 1 != end_ && quote[1] == '"') {
      unescaped_.append(piece, quote + 1);
      at = piece = quote + 2;
      continue;
    }
    if (unescaped_.empty()) {
      cell = {piece, static_cast<std::size_t>(quote - piece)};
    } else {
      unescaped_.append(piece, quote);
      cell = unescaped_;
    }
    return quote + 1;
  }
}

bool Cells::next(std::string_view& cell) {
  if (!more_) return false;
  const char* const start = delimiter_ == ' ' ? at_ : skip_inner_blanks(at_);
  const char* stop = start;
  if (start != end_ && *start == '"') {
    stop = quoted(start, cell);
    if (delimiter_ != ' ') stop = skip_inner_blanks(stop);
    if (!ends_at(stop)) {
      complain(file_, "line {}: text follows the closing quote of the cell {}; write a quote inside it twice",
               number_, shown(cell));
    }
  } else {
    if (delimiter_ == ' ') {
      while (stop != end_ && !is_blank(*stop)) ++stop;
    } else {
      const void* const found = std::memchr(start, delimiter_, static_cast<std::size_t>(end_ - start));
      stop = found == nullptr ? end_ : static_cast<const char*>(found);
    }
    cell = trimmed({start, static_cast<std::size_t>(stop - start)});
  }
  advance(stop);
  return true;
}

bool QuoteScan::open_after(std::string_view line) {
  for (; scanned_ < line.size(); ++scanned_) {
    const char character = line[scanned_];
    if (inside_) {
      if (character != '"') continue;
      if (scanned_ + 1 < line.size() && line[scanned_ + 1] == '"') {
        ++scanned_;
      } else {
        inside_ = cell_start_ = false;
      }
    } else if (character == delimiter_ || (delimiter_ == ' ' && is_blank(character))) {
      cell_start_ = true;
    } else if (character == '"' && cell_start_) {
      inside_ = true;
    } else if (!is_blank(character)) {
      cell_start_ = false;
    }
  }
  return inside_;
}

bool is_decimal_comma(std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos || comma + 1 == text.size()) return false;
  const auto made_of = [](std::string_view part, std::string_view characters) {
    return part.find_first_not_of(characters) == std::string_view::npos;
  };
  std::string_view whole = text.substr(0, comma), fraction = text.substr(comma + 1);
  if (!whole.empty() && (whole[0] == '-' || whole[0] == '+')) whole.remove_prefix(1);
  if (const std::size_t power = fraction.find_first_of("eE"); power != std::string_view::npos && power > 0) {
    if (!made_of(fraction.substr(power + 1), "+-0123456789")) return false;
    fraction = fraction.substr(0, power);
  }
  return made_of(whole, "0123456789.") && made_of(fraction, "0123456789");
}

namespace {

/// Whether the commas of a line are decimal ones, within cells that semicolons separate.
bool has_decimal_commas(std::string_view line) {
  bool commas = false;
  for (line = trimmed(line);;) {
    const std::size_t end = line.find(';');
    const std::string_view cell = trimmed(line.substr(0, end));
    if (cell.find(',') != std::string_view::npos) {
      if (!is_decimal_comma(cell)) return false;
      commas = true;
    }
    if (end == std::string_view::npos) return commas;
    line.remove_prefix(end + 1);
  }
}

}  // namespace

char find_delimiter(std::string_view line) {
  bool tab = false, comma = false, semicolon = false, blank = false, inside = false;
  for (const char character : trimmed(line)) {
    if (character == '"') inside = !inside;
    if (inside) continue;
    tab = tab || character == '\t';
    comma = comma || character == ',';
    semicolon = semicolon || character == ';';
    blank = blank || character == ' ';
  }
  if (semicolon && comma && !tab && has_decimal_commas(line)) return ';';
  return tab ? '\t' : comma ? ',' : semicolon ? ';' : blank ? ' ' : ',';
}

bool is_blank_line(std::string_view line, char delimiter) {
  return std::all_of(line.begin(), line.end(),
                     [&](char c) { return is_blank(c) && (c != delimiter || c == ' '); });
}

}  // namespace bilevel::data
