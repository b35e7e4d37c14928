#pragma once

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// The page, for render(), that shows the result of `bilevel tune`: how well the tuned penalties do against
/// the default and the best single λ, what they are, and how far their gradients can be trusted. Parts that
/// the result lacks are left out; std::invalid_argument names the place of what is of the wrong type.
Json tune_page(const Json& result);

}  // namespace report
