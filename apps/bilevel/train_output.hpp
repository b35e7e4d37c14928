#pragma once

#include "json_output.hpp"
#include "training/trainer.hpp"

namespace app {

/// The whole result: docs/json.md.
Json train_result(const std::string& command_line, const training::Settings& settings,
                  const training::TrainData& data, const training::TrainResult& result);

}  // namespace app
