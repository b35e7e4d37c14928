#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {

/// Refuses JSON that is nested deeper than any file of bilevel, before it is parsed: copies of it would
/// overflow the stack.
inline void require_shallow(std::string_view json) {
  constexpr int most = 32;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > most)
      throw InvalidInput(fmt::format("it is nested more than {} times", most));
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
}

/// A whole number within its range from a JSON value of nlohmann's, whose own conversion turns fractions,
/// truths and numbers of any size into some integer. Throws InvalidInput.
template <class Json>
std::int64_t whole_number(const Json& j, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const bool whole =
      j.is_number_integer() &&
      !(j.is_number_unsigned() && j.template get<std::uint64_t>() >
                                      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  const std::int64_t number = whole ? j.template get<std::int64_t>() : 0;
  if (!whole || number < least || number > most)
    // Not the text of a list: one that is nested a million times deep would overflow the stack.
    throw InvalidInput(fmt::format("{} stands where a whole number within its range belongs",
                                   j.is_primitive() ? j.dump().substr(0, 40) : std::string(j.type_name())));
  return number;
}

}  // namespace bilevel
