#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// The page (docs/report.md) as one HTML file that needs nothing else. Every string is shown as text,
/// whatever it holds. Throws std::invalid_argument with the place of what is missing or of the wrong type.
std::string render(const Json& page);

}  // namespace report
