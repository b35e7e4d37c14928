#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {

/// What `decode` makes of the text of one of our own files, which was not there where it is empty. Whatever
/// is wrong becomes an InvalidInput: "before: what is wrong; after".
template <class Decode>
auto read_own(const std::optional<std::string>& text, const std::string& before, std::string_view after,
              Decode decode) {
  const auto refuse = [&](std::string_view why) {
    return InvalidInput(fmt::format("{}: {}; {}", before, why, after));
  };
  if (!text) throw refuse("the file cannot be read");
  try {
    return decode(*text);
  } catch (const nlohmann::json::parse_error&) {
    throw refuse("it is truncated or not JSON at all");
  } catch (const nlohmann::json::exception& error) {
    throw refuse(fmt::format("it lacks a field or has one of the wrong type ({})", error.what()));
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

}  // namespace bilevel
