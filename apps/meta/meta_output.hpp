#pragma once

#include <bilevel/learning/meta_learn.hpp>

#include "bilevel/json_output.hpp"

namespace app {

/// The whole result: docs/json.md.
Json meta_result(const std::string& command_line, const bilevel::learning::MetaOptions& options,
                 const bilevel::learning::TaskData& data, const bilevel::learning::MetaLearned& result);

}  // namespace app
