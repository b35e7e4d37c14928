#pragma once

#include <string>
#include <vector>

namespace app {

/// What the library says of its options, "TuneOptions.folds = 1 must …" or "`free_steps` must …", in the words of
/// the command line: "--cv 1 must …", "--free-steps must …".
std::string as_flags(const std::string& text);
void as_flags(std::vector<std::string>& texts);

}  // namespace app
