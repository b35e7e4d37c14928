#include "terminal.hpp"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace app {

std::string coloured(Colour colour, std::string_view text) {
  static const bool enabled = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  if (!enabled) return std::string(text);
  const char* code = "1";
  if (colour == Colour::green) code = "32";
  if (colour == Colour::yellow) code = "33";
  if (colour == Colour::red) code = "31";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
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
