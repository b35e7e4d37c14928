#include "data/complaint.hpp"

namespace bilevel::data {

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string result = "'";
  for (const char character : text.substr(0, longest)) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += character;
    }
  }
  if (text.size() > longest) {
    // Half a character of several bytes would make the whole message invalid.
    while (result.size() > 1 && (static_cast<unsigned char>(result.back()) & 0x80) != 0) result.pop_back();
    result += "…";
  }
  return result + "'";
}

}  // namespace bilevel::data
