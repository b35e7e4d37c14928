#pragma once

#include <complex>
#include <functional>
#include <memory>

#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/holomorphic_propagation.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/registry.hpp>

namespace bilevel::holomorphic_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using Complex = std::complex<double>;
using ComplexVec = Eigen::VectorXcd;

inline MinimiserOptions tight() {
  MinimiserOptions options;
  options.gradient_tolerance = 1e-14;
  return options;
}

template <class V>
Estimate<V> propagate(Problem<V>& problem, const V& theta, const HolomorphicOptions& options) {
  const auto inner = make_inner_solver<V>("newton", problem, tight());
  return HolomorphicPropagation<V>(problem, *inner, options).estimate(theta, {});
}

inline Vec truth(problems::ReferenceProblem& problem, const Vec& theta) {
  if (const auto known = problem.outer_gradient(theta)) return *known;
  const auto inner = make_inner_solver<Vec>("newton", problem, tight());
  return Exact<Vec>(problem, *inner).estimate(theta, {}).gradient;
}

inline Vec moved_theta(const problems::ReferenceProblem& problem, std::uint64_t seed) {
  Vec noise = problem.initial_theta();
  Space<Vec>::random(seed, noise);
  return problem.initial_theta() + 0.3 * noise;
}

/// Passes everything on, and lets a test hide or disturb what it likes.
class Passing : public Problem<Vec>, public Holomorphic {
 public:
  explicit Passing(Problem<Vec>& original) : original_(original) {}
  Vec initial_phi() const override { return original_.initial_phi(); }
  Vec initial_theta() const override { return original_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> w) override {
    return original_.inner(phi, theta, w);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> w) override {
    return original_.outer(phi, theta, w);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    original_.linearise(phi, theta, beta, reuse);
  }
  Capabilities capabilities() const override { return {.curvature = curvature}; }
  Constants constants(const Vec& theta, const Vec& center, double radius) override {
    return knows ? original_.constants(theta, center, radius) : Constants{};
  }
  Holomorphic* holomorphic() override { return this; }
  void complex_derivatives(const ComplexVec& phi, const Vec& theta, Complex beta, ComplexWanted w) override {
    original_.holomorphic()->complex_derivatives(phi, theta, beta, w);
    if (w.phi && disturb) disturb(beta, *w.phi);
  }
  bool complex_hessian(const ComplexVec& phi, const Vec& theta, Complex beta,
                       Eigen::MatrixXcd& out) override {
    return hessian && original_.holomorphic()->complex_hessian(phi, theta, beta, out);
  }
  double margin(const ComplexVec& phi, const Vec& theta) override {
    return original_.holomorphic()->margin(phi, theta);
  }

  bool curvature = true, knows = true, hessian = true;
  std::function<void(Complex, ComplexVec&)> disturb;

 private:
  Problem<Vec>& original_;
};

}  // namespace bilevel::holomorphic_test
