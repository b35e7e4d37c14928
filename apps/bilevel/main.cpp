#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/version.hpp>

#include "commands.hpp"
#include "data_output.hpp"
#include "terminal.hpp"
#include "wide_blas.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App program(
      "Learn the parameters of anything that settles: min over θ of L_out(φ*, θ), where φ* minimises L_in(φ, "
      "θ).\n"
      "Every outer gradient comes with a certificate of its error.",
      "bilevel");
  program.set_version_flag("--version", fmt::format("bilevel {}", bilevel::version));
  program.require_subcommand(1);
  program.footer(
      "Examples:\n"
      "  bilevel tune data.csv --target y --report report.html   tune a model's penalties on your data\n"
      "  bilevel clean data.csv --target y --trusted good.csv    find the rows whose labels are wrong\n"
      "  bilevel train mnist/ --energy hopfield --layers 784-512-10   train a network that settles\n"
      "  bilevel doctor --problem logistic          is this problem fit for gradient-based learning?\n"
      "  bilevel solve --problem ridge --json r.json   learn its parameters\n"
      "  bilevel compare --problem ridge            every estimator side by side\n"
      "  bilevel paper --report paper.html          the claims behind all this, each put to the test\n\n"
      "Exit codes: 0 done and trustworthy, 1 the answer is no or not trustworthy, 2 bad usage or input, 3 "
      "internal error.");
  const std::vector<std::pair<std::string, std::function<int()>>> commands{
      {"tune", app::add_tune(program)},       {"predict", app::add_predict(program)},
      {"clean", app::add_clean(program)},     {"train", app::add_train(program)},
      {"doctor", app::add_doctor(program)},   {"solve", app::add_solve(program)},
      {"compare", app::add_compare(program)},
#ifdef BILEVEL_CLAIMS
      {"paper", app::add_paper(program)},
#endif
  };
  app::remember_command_line(argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? app::ok : app::bad_input;
  }
  for (const auto& [name, command] : commands)
    if (program.got_subcommand(name)) return command();
  return app::bad_input;
}

}  // namespace

int main(int argc, char** argv) {
  app::start_with_wide_blas(argv);
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0) {
      fmt::print(stderr, "bilevel: standard output could not be written\n");
      return app::internal_error;
    }
    return code;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "bilevel: there is not enough memory for a problem of this size; make it smaller\n");
    return app::bad_input;
  } catch (const bilevel::InvalidInput& error) {
    fmt::print(stderr, "bilevel: {}\n", error.what());
    return app::bad_input;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bilevel: internal error: {}\n", error.what());
    return app::internal_error;
  }
}
