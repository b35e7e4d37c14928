#include "claims_program.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <bilevel/outcome/violations.hpp>

#include "commands.hpp"

namespace app {
namespace {

constexpr const char* claims_program = "bilevel-paper";
std::string why_not;

}  // namespace

void become_claims_program(char** argv) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::execv((own.parent_path() / claims_program).c_str(), argv);
  why_not = error ? error.message() : std::strerror(errno);
}

std::function<int()> add_absent_paper(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("paper", "Put every claim of the paper to the test, against its ground truth");
  command.allow_extras();
  command.set_help_flag();
  return []() -> int {
    throw bilevel::InvalidInput(fmt::format(
        "paper: the claims are a program of their own, {}, which has to be beside this one ({}); build it by "
        "cmake --build build --target bilevel_paper",
        claims_program, why_not));
  };
}

}  // namespace app
