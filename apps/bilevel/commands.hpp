#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace app {

/// Each adds its subcommand to the program and returns what to run, which gives the exit code.
std::function<int()> add_doctor(CLI::App& program);
std::function<int()> add_solve(CLI::App& program);
std::function<int()> add_compare(CLI::App& program);
std::function<int()> add_paper(CLI::App& program);
std::function<int()> add_tune(CLI::App& program);
std::function<int()> add_predict(CLI::App& program);
std::function<int()> add_clean(CLI::App& program);
std::function<int()> add_train(CLI::App& program);
std::function<int()> add_report(CLI::App& program);

struct Command {
  std::string_view name;
  std::function<int()> (*add)(CLI::App& program);
};

/// What main does: the process is made ready, one of the commands runs, failures become messages and exit
/// codes.
int run_program(int argc, char** argv, const std::vector<Command>& commands);

}  // namespace app
