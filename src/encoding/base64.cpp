#include <bilevel/encoding/base64.hpp>

#include <algorithm>
#include <array>

namespace bilevel {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<signed char, 256> places = [] {
  std::array<signed char, 256> of{};
  of.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    of[static_cast<unsigned char>(alphabet[i])] = static_cast<signed char>(i);
  return of;
}();

}  // namespace

void append_base64(const void* bytes, std::size_t size, std::string& text) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  text.reserve(text.size() + (size + 2) / 3 * 4);
  for (std::size_t i = 0; i < size; i += 3) {
    const std::size_t count = std::min<std::size_t>(3, size - i);
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? from[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? alphabet[group >> (18 - 6 * k) & 63] : '=';
  }
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  unsigned group = 0;
  int bits = 0;
  for (const char c : text) {
    const int place = places[static_cast<unsigned char>(c)];
    if (place < 0) return std::nullopt;
    group = (group << 6 | static_cast<unsigned>(place)) & 0xffffff;
    if ((bits += 6) >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 0xff);
  }
  return bytes;
}

}  // namespace bilevel
