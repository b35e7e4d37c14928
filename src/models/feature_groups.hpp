#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

#include <bilevel/models/tune_options.hpp>

namespace bilevel::models {

/// The group of each feature kept, and the groups' names: by a list, by a part of the name, or by the
/// column they came from.
std::vector<Index> groups_of(const TuneOptions& options, const bilevel::data::Dataset& data,
                             const std::vector<Index>& kept, std::vector<std::string>& group_names);

}  // namespace bilevel::models
