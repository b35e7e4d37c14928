#pragma once

#include <bilevel/adjoint/linear_run.hpp>

namespace bilevel {

struct ZeroOptions : AdjointOptions {
  Violations validate() const { return AdjointOptions::validate("zero"); }
};

/// x = 0: the gradient without its implicit part, in one phase. Status approximate unless b itself meets
/// the target; no product with A. A warm start is ignored.
template <Vector V>
class Zero final : public AdjointSolver<V> {
 public:
  explicit Zero(ZeroOptions options = {});
  std::string_view name() const override { return "zero"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;
  void set_tolerance(double relative) override;

 private:
  ZeroOptions options_;
};

template <Vector V>
Zero<V>::Zero(ZeroOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void Zero<V>::set_tolerance(double relative) {
  options_.relative_tolerance = relative;
  options_.validate().throw_if_any();
}

template <Vector V>
LinearSolution<V> Zero<V>::solve(LinearOperator<V>& a, const V& b, const V*) {
  LinearRun<V> run("zero", a, b, nullptr, options_);
  run.stop(Status::approximate, "x = 0 by choice");
  return run.finish(0);
}

extern template class Zero<Eigen::VectorXd>;
extern template class Zero<Eigen::VectorXf>;

}  // namespace bilevel
