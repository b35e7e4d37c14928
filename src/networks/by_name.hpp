#pragma once

#include <string_view>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::networks {

/// The enumerator whose name stands at its place among `names`; InvalidInput with the list where there is
/// none.
template <class Enum, class Names>
Enum by_name(std::string_view what, std::string_view name, const Names& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw InvalidInput(fmt::format("there is no {} \"{}\"; known are {}", what, name, fmt::join(names, ", ")));
}

}  // namespace bilevel::networks
