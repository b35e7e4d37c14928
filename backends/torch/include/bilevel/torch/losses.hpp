#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/torch/tensor.hpp>

namespace bilevel::torch {

/// A loss: a scalar tensor, computed from φ and θ by operations that autograd knows. Their shapes are those
/// of the start, and so is the device.
using Loss = std::function<Tensor(const Tensor& phi, const Tensor& theta)>;
/// The same of lists of tensors, such as the weights of a network.
using ListLoss = std::function<Tensor(const Tensors& phi, const Tensors& theta)>;
/// The same over some rows of data, whose numbers `rows` holds (int64, on the device of φ): their mean, so
/// that a minibatch speaks of the whole.
using RowLoss = std::function<Tensor(const Tensors& phi, const Tensors& theta, const Tensor& rows)>;

/// Where solves start unless told otherwise; also says what shape, type and device φ and θ have. float64 for
/// Losses<Tensor>, float32 for Losses<SingleTensor>. A list is one vector, its tensors one after the other.
struct Start {
  Tensors phi, theta;
  bool lists =
      true;  ///< whether vectors are flat and the loss sees lists; else it sees the one tensor itself

  Start(Tensor phi_start, Tensor theta_start)
      : phi{std::move(phi_start)}, theta{std::move(theta_start)}, lists(false) {}
  Start(Tensors phi_start, Tensors theta_start) : phi(std::move(phi_start)), theta(std::move(theta_start)) {}
};

/// How many rows each loss has.
struct Rows {
  long inner = 0, outer = 0;
};

/// What is recorded on a CUDA device and launched as one (a CUDA graph): a pass over a small network takes
/// less time than its hundreds of launches. Up to 3·10⁷ elements of φ; elsewhere it makes no difference.
enum class Graphs {
  none,
  /// Products with second derivatives, from the second one at a point on. Nothing that a user has written
  /// runs in them.
  products,
  /// The losses and their gradients as well, which are recorded once and for all: numbers of the host that a
  /// loss reads are those of the recording, and tensors that it reads must stay where they are (write to them
  /// in place). Their values are compared with the losses at replays 1, 2, 4, 8, …
  whole,
};

struct LossesOptions {
  /// Look at both losses once, at the start, before any work: scalar, finite, depend on φ and θ, the same
  /// twice, draw no random numbers, twice differentiable. Costs some five gradients and two Hessian products.
  bool look_first = true;
  /// Constants that hold within `radius` of `center` at this θ: what turns estimated certificates into
  /// rigorous ones. Empty: none are known.
  std::function<Constants(const Tensor& theta, const Tensor& center, double radius)> constants = {};
  /// What φ must satisfy, in the order of its elements (a list's tensors one after the other).
  PhiConstraints phi_constraints = {};
  Graphs graphs = Graphs::products;
  /// Rows of L_in that each step of a stochastic second phase draws (StochasticOptions, `implicit-sgd`); 0:
  /// there is none. For losses by rows.
  long drawn_rows = 0;
  std::uint64_t seed = 1;  ///< of these draws
};

/// What autograd has been asked for.
struct AutogradCost {
  long forward_passes = 0;
  long backward_passes = 0;
  long replays = 0;  ///< of recorded passes, each launched as one; not among those above
};

class AutogradLosses;

/// Two losses as functions of tensors; derivatives by autograd. `linearise` records the graph of the
/// gradients once, and each product is one backward pass through it:
///   H·v = ∂φ(∂φL·v),   χᵀ·v = ∂θ(∂φL·v),   χ·u = ∂φ(∂θL·u),   L = L_in + β·L_out.
/// Nothing but values (one scalar an evaluation) leaves the device.
template <Vector V = Tensor>
class Losses final : public Problem<V> {
 public:
  /// Throws InvalidInput, which says which loss and where, for one that cannot be used.
  Losses(Loss inner, Loss outer, Start start, LossesOptions options = {});
  Losses(ListLoss inner, ListLoss outer, Start start, LossesOptions options = {});
  Losses(RowLoss inner, RowLoss outer, Start start, Rows rows, LossesOptions options = {});
  Losses(Losses&&) noexcept;
  Losses& operator=(Losses&&) noexcept;
  ~Losses() override;

  V initial_phi() const override;
  V initial_theta() const override;
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override;
  /// Without the value of the loss: nothing is fetched from the device.
  void residual(const V& phi, const V& theta, V& out) override;
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override;
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override;
  Constants constants(const V& theta, const V& center, double radius) override;
  PhiConstraints phi_constraints() const override;

  /// The same losses over these rows only, a problem of its own: int64 tensors, or undefined ones for all.
  /// Throws InvalidInput where the losses were not given by rows, or a row lies outside.
  Losses subset(const Tensor& inner_rows, const Tensor& outer_rows) const;
  Rows rows() const;

  /// The tensors of a vector, as the losses see them: views, nothing is copied.
  Tensors phi_list(const V& phi) const;
  Tensors theta_list(const V& theta) const;

  const AutogradCost& autograd_cost() const;

 private:
  explicit Losses(std::shared_ptr<AutogradLosses> losses);
  std::shared_ptr<AutogradLosses> losses_;
};

extern template class Losses<Tensor>;
extern template class Losses<SingleTensor>;

}  // namespace bilevel::torch
