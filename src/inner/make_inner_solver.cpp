#include <bilevel/inner/make_inner_solver.hpp>

#include <array>

namespace bilevel {
namespace {

constexpr std::array<std::string_view, 9> names{
    "gradient-descent",
    "gradient-descent-backtracking",
    "heavy-ball",
    "nesterov",
    "adam",
    "lbfgs",
    "newton",
    "trust-region",
    "anderson",
};

}  // namespace

std::span<const std::string_view> inner_solver_names() {
  return names;
}

void refuse_inner_solver(std::string_view name) {
  throw InvalidInput(
      fmt::format("inner solver \"{}\" is not known; choose one of {}", name, fmt::join(names, ", ")));
}

}  // namespace bilevel
