#include <bilevel/networks/propagation.hpp>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>

#include <bilevel/gradient/stencil.hpp>
#include <bilevel/problems/kernels.hpp>

#include "block.hpp"
#include "gemm.hpp"
#include "threads/pool.hpp"

namespace bilevel::networks {

Violations PropagationOptions::validate() const {
  Violations v("propagation");
  v.require(points >= Stencil::least_points && points <= Stencil::most_points, "points", points,
            "must be 2 to 8");
  v.require(beta != 0 && std::isfinite(beta), "beta", beta, "must be finite and not 0");
  v.require(circle >= 0 && circle <= 64 && circle % 2 == 0, "circle", circle, "must be even, 0 to 64");
  v.not_negative("noise", noise);
  return v.add(free.validate("propagation.free")).add(nudged.validate("propagation.nudged"));
}

namespace {

/// Samples that settle together: as many blocks as it takes, all of one size but for rounding, and of
/// nothing but the batch, so that the threads find equal work and results do not depend on their number.
template <class S>
struct Blocks {
  Index batch;
  Index count() const { return (batch + Block<S>::most_samples - 1) / Block<S>::most_samples; }
  Index first(Index i) const { return batch * i / count(); }
  Index size(Index i) const { return first(i + 1) - first(i); }
};

/// A nudge of `strength`·β, and the weight of its ∂θE in the estimate times β.
struct Phase {
  std::complex<double> strength, weight;
};

/// Those of the stencil, or of the upper half of the circle: the lower one has their complex conjugates.
std::vector<Phase> phases_of(const PropagationOptions& o) {
  std::vector<Phase> phases;
  for (int k = 0; k < o.circle / 2; ++k) {
    const auto point = std::polar(1.0, std::numbers::pi * (2 * k + 1) / o.circle);
    phases.push_back({point, 2.0 / (static_cast<double>(o.circle) * point)});
  }
  if (o.circle > 0) return phases;
  const Stencil stencil = stencil_of(o.nudge, o.points);
  for (std::size_t i = 0; i < stencil.points().size(); ++i)
    phases.push_back({static_cast<double>(stencil.points()[i]), stencil.coefficient(i)});
  return phases;
}

/// Columns of one layer's weight gradient: what a thread takes at a time.
struct Slab {
  Index layer, first, count;
};

/// The noise of a block, apart from every other block's: a generator that counts in steps of its own constant
/// must not be started at multiples of it.
std::uint64_t noise_of(std::uint64_t seed, Index block) {
  return seed ^ (0xD1B54A32D192ED03ull * static_cast<std::uint64_t>(block + 1));
}

}  // namespace

template <class S>
struct Propagation<S>::State {
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

  State(Architecture architecture, PropagationOptions wanted)
      : a((architecture.validate().throw_if_any(), std::move(architecture))),
        options((wanted.validate().throw_if_any(), wanted)),
        phases(phases_of(options)),
        couplings(a) {
    if (options.circle > 0 && !a.smooth())
      throw InvalidInput(fmt::format("propagation.circle: {} units are not analytic; sigmoid and tanh are",
                                     name(a.activation)));
    for (int t = 0; t < problems::kernels::threads(); ++t)
      blocks.push_back(std::make_unique<Block<S>>(couplings, options.circle > 0));
    for (Index k = 1; k <= a.depth(); ++k) {
      const Index columns = a.width(k - 1), parts = std::min<Index>(8, (columns + 31) / 32);
      for (Index p = 0; p < parts; ++p)
        slabs.push_back({k, columns * p / parts, columns * (p + 1) / parts - columns * p / parts});
      diagonal_gradient.push_back(Vector::Zero(a.width(k)));
    }
    const Index parts = std::min<Index>(8, (a.width(1) + 127) / 128);
    for (Index part = 0; part <= parts; ++part) row_slabs.push_back(a.width(1) * part / parts);
    post.resize(static_cast<std::size_t>(a.depth()));
    pre.resize(static_cast<std::size_t>(a.depth()));
    squares.resize(static_cast<std::size_t>(a.depth()));
  }

