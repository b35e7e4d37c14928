#pragma once

#include <string>

#include "claim.hpp"

namespace claims {

/// A claim's outcome and how long it took. An experiment that throws has failed, with what it threw.
struct Executed {
  const Claim* claim;
  Outcome outcome;
  double seconds = 0;
};

Executed execute(const Claim& claim, Laboratory& laboratory);

/// All texts and numbers: docs/json.md.
Json describe(const Executed& executed);

}  // namespace claims
