#pragma once

#include <string>
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
/// Whether two paths, given or empty, name the same file, also one that does not exist yet.
bool same_file(const std::string& a, const std::string& b);
/// Replaces the file atomically; throws InvalidInput where that fails.
void write_json(const std::string& path, const Json& object);
void write_text(const std::string& path, const std::string& text);

}  // namespace app