  /// Columns that layer k keeps for a batch: those of real parts, and with the imaginary ones behind them.
  Index real_columns(Index k, Index batch) const {
    return k == 1 ? batch : static_cast<Index>(phases.size()) * batch;
  }
  Index columns(Index k, Index batch) const {
    return real_columns(k, batch) * (k > 1 && options.circle > 0 ? 2 : 1);
  }

  /// Each has a block of its own; one that has none, since there were fewer when this was made, may not come.
  std::size_t threads() const {
    return static_cast<std::size_t>(pool::threads()) <= blocks.size() ? blocks.size() : 1;
  }
  void make_room(Index batch) {
    if (batch <= room) return;
    room = batch;
    received.resize(a.width(1), batch);
    for (Index k = 1; k <= a.depth(); ++k) {
      const auto i = static_cast<std::size_t>(k - 1);
      post[i].resize(a.width(k), columns(k, batch));
      if (k > 1) pre[i].resize(a.width(k - 1), columns(k, batch));
      if (a.resistive()) squares[i].resize(a.width(k), batch);
    }
    per_block.resize(static_cast<std::size_t>(Blocks<S>{batch}.count()));
  }

  void keep_phase(const Block<S>& block, std::size_t phase, Index first, Index batch);
  void keep_complex_phase(const Block<S>& block, std::size_t phase, Index first, Index batch);
  void receive(std::size_t row_slab, const S* inputs, Index batch);
  void settle_block(Block<S>& block, S* states, Index first, BatchOutcome& outcome);
  void nudge_block(Block<S>& block, Index first, Index count, Index batch, double beta, BatchOutcome& outcome,
                   std::vector<Matrix>& free_states);
  void weight_gradient(const Slab& slab, const S* inputs, Index batch, S scale, S* gradient);
  void bias_gradient(Index k, Index batch, S scale, S* gradient);
  BatchOutcome sum(Index batch) const;
  double least_stiffness(double beta) const;

