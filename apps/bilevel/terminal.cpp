#include "terminal.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace app {

std::string coloured(Colour colour, std::string_view text) {
  static const bool enabled = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  if (!enabled || colour == Colour::plain) return std::string(text);
  const char* code = "1";
  if (colour == Colour::green) code = "32";
  if (colour == Colour::yellow) code = "33";
  if (colour == Colour::red) code = "31";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::size_t columns(std::string_view text) {
  // Bytes that continue a character of UTF-8 are 10xxxxxx.
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> lines(1);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

void print_wrapped(std::string head, const std::string& text, std::size_t hang) {
  std::istringstream words(text);
  std::string line = std::move(head);
  for (std::string word; words >> word;) {
    const bool begins = line.find_first_not_of(' ') == std::string::npos;
    if (!begins && columns(line) + 1 + columns(word) > page) {
      fmt::print("{}\n", line);
      line = std::string(hang, ' ') + word;
    } else {
      line += (begins ? "" : " ") + word;
    }
  }
  fmt::print("{}\n", line);
}

void print_entry(std::string_view label, std::string_view text, Colour colour) {
  constexpr std::size_t indent = 18;
  std::string head = coloured(colour, label) + std::string(indent - std::min(indent, columns(label)), ' ');
  for (const std::string& line : wrapped(text, page - indent)) {
    fmt::print("{}{}\n", head, line);
    head.assign(indent, ' ');
  }
}

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::show(std::string_view line) {
  if (!visible_) return;
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace app
