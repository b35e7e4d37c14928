#pragma once

#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// What the test rows, which took no part, say of the models: fills in the errors of the differences and the
/// warnings that follow from them.
void compare_on_test(const TuneOptions& options, const Prepared& prepared, Tuned& result);

}  // namespace bilevel::models
