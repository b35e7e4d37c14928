#include <string_view>
#include <vector>

#include "bilevel/commands.hpp"

/// `bilevel paper`, which becomes this program; the word may be left out.
int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  static char word[] = "paper";
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first != word && first != "--version") arguments.insert(arguments.begin() + (argc > 0), word);
  arguments.push_back(nullptr);
  return app::run_program(static_cast<int>(arguments.size()) - 1, arguments.data(),
                          {{"paper", app::add_paper}});
}
