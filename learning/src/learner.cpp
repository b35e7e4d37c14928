#include <bilevel/learning/learner.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "layered_loss.hpp"

namespace bilevel::learning {

namespace {

constexpr std::array kinds{std::pair{LearnerKind::center, std::string_view("center")},
                           std::pair{LearnerKind::gain, std::string_view("gain")},
                           std::pair{LearnerKind::heads, std::string_view("heads")},
                           std::pair{LearnerKind::hypernetwork, std::string_view("hypernetwork")}};
constexpr std::array unit_names{std::pair{Unit::tanh, std::string_view("tanh")},
                                std::pair{Unit::silu, std::string_view("silu")},
                                std::pair{Unit::relu, std::string_view("relu")}};
constexpr std::array strength_names{std::pair{Strengths::one, std::string_view("one")},
                                    std::pair{Strengths::layers, std::string_view("layers")},
                                    std::pair{Strengths::weights, std::string_view("weights")}};

template <class Names, class Value>
std::string_view name_in(const Names& names, Value value) {
  for (const auto& [each, its_name] : names)
    if (each == value) return its_name;
  return {};
}

template <class Names>
auto value_of(const Names& names, std::string_view name, std::string_view what) {
  std::vector<std::string_view> known;
  for (const auto& [value, its_name] : names) {
    if (its_name == name) return value;
    known.push_back(its_name);
  }
  throw InvalidInput(fmt::format("there is no {} '{}'; there are: {}", what, name, fmt::join(known, ", ")));
}

/// Logarithm of the sharpness with which heads answer queries, where it starts: that of normalised features
/// is too little to begin with.
constexpr double first_log_scale = 2;

std::int64_t size_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// The largest ‖ZᵀZ/rows‖ of the tasks' rows Z, from above: the Frobenius norm of the smaller ZZᵀ/rows.
Tensor largest_gram(const Tensor& rows) {
  return (at::bmm(rows, rows.transpose(1, 2)) / static_cast<double>(rows.size(1)))
      .flatten(1)
      .pow(2)
      .sum(1)
      .sqrt()
      .max();
}

}  // namespace

std::string_view name(LearnerKind kind) {
  return name_in(kinds, kind);
}
LearnerKind learner_kind_of(std::string_view name) {
  return value_of(kinds, name, "learner");
}
std::string_view name(Unit unit) {
  return name_in(unit_names, unit);
}
Unit unit_of(std::string_view name) {
  return value_of(unit_names, name, "unit");
}
std::string_view name(Strengths strengths) {
  return name_in(strength_names, strengths);
}
Strengths strengths_of(std::string_view name) {
  return value_of(strength_names, name, "choice of strengths");
}

Violations LearnerOptions::validate() const {
  constexpr long most = 1 << 16;
  Violations v("learner");
  for (const long each : layers)
    v.require(each >= 1 && each <= most, "layers", each, fmt::format("must lie in 1 … {}", most));
  v.require(filters >= 1 && filters <= 4096, "filters", filters, "must lie in 1 … 4096");
  v.require(blocks >= 1 && blocks <= 8, "blocks", blocks, "must lie in 1 … 8");
  v.require(embedding >= 1 && embedding <= 4096, "embedding", embedding, "must lie in 1 … 4096");
  return v.not_negative("strength", strength);
}

/// Gains and shifts of every unit, one row a task: units follow each other layer by layer.
struct Learner::Modulation {
  Tensor gains, shifts;

