#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace app {

std::function<int()> add_meta(CLI::App& program);
/// Adds `adapt` to the subcommand `meta`; what to run, which gives the exit code.
std::function<int()> add_adapt(CLI::App& meta);

}  // namespace app
