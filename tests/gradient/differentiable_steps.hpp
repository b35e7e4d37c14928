#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>

#include <bilevel/inner/adam.hpp>
#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/heavy_ball.hpp>
#include <bilevel/inner/nesterov.hpp>

namespace bilevel::unrolled_tests {

inline constexpr std::string_view step_names[] = {"gradient-descent", "heavy-ball", "nesterov", "adam"};

/// A differentiable step by name, of this length and momentum; 0 leaves the choice to the step.
template <Vector V>
std::unique_ptr<Step<V>> make_step(std::string_view name, double length = 0) {
  if (name == "gradient-descent")
    return std::make_unique<GradientDescent<V>>(GradientDescentOptions{.step = length});
  std::optional<double> momentum;
  if (length > 0) momentum = 0.6;
  if (name == "heavy-ball")
    return std::make_unique<HeavyBall<V>>(HeavyBallOptions{.step = length, .momentum = momentum});
  if (name == "nesterov")
    return std::make_unique<Nesterov<V>>(NesterovOptions{.step = length, .momentum = momentum});
  if (name == "adam") return std::make_unique<Adam<V>>(AdamOptions{.step = length > 0 ? length : 0.05});
  throw std::invalid_argument("no such step");
}

}  // namespace bilevel::unrolled_tests
