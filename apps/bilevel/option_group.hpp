#pragma once

#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "problem_arguments.hpp"

namespace app {

/// Options that the help shows under one heading; none for the first of a command.
struct OptionGroup {
  CLI::App& command;
  std::string heading;

  template <class Value>
  CLI::Option* add(const char* flag, Value& to, const char* what, const char* type = nullptr) const {
    CLI::Option* const option = command.add_option(flag, to, what);
    if (type) option->type_name(type);
    return heading.empty() ? option : option->group(heading);
  }
  template <class Value>
  void number(const char* flag, Value& to, const char* what) const {
    add(flag, to, what, std::is_integral_v<Value> ? "N" : "X")->check(positive);
  }
};

}  // namespace app
