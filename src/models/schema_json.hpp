#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include <bilevel/data/dataset.hpp>

namespace bilevel::models {

/// How to read a file like the training file, as saved models and networks hold it. Decoding throws
/// InvalidInput or Json's own exceptions.
nlohmann::ordered_json encode(const bilevel::data::Schema& schema);
bilevel::data::Schema decode_schema(const nlohmann::ordered_json& j);
/// A list of whole numbers; InvalidInput for all else.
std::vector<bilevel::data::Index> whole_numbers(const nlohmann::ordered_json& list);

}  // namespace bilevel::models
