#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {

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
