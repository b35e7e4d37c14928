#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <bilevel/data/dataset.hpp>
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

/// Of `what`, a call.
inline void check_rows(std::string_view what, const std::vector<Index>& rows, Index available) {
  for (const Index row : rows)
    if (row < 0 || row >= available)
      throw InvalidInput(
          fmt::format("{}: row {} of {} rows, which are counted from 0", what, row, available));
}

}  // namespace bilevel::data