  Architecture a;
  PropagationOptions options;
  std::vector<Phase> phases;
  LiveCouplings<S> couplings;
  std::uint64_t gradients = 0;
  std::vector<std::unique_ptr<Block<S>>> blocks;
  std::vector<std::vector<Matrix>> free_states;  // of each thread, layer by layer
  std::vector<Slab> slabs;
  std::vector<Index>
      row_slabs;  // where the rows of W_1 are divided: one thread multiplies a slab by all inputs
  Index room = 0;
  Matrix received;  // W_1 x
  // What the weight gradients are products of: layer 1 sums its phases, since its inputs are the same in all;
  // the others have the phases side by side, with the phases' weights in `post`. Of complex phases the real
  // part counts: Re(αp·qᵀ) = Re(αp)·Re(q)ᵀ − Im(αp)·Im(q)ᵀ.
  std::vector<Matrix> post, pre;
  std::vector<Matrix> squares;  // resistive: Σ_i α_i ½u²
  std::vector<Vector> diagonal_gradient;     // ∂E/∂D, summed over the batch
  std::vector<BatchOutcome> per_block;
};

template <class S>
void Propagation<S>::State::keep_phase(const Block<S>& block, std::size_t phase, Index first, Index batch) {
  const Index count = block.samples();
  const bool fresh = phase == 0;
  const auto weight = static_cast<S>(phases[phase].weight.real());
  for (Index k = 1; k <= a.depth(); ++k) {
    const auto i = static_cast<std::size_t>(k - 1);
    const Eigen::Map<const Matrix> from(block.post(k), a.width(k), count);
    const Index column = k == 1 ? first : static_cast<Index>(phase) * batch + first;
    auto to = post[i].middleCols(column, count);
    if (k == 1 && !fresh)
      to += weight * from;
    else
      to = weight * from;
    if (k > 1)
      pre[i].middleCols(column, count) =
          Eigen::Map<const Matrix>(block.activity(k - 1), a.width(k - 1), count);
    if (!a.resistive()) continue;
    auto square = squares[i].middleCols(first, count);
    if (fresh)
      square = (S(0.5) * weight) * from.cwiseAbs2();
    else
      square += (S(0.5) * weight) * from.cwiseAbs2();
  }
}

template <class S>
void Propagation<S>::State::keep_complex_phase(const Block<S>& block, std::size_t phase, Index first,
                                               Index batch) {
  const Index count = block.samples();
  const auto weight = std::complex<S>(phases[phase].weight);
  const auto part = [count](const S* columns, Index units, Index which) {
    return Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(columns + which * units, units, count,
                                                             Eigen::OuterStride<>(2 * units));
  };
  for (Index k = 1; k <= a.depth(); ++k) {
    const auto i = static_cast<std::size_t>(k - 1);
    const auto re = part(block.post(k), a.width(k), 0), im = part(block.post(k), a.width(k), 1);
    // The inputs are real and the same in all phases.
    if (k == 1) {
      auto to = post[i].middleCols(first, count);
      if (phase == 0)
        to = weight.real() * re - weight.imag() * im;
      else
        to += weight.real() * re - weight.imag() * im;
      continue;
    }
    const Index column = static_cast<Index>(phase) * batch + first, behind = real_columns(k, batch);
    post[i].middleCols(column, count) = weight.real() * re - weight.imag() * im;
    post[i].middleCols(behind + column, count) = -(weight.real() * im + weight.imag() * re);
    pre[i].middleCols(column, count) = part(block.activity(k - 1), a.width(k - 1), 0);
    pre[i].middleCols(behind + column, count) = part(block.activity(k - 1), a.width(k - 1), 1);
  }
}

/// Rows are divided, not samples: every block of them would read and pack all of W_1 again.
template <class S>
void Propagation<S>::State::receive(std::size_t row_slab, const S* inputs, Index batch) {
  const Index units = a.width(1), first = row_slabs[row_slab];
  gemm(Transposed::no, Transposed::no, row_slabs[row_slab + 1] - first, batch, a.inputs(), S(1),
       couplings.weights(1) + first, units, inputs, a.inputs(), S(0), received.data() + first, units);
}

template <class S>
void Propagation<S>::State::settle_block(Block<S>& block, S* states, Index first, BatchOutcome& outcome) {
  outcome = {};
  const Index count = block.samples();
  block.start_at_rest();
  const Index size = a.states();
  if (states)
    for (Index k = 1, at = 0; k <= a.depth(); at += a.width(k++))
      block.load(k, states + first * size + at, size);
  block.relax(0, options.free);
  if (states)
    for (Index k = 1, at = 0; k <= a.depth(); at += a.width(k++))
      Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(states + first * size + at, a.width(k), count,
                                                  Eigen::OuterStride<>(size)) =
          Eigen::Map<const Matrix>(block.states(k), a.width(k), count);
  block.judge(outcome.cost, outcome.wrong);
  for (const SampleOutcome& each : block.outcomes()) {
    outcome.residual += each.moved;
    outcome.steps += static_cast<double>(each.steps);
    outcome.finite = outcome.finite && each.status != Status::not_finite;
  }
  outcome.finite = outcome.finite && std::isfinite(outcome.cost);
}

template <class S>
void Propagation<S>::State::nudge_block(Block<S>& block, Index first, Index count, Index batch, double beta,
                                        BatchOutcome& outcome, std::vector<Matrix>& starts) {
  for (Index k = 1; k <= a.depth(); ++k)
    starts[static_cast<std::size_t>(k - 1)].leftCols(count) =
        Eigen::Map<const Matrix>(block.states(k), a.width(k), count);
  const auto load = [&] {
    for (Index k = 1; k <= a.depth(); ++k)
      block.load(k, starts[static_cast<std::size_t>(k - 1)].data(), a.width(k));
  };
  const bool complex = options.circle > 0;
  if (complex) block.enter_complex_plane();
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].strength != 0.0) {
      if (i > 0 || complex) load();
      block.relax(phases[i].strength * beta, options.nudged);
      for (const SampleOutcome& each : block.outcomes()) outcome.nudged_residual += each.moved;
    }
    complex ? keep_complex_phase(block, i, first, batch) : keep_phase(block, i, first, batch);
  }
}

