#include "data_output.hpp"

#include <string_view>

#include "terminal.hpp"

namespace app {
namespace {

std::string remembered;

std::string quoted(std::string_view word) {
  const std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

void print_certificate(const bilevel::Certificate& c) {
  print_entry("certificate",
              fmt::format("{} {}, bound {:.3g}: {}", name(c.kind), name(c.verdict), c.bound, c.reason));
}

void remember_command_line(int argc, char** argv) {
  remembered = "bilevel";
  for (int i = 1; i < argc; ++i) remembered += " " + quoted(argv[i]);
}

std::string command_line() {
  return remembered;
}

}  // namespace app