  /// x·(1 + gain) + shift for the `count` units from `first` on; units are on axis `axis` of x, tasks on the
  /// first.
  Tensor operator()(const Tensor& x, long first, long count, long rows) const {
    const auto of_units = [&](const Tensor& all) {
      const Tensor own = all.narrow(1, first, count).unsqueeze(1);  // tasks × 1 × units
      if (x.dim() == 3) return own;
      return own.expand({own.size(0), rows, count}).reshape({-1, count, 1, 1});
    };
    return x * (1 + of_units(gains)) + of_units(shifts);
  }
};

Learner::Learner(LearnerOptions options, TaskForm form)
    : options_(std::move(options)), form_(std::move(form)) {
  Violations v = options_.validate();
  v.add(form_.validate()).throw_if_any();
  if (!options_.unit)
    options_.unit = !form_.pictures()                     ? Unit::tanh
                    : options_.kind == LearnerKind::heads ? Unit::relu
                                                          : Unit::silu;
  if (options_.strength == 0) options_.strength = options_.kind == LearnerKind::heads ? 0.1 : 1;
  if (options_.unit == Unit::relu && options_.kind != LearnerKind::heads)
    throw InvalidInput(fmt::format(
        "learner.unit = relu has no second derivatives at its kinks, which adapting by {} runs into: take "
        "tanh or silu",
        name(options_.kind)));
  form_.pictures() ? lay_out_blocks() : lay_out_layers();
  const double read_out = 1 / std::sqrt(static_cast<double>(features_));
  network_.push_back({{form_.outputs, features_}, read_out});
  network_.push_back({{form_.outputs}, 0});
  units_.push_back(form_.outputs);
  for (const Part& each : network_) weights_ += size_of(each.shape);
  lay_out_theta();
}

void Learner::lay_out_layers() {
  features_ = static_cast<long>(size_of(form_.input));
  for (const long units : options_.layers) {
    const double deviation = 1 / std::sqrt(static_cast<double>(features_));
    network_.push_back({{units, features_}, deviation});
    network_.push_back({{units}, deviation});
    units_.push_back(units);
    features_ = units;
  }
}

void Learner::lay_out_blocks() {
  std::int64_t channels = form_.input[0], height = form_.input[1], width = form_.input[2];
  for (long block = 0; block < options_.blocks; ++block) {
    if (height < 2 || width < 2)
      throw InvalidInput(fmt::format(
          "learner.blocks = {} are too many for pictures of {} × {}: each halves them, and {} are the most",
          options_.blocks, form_.input[1], form_.input[2], block));
    network_.push_back(
        {{options_.filters, channels, 3, 3}, std::sqrt(2.0 / static_cast<double>(9 * channels))});
    network_.push_back({{options_.filters}, 0, 1});
    network_.push_back({{options_.filters}, 0});
    units_.push_back(options_.filters);
    channels = options_.filters;
    height /= 2;
    width /= 2;
  }
  features_ = static_cast<long>(channels * height * width);
}

void Learner::lay_out_theta() {
  const double log_strength = std::log(options_.strength);
  switch (options_.kind) {
    case LearnerKind::center: {
      theta_ = network_;
      const auto count = options_.strengths == Strengths::one ? 1
                         : options_.strengths == Strengths::layers
                             ? static_cast<std::int64_t>(network_.size())
                             : weights_;
      theta_.push_back({{count}, 0, log_strength});
      return;
    }
    case LearnerKind::gain:
      theta_ = network_;
      theta_.push_back({{1}, 0, log_strength});
      return;
    case LearnerKind::heads:
      theta_.assign(network_.begin(), network_.end() - 2);
      theta_.push_back({{1}, 0, log_strength});
      theta_.push_back({{1}, 0, first_log_scale});
      return;
    case LearnerKind::hypernetwork:
      theta_ = network_;
      theta_.push_back({{options_.embedding, weights_}, 0});
      return;
  }
}

Tensors Learner::initial_theta(std::uint64_t seed) const {
  const auto host = at::TensorOptions().dtype(at::kDouble);
  Tensors theta;
  for (const Part& each : theta_) {
    theta.push_back(at::zeros(each.shape, host));
    if (each.deviation != 0) torch::elements::random(seed * 1009 + theta.size(), theta.back());
    theta.back().mul_(each.deviation).add_(each.start);
  }
  if (options_.kind == LearnerKind::hypernetwork) {
    // What the embedding does to a weight is at first as large as the weight.
    Tensors sizes;
    for (const Part& each : network_)
      sizes.push_back(at::full({size_of(each.shape)}, each.deviation > 0 ? each.deviation : 0.1, host));
    torch::elements::random(seed * 1009, theta.back());
    theta.back().mul_(at::cat(sizes) /
                      std::sqrt(options_.strength * static_cast<double>(options_.embedding)));
  }
  return theta;
}

std::vector<std::vector<std::int64_t>> Learner::theta_shapes() const {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Part& each : theta_) shapes.push_back(each.shape);
  return shapes;
}

std::vector<std::int64_t> Learner::phi_shape(long tasks) const {
  if (options_.kind == LearnerKind::heads) return {tasks, form_.outputs, features_ + 1};
  return {tasks, adapted_parameters()};
}

long Learner::shared_parameters() const {
  long sum = 0;
  for (const Part& each : theta_) sum += static_cast<long>(size_of(each.shape));
  return sum;
}

long Learner::adapted_parameters() const {
  switch (options_.kind) {
    case LearnerKind::center:
      return weights_;
    case LearnerKind::gain:
      return 2 * std::accumulate(units_.begin(), units_.end(), 0L);
    case LearnerKind::heads:
      return form_.outputs * (features_ + 1);
    case LearnerKind::hypernetwork:
      return options_.embedding;
  }
  return 0;
}

