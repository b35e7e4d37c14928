// The look at two losses before any work starts.

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>

#include "autograd_losses.hpp"

namespace bilevel::torch {

namespace {

double length(const Tensor& x) {
  return norm(x.to(at::kDouble));
}

double roundoff(at::ScalarType type) {
  return type == at::kFloat ? 0x1p-24 : 0x1p-53;
}

bool any_defined(const Tensors& tensors) {
  for (const Tensor& each : tensors)
    if (each.defined()) return true;
  return false;
}

[[noreturn]] void refuse(Which which, std::string_view why) {
  throw InvalidInput(fmt::format("torch::Losses: the {} loss {}", name(which), why));
}

}  // namespace

bool same_value(double a, double b, at::ScalarType type) {
  return std::abs(a - b) <= 1e3 * roundoff(type) * std::max({std::abs(a), std::abs(b), 1.0});
}

void AutogradLosses::look() {
  for (const auto& [what, vector] : {std::pair<const char*, const Tensor&>{"phi", phi_}, {"theta", theta_}})
    if (!std::isfinite(elements::max_abs(vector)))
      throw InvalidInput(fmt::format("torch::Losses: the start {} holds NaN or infinity", what));
  look_at(Which::inner);
  look_at(Which::outer);
  look_at_second_derivatives(Which::inner);
  cost_ = {};
}

void AutogradLosses::look_at(Which which) {
  const at::AutoGradMode recorded(true);
  const Tensors phi = phi_blocks_.leaves(phi_, true), theta = theta_blocks_.leaves(theta_, true);
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  const Tensor value = loss(which, phi, theta);
  if (!generator.get_state().equal(before))
    refuse(which, "draws random numbers: two calls at the same point differ; draw them once, outside");
  const double first = fetch(value.detach());
  if (!std::isfinite(first)) refuse(which, fmt::format("is {} at the start", first));
  if (!value.requires_grad())
    refuse(which, "depends neither on phi nor on theta by any operation that autograd records");
  if (!any_defined(backward("its gradient", {value}, phi, {}, true, false)))
    refuse(which, "does not depend on phi");
  // An outer loss need not see θ itself.
  if (which == Which::inner && !any_defined(backward("its gradient", {value}, theta, {}, false, false)))
    refuse(which, "does not depend on theta: neither does what it settles to");

  const at::NoGradGuard guard;
  const double second = fetch(loss(which, phi, theta));
  if (!same_value(second, first, phi_.scalar_type()))
    refuse(which,
           fmt::format("hides a state: it is {:.17g} and then {:.17g} at the same point", first, second));
}

/// The product with a random direction against a central difference of the gradient: a part of the loss that
/// is detached, or an operation whose derivative has none itself, leaves out what the difference shows.
void AutogradLosses::look_at_second_derivatives(Which which) {
  const double u = roundoff(phi_.scalar_type());
  const double h = std::cbrt(u) * std::max(1.0, elements::max_abs(phi_));
  Tensor direction = at::zeros_like(phi_), product = at::zeros_like(phi_);
  elements::random(1, direction);
  GradientGraph graph(*this);
  graph.record(phi_, theta_, 0);
  try {
    graph.times(direction, product);
  } catch (const InvalidInput& error) {
    refuse(which, fmt::format("is not twice differentiable: {}", error.what()));
  }
  const auto gradient_at = [&](double step) {
    Tensor phi = phi_.clone(), gradient = at::zeros_like(phi_);
    elements::axpy(step, direction, phi);
    evaluate(which, phi, theta_, {.phi = &gradient});
    return gradient;
  };
  const Tensor ahead = gradient_at(h), behind = gradient_at(-h);
  const Tensor difference = (ahead - behind) / (2 * h);
  const double apart = length(difference - product), size = std::max(length(difference), length(product));
  const double rounding = 1e3 * u * (length(ahead) + length(behind)) / h;
  // Not finite: the step has left the domain, and nothing is known.
  if (apart > 0.5 * size + rounding)
    refuse(
        which,
        fmt::format(
            "is not twice differentiable at the start: along a random direction the second derivative of "
            "autograd and the difference of gradients are {:.3g} apart, their size is {:.3g}; is a part of "
            "it detached, or has it a kink?",
            apart, size));
}

}  // namespace bilevel::torch
