#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {

/// What a file holds, as a message may show it: in quotes, on one line, not longer than a glance.
std::string shown(std::string_view text);

/// Throws InvalidInput: "file: what is wrong and what to do".
template <class... Arguments>
[[noreturn]] void complain(std::string_view file, fmt::format_string<Arguments...> text,
                           Arguments&&... arguments) {
  throw InvalidInput(fmt::format("{}: {}", file, fmt::format(text, std::forward<Arguments>(arguments)...)));
}

}  // namespace bilevel::data
