#pragma once

#include <optional>
#include <vector>

#include <bilevel/inner/wolfe_search.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/secant_pair.hpp>

namespace bilevel {

struct LbfgsOptions {
  /// Pairs (s, y) remembered; ≥ 1. Two vectors each; more than 10 rarely saves an iteration.
  long memory = 10;

  Violations validate() const {
    Violations v("lbfgs");
    v.at_least("memory", memory, 1);
    return v;
  }
};

/// Limited-memory BFGS (Nocedal and Wright 2006, algorithm 7.5) with a Wolfe search. A run begins without a
/// history; as the inverse Hessian that it leaves behind, pairs of the runs before fill up what the last one,
/// short where it started warm, had no use for.
template <Vector V>
class Lbfgs final : public Step<V>, public InverseApproximation<V> {
 public:
  explicit Lbfgs(LbfgsOptions options = {});
  std::string_view name() const override { return "lbfgs"; }
  void check(Nudged<V>&, const State<V>&) override { restarts_ = 0; }
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  bool searches() const override { return true; }
  InverseApproximation<V>* inverse_hessian() override { return this; }
  void apply(const V& b, V& out) override;
  Index rank() const override { return static_cast<Index>(known_); }
  std::string note() const override;
  std::size_t bytes() const override;

 private:
  using Pair = SecantPair<V>;
  Pair& pair(long age) { return pairs_[static_cast<std::size_t>((next_ - 1 - age + slots_) % slots_)]; }
  void recur(V& p, long count);
  void find_direction(const State<V>& state);
  std::optional<Stop> search(Nudged<V>& nudged, State<V>& state);

  LbfgsOptions options_;
  std::optional<WolfeSearch<V>> search_;
  std::optional<V> direction_;
  std::vector<Pair> pairs_;  // a ring with one slot more than the memory, for the pair in the making
  long slots_ = 0, next_ = 0;
  long held_ = 0;   // pairs of this run
  long known_ = 0;  // with those of earlier runs
  long restarts_ = 0;
};

extern template class Lbfgs<Eigen::VectorXd>;
extern template class Lbfgs<Eigen::VectorXf>;

}  // namespace bilevel
