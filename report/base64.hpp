#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace report {

/// `bytes` in base64, as Content-Security-Policy wants hashes and pages carry images.
std::string base64(std::string_view bytes);

/// Whether `text` is the base64 of `bytes` bytes.
bool is_base64(std::string_view text, std::size_t bytes);

}  // namespace report
