#include "autograd_losses.hpp"

#include <cmath>

#include <torch/csrc/autograd/autograd.h>

namespace bilevel::torch {

namespace {

constexpr std::string_view owner = "torch::Losses";

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

/// Rows that a subset is made of, where the data are. Undefined ones are all.
Tensor checked_rows(const Tensor& rows, long count, const at::Device& device, std::string_view what) {
  if (!rows.defined()) return at::arange(count, at::TensorOptions().dtype(at::kLong).device(device));
  if (rows.scalar_type() != at::kLong || rows.dim() != 1 || rows.numel() == 0)
    throw InvalidInput(
        fmt::format("{}: {} rows must be a list of int64 with at least one element, not {} of "
                    "shape {}",
                    owner, what, c10::toString(rows.scalar_type()), shape_text(rows.sizes())));
  const double least = fetch(rows.min()), largest = fetch(rows.max());
  if (least < 0 || largest >= static_cast<double>(count))
    throw InvalidInput(
        fmt::format("{}: {} rows {} … {} do not all lie in 0 … {}", owner, what, least, largest, count - 1));
  return rows.to(device);
}

}  // namespace

std::string_view name(Which which) {
  return which == Which::inner ? "inner" : "outer";
}

Blocks::Blocks(const Tensors& start, bool lists, at::ScalarType type, std::string_view what)
    : lists_(lists), what_(what) {
  if (start.empty()) throw InvalidInput(fmt::format("{}: {} is an empty list", owner, what));
  for (std::size_t i = 0; i < start.size(); ++i) {
    const std::string which = lists ? fmt::format("tensor {} of {}", i, what) : what_;
    const Tensor& each = start[i];
    if (!each.defined()) throw InvalidInput(fmt::format("{}: {} is undefined", owner, which));
    if (each.scalar_type() != type)
      throw InvalidInput(fmt::format("{}: {} is of {}, not of {}: {}", owner, which,
                                     c10::toString(each.scalar_type()), c10::toString(type),
                                     "Losses<Tensor> is for float64, Losses<SingleTensor> for float32"));
    if (each.device() != start.front().device())
      throw InvalidInput(fmt::format("{}: {} is on {}, tensor 0 on {}", owner, which, each.device().str(),
                                     start.front().device().str()));
    shapes_.push_back(each.sizes().vec());
  }
  device_ = start.front().device();
}

Tensor Blocks::joined(const Tensors& start) const {
  const at::NoGradGuard guard;
  if (!lists_) return start.front().detach().clone(at::MemoryFormat::Contiguous);
  Tensors rows;
  for (const Tensor& each : start) rows.push_back(each.detach().reshape({-1}));
  return at::cat(rows);
}

Tensors Blocks::views(const Tensor& vector) const {
  std::int64_t offset = 0, total = 0;
  for (const auto& shape : shapes_) total += c10::multiply_integers(shape);
  if (!vector.defined() || vector.numel() != total || (!lists_ && vector.sizes() != shapes_.front()))
    throw InvalidInput(fmt::format("{}: {} has shape {}, the losses started with {}", owner, what_,
                                   vector.defined() ? shape_text(vector.sizes()) : "undefined",
                                   lists_ ? shape_text({total}) : shape_text(shapes_.front())));
  if (!lists_) return {vector};
  Tensors views;
  for (const auto& shape : shapes_) {
    const std::int64_t size = c10::multiply_integers(shape);
    views.push_back(vector.narrow(0, offset, size).view(shape));
    offset += size;
  }
  return views;
}

Tensors Blocks::leaves(const Tensor& vector, bool recorded) const {
  Tensors all = views(vector.detach());
  for (Tensor& each : all) each = each.detach().set_requires_grad(recorded);
  return all;
}

void Blocks::write(const Tensors& blocks, Tensor& vector) const {
  const at::NoGradGuard guard;
  Tensors to = views(vector);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (blocks[i].defined())
      to[i].copy_(blocks[i]);
    else
      to[i].zero_();
  }
}

