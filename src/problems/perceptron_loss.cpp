#include "problems/perceptron_loss.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>

#include <bilevel/outcome/violations.hpp>

#include "problems/row_major_product.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Rows = PerceptronLoss::Rows;

/// Rows of a block at most, and of a chunk at least: products of fewer are slow.
constexpr Index most_in_block = 128, least_in_chunk = 32;
/// The sums of all chunks together take at most so many doubles.
constexpr Index affordable_sums = Index{1} << 23, most_chunks = 32;

/// a = σ(z) and s = σ′(z), in place of z.
void activate(Activation activation, Index count, double* z, double* s) {
  if (activation == Activation::tanh) {
    for (Index i = 0; i < count; ++i) {
      z[i] = std::tanh(z[i]);
      s[i] = 1 - z[i] * z[i];
    }
    return;
  }
  for (Index i = 0; i < count; ++i) {
    const double decayed = std::exp(-std::abs(z[i]));
    s[i] = (z[i] > 0 ? 1 : decayed) / (1 + decayed);
    z[i] = std::max(0.0, z[i]) + std::log1p(decayed);
  }
}

/// σ″ by what `activate` left.
double bend(Activation activation, double a, double s) {
  return activation == Activation::tanh ? -2 * a * s : s * (1 - s);
}

}  // namespace

PerceptronLoss::PerceptronLoss(PerceptronShape shape, kernels::Loss loss, Samples samples,
                               std::vector<RowRange> ranges)
    : RowLosses(std::move(samples), std::move(ranges)),
      shape_(std::move(shape)),
      kind_(shape_.outputs > 1 ? nullptr : &kind_of(loss)) {
  const ModelMatrix& matrix = *samples_.matrix;
  if (matrix.features() != shape_.features)
    throw InvalidInput(fmt::format("perceptron: made for {} features, the rows have {}", shape_.features,
                                   matrix.features()));
  for (const Index units : shape_.hidden)
    if (units < 1) throw InvalidInput(fmt::format("perceptron: a layer of {} units", units));
  if (kind_ && (!kind_->continued || !kind_->parameter.empty()))
    throw InvalidInput(fmt::format("perceptron: the loss of {} is not offered", kind_->model));
  if (softmax() && (!samples_.classes || samples_.offsets))
    throw InvalidInput("perceptron: several outputs take a class for every row, and no offsets");
  if (!softmax() && !samples_.labels) throw InvalidInput("perceptron: there is no label for every row");
  Index place = 0;
  for (const RowRange& range : ranges_) {
    Segment& s = segments_.emplace_back();
    s.range = range;
    if (matrix.sparse())
      s.sparse = matrix.sparse_rows(range);
    else
      s.dense = matrix.dense_rows(range);
    for (Index i = range.first; i < range.second; ++i) {
      if (softmax()) {
        const int label = (*samples_.classes)[static_cast<std::size_t>(i)];
        if (label < 0 || label >= shape_.outputs)
          throw InvalidInput(fmt::format("perceptron: row {} has class {} of {}", i, label, shape_.outputs));
      } else if (!kind_->takes((*samples_.labels)[i])) {
        throw InvalidInput(fmt::format("perceptron: row {} has the label {}; {} wants {}", i,
                                       (*samples_.labels)[i], kind_->model, kind_->wants));
      }
      rows_of_place_.push_back(i);
    }
  }
  const Index count = row_count(), size = shape_.size();
  const Index most = std::clamp<Index>(affordable_sums / size, 1, most_chunks);
  const Index in_chunk = std::max(least_in_chunk, kernels::divide_up(count, most));
  const Index in_block = std::min(most_in_block, in_chunk);
  weights_ = Vec::Constant(count, 1 / total_weight_);
  if (samples_.weights)
    for (Index i = 0; i < count; ++i)
      weights_[i] *= (*samples_.weights)[rows_of_place_[static_cast<std::size_t>(i)]];
  Index room = 0;  // rows that the last chunk still takes
  for (std::size_t k = 0; k < segments_.size(); ++k) {
    const Index rows = segments_[k].range.second - segments_[k].range.first;
    for (Index row = 0; row < rows;) {
      if (room <= 0) {
        chunks_.push_back({blocks_.size(), blocks_.size(), 0, Vec(size), {}, {}, {}});
        room = in_chunk;
      }
      const Index some = std::min({in_block, rows - row, room});
      blocks_.push_back({static_cast<Index>(k), row, some, place + row});
      chunks_.back().last = blocks_.size();
      row += some;
      room -= some;
    }
    place += rows;
  }
  for (Chunk& chunk : chunks_)
    for (Index l = 0; l < shape_.layers(); ++l)
      for (auto* scratch : {&chunk.moved, &chunk.pulled, &chunk.turned})
        scratch->push_back(Rows(in_block, shape_.units(l)));
  trace_ = make_trace();
}

