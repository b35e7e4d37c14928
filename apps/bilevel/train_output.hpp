#pragma once

#include <bilevel/networks/train.hpp>

#include "json_output.hpp"

namespace app {

/// The whole result: docs/json.md.
Json train_result(const std::string& command_line, const bilevel::networks::TrainSettings& settings,
                  const bilevel::networks::TrainingData& data,
                  const bilevel::networks::TrainedNetwork& result);

}  // namespace app
