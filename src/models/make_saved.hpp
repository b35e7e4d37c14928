#pragma once

#include <bilevel/models/prepared.hpp>
#include <bilevel/models/quality.hpp>
#include <bilevel/models/saved_model.hpp>

namespace bilevel::models {

/// The model that was fitted, as it is kept.
SavedModel make_saved(const Prepared& prepared, const Fitted& fitted);

}  // namespace bilevel::models
