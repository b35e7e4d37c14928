#pragma once

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// The page, for render(), that shows the result of `bilevel train`: how often the network is wrong, whether
/// its gradients can be trusted, how it learned and settled, what it looks for and what it takes for what.
/// Parts that the result lacks are left out; std::invalid_argument names the place of what is of the wrong
/// type.
Json train_page(const Json& result);

}  // namespace report
