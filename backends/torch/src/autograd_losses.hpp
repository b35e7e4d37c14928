#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <bilevel/torch/losses.hpp>
#include <bilevel/torch/row_sampler.hpp>

#include "launch.hpp"

namespace bilevel::torch {

/// Which of the two.
enum class Which { inner, outer };
std::string_view name(Which which);

/// The tensors of a list one after the other in one vector, each seen where it lies.
class Blocks {
 public:
  /// Of the start's tensors; `what` is φ or θ in messages. Throws InvalidInput for what is no block of
  /// numbers of `type`, or not on the device of the first.
  Blocks(const Tensors& start, bool lists, at::ScalarType type, std::string_view what);

  /// A new vector that holds the start.
  Tensor joined(const Tensors& start) const;
  /// Views of a vector's blocks.
  Tensors views(const Tensor& vector) const;
  /// The same as leaves of a graph: detached, and their gradients are recorded where `recorded`.
  Tensors leaves(const Tensor& vector, bool recorded) const;
  /// Writes tensors to their blocks; zeros for undefined ones.
  void write(const Tensors& blocks, Tensor& vector) const;
  const at::Device& device() const { return device_; }

 private:
  std::vector<std::vector<std::int64_t>> shapes_;
  bool lists_;
  at::Device device_ = at::kCPU;
  std::string what_;
};

/// What Losses holds, whatever its vectors' type.
class AutogradLosses {
 public:
  AutogradLosses(RowLoss inner, RowLoss outer, const Start& start, at::ScalarType type, Rows rows,
                 LossesOptions options);
  /// Over rows that there are.
  AutogradLosses(const AutogradLosses& whole, const Tensor& inner_rows, const Tensor& outer_rows);
  /// Throws InvalidInput where there are no rows, or not these.
  void require_subset(const Tensor& inner_rows, const Tensor& outer_rows) const;

  /// The value, and gradients to where they are wanted.
  double evaluate(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted);
  /// The same, with the value where it was computed.
  Tensor evaluated(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted);
  /// The loss with its graph, checked.
  Tensor loss(Which which, const Tensors& phi, const Tensors& theta);
  /// inner·L_in + outer·L_out.
  double value(const Tensor& phi, const Tensor& theta, double inner, double outer);
  /// Throws InvalidInput where what was replayed is not what the losses are now: one has changed since it was
  /// recorded.
  void compare(std::string_view what, double now, double replayed) const;
  /// Backwards through `outputs`, with `weights` on them; undefined where an input has no part in them.
  Tensors backward(std::string_view what, const Tensors& outputs, const Tensors& inputs,
                   const Tensors& weights, bool keep, bool record);

  const Tensor& initial_phi() const { return phi_; }
  const Tensor& initial_theta() const { return theta_; }
  const Blocks& phi_blocks() const { return phi_blocks_; }
  const Blocks& theta_blocks() const { return theta_blocks_; }
  const LossesOptions& options() const { return options_; }
  const AutogradCost& cost() const { return cost_; }
  void count_replay() { ++cost_.replays; }
  void count(const AutogradCost& more);
  Rows rows() const { return rows_; }
  /// Whether work of this kind is to be launched as one.
  bool launches(Graphs what) const { return recorder_->side && recorder_->graphs >= what; }
  const SideStream& side() const { return recorder_->side; }
  /// Within a Scope of side(). Where it cannot be recorded this kind of work is not recorded any more.
  bool record(Graphs what, Launch& launch, const std::function<void()>& work);

 private:
  /// The value, on the device, and gradients to where they are wanted.
  Tensor compute(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted);
  void look();
  void look_at(Which which);
  void look_at_second_derivatives(Which which);

  RowLoss inner_, outer_;
  Tensor inner_rows_, outer_rows_;
  Blocks phi_blocks_, theta_blocks_;
  Tensor phi_, theta_;
  Rows rows_;
  LossesOptions options_;
  AutogradCost cost_;
  /// One for all subsets.
  struct Recorder {
    SideStream side;
    std::atomic<Graphs> graphs;
  };
  std::shared_ptr<Recorder> recorder_;
  /// Recorded evaluations, by loss and by what is wanted.
  struct Evaluations;
  std::shared_ptr<Evaluations> evaluations_;
};

/// Whether two values of a loss at the same point are the same: sums of a device may come in another order.
bool same_value(double a, double b, at::ScalarType type);

/// Whether the n-th replay is one of those that are compared with the losses: 1, 2, 4, 8, …
constexpr bool compared(long n) {
  return (n & (n - 1)) == 0;
}

/// The gradients of L_in + β·L_out at a point with their graph, ready to be multiplied.
class GradientGraph {
 public:
  explicit GradientGraph(AutogradLosses& losses);
  GradientGraph(const GradientGraph&) = delete;
  GradientGraph& operator=(const GradientGraph&) = delete;

  void record(const Tensor& phi, const Tensor& theta, double beta);
  void times(const Tensor& v, Tensor& out) { multiply(times_, v, out); }
  void cross_times(const Tensor& v, Tensor& out) { multiply(cross_times_, v, out); }
  void cross_apply(const Tensor& u, Tensor& out) { multiply(cross_apply_, u, out); }
  /// A product over rows that are drawn; its share of a whole one, 0 where none are to be drawn.
  double drawn_times(const Tensor& v, Tensor& out);

 private:
  /// A gradient, weighted and derived by leaves: out_j = Σ_i weights_i ∂gradients_i/∂leaves_j.
  struct Product {
    const Tensors& gradients;
    const Blocks& from;
    const Tensors& leaves;
    const Blocks& to;
    long asked = 0;  // since the graph was made
    Launch launch = {};
    Tensor weights = {}, out = {};  // the recording's own
  };

  void make(double beta);
  void multiply(Product& product, const Tensor& weights, Tensor& out);
  void through(const Product& product, const Tensor& weights, Tensor& out);

  AutogradLosses& losses_;
  Tensor phi_, theta_;  // own copies: the graph looks back at what it was made from
  Tensors phi_leaves_, theta_leaves_;
  Tensors phi_gradients_, theta_gradients_;
  Tensor value_;
  Product times_, cross_times_, cross_apply_;
  std::optional<RowSampler> sampler_;

  Launch launch_;  // makes the graph anew, at the same addresses
  double beta_ = unknown;
  long replays_ = 0;
};

}  // namespace bilevel::torch
