#pragma once

#include <string_view>

// The files that every page carries, embedded by embed.cmake, with their SHA-256 in hexadecimal.
namespace report::assets {

extern const std::string_view style, style_hash;
extern const std::string_view script, script_hash;
extern const std::string_view charts, charts_hash;

}  // namespace report::assets
