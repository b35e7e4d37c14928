#pragma once

#include <string>

namespace bilevel {

/// A text that JSON can hold: bytes that are no UTF-8 are replaced.
std::string as_utf8(const std::string& text);

}  // namespace bilevel
