#pragma once

#include <string_view>
#include <vector>

#include "commands.hpp"

namespace app {

/// What main of a sister program does: `bilevel WORD …`, which became this program; the word may be left out.
inline int run_sister(int argc, char** argv, char* word, const Command& command) {
  std::vector<char*> arguments(argv, argv + argc);
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first != word && first != "--version") arguments.insert(arguments.begin() + (argc > 0), word);
  arguments.push_back(nullptr);
  return run_program(static_cast<int>(arguments.size()) - 1, arguments.data(), {command});
}

}  // namespace app
