#include "wide_blas.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <unistd.h>

extern "C" char* openblas_get_corename(void);

namespace app {

void start_again(char** arguments) {
  // By the name of the file, which is what the system calls the process; by the link where it was renamed.
  std::error_code failed;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) ::execv(own.c_str(), arguments);
  ::execv("/proc/self/exe", arguments);
}

void start_with_wide_blas([[maybe_unused]] char** arguments) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  constexpr std::array<std::string_view, 7> narrow{"Prescott", "Core2",   "Penryn", "Dunnington",
                                                   "Nehalem",  "Generic", "Atom"};
  if (std::getenv(variable)) return;
  if (std::find(narrow.begin(), narrow.end(), openblas_get_corename()) == narrow.end()) return;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  if (setenv(variable, wide ? "SkylakeX" : "Haswell", 1) != 0) return;
  start_again(arguments);
  // Where that is not possible, slow is better than not at all.
  unsetenv(variable);
#endif
}

}  // namespace app
