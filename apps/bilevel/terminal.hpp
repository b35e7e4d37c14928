#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace app {

/// Exit codes, the same for every command.
enum Exit { ok = 0, no = 1, bad_input = 2, internal_error = 3 };

enum class Colour { plain, green, yellow, red, bold };

/// The text as a terminal may have it: control characters, which names of columns and files can hold, become
/// \x1b and the like, as do characters that turn the direction of writing and bytes that are no UTF-8. Line
/// breaks and tabs stay.
std::string visible(std::string_view text);

/// Text with control characters of the program's own.
struct Painted {
  std::string text;
};

/// The text, made visible, in colour where standard output is a terminal and NO_COLOR is not set.
Painted coloured(Colour colour, std::string_view text);

template <class T>
using Shown = std::conditional_t<std::is_convertible_v<const T&, std::string_view>, std::string, T>;
template <class T>
Shown<T> shown(const T& x) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return visible(x);
  else
    return x;
}
template <class... S>
std::string formatted(fmt::string_view text, S&&... s) {
  return fmt::vformat(text, fmt::make_format_args(s...));
}

/// What cannot be written is remembered for the end, see output_failure: the work goes on, since its results
/// go to files too.
void write_raw(std::FILE* to, std::string_view text);
/// The reason why standard output could not be written, once flushed; 0 where it could.
int output_failure();

/// All that the program says, to standard output or to `to`: texts among the arguments are made visible.
template <class... T>
void say(std::FILE* to, fmt::format_string<Shown<T>...> text, const T&... arguments) {
  write_raw(to, formatted(text, shown(arguments)...));
}
template <class... T>
void say(fmt::format_string<Shown<T>...> text, const T&... arguments) {
  write_raw(stdout, formatted(text, shown(arguments)...));
}

/// Every line of the output has at most this many columns.
inline constexpr std::size_t page = 100;

/// How many columns a text in UTF-8 takes.
std::size_t columns(std::string_view text);

/// The words of the text on lines of at most `width` columns.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// `head` and the words of `text` on as many lines as they need, the later ones indented by `hang`.
void print_wrapped(std::string head, const std::string& text, std::size_t hang);

/// A line of a result: what it says, and the text beside it, on as many lines as it needs.
void print_entry(std::string_view label, std::string_view text, Colour colour = Colour::plain);

/// A line that overwrites itself on standard error, where that is a terminal; nothing elsewhere.
class Progress {
 public:
  Progress();
  ~Progress();
  void show(std::string_view line);

 private:
  bool visible_;
  bool shown_ = false;
};

}  // namespace app

template <>
struct fmt::formatter<app::Painted> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const app::Painted& painted, Context& context) const {
    return fmt::formatter<std::string_view>::format(painted.text, context);
  }
};