/// Derivatives with respect to b and D; those of the rails' conductances follow from them.
template <class S>
void Propagation<S>::State::bias_gradient(Index k, Index batch, S scale, S* gradient) {
  const auto i = static_cast<std::size_t>(k - 1);
  const LayerParameters p = a.layer(k);
  Eigen::Map<Vector> bias(gradient + p.bias, p.units);
  bias = scale * post[i].leftCols(real_columns(k, batch)).rowwise().sum();
  if (!a.resistive()) return;
  diagonal_gradient[i] = -scale * squares[i].leftCols(batch).rowwise().sum();
  bias *= static_cast<S>(a.rail(k));
  Eigen::Map<Vector>(gradient + p.bias + p.units, p.units) = diagonal_gradient[i] - bias;
  bias += diagonal_gradient[i];
}

/// The slab's derivatives with respect to W; those of conductances follow from them and from `diagonal_gradient` of both
/// layers (Couplings::pull_back), while the slab is in the cache.
template <class S>
void Propagation<S>::State::weight_gradient(const Slab& slab, const S* inputs, Index batch, S scale,
                                            S* gradient) {
  const auto i = static_cast<std::size_t>(slab.layer - 1);
  const LayerParameters p = a.layer(slab.layer);
  const S* const previous = slab.layer == 1 ? inputs : pre[i].data();
  const auto gain = static_cast<S>(a.gain_into(slab.layer));
  S* const weights = gradient + p.weights + slab.first * p.units;
  gemm(Transposed::no, Transposed::yes, p.units, slab.count, columns(slab.layer, batch), gain * scale,
       post[i].data(), p.units, previous + slab.first, p.inputs, S(0), weights, p.units);
  if (!a.resistive()) return;
  for (Index j = 0; j < slab.count; ++j) {
    Eigen::Map<Vector> each(weights + j * p.units, p.units);
    if (slab.layer == 1) {
      Eigen::Map<Vector>(gradient + p.opposite + (slab.first + j) * p.units, p.units) = diagonal_gradient[i] - each;
      each += diagonal_gradient[i];
    } else {
      each.array() += diagonal_gradient[i].array() + gain * gain * diagonal_gradient[i - 1][slab.first + j];
    }
  }
}

template <class S>
BatchOutcome Propagation<S>::State::sum(Index batch) const {
  BatchOutcome total;
  for (Index i = 0; i < Blocks<S>{batch}.count(); ++i) {
    const BatchOutcome& each = per_block[static_cast<std::size_t>(i)];
    total.cost += each.cost;
    total.wrong += each.wrong;
    total.residual += each.residual;
    total.steps += each.steps;
    total.nudged_residual += each.nudged_residual;
    total.finite = total.finite && each.finite;
  }
  const double share = 1 / static_cast<double>(batch);
  total.cost *= share;
  total.residual *= share;
  total.steps *= share;
  total.nudged_residual *= share / static_cast<double>(phases.size());
  return total;
}

template <class S>
double Propagation<S>::State::least_stiffness(double beta) const {
  double least = std::numeric_limits<double>::infinity(), most_against = 0;
  for (Index i = 0; i < a.outputs(); ++i)
    least = std::min(least, static_cast<double>(couplings.stiffness(a.depth(), i)));
  // Of a circle the radius counts: what gives way lies on the real axis, but no nearer in other directions.
  for (const Phase& phase : phases)
    most_against =
        std::min(most_against, options.circle > 0 ? -std::abs(beta) : phase.strength.real() * beta);
  // The curvature of ½‖u − y‖² is 1; that of cross-entropy is at most ½, but the step that settles a softmax
  // divides by 1 + βp.
  return least + most_against;
}

template <class S>
Propagation<S>::Propagation(Architecture architecture, PropagationOptions options)
    : state_(std::make_unique<State>(std::move(architecture), options)) {
  for (std::size_t t = 0; t < state_->blocks.size(); ++t) {
    auto& layers = state_->free_states.emplace_back();
    for (Index k = 1; k <= state_->a.depth(); ++k)
      layers.push_back(State::Matrix::Zero(state_->a.width(k), Block<S>::most_samples));
  }
}

template <class S>
Propagation<S>::~Propagation() = default;

