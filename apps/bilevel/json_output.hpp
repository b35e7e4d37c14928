#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <bilevel/bilevel.hpp>

namespace app {

using Json = nlohmann::ordered_json;

// One spelling of every field for all commands: docs/json.md.
Json number(double x);  ///< null where it is not finite
Json array(const Eigen::VectorXd& x);
Json describe(const bilevel::Certificate& certificate);
Json describe(const bilevel::Cost& cost);
Json describe(const std::vector<bilevel::HistoryEntry>& history);

/// Refuses a path that cannot be written, before any work is done for it.
void require_writable(const std::string& path);
/// Refuses outputs (empty: not asked for) that cannot be written, that name one file twice, or an input.
void require_outputs(std::string_view command, const std::vector<std::string>& outputs,
                     const std::vector<std::string>& inputs);
/// Refuses an option (its name and the path given) that names the data itself; `remedy` says what to do.
void require_not_the_data(std::string_view command, const std::string& data,
                          const std::vector<std::pair<std::string_view, std::string>>& options,
                          std::string_view remedy);
/// Whether two paths, given or empty, name the same file, also one that does not exist yet.
bool same_file(const std::string& a, const std::string& b);
std::string json_text(const Json& object);
/// Replaces the file atomically; throws InvalidInput where that fails.
void write_json(const std::string& path, const Json& object);
void write_text(const std::string& path, const std::string& text);
/// A cell of a CSV file, quoted where it must be.
std::string csv_cell(const std::string& text);

}  // namespace app
