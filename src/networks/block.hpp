#pragma once

#include <algorithm>
#include <complex>
#include <vector>

#include <bilevel/networks/relaxation.hpp>

#include "live_couplings.hpp"

namespace bilevel::networks {

/// Samples that settle together on one thread: few enough for their states to stay in its cache, many enough
/// for the products to run at full speed. Sized once; nothing is allocated while samples settle.
/// In the complex plane, where holomorphic equilibrium propagation nudges, a sample has two columns of
/// states: real parts, then imaginary ones. The weights are real, so the products are the same with twice the
/// columns.
template <class S>
class Block {
 public:
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

  static constexpr Index most_samples = 64;

  /// With `holomorphic` there is room for complex states.
  explicit Block(const LiveCouplings<S>& couplings, bool holomorphic = false);

  /// The inputs (n_0 × samples) are clamped: their product with W_1 is made here, once for all phases.
  void clamp(const S* inputs, const S* targets, Index samples);
  /// As `clamp`, with that product already made: W_1 x, n_1 × samples.
  void clamp_received(const S* received, const S* targets, Index samples);
  /// All states zero.
  void start_at_rest();
  /// From here on states are complex. They must be loaded next; `clamp` goes back to real ones.
  void enter_complex_plane() { parts_ = 2; }
  /// Real states of layer k, one sample every `stride` numbers.
  void load(Index k, const S* states, Index stride);
  const S* states(Index k) const { return at(u_, k).data(); }
  /// What the weights of layer k are multiplied with in ∂θE: s_k, or the error of predictive coding.
  const S* post(Index k) const { return predictive() ? at(error_, k).data() : activity(k); }
  const S* activity(Index k) const {
    return squash_ == kernels::Squash::none || k == a_.depth() ? at(u_, k).data() : at(s_, k).data();
  }
  Index samples() const { return samples_; }

  /// Settles E + β·cost from the states at hand. β is real unless they are complex.
  void relax(std::complex<double> beta, const RelaxationOptions& options);
  const std::vector<SampleOutcome>& outcomes() const { return outcomes_; }

  /// Adds noise to what every layer receives in every step: normal, of this deviation. 0: none.
  void set_noise(double deviation, std::uint64_t seed);
  /// The cost of each sample's outputs, summed, and how many have their largest output elsewhere than the
  /// target.
  void judge(double& cost, Index& wrong) const;

 private:
  bool predictive() const { return a_.energy == Energy::predictive_coding; }
  template <class Each>
  static Each& at(std::vector<Each>& layers, Index k) {
    return layers[static_cast<std::size_t>(k - 1)];
  }
  template <class Each>
  static const Each& at(const std::vector<Each>& layers, Index k) {
    return layers[static_cast<std::size_t>(k - 1)];
  }

  /// Columns of the samples that still move.
  Index columns() const { return parts_ * active_; }
  /// The real or (part = 1) the imaginary columns of the active samples.
  auto part_of(Matrix& m, Index part) {
    return Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(m.data() + part * m.rows(), m.rows(), active_,
                                                       Eigen::OuterStride<>(parts_ * m.rows()));
  }
  void set_columns(Matrix& m, const Matrix& real);
  void nudge_by(std::complex<double> beta);
  void step(const RelaxationOptions& options, bool watched, bool upwards);
  void receive(Index k);
  bool narrow_above(Index k) const;
  void receive_on_the_way(Index k, const S* above, kernels::LayerStep<S>& step);
  void give_way(Index k, const RelaxationOptions& options, bool watched);
  void settle_softmax_output(bool watched);
  void settle_complex_output(const RelaxationOptions& options, bool watched);
  void predict(Index k);
  void find_error(Index k);
  void descend(Index k, double rate, bool watched);
  void step_predictive(const RelaxationOptions& options, bool watched, bool upwards);
  void leave_settled(const RelaxationOptions& options, long steps);
  void swap_samples(Index a, Index b);
  void restore_order();
  void add_noise(Matrix& drive);

  const LiveCouplings<S>& couplings_;
  const Architecture& a_;
  const kernels::Table<S>& loops_;
  kernels::Squash squash_;
  Index samples_ = 0, active_ = 0, parts_ = 1;  // parts_: columns of a sample, 2 in the complex plane
  std::complex<S> beta_ = 0;
  double noise_ = 0;
  std::uint64_t noise_state_ = 0;
  Matrix base_;         // W_1 x + b_1
  Matrix output_base_;  // b_K + β·y, as many columns as the states
  Matrix targets_, softmax_;
  Vector output_inverse_, moved_;
  Eigen::Matrix<std::complex<S>, Eigen::Dynamic, 1>
      exponentials_;  // softmax of one sample in the complex plane
  std::vector<Vector> rate_;
  std::vector<Matrix> u_, s_, drive_, error_;
  std::vector<char> predicted_;  // whether drive_ of a layer of predictive coding is up to date
  std::vector<Index> order_;     // which sample a column holds
  std::vector<SampleOutcome> outcomes_;
};

extern template class Block<float>;
extern template class Block<double>;

}  // namespace bilevel::networks
