#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

#include <bilevel/models/task.hpp>

namespace bilevel::models {

/// The group of each feature kept, and the groups' names: from a file, by a part of the name, or by the
/// column they came from.
std::vector<Index> groups_of(const Task& task, const bilevel::data::Dataset& data,
                             const std::vector<Index>& kept, std::vector<std::string>& group_names);

}  // namespace bilevel::models