PerceptronLoss::Trace PerceptronLoss::make_trace() const {
  Trace t;
  const Index count = row_count();
  for (Index l = 0; l < shape_.layers(); ++l) {
    t.deltas.push_back(Rows(count, shape_.units(l)));
    if (l + 1 == shape_.layers()) break;
    for (auto* each : {&t.activations, &t.slopes, &t.bends}) each->push_back(Rows(count, shape_.units(l)));
  }
  t.outputs = Rows(count, shape_.outputs);
  t.at = Vec::Constant(shape_.size(), unknown);
  return t;
}

/// out = [X 1]·W for the rows of a block.
void PerceptronLoss::first_layer(const Block& b, const double* weights, double* out) const {
  const Segment& s = segments_[static_cast<std::size_t>(b.segment)];
  const Index units = shape_.units(0);
  if (s.dense.x) {
    multiply(Flipped::no, Flipped::no, b.count, units, s.dense.columns, s.dense.x + b.row * s.dense.stride,
             s.dense.stride, weights, units, 0, out, units);
    return;
  }
  for (Index i = 0; i < b.count; ++i) {
    Eigen::Map<Vec> row(out + i * units, units);
    row = Eigen::Map<const Vec>(weights + shape_.features * units, units);
    for (int k = s.sparse.starts[b.row + i]; k < s.sparse.starts[b.row + i + 1]; ++k)
      row += s.sparse.values[k] * Eigen::Map<const Vec>(weights + s.sparse.columns_of[k] * units, units);
  }
}

/// out += [X 1]ᵀ·delta; instead of adding, `fresh` sets.
void PerceptronLoss::first_gradient(const Block& b, const double* delta, bool fresh, double* out) const {
  const Segment& s = segments_[static_cast<std::size_t>(b.segment)];
  const Index units = shape_.units(0);
  if (s.dense.x) {
    multiply(Flipped::yes, Flipped::no, s.dense.columns, units, b.count, s.dense.x + b.row * s.dense.stride,
             s.dense.stride, delta, units, fresh ? 0 : 1, out, units);
    return;
  }
  if (fresh) std::fill(out, out + (shape_.features + 1) * units, 0.0);
  Eigen::Map<Vec> bias(out + shape_.features * units, units);
  for (Index i = 0; i < b.count; ++i) {
    const Eigen::Map<const Vec> row(delta + i * units, units);
    bias += row;
    for (int k = s.sparse.starts[b.row + i]; k < s.sparse.starts[b.row + i + 1]; ++k)
      Eigen::Map<Vec>(out + s.sparse.columns_of[k] * units, units) += s.sparse.values[k] * row;
  }
}