template <class S>
const Architecture& Propagation<S>::architecture() const {
  return state_->a;
}
template <class S>
const PropagationOptions& Propagation<S>::options() const {
  return state_->options;
}

template <class S>
void Propagation<S>::seek(std::uint64_t gradients) {
  state_->gradients = gradients;
}

template <class S>
BatchOutcome Propagation<S>::gradient(const S* theta, const S* inputs, const S* targets, Index batch,
                                      S* states, S* gradient) {
  const OneBlasThread one;
  State& s = *state_;
  s.make_room(batch);
  s.couplings.set(theta);
  std::mt19937_64 engine(s.options.seed + 0x9E3779B97F4A7C15ull * ++s.gradients);
  const double sign = s.options.nudge == Nudge::random_sign && engine() % 2 == 1 ? -1 : 1;
  const double beta = sign * s.options.beta;
  const std::uint64_t noise_seed = engine();
  const S scale = static_cast<S>(-1 / (beta * static_cast<double>(batch)));
  const Blocks<S> division{batch};
  const Index count = division.count();
  // Waking threads and waiting for them costs more than a small step: nothing but time depends on it.
  const std::size_t most = batch * s.a.parameters() > least_divided ? s.threads() : 1;
  pool::for_each(s.row_slabs.size() - 1, most, [&](std::size_t i) { s.receive(i, inputs, batch); });
  pool::for_each(static_cast<std::size_t>(count), most, [&](std::size_t piece) {
    const auto thread = static_cast<std::size_t>(pool::number());
    Block<S>& block = *s.blocks[thread];
    const auto i = static_cast<Index>(piece);
    const Index first = division.first(i), size = division.size(i);
    block.set_noise(s.options.noise, noise_of(noise_seed, i));
    block.clamp_received(s.received.data() + first * s.a.width(1), targets + first * s.a.outputs(), size);
    s.settle_block(block, states, first, s.per_block[piece]);
    s.nudge_block(block, first, size, batch, beta, s.per_block[piece], s.free_states[thread]);
  });
  pool::for_each(static_cast<std::size_t>(s.a.depth()), most,
                 [&](std::size_t k) { s.bias_gradient(static_cast<Index>(k) + 1, batch, scale, gradient); });
  pool::for_each(s.slabs.size(), most,
                 [&](std::size_t i) { s.weight_gradient(s.slabs[i], inputs, batch, scale, gradient); });
  BatchOutcome outcome = s.sum(batch);
  outcome.stiffness = s.least_stiffness(beta);
  // Every state of the last layer is in its bias gradient, and every weight is in some state.
  outcome.finite = outcome.finite && Eigen::Map<const typename State::Vector>(
                                         gradient + s.a.layer(s.a.depth()).bias, s.a.outputs())
                                         .allFinite();
  return outcome;
}

template <class S>
BatchOutcome Propagation<S>::settle(const S* theta, const S* inputs, const S* targets, Index batch,
                                    S* outputs) {
  const OneBlasThread one;
  State& s = *state_;
  s.couplings.set(theta);
  const Blocks<S> division{batch};
  const Index count = division.count();
  if (s.per_block.size() < static_cast<std::size_t>(count))
    s.per_block.resize(static_cast<std::size_t>(count));
  const std::uint64_t noise_seed = std::mt19937_64(~s.options.seed)();
  pool::for_each(static_cast<std::size_t>(count), s.threads(), [&](std::size_t piece) {
    Block<S>& block = *s.blocks[static_cast<std::size_t>(pool::number())];
    const auto i = static_cast<Index>(piece);
    const Index first = division.first(i), size = division.size(i);
    block.set_noise(s.options.noise, noise_of(noise_seed, i));
    block.clamp(inputs + first * s.a.inputs(), targets + first * s.a.outputs(), size);
    s.settle_block(block, nullptr, first, s.per_block[static_cast<std::size_t>(i)]);
    if (outputs)
      std::copy_n(block.states(s.a.depth()), size * s.a.outputs(), outputs + first * s.a.outputs());
  });
  return s.sum(batch);
}

template class Propagation<float>;
template class Propagation<double>;

}  // namespace bilevel::networks
