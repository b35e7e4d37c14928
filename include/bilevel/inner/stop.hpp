#pragma once

#include <string>

#include <bilevel/outcome/status.hpp>

namespace bilevel {

/// Why a loop ends: the code, and the sentence with the numbers. Loops pass std::optional<Stop>
/// around; empty means "keep going", and nothing is allocated until there is something to say.
struct Stop {
  Status status;
  std::string message;
};

}  // namespace bilevel
