#include "base64.hpp"

#include <algorithm>
#include <cstdint>

namespace report {

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<std::uint8_t>(c);
    for (held += 8; held >= 6; held -= 6) result += digits[bits >> (held - 6) & 63];
  }
  if (held > 0) result += digits[bits << (6 - held) & 63];
  while (result.size() % 4 != 0) result += '=';
  return result;
}

bool is_base64(std::string_view text, std::size_t bytes) {
  if (text.size() != (bytes + 2) / 3 * 4) return false;
  const std::size_t padding = (3 - bytes % 3) % 3;
  const auto is_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  };
  const std::string_view digits = text.substr(0, text.size() - padding);
  return std::all_of(digits.begin(), digits.end(), is_digit) &&
         text.substr(digits.size()) == std::string_view("==").substr(0, padding);
}

}  // namespace report
