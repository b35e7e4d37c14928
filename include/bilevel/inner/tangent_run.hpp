#pragma once

#include <vector>

#include <bilevel/inner/plain_run.hpp>

namespace bilevel {

/// A run of plain steps that carries dφ_k/dθ along: real-time recurrent learning.
template <Vector V>
class TangentRun final : public PlainRun<V> {
 public:
  TangentRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options, std::string_view who);

  /// dφ_T/dθ_j of the last run.
  const V& tangent(std::size_t j) const { return tangents_[j].phi; }
  std::size_t bytes() const override {
    const std::size_t vectors = tangents_.size() * (1 + this->step_->footprint().memory) + 2;
    return PlainRun<V>::bytes() + vectors * bytes_of(product_) + bytes_of(unit_);
  }
  /// What bytes() will be, at most.
  static std::size_t bytes_needed(const V& phi, const V& theta, const Step<V>& step) {
    const Footprint footprint = step.footprint();
    const auto columns = static_cast<std::size_t>(Space<V>::size(theta));
    return bytes_of(phi) * (columns * (1 + footprint.memory) + 4 + footprint.memory + footprint.scratch) +
           bytes_of(theta);
  }

 private:
  void prepare() override {
    for (Motion<V>& each : tangents_) each.reset();
  }
  std::optional<Stop> before_step() override;

  std::vector<Motion<V>> tangents_;
  V product_, cross_, unit_;
};

template <Vector V>
TangentRun<V>::TangentRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options,
                          std::string_view who)
    : PlainRun<V>(problem, std::move(step), options, who),
      product_(Space<V>::zeros_like(this->state_.phi)),
      cross_(Space<V>::zeros_like(this->state_.phi)),
      unit_(Space<V>::zeros_like(problem.initial_theta())) {
  const auto columns = static_cast<std::size_t>(Space<V>::size(unit_));
  tangents_.reserve(columns);
  for (std::size_t j = 0; j < columns; ++j)
    tangents_.emplace_back(this->state_.phi, this->step_->footprint().memory);
}

/// The gradient of step k moves by H_k·S_k + χ_k, column by column.
template <Vector V>
std::optional<Stop> TangentRun<V>::before_step() {
  State<V>& state = this->state_;
  Curvature<V>& curvature = this->nudged_.curvature(state.phi);
  if (!this->step_->linear()) this->step_->differentiate(state);
  for (std::size_t j = 0; j < tangents_.size(); ++j) {
    Motion<V>& tangent = tangents_[j];
    Space<V>::unit(static_cast<Index>(j), unit_);
    curvature.times(tangent.phi, product_);
    curvature.cross_apply(unit_, cross_);
    Space<V>::axpy(1, cross_, product_);
    if (const double largest = Space<V>::max_abs(product_); !std::isfinite(largest))
      return Stop{Status::not_finite,
                  fmt::format("the derivative of the inner gradient by parameter {} is {} at iteration {}", j,
                              largest, state.iteration)};
    this->step_->pushforward(product_, tangent);
  }
  return {};
}

extern template class TangentRun<Eigen::VectorXd>;
extern template class TangentRun<Eigen::VectorXf>;

}  // namespace bilevel
