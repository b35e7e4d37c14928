#include "block.hpp"

#include <cmath>
#include <limits>

#include "gemm.hpp"
#include "read_out.hpp"

namespace bilevel::networks {

template <class S>
Block<S>::Block(const LiveCouplings<S>& couplings, bool holomorphic)
    : couplings_(couplings),
      a_(couplings.architecture()),
      loops_(kernels::table<S>()),
      squash_(squash_of(a_)) {
  const Index most_columns = most_samples * (holomorphic ? 2 : 1);
  for (Index k = 1; k <= a_.depth(); ++k) {
    const Matrix zero = Matrix::Zero(a_.width(k), most_columns);
    u_.push_back(zero);
    s_.push_back(squash_ != kernels::Squash::none && k < a_.depth() ? zero : Matrix());
    drive_.push_back(zero);
    error_.push_back(predictive() ? zero : Matrix());
    rate_.push_back(Vector::Ones(a_.width(k)));
  }
  base_ = Matrix::Zero(a_.width(1), most_samples);
  targets_ = softmax_ = Matrix::Zero(a_.outputs(), most_samples);
  output_base_ = Matrix::Zero(a_.outputs(), most_columns);
  output_inverse_ = Vector::Ones(a_.outputs());
  moved_ = Vector::Zero(most_samples);
  exponentials_.setZero(holomorphic ? a_.outputs() : 0);
  predicted_.assign(static_cast<std::size_t>(a_.depth()), 0);
  order_.resize(static_cast<std::size_t>(most_samples));
  outcomes_.reserve(static_cast<std::size_t>(most_samples));
}

template <class S>
void Block<S>::clamp(const S* inputs, const S* targets, Index samples) {
  gemm(Transposed::no, Transposed::no, a_.width(1), samples, a_.inputs(), S(1), couplings_.weights(1),
       a_.width(1), inputs, a_.inputs(), S(0), base_.data(), a_.width(1));
  clamp_received(base_.data(), targets, samples);
}

template <class S>
void Block<S>::clamp_received(const S* received, const S* targets, Index samples) {
  samples_ = active_ = samples;
  parts_ = 1;
  std::fill(predicted_.begin(), predicted_.end(), char{0});
  outcomes_.assign(static_cast<std::size_t>(samples), {});
  const Eigen::Map<const Vector> bias(couplings_.bias(1), a_.width(1));
  base_.leftCols(samples) = Eigen::Map<const Matrix>(received, a_.width(1), samples).colwise() + bias;
  targets_.leftCols(samples) = Eigen::Map<const Matrix>(targets, a_.outputs(), samples);
}

template <class S>
void Block<S>::start_at_rest() {
  for (Index k = 1; k <= a_.depth(); ++k) {
    at(u_, k).leftCols(samples_).setZero();
    if (at(s_, k).size() > 0)
      at(s_, k).leftCols(samples_).setConstant(squash_ == kernels::Squash::sigmoid ? S(0.5) : S(0));
  }
  if (!predictive()) return;
  // The forward pass is where the energy of predictive coding is zero.
  at(u_, 1).leftCols(samples_) = base_.leftCols(samples_);
  for (Index k = 1; k < a_.depth(); ++k) {
    loops_.squash(squash_, a_.width(k) * samples_, at(u_, k).data(), at(s_, k).data());
    predict(k + 1);
    const Eigen::Map<const Vector> bias(couplings_.bias(k + 1), a_.width(k + 1));
    at(u_, k + 1).leftCols(samples_) = at(drive_, k + 1).leftCols(samples_).colwise() + bias;
  }
}

template <class S>
void Block<S>::load(Index k, const S* states, Index stride) {
  const Index units = a_.width(k);
  for (Index c = 0; c < samples_; ++c) {
    S* const u = at(u_, k).col(parts_ * c).data();
    std::copy_n(states + c * stride, units, u);
    if (parts_ == 2) std::fill_n(u + units, units, S(0));
    // Where a state is real, so is what it sends.
    if (at(s_, k).size() == 0) continue;
    S* const s = at(s_, k).col(parts_ * c).data();
    loops_.squash(squash_, units, u, s);
    if (parts_ == 2) std::fill_n(s + units, units, S(0));
  }
}

/// What is the same for all phases: real.
template <class S>
void Block<S>::set_columns(Matrix& m, const Matrix& real) {
  part_of(m, 0) = real.leftCols(active_);
  if (parts_ == 2) part_of(m, 1).setZero();
}

template <class S>
void Block<S>::relax(std::complex<double> beta, const RelaxationOptions& options) {
  active_ = samples_;
  for (Index c = 0; c < samples_; ++c) order_[static_cast<std::size_t>(c)] = c;
  nudge_by(beta);
  const bool gradient = options.schedule == Schedule::gradient;
  for (Index k = 1; k <= a_.depth(); ++k)
    for (Index i = 0; i < a_.width(k); ++i) {
      const S own = couplings_.stiffness(k, i) +
                    (k == a_.depth() && a_.read_out == ReadOut::squared ? beta_.real() : S(0));
      at(rate_, k)[i] = static_cast<S>(options.step) * (gradient ? own : S(1));
    }
  std::fill(predicted_.begin(), predicted_.end(), char{0});
  for (long steps = 1; steps <= options.max_steps && active_ > 0; ++steps) {
    // Movements are looked at where they decide, and in the last step, for the record.
    if (const auto why = stop_wanted(options.stop)) {
      for (Index c = 0; c < active_; ++c)
        outcomes_[static_cast<std::size_t>(order_[static_cast<std::size_t>(c)])].status = *why;
      break;
    }
    const bool watched = options.tolerance > 0 || steps == options.max_steps;
    if (watched) moved_.head(active_).setZero();
    step(options, watched, steps % 2 == 1);
    if (watched) leave_settled(options, steps);
  }
  restore_order();
  if (!predictive()) return;
  active_ = samples_;
  std::fill(predicted_.begin(), predicted_.end(), char{0});
  for (Index k = 1; k <= a_.depth(); ++k) find_error(k);
}

template <class S>
void Block<S>::step(const RelaxationOptions& options, bool watched, bool upwards) {
  const Index last = a_.depth();
  if (predictive()) return step_predictive(options, watched, upwards);
  switch (options.schedule) {
    case Schedule::even_odd:
      for (const Index first : {Index{1}, Index{2}})
        for (Index k = first; k <= last; k += 2) {
          receive(k);
          give_way(k, options, watched);
        }
      return;
    case Schedule::sweep:
      for (Index i = 1; i <= last; ++i) {
        const Index k = upwards ? i : last + 1 - i;
        receive(k);
        give_way(k, options, watched);
      }
      return;
    case Schedule::synchronous:
    case Schedule::gradient:
      for (Index k = 1; k <= last; ++k) receive(k);
      for (Index k = 1; k <= last; ++k) give_way(k, options, watched);
      return;
  }
}

/// drive_k = W_k s_{k−1} + W_{k+1}ᵀ s_{k+1}, without what the clamped input sends.
template <class S>
void Block<S>::receive(Index k) {
  Matrix& drive = at(drive_, k);
  const Index units = a_.width(k);
  S keep = 0;
  if (k > 1) {
    gemm(Transposed::no, Transposed::no, units, columns(), a_.width(k - 1), S(1), couplings_.weights(k),
         units, activity(k - 1), a_.width(k - 1), S(0), drive.data(), units);
    keep = 1;
  }
  if (k < a_.depth() && !narrow_above(k))
    gemm(Transposed::yes, Transposed::no, units, columns(), a_.width(k + 1), S(1), couplings_.weights(k + 1),
         a_.width(k + 1), activity(k + 1), a_.width(k + 1), keep, drive.data(), units);
  else if (k == a_.depth() && k == 1)
    set_columns(drive, base_);
  if (noise_ > 0) add_noise(drive);
}

/// Whether what layer k + 1 sends down is added while layer k moves. Noise is added before that; complex
/// states have columns enough for a product.
template <class S>
bool Block<S>::narrow_above(Index k) const {
  return k < a_.depth() && couplings_.narrow(k + 1) && noise_ == 0 && parts_ == 1;
}

template <class S>
void Block<S>::receive_on_the_way(Index k, const S* above, kernels::LayerStep<S>& t) {
  t.narrow = a_.width(k + 1);
  t.narrow_weights = couplings_.transposed(k + 1);
  t.narrow_states = above;
  t.received = at(drive_, k).data();
}

template <class S>
void Block<S>::give_way(Index k, const RelaxationOptions& options, bool watched) {
  const bool output = k == a_.depth();
  if (output && parts_ == 2) return settle_complex_output(options, watched);
  if (output && a_.read_out == ReadOut::cross_entropy) return settle_softmax_output(watched);
  kernels::LayerStep<S> t;
  t.units = a_.width(k);
  t.samples = active_;
  t.drive = k == 1 && narrow_above(k) ? nullptr : at(drive_, k).data();
  t.base = output ? output_base_.data() : k == 1 ? base_.data() : couplings_.bias(k);
  t.base_step = output || k == 1 ? t.units : 0;
  t.inverse = output ? output_inverse_.data() : couplings_.inverse(k);
  t.u = at(u_, k).data();
  t.s = at(s_, k).data();
  t.moved = watched ? moved_.data() : nullptr;
  t.lower = couplings_.lower(k);
  t.upper = couplings_.upper(k);
  t.by_slope = options.schedule == Schedule::gradient;
  if (parts_ == 2) return loops_.settle_complex(squash_, t, static_cast<S>(options.step));
  // A unit that divides by more than 1 needs the rate's path.
  if (options.step != 1 || t.by_slope || (!t.lower && (output || a_.resistive())))
    t.rate = at(rate_, k).data();
  if (narrow_above(k)) receive_on_the_way(k, activity(k + 1), t);
  loops_.settle(output ? kernels::Squash::none : squash_, t);
}

/// drive_k = W_k s_{k−1}: what the layer below predicts, without the bias. Layer 1's is clamped.
template <class S>
void Block<S>::predict(Index k) {
  if (k == 1 || predicted_[static_cast<std::size_t>(k - 1)]) return;
  gemm(Transposed::no, Transposed::no, a_.width(k), columns(), a_.width(k - 1), S(1), couplings_.weights(k),
       a_.width(k), activity(k - 1), a_.width(k - 1), S(0), at(drive_, k).data(), a_.width(k));
  if (noise_ > 0) add_noise(at(drive_, k));
  predicted_[static_cast<std::size_t>(k - 1)] = 1;
}

template <class S>
void Block<S>::find_error(Index k) {
  predict(k);
  Matrix& error = at(error_, k);
  if (parts_ == 2) {
    error.leftCols(columns()) = at(u_, k).leftCols(columns());
    if (k == 1) {
      part_of(error, 0) -= base_.leftCols(active_);
    } else {
      error.leftCols(columns()) -= at(drive_, k).leftCols(columns());
      part_of(error, 0).colwise() -= Eigen::Map<const Vector>(couplings_.bias(k), a_.width(k));
    }
  } else if (k == 1)
    error.leftCols(active_) = at(u_, 1).leftCols(active_) - base_.leftCols(active_);
  else
    loops_.difference(a_.width(k), active_, at(u_, k).data(), at(drive_, k).data(), couplings_.bias(k), 0,
                      error.data());
}

/// A hidden layer: u −= rate·(ε_k − ρ′·W_{k+1}ᵀε_{k+1}). The errors of k and k + 1 must be up to date.
template <class S>
void Block<S>::descend(Index k, double rate, bool watched) {
  // Layer 1 has no drive of its own: its storage holds what comes back.
  Matrix& back = at(drive_, k);
  const S* const error = at(error_, k + 1).data();
  kernels::LayerStep<S> t;
  t.units = a_.width(k);
  t.samples = active_;
  if (narrow_above(k)) {
    receive_on_the_way(k, error, t);
  } else {
    gemm(Transposed::yes, Transposed::no, a_.width(k), columns(), a_.width(k + 1), S(1),
         couplings_.weights(k + 1), a_.width(k + 1), error, a_.width(k + 1), S(0), back.data(), a_.width(k));
    t.drive = back.data();
  }
  t.base = at(error_, k).data();
  t.base_step = t.units;
  t.u = at(u_, k).data();
  t.s = at(s_, k).data();
  t.moved = watched ? moved_.data() : nullptr;
  (parts_ == 2 ? loops_.descend_complex : loops_.descend)(squash_, t, static_cast<S>(rate));
  predicted_[static_cast<std::size_t>(k - 1)] = 0;  // overwritten
  predicted_[static_cast<std::size_t>(k)] = 0;      // s_k changed
}

template <class S>
void Block<S>::step_predictive(const RelaxationOptions& options, bool watched, bool upwards) {
  const Index last = a_.depth();
  RelaxationOptions whole = options;
  whole.step = 1;
  whole.schedule = Schedule::even_odd;
  const auto settle_output = [&] {
    if (last == 1) set_columns(at(drive_, 1), base_);
    predict(last);
    give_way(last, whole, watched);
  };
  const auto update = [&](Index k) {
    if (k == last) return settle_output();
    find_error(k);
    find_error(k + 1);
    descend(k, options.step, watched);
  };
  switch (options.schedule) {
    case Schedule::even_odd:
      // The output last: it is settled exactly, and what a hidden layer's step leaves behind with it.
      for (const Index first : {last - 1, last})
        for (Index k = first; k >= 1; k -= 2) update(k);
      return;
    case Schedule::sweep:
      for (Index i = 1; i <= last; ++i) update(upwards ? last + 1 - i : i);
      return;
    case Schedule::synchronous:
    case Schedule::gradient:
      for (Index k = 1; k <= last; ++k) find_error(k);
      settle_output();
      for (Index k = 1; k < last; ++k) descend(k, options.step, watched);
      return;
  }
}

/// Samples that have settled go behind the active ones, where no product touches them.
template <class S>
void Block<S>::leave_settled(const RelaxationOptions& options, long steps) {
  for (Index c = active_ - 1; c >= 0; --c) {
    SampleOutcome& outcome = outcomes_[static_cast<std::size_t>(order_[static_cast<std::size_t>(c)])];
    outcome.steps = steps;
    outcome.moved = static_cast<double>(moved_[c]);
    outcome.status = options.tolerance == 0 ? Status::approximate : Status::iteration_limit;
    if (!std::isfinite(outcome.moved)) outcome.status = Status::not_finite;
    // What is left to go is the movement over the step.
    if (options.tolerance > 0 && outcome.moved <= options.tolerance * std::min(1.0, options.step)) {
      outcome.status = Status::converged;
      swap_samples(c, --active_);
    }
  }
}

template <class S>
void Block<S>::swap_samples(Index a, Index b) {
  if (a == b) return;
  const auto swap_states = [this, a, b](Matrix& each) {
    each.middleCols(parts_ * a, parts_).swap(each.middleCols(parts_ * b, parts_));
  };
  for (auto* layers : {&u_, &s_, &drive_, &error_})
    for (Matrix& each : *layers)
      if (each.size() > 0) swap_states(each);
  swap_states(output_base_);
  base_.col(a).swap(base_.col(b));
  targets_.col(a).swap(targets_.col(b));
  std::swap(moved_[a], moved_[b]);
  std::swap(order_[static_cast<std::size_t>(a)], order_[static_cast<std::size_t>(b)]);
}

template <class S>
void Block<S>::restore_order() {
  for (Index c = 0; c < samples_; ++c)
    while (order_[static_cast<std::size_t>(c)] != c) swap_samples(c, order_[static_cast<std::size_t>(c)]);
}

template <class S>
void Block<S>::set_noise(double deviation, std::uint64_t seed) {
  noise_ = deviation;
  noise_state_ = seed;
}

/// Keys by splitmix: one state for a block, another pair of keys for every layer and step.
template <class S>
void Block<S>::add_noise(Matrix& drive) {
  std::uint64_t z = (noise_state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  loops_.add_noise(drive.rows() * columns(), static_cast<float>(noise_), static_cast<unsigned>(z),
                   static_cast<unsigned>(z >> 32), drive.data());
}

template <class S>
void Block<S>::judge(double& cost, Index& wrong) const {
  networks::judge(a_.read_out, at(u_, a_.depth()).leftCols(samples_), targets_.leftCols(samples_), cost,
                  wrong);
}

template class Block<float>;
template class Block<double>;

}  // namespace bilevel::networks