AutogradLosses::AutogradLosses(RowLoss inner, RowLoss outer, const Start& start, at::ScalarType type,
                               Rows rows, LossesOptions options)
    : inner_(std::move(inner)),
      outer_(std::move(outer)),
      phi_blocks_(start.phi, start.lists, type, "phi"),
      theta_blocks_(start.theta, start.lists, type, "theta"),
      phi_(phi_blocks_.joined(start.phi)),
      theta_(theta_blocks_.joined(start.theta)),
      rows_(rows),
      options_(std::move(options)) {
  if (!inner_ || !outer_)
    throw InvalidInput(
        fmt::format("{}: the {} loss is an empty function", owner, inner_ ? "outer" : "inner"));
  if (phi_.device() != theta_.device())
    throw InvalidInput(
        fmt::format("{}: phi is on {}, theta on {}", owner, phi_.device().str(), theta_.device().str()));
  if (rows_.inner > 0) inner_rows_ = checked_rows({}, rows_.inner, phi_.device(), "inner");
  if (rows_.outer > 0) outer_rows_ = checked_rows({}, rows_.outer, phi_.device(), "outer");
  if (options_.look_first) look();
}

AutogradLosses::AutogradLosses(const AutogradLosses& whole, const Tensor& inner_rows,
                               const Tensor& outer_rows)
    : AutogradLosses(whole) {
  if (rows_.inner == 0)
    throw InvalidInput(fmt::format("{}: a subset needs losses that were given by rows", owner));
  cost_ = {};
  inner_rows_ = checked_rows(inner_rows, rows_.inner, phi_.device(), "inner");
  outer_rows_ = checked_rows(outer_rows, rows_.outer, phi_.device(), "outer");
  rows_ = {.inner = static_cast<long>(inner_rows_.numel()), .outer = static_cast<long>(outer_rows_.numel())};
  // Rows of a subset of a subset are counted within it.
  const auto within = [](RowLoss loss, Tensor rows) -> RowLoss {
    return [loss = std::move(loss), rows = std::move(rows)](const Tensors& phi, const Tensors& theta,
                                                            const Tensor& of) {
      return loss(phi, theta, rows.index_select(0, of));
    };
  };
  if (whole.inner_rows_.defined()) inner_ = within(inner_, whole.inner_rows_);
  if (whole.outer_rows_.defined()) outer_ = within(outer_, whole.outer_rows_);
}

Tensor AutogradLosses::loss(Which which, const Tensors& phi, const Tensors& theta) {
  ++cost_.forward_passes;
  const bool inner = which == Which::inner;
  Tensor value;
  try {
    value = (inner ? inner_ : outer_)(phi, theta, inner ? inner_rows_ : outer_rows_);
  } catch (const c10::Error& error) {
    throw InvalidInput(
        fmt::format("{}: the {} loss failed: {}", owner, name(which), error.what_without_backtrace()));
  }
  if (!value.defined()) throw InvalidInput(fmt::format("{}: the {} loss is undefined", owner, name(which)));
  if (value.numel() != 1)
    throw InvalidInput(fmt::format("{}: the {} loss is not a scalar: it has shape {}", owner, name(which),
                                   shape_text(value.sizes())));
  if (!value.is_floating_point())
    throw InvalidInput(fmt::format("{}: the {} loss is of {}, which has no derivatives", owner, name(which),
                                   c10::toString(value.scalar_type())));
  if (value.device() != phi_.device())
    throw InvalidInput(fmt::format("{}: the {} loss is on {}, phi and theta are on {}", owner, name(which),
                                   value.device().str(), phi_.device().str()));
  return value.dim() == 0 ? value : value.reshape({});
}

Tensors AutogradLosses::backward(std::string_view what, const Tensors& outputs, const Tensors& inputs,
                                 const Tensors& weights, bool keep, bool record) {
  ++cost_.backward_passes;
  try {
    return ::torch::autograd::grad(outputs, inputs, weights, keep || record, record, true);
  } catch (const c10::Error& error) {
    throw InvalidInput(
        fmt::format("{}: {} cannot be computed: {}", owner, what, error.what_without_backtrace()));
  } catch (const std::runtime_error& error) {
    throw InvalidInput(fmt::format("{}: {} cannot be computed: {}", owner, what, error.what()));
  }
}

