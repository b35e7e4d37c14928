#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/learning/tasks.hpp>
#include <bilevel/problem/equilibrium.hpp>

namespace bilevel::learning {

/// What tasks share (θ) and what each adapts (φ).
enum class LearnerKind {
  center,       ///< θ: a center of all weights and how far from it a task may go; φ: the way from it
  gain,         ///< θ: the weights; φ: gain and shift of each unit
  heads,        ///< θ: features; φ: a linear read-out of them
  hypernetwork  ///< θ: a map from an embedding to all weights; φ: the embedding
};
std::string_view name(LearnerKind kind);
/// By name; InvalidInput with the list where there is none.
LearnerKind learner_kind_of(std::string_view name);

enum class Unit { tanh, silu, relu };
std::string_view name(Unit unit);
Unit unit_of(std::string_view name);

/// How many strengths of the regulariser are learned.
enum class Strengths { one, layers, weights };
std::string_view name(Strengths strengths);
Strengths strengths_of(std::string_view name);

/// The network is a convolutional one for pictures (blocks of 3 × 3 filters, normalisation over each picture,
/// unit and pooling by 2), else layers of units.
struct LearnerOptions {
  LearnerKind kind = LearnerKind::center;
  std::vector<long> layers = {40, 40};  ///< units of each hidden layer; none: a linear model
  long filters = 64, blocks = 4;        ///< of the convolutional network
  std::optional<Unit> unit = {};        ///< empty: tanh for layers; relu for heads on pictures, else silu
  Strengths strengths = Strengths::weights;  ///< of center
  double strength = 0;  ///< λ where it starts, of weights as large as at first; 0: what suits the kind
  long embedding = 16;  ///< numbers of a hypernetwork's φ

  Violations validate() const;
};

/// A model of many tasks side by side. In units of what the regulariser λ/2·‖·‖² allows, φ = (w − ω)·√λ for
/// weights w and their center ω, and 0 is where every task begins:
///   L_in  = Σ over tasks [mean loss of its support rows] + ½‖φ‖²
///   L_out = mean over tasks of the mean loss of their query rows
/// with squared errors, or the cross-entropy of classes. Functions of any float type, on any device.
class Learner {
 public:
  Learner(LearnerOptions options, TaskForm form);

  const LearnerOptions& options() const { return options_; }
  const TaskForm& form() const { return form_; }

  /// Where learning begins, float64 on the host.
  Tensors initial_theta(std::uint64_t seed) const;
  std::vector<std::vector<std::int64_t>> theta_shapes() const;
  std::vector<std::int64_t> phi_shape(long tasks) const;

  /// What adaptation reads of θ, computed once for all its steps: features of the rows for `heads`, weights
  /// in a row, lengths that the regulariser allows. The losses below are functions of it; to θ leads one
  /// backward pass through here.
  Tensors prepare(const Tensors& theta, const Tasks& tasks) const;
  Tensor inner(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const;
  Tensor outer(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const;
  /// [tasks, rows, outputs] of the query rows, whose number need not be that of the form: numbers, or
  /// logarithms of probabilities up to a constant.
  Tensor answers(const Tensor& phi, const Tensors& prepared, const Tasks& tasks) const;

  /// Whether L_in is convex in φ; its constants are known then.
  bool convex() const { return options_.kind == LearnerKind::heads; }
  Constants constants(const Tensors& prepared) const;

  long shared_parameters() const;   ///< elements of θ
  long adapted_parameters() const;  ///< elements of φ, per task

 private:
  struct Part {
    std::vector<std::int64_t> shape;
    double deviation;  ///< of its first values, 0 for zeros
    double start = 0;  ///< their mean
  };
  struct Modulation;

  void lay_out_layers();
  void lay_out_blocks();
  void lay_out_theta();
  Tensor features(const Tensors& weights, const Tensor& x, const Modulation* gains) const;
  Tensor through_layers(const Tensors& weights, const Tensor& x, const Modulation* gains) const;
  Tensor through_blocks(const Tensors& weights, const Tensor& x, const Modulation* gains) const;
  Tensor network(const Tensors& weights, const Tensor& x, const Modulation* gains) const;
  Tensor activate(const Tensor& x) const;
  Tensor allowed(const Tensor& log_strength) const;
  Tensors own_weights(const Tensor& all) const;
  Tensor weights_of_tasks(const Tensor& phi, const Tensors& prepared) const;
  Tensor outputs(const Tensor& phi, const Tensors& prepared, const Tensor& x, bool query) const;
  Tensor losses(const Tensor& phi, const Tensors& prepared, const Tasks& tasks, bool query) const;
  Tensor loss(const Tensor& outputs, const Tensor& targets) const;

  LearnerOptions options_;
  TaskForm form_;
  long features_ = 0;          // that the read-out sees
  long weights_ = 0;           // of the whole network
  std::vector<Part> network_;  // weights and biases, layer by layer; the read-out last
  std::vector<long> units_;    // of each layer, what gains multiply
  std::vector<Part> theta_;
};

}  // namespace bilevel::learning
