#pragma once

#include <cstddef>
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

/// No checkpoint is longer than this, and no model or network longer than half of it: /dev/zero is, and is
/// refused before it fills the memory.
inline constexpr std::size_t longest_file = std::size_t{1} << 32;

/// All that the file holds; nothing where it cannot be opened. Throws InvalidInput where it is longer than
/// `most` bytes, and reads no more of it than one byte beyond them.
std::optional<std::string> read_file(const std::string& path, std::size_t most = longest_file);

/// The same of a file that should be a JSON object. Where it does not begin like one this is its beginning
/// alone, enough for a parser to say so.
std::optional<std::string> read_json_file(const std::string& path, std::size_t most = longest_file / 2);

}  // namespace bilevel
