#pragma once

#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// The same, of which `interrupted` is true once the callback has said so, and whose empty functions do
/// nothing. Throws InvalidInput where it contradicts itself.
TuneControl stoppable(TuneControl control);

}  // namespace bilevel::models
