#pragma once

#include <string>
#include <string_view>

namespace bilevel {

/// Replaces the file as a whole or not at all: writes beside it, flushes to disk, renames. On failure the
/// old file is untouched and the message (empty on success) names the path and the system's reason.
[[nodiscard]] std::string replace_file(const std::string& path, std::string_view contents);

}  // namespace bilevel
