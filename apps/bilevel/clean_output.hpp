#pragma once

#include <string>

#include "data_output.hpp"
#include <bilevel/models/clean.hpp>

namespace app {

/// The label of a training row, and what the final model says instead.
std::string label_of(const bilevel::models::CleanData& data, Index training_row);
std::string prediction_of(const bilevel::models::CleanData& data, const bilevel::models::Cleaned& result,
                          Index training_row);

/// The result of `clean` as JSON: docs/clean.md.
Json clean_result(const bilevel::models::CleanOptions& options, const std::string& command_line,
                  const bilevel::models::CleanData& data, const bilevel::models::Cleaned& result);
/// All training rows as CSV, the most suspicious first.
std::string ranking_text(const bilevel::models::CleanData& data, const bilevel::models::Cleaned& result);

}  // namespace app
