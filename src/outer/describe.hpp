#pragma once

#include <cmath>
#include <vector>

#include <nlohmann/json.hpp>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/outer/checkpoint.hpp>

namespace bilevel {

// One spelling of every field for all results: docs/json.md.
using Description = nlohmann::ordered_json;

inline Description finite_or_null(double x) {  ///< null where it is not finite
  return std::isfinite(x) ? Description(x) : Description(nullptr);
}
Description described(const Certificate& certificate);
Description described(const Cost& cost);
Description described(const std::vector<HistoryEntry>& history);

}  // namespace bilevel
