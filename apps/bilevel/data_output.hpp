#pragma once

#include <string>

#include "json_output.hpp"
#include <bilevel/models/prepared.hpp>
#include <bilevel/models/quality.hpp>

namespace app {

using bilevel::Index;

// What the commands on a person's data say about it: docs/json.md.
Json describe(const bilevel::models::Quality& quality);
Json describe_data(const bilevel::models::TuneOptions& options, const bilevel::models::Prepared& prepared);
Json describe_model(const bilevel::models::TuneOptions& options, const bilevel::models::Prepared& prepared);

void print_certificate(const bilevel::Certificate& certificate);

/// The command as it was typed, quoted for a shell.
void remember_command_line(int argc, char** argv);
std::string command_line();

}  // namespace app
