#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace bilevel {

/// Bytes as text, RFC 4648.
void append_base64(const void* bytes, std::size_t size, std::string& text);
/// The bytes again; nothing where the text is no base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace bilevel
