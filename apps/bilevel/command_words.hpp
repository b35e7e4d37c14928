#pragma once

#include <string>
#include <string_view>

namespace app {

/// What the library says of options, which it calls by the names of C++, `free_steps` or train.free_steps =
/// 3, in the words of a command: --free-steps, --free-steps 3.
std::string in_command_words(std::string_view text);

}  // namespace app