Tensor Learner::activate(const Tensor& x) const {
  switch (*options_.unit) {
    case Unit::tanh:
      return at::tanh(x);
    case Unit::silu:
      return at::silu(x);
    case Unit::relu:
      return at::relu(x);
  }
  return x;
}

namespace {

/// Rows of tasks through weights that all share, or that each task has of its own.
Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() == 2) return at::linear(x, weight, bias);
  return at::baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2));
}

}  // namespace

Tensor Learner::through_layers(const Tensors& weights, const Tensor& x, const Modulation* gains) const {
  Tensor h = x.flatten(2);
  long unit = 0;
  for (std::size_t layer = 0; layer + 1 < units_.size(); ++layer) {
    h = affine(h, weights[2 * layer], weights[2 * layer + 1]);
    if (gains) h = (*gains)(h, unit, units_[layer], h.size(1));
    unit += units_[layer];
    h = activate(h);
  }
  return h;
}

/// Convolution, normalisation of each picture over all channels (what one picture shows decides nothing about
/// another), unit and pooling. Tasks with weights of their own stand side by side as groups of channels.
Tensor Learner::through_blocks(const Tensors& weights, const Tensor& x, const Modulation* gains) const {
  const std::int64_t tasks = x.size(0), rows = x.size(1);
  const bool own = weights[0].dim() == 5;
  const std::int64_t groups = own ? tasks : 1;
  Tensor h = own ? x.transpose(0, 1).flatten(1, 2) : x.flatten(0, 1);
  long unit = 0;
  for (std::size_t block = 0; block + 1 < units_.size(); ++block) {
    const Tensor* part = &weights[3 * block];
    h = at::conv2d(h, own ? part[0].flatten(0, 1) : part[0], {}, 1, 1, 1, groups);
    h = at::group_norm(h, groups, own ? part[1].flatten() : part[1], own ? part[2].flatten() : part[2]);
    if (gains) h = (*gains)(h, unit, units_[block], static_cast<long>(rows));
    unit += units_[block];
    h = activate(h);
    // The largest of four has kinks, which heads do not see: adaptation does not move their features.
    h = options_.kind == LearnerKind::heads ? at::max_pool2d(h, 2) : at::avg_pool2d(h, 2);
  }
  if (own) return h.reshape({rows, tasks, -1}).transpose(0, 1);
  return h.reshape({tasks, rows, -1});
}

Tensor Learner::features(const Tensors& weights, const Tensor& x, const Modulation* gains) const {
  return form_.pictures() ? through_blocks(weights, x, gains) : through_layers(weights, x, gains);
}

Tensor Learner::network(const Tensors& weights, const Tensor& x, const Modulation* gains) const {
  const std::size_t read_out = network_.size() - 2;
  const Tensor out = affine(features(weights, x, gains), weights[read_out], weights[read_out + 1]);
  if (!gains) return out;
  return (*gains)(out, std::accumulate(units_.begin(), units_.end() - 1, 0L), form_.outputs, x.size(1));
}

/// How far the regulariser lets an element go: 1/√λ.
Tensor Learner::allowed(const Tensor& log_strength) const {
  const Tensor each = at::exp(-0.5 * log_strength);
  if (options_.kind != LearnerKind::center || options_.strengths != Strengths::layers) return each;
  Tensors parts;
  for (std::size_t i = 0; i < network_.size(); ++i)
    parts.push_back(each.narrow(0, static_cast<std::int64_t>(i), 1).expand({size_of(network_[i].shape)}));
  return at::cat(parts);
}

/// The parts of what tasks × weights holds.
Tensors Learner::own_weights(const Tensor& all) const {
  std::vector<std::int64_t> sizes;
  for (const Part& each : network_) sizes.push_back(size_of(each.shape));
  Tensors parts = all.split_with_sizes(sizes, 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::int64_t> shape{all.size(0)};
    shape.insert(shape.end(), network_[i].shape.begin(), network_[i].shape.end());
    parts[i] = parts[i].view(shape);
  }
  return parts;
}

