#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <bilevel/networks/product_memory.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/version.hpp>

#include "commands.hpp"
#include "data_output.hpp"
#include "flags.hpp"
#include "terminal.hpp"
#include "wide_blas.hpp"

namespace {

/// An empty name of a file is an unset variable of a script, as a rule, and would silently do nothing.
void refuse_empty_files(CLI::App& program) {
  for (CLI::App* command : program.get_subcommands({}))
    for (CLI::Option* option : command->get_options())
      if (option->get_type_name().starts_with("FILE"))
        option->check([](const std::string& text) {
          return text.empty() ? std::string("the name is empty; give a file, or leave the option out")
                              : std::string();
        });
}

/// A stream that is closed would lend its number to the next file that is opened, and what is said would end
/// up in there. A pipe that nobody reads must not end the program before its files are written.
void prepare_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1)
      (void)!::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its writer
}

/// OpenMP makes as many threads as it is told to, and has no room for a hundred thousand.
void limit_threads() {
  namespace kernels = bilevel::problems::kernels;
  const int asked = kernels::threads();
  const int most = std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
  if (asked <= most) return;
  kernels::set_threads(most);
  // `asked` is no more than the library's own limit.
  const char* const said = std::getenv("OMP_NUM_THREADS");
  app::say(stderr, "bilevel: {} threads are asked for (OMP_NUM_THREADS); {} are used\n",
           said ? std::string(said) : fmt::format("{}", asked), most);
}

/// Under `ulimit -v` every thread counts: with its stack, and with what OpenBLAS takes for it, which waits
/// for ever where there is too little. So there is one thread, also of OpenBLAS, which reads its variable
/// before main.
void fit_into_address_space(char** argv) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr && ::setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
    app::start_again(argv);
  bilevel::problems::kernels::set_threads(1);
  if (!bilevel::networks::reserve_product_memory())
    throw bilevel::InvalidInput(fmt::format(
        "the address space is limited to {} MiB (ulimit -v), too little to work in; allow 512 MiB or more",
        limit.rlim_cur >> 20));
}

/// A first word that is no command, of which CLI11 would say that a command is missing.
void require_command(int argc, char** argv, const std::vector<app::Command>& known) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.starts_with('-')) return;
  std::vector<std::string_view> names;
  for (const app::Command& each : known) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), word) == names.end())
    throw bilevel::InvalidInput(
        fmt::format("there is no command '{}'; there are {}", word, fmt::join(names, ", ")));
}

int run_command(int argc, char** argv, const std::vector<app::Command>& known) {
  require_command(argc, argv, known);
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
      "  bilevel compare data.csv --target y --validation 0.25   the same on your data; doctor and solve "
      "take them too\n"
      "  bilevel report result.json                 the report of what --json wrote, later\n"
      "  bilevel paper --report paper.html          the claims behind all this, each put to the test\n\n"
      "Exit codes: 0 done and trustworthy, 1 the answer is no or not trustworthy, 2 bad usage or input, 3 "
      "internal error.");
  std::vector<std::pair<std::string_view, std::function<int()>>> commands;
  for (const app::Command& each : known) commands.emplace_back(each.name, each.add(program));
  refuse_empty_files(program);
  app::remember_command_line(argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> extras = program.remaining(true);
    throw bilevel::InvalidInput(fmt::format("not understood: {}; --help says what is", fmt::join(extras, " ")));
  } catch (const CLI::ParseError& error) {
    // Through the program's own edge: an argument may hold anything.
    std::ostringstream out, err;
    const int code = program.exit(error, out, err);
    app::say("{}", out.str());
    app::say(stderr, "{}{}", err.str().empty() ? "" : "bilevel: ", err.str());
    return code == 0 ? app::ok : app::bad_input;
  }
  for (const auto& [name, command] : commands)
    if (program.got_subcommand(std::string(name))) return command();
  return app::bad_input;
}

}  // namespace

int app::run_program(int argc, char** argv, const std::vector<Command>& commands) {
  start_with_wide_blas(argv);
  int code = internal_error;
  prepare_streams();
  try {
    fit_into_address_space(argv);
    limit_threads();
    code = run_command(argc, argv, commands);
  } catch (const std::bad_alloc&) {
    say(stderr, "bilevel: there is not enough memory for a problem of this size; make it smaller\n");
    code = bad_input;
  } catch (const bilevel::InvalidInput& error) {
    say(stderr, "bilevel: {}\n", as_flags(error.what()));
    code = bad_input;
  } catch (const std::exception& error) {
    say(stderr, "bilevel: internal error: {}\n", error.what());
  }
  const int failure = output_failure();
  if (failure == EPIPE) {
    // Who reads no more has what was wanted: end as every program in a pipe does.
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  if (failure != 0) {
    say(stderr, "bilevel: standard output could not be written: {}; files that were asked for are complete\n",
        std::strerror(failure));
    return code == internal_error ? code : bad_input;
  }
  return code;
}
