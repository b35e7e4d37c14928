#include <bilevel/networks/backpropagation.hpp>

#include <algorithm>
#include <cmath>

#include "gemm.hpp"
#include "live_couplings.hpp"
#include "threads/pool.hpp"
#include "read_out.hpp"

namespace bilevel::networks {

namespace {

/// The product by slabs of rows that do not depend on the number of threads: the same bits for any.
template <class S>
void gemm_by_slabs(Transposed a_is, Transposed b_is, Index m, Index n, Index k, S scale, const S* a,
                   Index a_rows, const S* b, Index b_rows, S* c) {
  const Index slabs = std::min<Index>(8, (m + 127) / 128);
  const std::size_t most = m * n * k > (Index{1} << 22) ? static_cast<std::size_t>(slabs) : 1;
  pool::for_each(static_cast<std::size_t>(slabs), most, [&](std::size_t piece) {
    const auto i = static_cast<Index>(piece);
    const Index first = m * i / slabs, rows = m * (i + 1) / slabs - first;
    gemm(a_is, b_is, rows, n, k, scale, a + (a_is == Transposed::yes ? first * a_rows : first), a_rows, b,
         b_rows, S(0), c + first, m);
  });
}

}  // namespace

template <class S>
struct Backpropagation<S>::State {
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

  Architecture a;
  std::vector<Matrix> u, s, back;
};

template <class S>
Backpropagation<S>::Backpropagation(Architecture architecture)
    : state_(std::make_unique<State>(
          State{(architecture.validate().throw_if_any(), std::move(architecture)), {}, {}, {}})) {
  if (state_->a.energy != Energy::predictive_coding)
    throw InvalidInput(fmt::format(
        "backpropagation needs a feed-forward network, which predictive coding describes and {} does not",
        name(state_->a.energy)));
  for (auto* each : {&state_->u, &state_->s, &state_->back})
    each->resize(static_cast<std::size_t>(state_->a.depth()));
}

template <class S>
Backpropagation<S>::~Backpropagation() = default;

template <class S>
BatchOutcome Backpropagation<S>::gradient(const S* theta, const S* inputs, const S* targets, Index batch,
                                          S* gradient) {
  using Matrix = typename State::Matrix;
  using Vector = typename State::Vector;
  const OneBlasThread one;
  State& t = *state_;
  const Architecture& a = t.a;
  const auto& loops = kernels::table<S>();
  const kernels::Squash squash = squash_of(a);
  const Index last = a.depth();
  const S* below = inputs;
  for (Index k = 1; k <= last; ++k) {
    const LayerParameters p = a.layer(k);
    const auto i = static_cast<std::size_t>(k - 1);
    t.u[i].resize(p.units, batch);
    t.back[i].resize(p.units, batch);
    gemm_by_slabs(Transposed::no, Transposed::no, p.units, batch, p.inputs, S(1), theta + p.weights, p.units,
                  below, p.inputs, t.u[i].data());
    t.u[i].colwise() += Eigen::Map<const Vector>(theta + p.bias, p.units);
    if (k == last) break;
    t.s[i].resize(p.units, batch);
    loops.squash(squash, p.units * batch, t.u[i].data(), t.s[i].data());
    below = t.s[i].data();
  }
  BatchOutcome outcome;
  const Eigen::Map<const Matrix> y(targets, a.outputs(), batch);
  const Matrix& output = t.u.back();
  judge(a.read_out, output, y, outcome.cost, outcome.wrong);
  Matrix& error = t.back.back();
  if (a.read_out == ReadOut::squared)
    error = output;
  else
    loops.softmax(a.outputs(), batch, output.data(), error.data());
  error -= y;
  const S share = S(1) / static_cast<S>(batch);
  for (Index k = last; k >= 1; --k) {
    const LayerParameters p = a.layer(k);
    const auto i = static_cast<std::size_t>(k - 1);
    const S* const previous = k == 1 ? inputs : t.s[i - 1].data();
    gemm_by_slabs(Transposed::no, Transposed::yes, p.units, p.inputs, batch, share, t.back[i].data(), p.units,
                  previous, p.inputs, gradient + p.weights);
    Eigen::Map<Vector>(gradient + p.bias, p.units) = share * t.back[i].rowwise().sum();
    if (k == 1) break;
    gemm_by_slabs(Transposed::yes, Transposed::no, p.inputs, batch, p.units, S(1), theta + p.weights, p.units,
                  t.back[i].data(), p.units, t.back[i - 1].data());
    const auto s = t.s[i - 1].array();
    if (a.activation == Activation::tanh)
      t.back[i - 1].array() *= S(1) - s.square();
    else
      t.back[i - 1].array() *= s * (S(1) - s);
  }
  outcome.cost *= static_cast<double>(share);
  outcome.finite = std::isfinite(outcome.cost);
  return outcome;
}

template class Backpropagation<float>;
template class Backpropagation<double>;

}  // namespace bilevel::networks
