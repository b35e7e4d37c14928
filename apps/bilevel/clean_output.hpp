#pragma once

#include <string>

#include "data_output.hpp"
#include "tuning/clean.hpp"

namespace app {

/// The label of a training row, and what the final model says instead.
std::string label_of(const tuning::CleanData& data, Index training_row);
std::string prediction_of(const tuning::CleanData& data, const tuning::CleanResult& result,
                          Index training_row);

/// The result of `clean` as JSON: docs/clean.md.
Json clean_result(const tuning::CleanTask& task, const std::string& command_line,
                  const tuning::CleanData& data, const tuning::CleanResult& result);
/// All training rows as CSV, the most suspicious first.
std::string ranking_text(const tuning::CleanData& data, const tuning::CleanResult& result);

}  // namespace app
