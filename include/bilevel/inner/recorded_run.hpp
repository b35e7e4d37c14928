#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <bilevel/inner/plain_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// A run of plain steps that can be followed back: backpropagation through time. States are held for every
/// step, or for as many as `snapshots` says; the others are computed again from them (Revolve).
template <Vector V>
class RecordedRun final : public PlainRun<V> {
 public:
  /// `truncate`: only the last so many steps are followed back, 0 for all. `snapshots`: most states held at
  /// once, 0 for as many as there are steps to follow back.
  RecordedRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options, long truncate,
              long snapshots, std::string_view who);

  /// Of the last run, which must be complete(), and once: with ḡ = `outer_phi` the cotangent of φ_T, c_k that
  /// of the gradient of step k and χ_k the cross derivative at φ_k, adds Σ c_k·χ_k to `gradient` and −Σ c_k
  /// to `pi`.
  std::optional<Stop> reverse(const V& outer_phi, V& gradient, V& pi);
  /// How many steps `reverse` has to go back.
  long reversed_steps() const;
  /// How many it went: fewer where the cotangents vanished on the way.
  long followed_steps() const { return total_ - end_; }

  std::size_t bytes() const override;
  long snapshots_held() const { return static_cast<long>(held_.size()); }
  /// Of one snapshot that a run can start from again.
  static std::size_t snapshot_bytes(const V& phi, const Step<V>& step) {
    return bytes_of(phi) * (1 + step.footprint().memory);
  }
  /// Of everything else, at most.
  static std::size_t work_bytes(const V& phi, const V& theta, const Step<V>& step) {
    const Footprint footprint = step.footprint();
    // φ, gradient, memory and scratch of the state; cotangents; the product; the last state but one.
    return bytes_of(phi) * (2 + footprint.memory + footprint.scratch + own_vectors(footprint.memory)) +
           bytes_of(theta);
  }

 private:
  struct Snapshot {
    long iteration = 0;
    std::vector<V> vectors;  // φ, then memory
  };

  // The cotangents with that of the gradient and its product with J, and the last state but one.
  static std::size_t own_vectors(std::size_t memory) { return 2 * (1 + memory) + 2; }
  long first_reversed() const { return total_ - reversed_steps(); }
  bool counts_only() const { return this->options_.steps == 0; }
  bool checkpointed() const { return limit_ > 0; }
  // Where all states are held: a ring of the last ones where only those are wanted.
  std::size_t slot(long iteration) const {
    return static_cast<std::size_t>(truncate_ > 0 ? iteration % truncate_ : iteration);
  }

  void prepare() override;
  std::optional<Stop> before_step() override;
  void save(Snapshot& snapshot, bool with_memory);
  void restore(const Snapshot& snapshot);
  Snapshot& hold(std::size_t position);
  std::optional<Stop> advance_to(long iteration);
  void plan();
  std::optional<Stop> reverse_checkpointed(V& gradient, V& pi);
  std::optional<Stop> reverse_step(V& gradient, V& pi);
  bool vanished() const;

  long truncate_, limit_;
  std::vector<Snapshot> held_;  // a pool: storage of earlier runs is used again
  std::size_t used_ = 0;        // of held_, as a stack, where checkpointed
  long total_ = 0;              // T; where it is not known in advance, as far as the run has come
  long end_ = 0;                // steps from here on are reversed
  long next_ = -1;              // where the next snapshot of the first sweep belongs
  Snapshot before_last_;        // φ_{T−1} of the first sweep
  Motion<V> cotangent_;
  V gradient_cotangent_, product_, theta_product_;
};

extern template class RecordedRun<Eigen::VectorXd>;
extern template class RecordedRun<Eigen::VectorXf>;

}  // namespace bilevel
