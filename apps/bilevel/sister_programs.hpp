#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace app {

/// Subcommands that are programs of their own, beside this one: `paper`, since the claims take a third of the
/// time to compile and few people need them, and `meta`, which needs LibTorch. Where the first argument names
/// one, becomes that program; returns where it names none, or where that is not possible.
void become_sister_program(int argc, char** argv);

/// The subcommands where their programs could not be started.
std::function<int()> add_absent_paper(CLI::App& program);
std::function<int()> add_absent_meta(CLI::App& program);

}  // namespace app
