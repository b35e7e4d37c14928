#include "sister_programs.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <bilevel/outcome/violations.hpp>

#include "commands.hpp"

namespace app {
namespace {

struct Sister {
  const char* word;
  const char* program;
  const char* description;
  const char* remedy;
};

constexpr Sister paper{"paper", "bilevel-paper",
                       "Put every claim of the paper to the test, against its ground truth",
                       "the claims are a program of their own, {}, which has to be beside this one ({}); "
                       "build it by cmake --build "
                       "build --target bilevel_paper"};
constexpr Sister meta{
    "meta", "bilevel-meta", "Learn what tasks share, so that a few rows or pictures teach the next one",
    "learning from tasks is a program of its own, {}, which has to be beside this one ({}); it needs "
    "LibTorch "
    "(scripts/install-dependencies libtorch) and is built by cmake --build build --target bilevel_meta"};

std::string why_not;

std::function<int()> add_absent(CLI::App& program, const Sister& sister) {
  CLI::App& command = *program.add_subcommand(sister.word, sister.description);
  command.allow_extras();
  command.set_help_flag();
  return [&sister]() -> int {
    throw bilevel::InvalidInput(fmt::format(
        "{}: {}", sister.word, fmt::format(fmt::runtime(sister.remedy), sister.program, why_not)));
  };
}

}  // namespace

void become_sister_program(int argc, char** argv) {
  for (const Sister* sister : {&paper, &meta}) {
    if (argc < 2 || std::string_view(argv[1]) != sister->word) continue;
    std::error_code error;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
    if (!error) ::execv((own.parent_path() / sister->program).c_str(), argv);
    why_not = error ? error.message() : std::strerror(errno);
  }
}

std::function<int()> add_absent_paper(CLI::App& program) {
  return add_absent(program, paper);
}
std::function<int()> add_absent_meta(CLI::App& program) {
  return add_absent(program, meta);
}

}  // namespace app
