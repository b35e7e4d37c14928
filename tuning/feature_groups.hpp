#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

#include "task.hpp"

namespace tuning {

/// The group of each feature kept, and the groups' names: from a file, by a part of the name, or by the
/// column they came from.
std::vector<Index> groups_of(const Task& task, const bilevel::data::Dataset& data,
                             const std::vector<Index>& kept, std::vector<std::string>& group_names);

}  // namespace tuning
