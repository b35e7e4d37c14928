#pragma once

#include <string>
#include <string_view>

namespace app {

/// Exit codes, the same for every command.
enum Exit { ok = 0, no = 1, bad_input = 2, internal_error = 3 };

enum class Colour { green, yellow, red, bold };

/// The text in colour where standard output is a terminal and NO_COLOR is not set; as it is elsewhere.
std::string coloured(Colour colour, std::string_view text);

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
