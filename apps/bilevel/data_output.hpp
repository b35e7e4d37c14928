#pragma once

#include <string>

#include "json_output.hpp"

namespace app {

using bilevel::Index;

void print_certificate(const bilevel::Certificate& certificate);

/// The command as it was typed, quoted for a shell.
void remember_command_line(int argc, char** argv);
std::string command_line();

}  // namespace app
