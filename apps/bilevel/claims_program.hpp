#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace app {

/// The claims take a third of the time to compile and few people need them: a program of its own, beside this
/// one. Becomes that program; returns where that is not possible.
void become_claims_program(char** argv);

/// `paper` where that program could not be started.
std::function<int()> add_absent_paper(CLI::App& program);

}  // namespace app