void PerceptronLoss::forward(const Block& b, const Vec& u, Trace& t) const {
  const auto last = static_cast<std::size_t>(shape_.layers()) - 1;
  for (std::size_t l = 0; l <= last; ++l) {
    const auto layer = static_cast<Index>(l);
    const Index units = shape_.units(layer), inputs = shape_.inputs(layer);
    const double* weights = u.data() + shape_.place(layer);
    Rows& into = l == last ? t.outputs : t.activations[l];
    double* z = into.data() + b.place * units;
    if (l == 0) {
      first_layer(b, weights, z);
    } else {
      const Eigen::Map<const Eigen::RowVectorXd> bias(weights + inputs * units, units);
      Eigen::Map<Rows>(z, b.count, units).rowwise() = bias;
      multiply(Flipped::no, Flipped::no, b.count, units, inputs,
               t.activations[l - 1].data() + b.place * inputs, inputs, weights, units, 1, z, units);
    }
    if (l < last) activate(shape_.activation, b.count * units, z, t.slopes[l].data() + b.place * units);
  }
  if (samples_.offsets)
    for (Index i = 0; i < b.count; ++i)
      t.outputs(b.place + i, 0) += (*samples_.offsets)[rows_of_place_[static_cast<std::size_t>(b.place + i)]];
}

double PerceptronLoss::loss(const double* m, Index place) const {
  const Index row = rows_of_place_[static_cast<std::size_t>(place)];
  if (!softmax()) return kind_->value(m[0], (*samples_.labels)[row], 1);
  const Eigen::Map<const Eigen::ArrayXd> margins(m, shape_.outputs);
  const double top = margins.maxCoeff();
  return top + std::log((margins - top).exp().sum()) - m[(*samples_.classes)[static_cast<std::size_t>(row)]];
}

/// loss′, and of one margin loss″; of several their probabilities. `slope` may not be `m`, `curvature` may.
void PerceptronLoss::slope_of(const double* m, Index place, double* slope, double* curvature) const {
  const Index row = rows_of_place_[static_cast<std::size_t>(place)];
  if (!softmax()) {
    const double label = (*samples_.labels)[row];
    *slope = kind_->slope(m[0], label, 1);
    *curvature = kind_->continued->curvature({m[0], 0}, label).real();
    return;
  }
  const Eigen::Map<const Eigen::ArrayXd> margins(m, shape_.outputs);
  Eigen::Map<Eigen::ArrayXd> probabilities(curvature, shape_.outputs), out(slope, shape_.outputs);
  const double top = margins.maxCoeff();
  probabilities = (margins - top).exp();
  probabilities /= probabilities.sum();
  out = probabilities;
  out[(*samples_.classes)[static_cast<std::size_t>(row)]] -= 1;
}

/// Σ w_i·loss_i of a block; where `weights` are given also what the backward pass begins with.
double PerceptronLoss::losses(const Block& b, Trace& t, const double* weights) const {
  double sum = 0;
  const Index c = shape_.outputs;
  for (Index i = b.place; i < b.place + b.count; ++i) {
    double* m = t.outputs.data() + i * c;
    // What weighs nothing adds nothing, whatever its loss.
    if (weights_[i] != 0) sum += weights_[i] * loss(m, i);
    if (!weights) continue;
    double* delta = t.deltas.back().data() + i * c;
    if (weights[i] == 0) {
      std::fill(delta, delta + c, 0.0);
      std::fill(m, m + c, 0.0);
      continue;
    }
    slope_of(m, i, delta, m);
    for (Index k = 0; k < c; ++k) delta[k] *= weights[i];
    if (!softmax()) m[0] *= weights[i];
  }
  return sum;
}

/// From the deltas of the last layer to all others, and into `sum` the gradient, where that is wanted.
void PerceptronLoss::backward(const Block& b, const Vec& u, Trace& t, Vec* sum, bool fresh) const {
  for (auto l = static_cast<std::size_t>(shape_.layers()); l-- > 0;) {
    const auto layer = static_cast<Index>(l);
    const Index units = shape_.units(layer), inputs = shape_.inputs(layer), place = shape_.place(layer);
    const double* delta = t.deltas[l].data() + b.place * units;
    if (l == 0) {
      if (sum) first_gradient(b, delta, fresh, sum->data());
      return;
    }
    const double* a = t.activations[l - 1].data() + b.place * inputs;
    if (sum) {
      multiply(Flipped::yes, Flipped::no, inputs, units, b.count, a, inputs, delta, units, fresh ? 0 : 1,
               sum->data() + place, units);
      Eigen::Map<Eigen::RowVectorXd> bias(sum->data() + place + inputs * units, units);
      if (fresh) bias.setZero();
      bias += Eigen::Map<const Rows>(delta, b.count, units).colwise().sum();
    }
    double* below = t.deltas[l - 1].data() + b.place * inputs;
    const double* s = t.slopes[l - 1].data() + b.place * inputs;
    double* bends = t.bends[l - 1].data() + b.place * inputs;
    multiply(Flipped::no, Flipped::yes, b.count, inputs, units, delta, units, u.data() + place, units, 0,
             below, inputs);
    for (Index i = 0; i < b.count * inputs; ++i) {
      bends[i] = below[i] * bend(shape_.activation, a[i], s[i]);
      below[i] *= s[i];
    }
  }
}

