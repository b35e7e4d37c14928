#pragma once

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// The page, for render(), that shows the result of `bilevel clean`: how many rows look mislabelled, how well
/// that agrees with the truth where it is known, and the rows themselves. Parts that the result lacks are
/// left out; std::invalid_argument names the place of what is of the wrong type.
Json clean_page(const Json& result);

}  // namespace report
