#pragma once

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// The page, for render(), that shows the result of `bilevel paper`: a summary, the paper's figures and
/// tables, its corrected slips, and each claim with what was checked. Throws std::invalid_argument with the
/// place of what is missing or of the wrong type.
Json paper_page(const Json& result);

}  // namespace report
