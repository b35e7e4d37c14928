#pragma once

#include <string>
#include <string_view>

#include <bilevel/torch/losses.hpp>

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
  AutogradLosses(const AutogradLosses& whole, const Tensor& inner_rows, const Tensor& outer_rows);

  /// The value, and gradients to where they are wanted.
  double evaluate(Which which, const Tensor& phi, const Tensor& theta, Wanted<Tensor> wanted);
  /// The loss with its graph, checked.
  Tensor loss(Which which, const Tensors& phi, const Tensors& theta);
  /// Backwards through `outputs`, with `weights` on them; undefined where an input has no part in them.
  Tensors backward(std::string_view what, const Tensors& outputs, const Tensors& inputs,
                   const Tensors& weights, bool keep, bool record);

  const Tensor& initial_phi() const { return phi_; }
  const Tensor& initial_theta() const { return theta_; }
  const Blocks& phi_blocks() const { return phi_blocks_; }
  const Blocks& theta_blocks() const { return theta_blocks_; }
  const LossesOptions& options() const { return options_; }
  const AutogradCost& cost() const { return cost_; }
  Rows rows() const { return rows_; }

 private:
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
};

/// The gradients of L_in + β·L_out at a point with their graph, ready to be multiplied.
class GradientGraph {
 public:
  explicit GradientGraph(AutogradLosses& losses) : losses_(losses) {}

  void record(const Tensor& phi, const Tensor& theta, double beta);
  void times(const Tensor& v, Tensor& out);
  void cross_times(const Tensor& v, Tensor& out);
  void cross_apply(const Tensor& u, Tensor& out);

 private:
  void through(const Tensors& gradients, const Blocks& from, const Tensor& weights, const Tensors& leaves,
               const Blocks& to, Tensor& out);

  AutogradLosses& losses_;
  Tensor phi_, theta_;  // own copies: the graph looks back at what it was made from
  Tensors phi_leaves_, theta_leaves_;
  Tensors phi_gradients_, theta_gradients_;
};

}  // namespace bilevel::torch
