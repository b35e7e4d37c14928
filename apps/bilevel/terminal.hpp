#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace app {

/// Exit codes, the same for every command.
enum Exit { ok = 0, no = 1, bad_input = 2, internal_error = 3 };

enum class Colour { plain, green, yellow, red, bold };

/// The text in colour where standard output is a terminal and NO_COLOR is not set; as it is elsewhere.
std::string coloured(Colour colour, std::string_view text);

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
