#pragma once

#include <cstdint>

#include <bilevel/data/dataset.hpp>

namespace bilevel::models {

/// A data set of known structure, for trying things out: 600 rows, 60 features in 12 groups of five that are
/// correlated within a group; one feature in each of four groups decides (names "strong_1" …), the others
/// ("echo_…", correlated with a strong one, and "noise_…") are useless. Two classes, "no" and "yes".
bilevel::data::Dataset example_data(std::uint64_t seed);

}  // namespace bilevel::models
