#include "method_arguments.hpp"

#include <cctype>
#include <cmath>

#include "problem_arguments.hpp"

namespace app {
namespace {

/// 4K, 1.5M and 2G in bytes; anything else as it is, for the check of the number to judge.
std::string in_bytes(std::string text) {
  constexpr std::string_view units = "KMG";
  if (text.size() < 2) return text;
  const std::size_t power =
      units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
  if (power == std::string_view::npos) return text;
  const std::string digits = text.substr(0, text.size() - 1);
  const double number = finite_number(digits);
  if (!(number > 0)) return text;
  return fmt::format("{:.17g}", number * std::pow(1024.0, static_cast<double>(power + 1)));
}

}  // namespace

void MethodArguments::add_to(CLI::App& command) {
  command
      .add_option("--beta", beta,
                  "Nudging strength of the ep-… methods (default: chosen so that bias and noise balance)")
      ->type_name("X")
      ->check([](const std::string& text) {
        const double value = finite_number(text);
        return !std::isnan(value) && value != 0
                   ? std::string()
                   : fmt::format("{} must be a finite number other than 0; leave it out to have it chosen",
                                 text);
      });
  command
      .add_option("--trust", trust,
                  "The share of a gradient that its error bound may be of where it is called trusted")
      ->capture_default_str()
      ->type_name("X")
      ->check([](const std::string& text) {
        const double value = finite_number(text);
        return value > 0 && value <= 1 ? std::string() : fmt::format("{} must lie in (0, 1]", text);
      });
  command
      .add_option(
          "--memory", memory,
          "Bytes, with K, M or G after the number if you like. auto chooses among the matrix methods that "
          "fit, unrolled-checkpointed stores what fits, forward-mode refuses to hold more; the other "
          "methods do not look at it")
      ->type_name("BYTES")
      ->transform(CLI::Validator(
          [](std::string& text) {
            text = in_bytes(text);
            return std::string();
          },
          ""))
      ->check([](const std::string& text) {
        const std::string wrong = positive(text);
        return wrong.empty() ? wrong : wrong + " of bytes: 200000, 200K, 64M or 2G";
      });
}

bilevel::EstimatorOptions MethodArguments::options(const std::string& inner, std::uint64_t seed) const {
  bilevel::EstimatorOptions options;
  options.beta = beta;
  options.seed = seed;
  options.certificate.trust = trust;
  if (memory > 0)
    options.memory_limit = options.memory_budget = static_cast<std::size_t>(std::min(memory, 1e18));
  if (bilevel::differentiable_step(inner)) options.step = inner;
  return options;
}

bool nudges(std::string_view method) {
  const auto* choice = bilevel::find_estimator(method);
  return choice && bilevel::nudges(*choice);
}

bool differentiates_steps(std::string_view method) {
  const auto* choice = bilevel::find_estimator(method);
  return choice && bilevel::differentiates_steps(*choice);
}

}  // namespace app
