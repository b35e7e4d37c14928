#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include <bilevel/outcome/violations.hpp>

#include "commands.hpp"

namespace app {
namespace {

/// The claims take a third of the time to compile and few people need them: a program of its own, beside this
/// one.
constexpr const char* claims_program = "bilevel-paper";

std::string why_not;

/// Becomes that program; returns where that is not possible.
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

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "paper") app::become_claims_program(argv);
  return app::run_program(argc, argv,
                          {{"tune", app::add_tune},
                           {"predict", app::add_predict},
                           {"clean", app::add_clean},
                           {"train", app::add_train},
                           {"doctor", app::add_doctor},
                           {"solve", app::add_solve},
                           {"compare", app::add_compare},
                           {"paper", app::add_absent_paper}});
}
