#include "terminal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace app {

namespace {

int failure = 0;

/// How many bytes of a well-formed character stand here; 0 where there is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

/// Of a well-formed character.
unsigned code_of(std::string_view text) {
  unsigned code =
      static_cast<unsigned char>(text[0]) & (text.size() == 1 ? 0x7fU : 0xffU >> (text.size() + 1));
  for (std::size_t i = 1; i < text.size(); ++i)
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  return code;
}

/// Control characters, also those of eight bits, and marks of direction and of lines.
bool moves_the_terminal(unsigned code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0) ||
         (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || (code >= 0xd800 && code < 0xe000);
}

}  // namespace

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character(text);
    const unsigned code = length > 0 ? code_of(text.substr(0, length)) : static_cast<unsigned char>(text[0]);
    if (length > 0 && !moves_the_terminal(code))
      out += text.substr(0, length);
    else
      out += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

void write_raw(std::FILE* to, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), to) != text.size() && to == stdout && failure == 0)
    failure = errno;
}

int output_failure() {
  errno = 0;
  if (std::fflush(stdout) != 0 && failure == 0) failure = errno;
  return failure;
}

Painted coloured(Colour colour, std::string_view text) {
  static const bool enabled = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  if (!enabled || colour == Colour::plain) return {visible(text)};
  const char* code = "1";
  if (colour == Colour::green) code = "32";
  if (colour == Colour::yellow) code = "33";
  if (colour == Colour::red) code = "31";
  return {fmt::format("\x1b[{}m{}\x1b[0m", code, visible(text))};
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
      say("{}\n", line);
      line = std::string(hang, ' ') + word;
    } else {
      line += (begins ? "" : " ") + word;
    }
  }
  say("{}\n", line);
}

void print_entry(std::string_view label, std::string_view text, Colour colour) {
  constexpr std::size_t indent = 18;
  std::string head =
      coloured(colour, label).text + std::string(indent - std::min(indent, columns(label)), ' ');
  for (const std::string& line : wrapped(text, page - indent)) {
    write_raw(stdout, fmt::format("{}{}\n", head, visible(line)));
    head.assign(indent, ' ');
  }
}

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) write_raw(stderr, "\r\x1b[K");
}

void Progress::show(std::string_view line) {
  if (!visible_) return;
  say(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace app
