#pragma once

#include <vector>

#include "couplings.hpp"
#include "kernels/table.hpp"

namespace bilevel::networks {

inline kernels::Squash squash_of(const Architecture& a) {
  if (!a.smooth()) return kernels::Squash::none;
  return a.activation == Activation::tanh ? kernels::Squash::tanh : kernels::Squash::sigmoid;
}

/// θ as relaxation uses it: pointers straight into θ where the energy takes it as it is, else into the
/// products of conductances and gains. All blocks of a batch share one.
template <class S>
class LiveCouplings {
 public:
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

  /// Layers up to this width are narrow: what they send down is added where it is used.
  static constexpr Index most_narrow = 16;

  explicit LiveCouplings(const Architecture& architecture) : a_(architecture), derived_(architecture) {
    for (Index k = 1; k <= a_.depth(); ++k) {
      const bool narrow = k > 1 && a_.width(k) <= most_narrow;
      transposed_.push_back(narrow ? Matrix::Zero(a_.width(k - 1), a_.width(k)) : Matrix());
      inverse_.push_back(Vector::Ones(a_.width(k)));
      lower_.push_back(a_.lower(k).template cast<S>());
      upper_.push_back(a_.upper(k).template cast<S>());
    }
  }

  void set(const S* theta) {
    theta_ = theta;
    if (a_.resistive()) {
      if (const S least = Eigen::Map<const Vector>(theta, a_.parameters()).minCoeff(); least < 0)
        throw InvalidInput(fmt::format("network: a conductance is {}, and cannot be negative", least));
      derived_.set(a_, Eigen::Map<const Vector>(theta, a_.parameters()));
      for (std::size_t i = 0; i < inverse_.size(); ++i) inverse_[i] = derived_.d[i].cwiseInverse();
    }
    for (Index k = 2; k <= a_.depth(); ++k)
      if (narrow(k))
        transposed_[static_cast<std::size_t>(k - 1)] =
            Eigen::Map<const Matrix>(weights(k), a_.width(k), a_.width(k - 1)).transpose();
  }

  const Architecture& architecture() const { return a_; }
  const S* weights(Index k) const {
    return a_.resistive() ? at(derived_.w, k).data() : theta_ + a_.layer(k).weights;
  }
  const S* bias(Index k) const {
    return a_.resistive() ? at(derived_.b, k).data() : theta_ + a_.layer(k).bias;
  }
  bool narrow(Index k) const { return at(transposed_, k).size() > 0; }
  /// W_kᵀ of a narrow layer, n_{k−1} × n_k.
  const S* transposed(Index k) const { return at(transposed_, k).data(); }
  S stiffness(Index k, Index unit) const { return a_.resistive() ? at(derived_.d, k)[unit] : S(1); }
  const S* inverse(Index k) const { return at(inverse_, k).data(); }
  const S* lower(Index k) const { return a_.bounded(k) ? at(lower_, k).data() : nullptr; }
  const S* upper(Index k) const { return a_.bounded(k) ? at(upper_, k).data() : nullptr; }

 private:
  template <class Each>
  static const Each& at(const std::vector<Each>& layers, Index k) {
    return layers[static_cast<std::size_t>(k - 1)];
  }

  const Architecture& a_;
  const S* theta_ = nullptr;
  Couplings<S> derived_;
  std::vector<Matrix> transposed_;  // of narrow layers
  std::vector<Vector> inverse_, lower_, upper_;
};

}  // namespace bilevel::networks
