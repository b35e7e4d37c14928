#pragma once

#include <bilevel/adjoint/linear_run.hpp>

namespace bilevel {

/// x = B⁻¹·b with the inverse that phase 1 left behind (LinearOperator::inherited): the pairs of L-BFGS, the
/// factor of Newton's last step. One product tells the residual; the status is approximate unless it meets
/// the target. A warm start is ignored.
template <Vector V>
class Inherited final : public AdjointSolver<V> {
 public:
  explicit Inherited(AdjointOptions options = {}) : options_(options) {
    options_.validate("inherited").throw_if_any();
  }
  std::string_view name() const override { return "inherited"; }
  bool inherits() const override { return true; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;
  void set_tolerance(double relative) override {
    options_.relative_tolerance = relative;
    options_.validate("inherited").throw_if_any();
  }

 private:
  AdjointOptions options_;
};

template <Vector V>
LinearSolution<V> Inherited<V>::solve(LinearOperator<V>& a, const V& b, const V*) {
  if (!a.symmetric()) throw InvalidInput("inherited: A is not symmetric; use gmres, bicgstab or direct");
  LinearRun<V> run(name(), a, b, nullptr, options_);
  if (!run.running()) return run.finish(0);

  InverseApproximation<V>* inverse = a.inherited();
  if (!inverse) throw InvalidInput("inherited: nobody left an inverse of A behind");
  run.approximate(*inverse, fmt::format("an inverse known in {} dimensions", inverse->rank()));
  return run.finish(2 * bytes_of(b));
}

extern template class Inherited<Eigen::VectorXd>;
extern template class Inherited<Eigen::VectorXf>;

}  // namespace bilevel
