#pragma once

#include <memory>
#include <utility>

#include <bilevel/gradient/estimator.hpp>

namespace bilevel {

/// An estimator that asks another one for everything; what is built on it changes the question or the answer.
template <Vector V>
class Forwarding : public Estimator<V> {
 public:
  explicit Forwarding(std::unique_ptr<Estimator<V>> wrapped) : wrapped_(std::move(wrapped)) {}

  std::string_view name() const override { return wrapped_->name(); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override {
    return wrapped_->estimate(theta, warm);
  }
  void set_tolerances(double inner, double adjoint) override { wrapped_->set_tolerances(inner, adjoint); }
  void set_outer_tolerance(double tolerance) override { wrapped_->set_outer_tolerance(tolerance); }
  V initial_phi() const override { return wrapped_->initial_phi(); }
  V initial_theta() const override { return wrapped_->initial_theta(); }

 protected:
  std::unique_ptr<Estimator<V>> wrapped_;
};

}  // namespace bilevel
