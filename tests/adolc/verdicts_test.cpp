// Situations in which a wrong gradient once looked trustworthy, and states that have not settled: a taped
// problem gets the verdicts of the same problem with derivatives by hand, neither of which states any
// constants.

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/pitchfork.hpp>

#include "taped_logistic.hpp"

namespace bilevel {
namespace taped_verdicts_test {

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

/// L_in = φ⁴ − θφ², L_out = ½(φ − 1)².
struct Fork {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return phi[0] * phi[0] * (phi[0] * phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 1) * (phi[0] - 1);
  }
};

/// A soft direction of stiffness `soft` beside one of stiffness 1.
struct SoftTaped {
  double soft = 1;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * phi[0] * phi[0] + 0.5 * soft * phi[1] * phi[1] - phi[0] * theta[0] - phi[1] * theta[1];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] + 0.009 * phi[1];
  }
};
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
  int compared = 0, trusted = 0, untrusted = 0;
};

/// Every method on both, from states as loose as the tolerance.
void expect_same_verdicts(Problem<Vec>& taped, Problem<Vec>& by_hand, const Vec& theta, Counts& counts) {
  Bare bare(by_hand);
  for (const double tolerance : {1e-1, 1e-4, 1e-10})
    for (const char* solver : {"newton", "gradient-descent-backtracking"})
      for (const std::string& method : estimator_names()) {
        // Those that settle by ten thousand steps of their own take seconds, and none of the states.
        if (method == "ep-holomorphic" || method == "implicit-cg-preconditioned" ||
            method == "implicit-cg-jacobi" || differentiates_steps(estimator_named(method)))
          continue;
        SCOPED_TRACE(testing::Message()
                     << "theta " << theta[0] << ", " << solver << " to " << tolerance << ", " << method);
        const auto by = [&](Problem<Vec>& problem) -> std::optional<Estimate<Vec>> {
          const auto inner = make_inner_solver<Vec>(solver, problem,
                                                    {.gradient_tolerance = tolerance, .max_iterations = 200});
          try {
            return make_estimator<Vec>(method, problem, *inner)->estimate(theta, {});
          } catch (const InvalidInput&) {
            return {};
          }
        };
        const auto one = by(taped), other = by(bare);
        ASSERT_EQ(one.has_value(), other.has_value());
        if (!one) continue;
        ++counts.compared;
        counts.trusted += one->certificate.verdict == Verdict::trusted;
        counts.untrusted += one->certificate.verdict == Verdict::untrusted;
        EXPECT_EQ(name(one->certificate.verdict), name(other->certificate.verdict))
            << one->certificate.reason << " / " << other->certificate.reason << " " << one->certificate.bound
            << " / " << other->certificate.bound;
        EXPECT_EQ(name(one->certificate.kind), name(other->certificate.kind));
        EXPECT_EQ(name(one->status), name(other->status));
      }
}

TEST(TapedVerdicts, AreThoseOfDerivativesByHand) {
  Counts counts;
  {
    problems::Pitchfork native;
    auto taped = differentiate(Fork{}, {.phi = Vec::Ones(1), .theta = Vec::Ones(1)});
    // A branch, near the fork, at it, and before it.
    for (const double theta : {2.0, 1e-2, 1e-5, 0.0, -1.0})
      expect_same_verdicts(taped, native, Vec::Constant(1, theta), counts);
    // From the saddle between the branches.
    auto saddle = differentiate(Fork{}, {.phi = Vec::Zero(1), .theta = Vec::Ones(1)});
    const auto inner = make_inner_solver<Vec>("newton", saddle);
    const auto e = make_estimator<Vec>("implicit-direct", saddle, *inner)->estimate(Vec::Ones(1), {});
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
  }
  for (const double soft : {1.0, 1e-3, 1e-6}) {
    auto native = make_problem(SoftByHand{soft});
    auto taped = differentiate(SoftTaped{soft}, {.phi = 2, .theta = 2});
    expect_same_verdicts(taped, native, Vec{{0.1, 0.2}}, counts);
  }
  problems::Logistic native =
      problems::Logistic::random({.rows = 60, .validation_rows = 30, .features = 5, .strong = 1, .seed = 2});
  native.keep_units_of_one();
  auto taped = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  expect_same_verdicts(taped, native, native.initial_theta(), counts);
  // None of the verdicts is the only one that was met.
  EXPECT_GT(counts.trusted, counts.compared / 10);
  EXPECT_GT(counts.untrusted, counts.compared / 10);
  RecordProperty("compared", counts.compared);
}

}  // namespace taped_verdicts_test
}  // namespace bilevel
