#pragma once

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct ZeroOptions : AdjointOptions {
  Violations validate() const { return AdjointOptions::validate("zero"); }
};

/// x = 0: the gradient without its implicit part, in one phase. Status approximate unless b itself meets
/// the target; no product with A. A warm start is ignored.
template <Vector V>
class Zero final : public AdjointWithOptions<V, ZeroOptions> {
 public:
  explicit Zero(ZeroOptions options = {}) : AdjointWithOptions<V, ZeroOptions>(options) {}
  std::string_view name() const override { return "zero"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  using AdjointWithOptions<V, ZeroOptions>::options_;
};

extern template class Zero<Eigen::VectorXd>;
extern template class Zero<Eigen::VectorXf>;

}  // namespace bilevel
