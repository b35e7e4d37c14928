#pragma once

#include <string>

#include <bilevel/models/clean.hpp>
#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// The whole result as JSON, as `bilevel tune --json` writes it: docs/json.md. `command_line` says how it can
/// be had again. Bytes that are no UTF-8 are replaced.
std::string as_json(const Prepared& prepared, const TuneOptions& options, const Tuned& result,
                    const std::string& command_line = {});
/// The same of `bilevel clean`: docs/clean.md.
std::string as_json(const CleanData& data, const CleanOptions& options, const Cleaned& result,
                    const std::string& command_line = {});

/// The parts `data` and `model` of the former alone, for results of another kind.
std::string data_as_json(const Prepared& prepared, const TuneOptions& options);
std::string model_as_json(const Prepared& prepared, const TuneOptions& options);

}  // namespace bilevel::models
