#pragma once

#include <vector>

#include <bilevel/inner/plain_run.hpp>
#include <bilevel/space/eigen.hpp>

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

extern template class TangentRun<Eigen::VectorXd>;
extern template class TangentRun<Eigen::VectorXf>;

}  // namespace bilevel
