#include "command_words.hpp"

#include <algorithm>

namespace app {
namespace {

/// The name of a field that stands at `at`, followed by `end`; empty where there is none.
std::string_view field_at(std::string_view text, std::size_t at, std::string_view end) {
  const std::size_t stop = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at), text.size());
  const std::string_view field = text.substr(at, stop - at);
  return text.substr(stop).starts_with(end) ? field : std::string_view();
}

void append_option(std::string_view field, std::string& words) {
  words += "--";
  for (const char c : field) words += c == '_' ? '-' : c;
}

}  // namespace

std::string in_command_words(std::string_view text) {
  constexpr std::string_view equals = " = ";
  std::string words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t taken = 0;
    const bool first = at == 0 || text[at - 1] == ' ';
    for (const std::string_view owner : {"`", "train.", "split."}) {
      if (!text.substr(at).starts_with(owner) || (owner != "`" && !first)) continue;
      const std::string_view end = owner == "`" ? owner : equals,
                             field = field_at(text, at + owner.size(), end);
      if (field.empty()) continue;
      append_option(field, words);
      if (end == equals) words += ' ';
      taken = owner.size() + field.size() + end.size();
      break;
    }
    if (taken == 0) {
      words += text[at];
      taken = 1;
    }
    at += taken;
  }
  return words;
}

}  // namespace app
