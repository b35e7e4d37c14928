#pragma once

#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// The same, of which `interrupted` is true once the callback has said so. Throws InvalidInput where it
/// contradicts itself.
TuneControl stoppable(TuneControl control);

}  // namespace bilevel::models
