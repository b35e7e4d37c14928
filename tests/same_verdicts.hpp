#pragma once

// Situations in which a wrong gradient once looked trustworthy, and states that have not settled: a problem
// whose derivatives are made gets the verdicts of the same problem with derivatives by hand, neither of which
// states any constants.

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>

namespace bilevel::testing::same_verdicts {

using Vec = Eigen::VectorXd;

/// A problem of which nobody has said anything but its derivatives.
class Bare final : public Problem<Vec> {
 public:
  explicit Bare(Problem<Vec>& of) : of_(of) {}
  Vec initial_phi() const override { return of_.initial_phi(); }
  Vec initial_theta() const override { return of_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return of_.inner(phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return of_.outer(phi, theta, wanted);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Products>();
    of_.linearise(phi, theta, beta, static_cast<Products&>(*reuse).of);
  }

 private:
  /// Without the matrix and the norms that a ready-made problem knows.
  struct Products final : Curvature<Vec> {
    void times(const Vec& v, Vec& out) override { of->times(v, out); }
    void cross_times(const Vec& v, Vec& out) override { of->cross_times(v, out); }
    void cross_apply(const Vec& u, Vec& out) override { of->cross_apply(u, out); }
    std::unique_ptr<Curvature<Vec>> of;
  };
  Problem<Vec>& of_;
};

/// A soft direction of stiffness `soft` beside one of stiffness 1.
struct SoftByHand {
  double soft = 1;
  Vec stiffness() const { return Vec{{1, soft}}; }
  Vec initial_phi() const { return Vec::Zero(2); }
  Vec initial_theta() const { return Vec::Zero(2); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = stiffness().cwiseProduct(phi) - theta;
    if (wanted.theta) *wanted.theta = -phi;
    return 0.5 * phi.dot(stiffness().cwiseProduct(phi)) - phi.dot(theta);
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = Vec{{1, 0.009}};
    if (wanted.theta) wanted.theta->setZero();
    return phi[0] + 0.009 * phi[1];
  }
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = stiffness().cwiseProduct(v);
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const { out = -v; }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -u; }
};

struct Counts {
  int compared = 0, trusted = 0, untrusted = 0, ended_differently = 0;
};

/// Nothing where the method is not for this problem.
template <Vector V>
std::optional<Estimate<V>> estimate(Problem<V>& problem, const Vec& theta, const char* solver,
                                    double tolerance, const std::string& method) {
  const auto inner =
      make_inner_solver<V>(solver, problem, {.gradient_tolerance = tolerance, .max_iterations = 200});
  V start = problem.initial_theta();
  Space<V>::from_host(theta.data(), start);
  try {
    return make_estimator<V>(method, problem, *inner)->estimate(start, {});
  } catch (const InvalidInput&) {
    return {};
  }
}

/// Every method on both, from states as loose as the tolerance.
template <Vector V>
void expect_same_verdicts(Problem<V>& made, Problem<Vec>& by_hand, const Vec& theta, Counts& counts) {
  Bare bare(by_hand);
  for (const double tolerance : {1e-1, 1e-4, 1e-10})
    for (const char* solver : {"newton", "gradient-descent-backtracking"})
      for (const std::string& method : estimator_names()) {
        // Those that settle by ten thousand steps of their own take seconds, and none of the states.
        if (method == "ep-holomorphic" || method == "implicit-cg-preconditioned" ||
            method == "implicit-cg-jacobi" || differentiates_steps(estimator_named(method)))
          continue;
        SCOPED_TRACE(::testing::Message()
                     << "theta " << theta[0] << ", " << solver << " to " << tolerance << ", " << method);
        const auto one = estimate<V>(made, theta, solver, tolerance, method);
        const auto other = estimate<Vec>(bare, theta, solver, tolerance, method);
        ASSERT_EQ(one.has_value(), other.has_value());
        if (!one) continue;
        ++counts.compared;
        counts.trusted += one->certificate.verdict == Verdict::trusted;
        counts.untrusted += one->certificate.verdict == Verdict::untrusted;
        // Last digits decide whether a solve ends at its tolerance or stalls just above it, within its last
        // iteration or after it: then each has the verdict of how it ended.
        if (one->status != other->status) {
          ++counts.ended_differently;
          EXPECT_TRUE(succeeded(one->status) || one->certificate.verdict != Verdict::trusted);
          EXPECT_TRUE(succeeded(other->status) || other->certificate.verdict != Verdict::trusted);
          continue;
        }
        EXPECT_EQ(name(one->certificate.verdict), name(other->certificate.verdict))
            << one->certificate.reason << " / " << other->certificate.reason << " " << one->certificate.bound
            << " / " << other->certificate.bound;
        EXPECT_EQ(name(one->certificate.kind), name(other->certificate.kind));
      }
}

}  // namespace bilevel::testing::same_verdicts