Tensors Learner::prepare(const Tensors& theta, const Tasks& tasks) const {
  const auto in_a_row = [&] {
    Tensors rows;
    for (std::size_t i = 0; i < network_.size(); ++i) rows.push_back(theta[i].flatten());
    return at::cat(rows);
  };
  switch (options_.kind) {
    case LearnerKind::center:
      return {in_a_row(), allowed(theta.back())};
    case LearnerKind::gain: {
      Tensors prepared(theta.begin(), theta.end() - 1);
      prepared.push_back(allowed(theta.back()));
      return prepared;
    }
    case LearnerKind::heads: {
      // One pass for all rows. The length of a row of features is about 1 whatever their number.
      const Tensor x = at::cat({tasks.support_x, tasks.query_x}, 1);
      const Tensor plain = features(theta, x, nullptr) / std::sqrt(static_cast<double>(features_));
      const Tensor rows = at::cat({plain, at::ones_like(plain.narrow(2, 0, 1))}, 2);
      const std::int64_t support = tasks.support_x.size(1);
      return {rows.narrow(1, 0, support), rows.narrow(1, support, rows.size(1) - support),
              allowed(theta[theta.size() - 2]), theta.back().exp()};
    }
    case LearnerKind::hypernetwork:
      return {in_a_row(), theta.back().view({options_.embedding, weights_})};
  }
  return {};
}

/// tasks × weights, of a learner whose tasks have weights of their own.
Tensor Learner::weights_of_tasks(const Tensor& phi, const Tensors& prepared) const {
  return options_.kind == LearnerKind::center ? prepared[0] + phi * prepared[1]
                                              : at::addmm(prepared[0], phi, prepared[1]);
}

Tensor Learner::outputs(const Tensor& phi, const Tensors& prepared, const Tensor& x, bool query) const {
  switch (options_.kind) {
    case LearnerKind::center:
    case LearnerKind::hypernetwork:
      return network(own_weights(weights_of_tasks(phi, prepared)), x, nullptr);
    case LearnerKind::gain: {
      const Tensors parts = (phi * prepared.back()).chunk(2, 1);
      const Modulation gains{parts[0], parts[1]};
      return network(prepared, x, &gains);
    }
    case LearnerKind::heads: {
      const Tensor out = at::bmm(prepared[query ? 1 : 0], (phi * prepared[2]).transpose(1, 2));
      // Queries are judged by probabilities as sharp as is best for them.
      return query && form_.classes ? out * prepared[3] : out;
    }
  }
  return {};
}

/// A sum over the tasks, of means over their rows.
Tensor Learner::loss(const Tensor& outputs, const Tensor& targets) const {
  const Tensor sum = form_.classes ? -(targets * at::log_softmax(outputs, 2)).sum()
                                   : at::mse_loss(outputs, targets, at::Reduction::Sum);
  return sum / static_cast<double>(outputs.size(1));
}

/// The same of the support rows, or of those of the query.
Tensor Learner::losses(const Tensor& phi, const Tensors& prepared, const Tasks& tasks, bool query) const {
  const Tensor &x = query ? tasks.query_x : tasks.support_x, &y = query ? tasks.query_y : tasks.support_y;
  const bool own = options_.kind == LearnerKind::center || options_.kind == LearnerKind::hypernetwork;
  if (own && !form_.pictures() && options_.unit == Unit::tanh && LayeredLoss::suits(phi)) {
    LayeredLoss layered{{static_cast<long>(size_of(form_.input))}, form_.classes};
    layered.sizes.insert(layered.sizes.end(), units_.begin(), units_.end());
    return layered(weights_of_tasks(phi, prepared), x, y).sum();
  }
  return loss(outputs(phi, prepared, x, query), y);
}

Tensor Learner::inner(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const {
  return losses(phi, prepared, tasks, false) + 0.5 * phi.pow(2).sum();
}

Tensor Learner::outer(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const {
  return losses(phi, prepared, tasks, true) / static_cast<double>(phi.size(0));
}

Tensor Learner::answers(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const {
  return outputs(phi, prepared, tasks.query_x, true);
}

/// The Hessian of a row's cross-entropy is at most half the square of its length, that of a squared error is
/// twice it.
Constants Learner::constants(const Tensors& prepared) const {
  if (!convex()) return {};
  const double bend = form_.classes ? 0.5 : 2;
  const Tensor allowed = prepared[2].pow(2);
  const Tensor judged = form_.classes ? allowed * prepared[3].pow(2) : allowed;
  const auto tasks = static_cast<double>(prepared[0].size(0));
  const Tensor both =
      at::cat({bend * allowed * largest_gram(prepared[0]), bend / tasks * judged * largest_gram(prepared[1])})
          .to(at::kDouble)
          .cpu();
  const double* const numbers = both.data_ptr<double>();
  return {.mu = 1, .smoothness = 1 + numbers[0], .outer_smoothness = numbers[1]};
}

}  // namespace bilevel::learning
