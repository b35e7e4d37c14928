#include "autograd_losses.hpp"

#include <cmath>

#include <torch/csrc/autograd/autograd.h>

namespace bilevel::torch {

namespace {

constexpr std::string_view owner = "torch::Losses";

/// Beyond, a pass takes longer than its launches, and a recording, which holds memory of its own, wins
/// nothing.
constexpr std::int64_t largest_recorded = 1 << 25;

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

/// Rows that a subset is made of, where the data are. Undefined ones are all.
Tensor rows_on(const at::Device& device, const Tensor& rows, long count) {
  return rows.defined() ? rows.to(device)
                        : at::arange(count, at::TensorOptions().dtype(at::kLong).device(device));
}

void require_rows(const Tensor& rows, long count, std::string_view what) {
  if (!rows.defined()) return;
  if (rows.scalar_type() != at::kLong || rows.dim() != 1 || rows.numel() == 0)
    throw InvalidInput(
        fmt::format("{}: {} rows must be a list of int64 with at least one element, not {} of "
                    "shape {}",
                    owner, what, c10::toString(rows.scalar_type()), shape_text(rows.sizes())));
  const double least = fetch(rows.min()), largest = fetch(rows.max());
  if (least < 0 || largest >= static_cast<double>(count))
    throw InvalidInput(
        fmt::format("{}: {} rows {} … {} do not all lie in 0 … {}", owner, what, least, largest, count - 1));
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
      options_(std::move(options)),
      recorder_(new Recorder{options_.graphs == Graphs::none || phi_.numel() > largest_recorded
                                 ? SideStream()
                                 : SideStream(phi_.device()),
                             options_.graphs}),
      evaluations_(std::make_shared<Evaluations>()) {
  if (!inner_ || !outer_)
    throw InvalidInput(
        fmt::format("{}: the {} loss is an empty function", owner, inner_ ? "outer" : "inner"));
  if (phi_.device() != theta_.device())
    throw InvalidInput(
        fmt::format("{}: phi is on {}, theta on {}", owner, phi_.device().str(), theta_.device().str()));
  Violations v("torch::Losses");
  v.require(options_.drawn_rows >= 0 && options_.drawn_rows <= rows_.inner, "drawn_rows", options_.drawn_rows,
            fmt::format("must lie in 0 … {}, the rows of the inner loss", rows_.inner));
  v.add(options_.phi_constraints.validate(phi_.numel())).throw_if_any();
  if (rows_.inner > 0) inner_rows_ = rows_on(phi_.device(), {}, rows_.inner);
  if (rows_.outer > 0) outer_rows_ = rows_on(phi_.device(), {}, rows_.outer);
  if (options_.look_first) look();
}

AutogradLosses::AutogradLosses(const AutogradLosses& whole, const Tensor& inner_rows,
                               const Tensor& outer_rows)
    : AutogradLosses(whole) {
  cost_ = {};
  evaluations_ = std::make_shared<Evaluations>();
  inner_rows_ = rows_on(phi_.device(), inner_rows, rows_.inner);
  outer_rows_ = rows_on(phi_.device(), outer_rows, rows_.outer);
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

void AutogradLosses::require_subset(const Tensor& inner_rows, const Tensor& outer_rows) const {
  if (rows_.inner == 0)
    throw InvalidInput(fmt::format("{}: a subset needs losses that were given by rows", owner));
  require_rows(inner_rows, rows_.inner, "inner");
  require_rows(outer_rows, rows_.outer, "outer");
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
  if (value.scalar_type() != phi_.scalar_type())
    throw InvalidInput(fmt::format(
        "{}: the {} loss is of {}, phi of {}: what was lost on the way is in no "
        "certificate",
        owner, name(which), c10::toString(value.scalar_type()), c10::toString(phi_.scalar_type())));
  if (value.device() != phi_.device())
    throw InvalidInput(fmt::format("{}: the {} loss is on {}, phi and theta are on {}", owner, name(which),
                                   value.device().str(), phi_.device().str()));
  return value.dim() == 0 ? value : value.reshape({});
}

namespace {

/// A graph that is kept beyond a step counts what is written into the data of its losses.
std::string not_computed(std::string_view what, std::string_view why) {
  const bool written = why.find("modified by an inplace operation") != std::string_view::npos;
  return fmt::format(
      "{}: {} cannot be computed: {}{}", owner, what, why,
      written ? ". New data of a loss are written by x.data().copy_(…), which is not counted" : "");
}

}  // namespace

Tensors AutogradLosses::backward(std::string_view what, const Tensors& outputs, const Tensors& inputs,
                                 const Tensors& weights, bool keep, bool record) {
  ++cost_.backward_passes;
  try {
    return ::torch::autograd::grad(outputs, inputs, weights, keep || record, record, true);
  } catch (const c10::Error& error) {
    throw InvalidInput(not_computed(what, error.what_without_backtrace()));
  } catch (const std::runtime_error& error) {
    throw InvalidInput(not_computed(what, error.what()));
  }
}

bool AutogradLosses::record(Graphs what, Launch& launch, const std::function<void()>& work) {
  if (launch.record(recorder_->side, work)) return true;
  recorder_->graphs = what == Graphs::whole ? Graphs::products : Graphs::none;
  return false;
}

double AutogradLosses::value(const Tensor& phi, const Tensor& theta, double inner, double outer) {
  const at::NoGradGuard guard;
  const Tensors phis = phi_blocks_.views(phi), thetas = theta_blocks_.views(theta);
  double sum = 0;
  if (inner != 0) sum += inner * fetch(loss(Which::inner, phis, thetas));
  if (outer != 0) sum += outer * fetch(loss(Which::outer, phis, thetas));
  return sum;
}

void AutogradLosses::compare(std::string_view what, double now, double replayed) const {
  if (same_value(now, replayed, phi_.scalar_type()) || (std::isnan(now) && std::isnan(replayed))) return;
  throw InvalidInput(
      fmt::format("{}: {} is {:.9g}, what was recorded of it gives {:.9g}: it has changed since. "
                  "Graphs::whole is for losses that stay the same, of tensors that stay where they are; take "
                  "Graphs::products",
                  owner, what, now, replayed));
}

Tensor AutogradLosses::compute(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted) {
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
  return value.detach();
}

struct AutogradLosses::Evaluations {
  struct Each {
    long asked = 0, replays = 0;
    Launch launch;
    Tensor phi, theta, value, phi_gradient, theta_gradient;  // the recording's own
  };
  Each all[2][2][2];
};

double AutogradLosses::evaluate(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted) {
  return fetch(evaluated(which, phi, theta, wanted));
}

Tensor AutogradLosses::evaluated(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted) {
  auto& kept = evaluations_->all[which == Which::outer][wanted.phi != nullptr][wanted.theta != nullptr];
  if (!launches(Graphs::whole)) return compute(which, phi, theta, wanted);
  const at::NoGradGuard guard;
  if (!kept.launch.recorded()) {
    const SideStream::Scope beside(side());
    if (++kept.asked == 1) return compute(which, phi, theta, wanted);
    const Wanted<Tensor> own{.phi = wanted.phi ? &kept.phi_gradient : nullptr,
                             .theta = wanted.theta ? &kept.theta_gradient : nullptr};
    elements::copy(phi, kept.phi);
    elements::copy(theta, kept.theta);
    if (own.phi) *own.phi = at::zeros_like(kept.phi);
    if (own.theta) *own.theta = at::zeros_like(kept.theta);
    if (!record(Graphs::whole, kept.launch, [&] { kept.value = compute(which, kept.phi, kept.theta, own); }))
      return compute(which, phi, theta, wanted);
  }
  elements::copy(phi, kept.phi);
  elements::copy(theta, kept.theta);
  kept.launch.replay();
  count_replay();
  if (wanted.phi) elements::copy(kept.phi_gradient, *wanted.phi);
  if (wanted.theta) elements::copy(kept.theta_gradient, *wanted.theta);
  if (compared(++kept.replays))
    compare(fmt::format("the {} loss", name(which)),
            which == Which::inner ? this->value(phi, theta, 1, 0) : this->value(phi, theta, 0, 1),
            fetch(kept.value));
  return kept.value;
}

void AutogradLosses::count(const AutogradCost& more) {
  cost_.forward_passes += more.forward_passes;
  cost_.backward_passes += more.backward_passes;
  cost_.replays += more.replays;
}

GradientGraph::GradientGraph(AutogradLosses& losses)
    : losses_(losses),
      times_{phi_gradients_, losses.phi_blocks(), phi_leaves_, losses.phi_blocks()},
      cross_times_{phi_gradients_, losses.phi_blocks(), theta_leaves_, losses.theta_blocks()},
      cross_apply_{theta_gradients_, losses.theta_blocks(), phi_leaves_, losses.phi_blocks()} {}

void GradientGraph::record(const Tensor& phi, const Tensor& theta, double beta) {
  sampler_.reset();
  const bool again = beta == beta_ && losses_.launches(Graphs::whole);
  if (!again || !launch_.recorded()) {
    // The last graph goes before the next one comes: there is memory for one.
    launch_.forget();
    for (Product* each : {&times_, &cross_times_, &cross_apply_}) {
      each->launch.forget();
      each->asked = 0;
    }
    for (Tensors* each : {&phi_gradients_, &theta_gradients_, &phi_leaves_, &theta_leaves_}) each->clear();
    beta_ = beta;
  }
  // Beside the count of changes that autograd keeps: a recorded graph looks at these elements again.
  for (const auto& [from, to] : {std::pair<const Tensor&, Tensor&>{phi, phi_}, {theta, theta_}}) {
    Tensor same = to.defined() ? to.variable_data() : Tensor();
    elements::copy(from, same);
    to = same;
  }
  const SideStream::Scope beside(losses_.side());
  if (again && !launch_.recorded()) {
    replays_ = 0;
    losses_.record(Graphs::whole, launch_, [&] { make(beta); });
  }
  if (!launch_.recorded()) return make(beta);
  launch_.replay();
  losses_.count_replay();
  if (compared(++replays_)) {
    const at::NoGradGuard guard;
    losses_.compare("L_in + β·L_out", losses_.value(phi_, theta_, 1, beta), fetch(value_));
  }
}

/// The gradients with their graph, at phi_ and theta_.
void GradientGraph::make(double beta) {
  const at::AutoGradMode recorded(true);
  phi_leaves_ = losses_.phi_blocks().leaves(phi_, true);
  theta_leaves_ = losses_.theta_blocks().leaves(theta_, true);
  Tensor value = losses_.loss(Which::inner, phi_leaves_, theta_leaves_);
  if (beta != 0) value = value + beta * losses_.loss(Which::outer, phi_leaves_, theta_leaves_);
  value_ = value.detach();
  if (!value.requires_grad()) {
    phi_gradients_.assign(phi_leaves_.size(), Tensor());
    theta_gradients_.assign(theta_leaves_.size(), Tensor());
    return;
  }
  Tensors leaves = phi_leaves_;
  leaves.insert(leaves.end(), theta_leaves_.begin(), theta_leaves_.end());
  const Tensors gradients = losses_.backward("the gradient's graph", {value}, leaves, {}, true, true);
  const auto middle = gradients.begin() + static_cast<std::ptrdiff_t>(phi_leaves_.size());
  phi_gradients_.assign(gradients.begin(), middle);
  theta_gradients_.assign(middle, gradients.end());
}

void GradientGraph::through(const Product& product, const Tensor& weights, Tensor& out) {
  Tensors outputs, on_them;
  const Tensors blocks = product.from.views(weights);
  for (std::size_t i = 0; i < product.gradients.size(); ++i) {
    const Tensor& each = product.gradients[i];
    // What is constant has no part in the product.
    if (!each.defined() || !each.requires_grad()) continue;
    outputs.push_back(each);
    on_them.push_back(blocks[i]);
  }
  Tensors products(product.leaves.size());
  if (!outputs.empty())
    products =
        losses_.backward("a product with second derivatives", outputs, product.leaves, on_them, true, false);
  product.to.write(products, out);
}

double GradientGraph::drawn_times(const Tensor& v, Tensor& out) {
  const long all = losses_.rows().inner, some = std::min(losses_.options().drawn_rows, all);
  if (some == 0) return 0;
  if (!sampler_)
    sampler_.emplace(RowSamplerOptions{
        .rows = all, .batch = some, .seed = losses_.options().seed, .device = phi_.device()});
  AutogradLosses part(losses_, sampler_->next(), {});
  GradientGraph graph(part);
  graph.record(phi_, theta_, beta_);
  graph.times(v, out);
  losses_.count(part.cost());
  return static_cast<double>(some) / static_cast<double>(all);
}

void GradientGraph::multiply(Product& product, const Tensor& weights, Tensor& out) {
  const at::NoGradGuard guard;
  if (!product.launch.recorded()) {
    const SideStream::Scope beside(losses_.side());
    // The first is done as it comes: libraries of the device take what they need at their first call, and a
    // recording of what is asked for once would be lost.
    bool recorded = false;
    if (++product.asked == 2 && losses_.launches(Graphs::products)) {
      elements::copy(weights, product.weights);
      elements::copy(out, product.out);
      recorded = losses_.record(Graphs::products, product.launch,
                                [&] { through(product, product.weights, product.out); });
    }
    if (!recorded) return through(product, weights, out);
  }
  elements::copy(weights, product.weights);
  product.launch.replay();
  losses_.count_replay();
  elements::copy(product.out, out);
}

}  // namespace bilevel::torch