double AutogradLosses::evaluate(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted) {
  const at::AutoGradMode recorded(wanted.phi || wanted.theta);
  const Tensors phi_leaves = phi_blocks_.leaves(phi, wanted.phi != nullptr);
  const Tensors theta_leaves = theta_blocks_.leaves(theta, wanted.theta != nullptr);
  const Tensor value = loss(which, phi_leaves, theta_leaves);
  if (wanted.phi || wanted.theta) {
    Tensors inputs;
    if (wanted.phi) inputs.insert(inputs.end(), phi_leaves.begin(), phi_leaves.end());
    if (wanted.theta) inputs.insert(inputs.end(), theta_leaves.begin(), theta_leaves.end());
    Tensors gradients(inputs.size());
    if (value.requires_grad())
      gradients = backward(fmt::format("the gradient of the {} loss", name(which)), {value}, inputs, {},
                           false, false);
    const auto middle = gradients.begin() + (wanted.phi ? static_cast<std::ptrdiff_t>(phi_leaves.size()) : 0);
    if (wanted.phi) phi_blocks_.write(Tensors(gradients.begin(), middle), *wanted.phi);
    if (wanted.theta) theta_blocks_.write(Tensors(middle, gradients.end()), *wanted.theta);
  }
  return fetch(value.detach());
}

void GradientGraph::record(const Tensor& phi, const Tensor& theta, double beta) {
  // The last graph goes before the next one comes: there is memory for one.
  phi_gradients_.clear();
  theta_gradients_.clear();
  phi_leaves_.clear();
  theta_leaves_.clear();
  const at::AutoGradMode recorded(true);
  elements::copy(phi, phi_);
  elements::copy(theta, theta_);
  phi_leaves_ = losses_.phi_blocks().leaves(phi_, true);
  theta_leaves_ = losses_.theta_blocks().leaves(theta_, true);
  Tensor value = losses_.loss(Which::inner, phi_leaves_, theta_leaves_);
  if (beta != 0) value = value + beta * losses_.loss(Which::outer, phi_leaves_, theta_leaves_);
  if (!value.requires_grad()) {
    phi_gradients_.resize(phi_leaves_.size());
    theta_gradients_.resize(theta_leaves_.size());
    return;
  }
  Tensors leaves = phi_leaves_;
  leaves.insert(leaves.end(), theta_leaves_.begin(), theta_leaves_.end());
  const Tensors gradients = losses_.backward("the gradient's graph", {value}, leaves, {}, true, true);
  const auto middle = gradients.begin() + static_cast<std::ptrdiff_t>(phi_leaves_.size());
  phi_gradients_.assign(gradients.begin(), middle);
  theta_gradients_.assign(middle, gradients.end());
}

void GradientGraph::through(const Tensors& gradients, const Blocks& from, const Tensor& weights,
                            const Tensors& leaves, const Blocks& to, Tensor& out) {
  Tensors outputs, on_them;
  const Tensors blocks = from.views(weights);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    // What is constant has no part in the product.
    if (!gradients[i].defined() || !gradients[i].requires_grad()) continue;
    outputs.push_back(gradients[i]);
    on_them.push_back(blocks[i]);
  }
  Tensors products(leaves.size());
  if (!outputs.empty())
    products = losses_.backward("a product with second derivatives", outputs, leaves, on_them, true, false);
  to.write(products, out);
}

void GradientGraph::times(const Tensor& v, Tensor& out) {
  through(phi_gradients_, losses_.phi_blocks(), v, phi_leaves_, losses_.phi_blocks(), out);
}

void GradientGraph::cross_times(const Tensor& v, Tensor& out) {
  through(phi_gradients_, losses_.phi_blocks(), v, theta_leaves_, losses_.theta_blocks(), out);
}

void GradientGraph::cross_apply(const Tensor& u, Tensor& out) {
  through(theta_gradients_, losses_.theta_blocks(), u, phi_leaves_, losses_.phi_blocks(), out);
}

}  // namespace bilevel::torch
