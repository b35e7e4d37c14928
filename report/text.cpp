#include "text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

namespace report {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// The length of the valid UTF-8 sequence that `text` begins with, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, from)) {
    result += text.substr(from, at - from);
    result += with;
    from = at + what.size();
  }
  result += text.substr(from);
  return result;
}

}  // namespace

std::string clean(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<std::uint8_t>(text[0]);
    const bool c0 = first == 0x7F || (first < 0x20 && first != '\t' && first != '\n');
    const bool c1 = length == 2 && first == 0xC2 && static_cast<std::uint8_t>(text[1]) < 0xA0;
    if (length == 0 || c0 || c1)
      result += replacement;
    else
      result += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  const std::string valid = clean(text);
  result.reserve(valid.size());
  for (const char c : valid) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string script_json(const Json& value) {
  // Outside strings JSON has none of these characters, so they can be replaced wherever they stand.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::array<std::array<std::string_view, 2>, 5> escapes{{{"<", "\\u003c"},
                                                                    {">", "\\u003e"},
                                                                    {"&", "\\u0026"},
                                                                    {"\xE2\x80\xA8", "\\u2028"},
                                                                    {"\xE2\x80\xA9", "\\u2029"}}};
  for (const auto& [what, with] : escapes) text = replaced(text, what, with);
  return text;
}

std::string identifier(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (plain)
      result += c;
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result.empty() ? "section" : result;
}

std::string number_text(double value) {
  std::string text = fmt::format("{:.6g}", value);
  text = replaced(text, "e-0", "e-");
  text = replaced(text, "e+0", "e");
  text = replaced(text, "e+", "e");
  text = replaced(text, "-", "−");
  return text;
}

std::string tone(std::string_view status) {
  constexpr std::array good{"holds", "trusted", "converged"};
  constexpr std::array bad{"fails", "untrusted", "diverged"};
  if (std::find(good.begin(), good.end(), status) != good.end()) return "holds";
  return std::find(bad.begin(), bad.end(), status) != bad.end() ? "fails" : "";
}

std::string badge(std::string_view status) {
  if (status.empty()) return "";
  const std::string word = tone(status);
  return fmt::format("<span class=\"badge{}\">{}</span>", word.empty() ? "" : " " + word, escaped(status));
}

bool looks_like_number(std::string_view text) {
  constexpr std::string_view allowed = "0123456789.+-−eE·×⁰¹²³⁴⁵⁶⁷⁸⁹⁻<>≤≥≈±% ";
  constexpr std::string_view before_digits = "+-−<>≤≥≈± .";
  bool digits = false;
  while (!text.empty()) {
    const std::string_view symbol = text.substr(0, std::max<std::size_t>(1, sequence_length(text)));
    if (!digits && symbol[0] >= '0' && symbol[0] <= '9') digits = true;
    if ((digits ? allowed : before_digits).find(symbol) == std::string_view::npos) return false;
    text.remove_prefix(symbol.size());
  }
  return digits;
}

}  // namespace report
