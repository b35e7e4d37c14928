#pragma once

#include <string>
#include <vector>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/outer/checkpoint.hpp>

namespace bilevel {

// As JSON, with the fields that docs/json.md explains.
std::string as_json(const Certificate& certificate);
std::string as_json(const Cost& cost);
std::string as_json(const std::vector<HistoryEntry>& history);

}  // namespace bilevel
