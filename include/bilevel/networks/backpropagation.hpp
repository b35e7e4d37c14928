#pragma once

#include <memory>

#include <bilevel/networks/propagation.hpp>

namespace bilevel::networks {

/// The reference for predictive coding: a forward pass, which is its free state, and the derivative of the
/// mean cost by the chain rule. Equilibrium propagation tends to this gradient as β → 0.
template <class S>
class Backpropagation {
 public:
  /// Throws InvalidInput unless the energy is predictive coding.
  explicit Backpropagation(Architecture architecture);
  ~Backpropagation();

  /// As Propagation::gradient.
  BatchOutcome gradient(const S* theta, const S* inputs, const S* targets, Index batch, S* gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

extern template class Backpropagation<float>;
extern template class Backpropagation<double>;

}  // namespace bilevel::networks
