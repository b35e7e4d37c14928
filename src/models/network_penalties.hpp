#pragma once

#include <string>
#include <vector>

#include <bilevel/models/prepared.hpp>

namespace bilevel::models {

/// One penalty for each layer, its biases included, but for the last ones; and their names.
bilevel::problems::PenaltyMap layers_map(const bilevel::problems::PerceptronShape& shape,
                                         std::vector<std::string>& names);

}  // namespace bilevel::models
