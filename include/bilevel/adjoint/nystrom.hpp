#pragma once

#include <bilevel/adjoint/nystrom_sketch.hpp>

namespace bilevel {

struct NystromOptions : AdjointOptions {
  NystromSketchOptions sketch = {};

  Violations validate() const {
    Violations v = AdjointOptions::validate("nystrom");
    sketch.check(v);
    return v;
  }
};

/// x = (L + ρ·I)⁻¹·b with the Nyström approximation L + ρ·I of a symmetric positive semidefinite A, from k +
/// 1 products, the last of which tells the residual. Exact where A is ρ·I plus a matrix of rank k; elsewhere
/// the status is approximate unless the residual happens to meet the target. A warm start is ignored, and the
/// sketch is drawn anew at each solve.
template <Vector V>
class Nystrom final : public AdjointSolver<V> {
 public:
  explicit Nystrom(NystromOptions options = {}) : options_(options) { options_.validate().throw_if_any(); }
  std::string_view name() const override { return "nystrom"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;
  void set_tolerance(double relative) override {
    options_.relative_tolerance = relative;
    options_.validate().throw_if_any();
  }

 private:
  NystromOptions options_;
};

template <Vector V>
LinearSolution<V> Nystrom<V>::solve(LinearOperator<V>& a, const V& b, const V*) {
  if (!a.symmetric()) throw InvalidInput("nystrom: A is not symmetric; use gmres, bicgstab or direct");
  LinearRun<V> run(name(), a, b, nullptr, options_);
  if (!run.running()) return run.finish(0);

  NystromSketch<V> sketch(options_.sketch);
  sketch.build(run, NystromSketch<V>::Complement::damping);
  if (!run.running()) return run.finish(sketch.bytes());
  run.approximate(sketch, fmt::format("rank {}, damping {:.3g}, {:.3g} on the complement", sketch.rank(),
                                      sketch.damping(), sketch.complement()));
  return run.finish(2 * sketch.bytes() + 2 * bytes_of(b));
}

extern template class Nystrom<Eigen::VectorXd>;
extern template class Nystrom<Eigen::VectorXf>;

}  // namespace bilevel
