#include "method_arguments.hpp"

#include <cmath>

#include "problem_arguments.hpp"

namespace app {

void MethodArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "--beta", beta,
          "Nudging strength of equilibrium propagation (default: chosen so that bias and noise balance)")
      ->type_name("X")
      ->check([](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool fine = end == text.c_str() + text.size() && std::isfinite(value) && value != 0;
        return fine ? std::string()
                    : fmt::format("{} must be a finite number other than 0; leave it out to have it chosen",
                                  text);
      });
  command
      .add_option(
          "--memory", memory,
          "Bytes that a method may hold: auto stays below, checkpointed unrolling stores as much as fits, "
          "forward mode refuses above")
      ->type_name("BYTES")
      ->check(positive);
}

bilevel::EstimatorOptions MethodArguments::options(const std::string& inner, std::uint64_t seed) const {
  bilevel::EstimatorOptions options;
  options.beta = beta;
  options.seed = seed;
  if (memory > 0)
    options.memory_limit = options.memory_budget = static_cast<std::size_t>(std::min(memory, 1e18));
  if (bilevel::differentiable_step(inner)) options.step = inner;
  return options;
}

}  // namespace app