/// The chunks' sums, in their order.
void PerceptronLoss::add_up(Vec& out) {
  constexpr Index some = 1 << 12;
  kernels::for_each_piece(kernels::divide_up(out.size(), some),
                          static_cast<Index>(chunks_.size()) * out.size() / 4, [&](Index piece) {
                            const Index first = piece * some, count = std::min(some, out.size() - first);
                            out.segment(first, count) = chunks_[0].sum.segment(first, count);
                            for (std::size_t k = 1; k < chunks_.size(); ++k)
                              out.segment(first, count) += chunks_[k].sum.segment(first, count);
                          });
}

/// With `weights` the deltas too, and with `gradient` Σ weights_i·∂loss_i. Returns Σ w_i·loss_i.
double PerceptronLoss::pass(const Vec& u, Trace& t, const Vec* weights, Vec* gradient) {
  each_chunk(gradient ? 3 : 1, [&](Chunk& chunk) {
    chunk.value = 0;
    for (std::size_t k = chunk.first; k < chunk.last; ++k) {
      forward(blocks_[k], u, t);
      chunk.value += losses(blocks_[k], t, weights ? weights->data() : nullptr);
      if (weights) backward(blocks_[k], u, t, gradient ? &chunk.sum : nullptr, k == chunk.first);
    }
  });
  if (gradient) add_up(*gradient);
  double sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk.value;
  return sum;
}

double PerceptronLoss::value(const Vec& u, Vec* gradient) {
  return pass(u, trace_, gradient ? &weights_ : nullptr, gradient);
}

void PerceptronLoss::mixed_gradient(const Vec& u, const Vec& shares, Vec& out) {
  pass(u, trace_, &shares, &out);
}

void PerceptronLoss::linearise(const Vec& u, Trace& t) {
  t.at = u;
  pass(u, t, &weights_, nullptr);
}

void PerceptronLoss::rows(const Vec& u, Vec* losses, Vec& margins) {
  pass(u, trace_, nullptr, nullptr);
  margins = Eigen::Map<const Vec>(trace_.outputs.data(), trace_.outputs.size());
  if (!losses) return;
  losses->resize(row_count());
  for (Index i = 0; i < row_count(); ++i) (*losses)[i] = loss(margins.data() + i * shape_.outputs, i);
}

void PerceptronLoss::slopes(const Vec& u, Vec& out) {
  pass(u, trace_, nullptr, nullptr);
  out.resize(trace_.outputs.size());
  for (Index i = 0; i < row_count(); ++i) {
    double* m = trace_.outputs.data() + i * shape_.outputs;
    slope_of(m, i, out.data() + i * shape_.outputs, m);
  }
}

double PerceptronLoss::mean_curvature(const Vec& u) {
  pass(u, trace_, &weights_, nullptr);
  return softmax() ? unknown : trace_.outputs.sum();
}

std::unique_ptr<RowLosses> make_perceptron_loss(PerceptronShape shape, kernels::Loss loss, Samples samples,
                                                std::vector<RowRange> ranges) {
  return std::make_unique<PerceptronLoss>(std::move(shape), loss, std::move(samples), std::move(ranges));
}

}  // namespace bilevel::problems
