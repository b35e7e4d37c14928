#pragma once

#include <string_view>

namespace bilevel {

// The one place that states the version; CMakeLists.txt reads the three numbers from here.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;
inline constexpr std::string_view version = "0.1.0";

}  // namespace bilevel
