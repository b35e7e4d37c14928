#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bilevel {

/// Replaces the file as a whole or not at all: writes beside it, flushes to disk where `durable`, renames. A
/// link is followed and the mode of an old file kept; what is not a file (a pipe, /dev/stdout) is written
/// into. On failure the old file is untouched and the message (empty on success) names the path and the
/// system's reason.
[[nodiscard]] std::string replace_file(const std::string& path, std::string_view contents,
                                       bool durable = true);

/// All that the file holds; nothing where it cannot be opened.
std::optional<std::string> read_file(const std::string& path);

}  // namespace bilevel
