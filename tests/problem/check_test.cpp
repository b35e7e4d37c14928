#include <bilevel/problem/check.hpp>

#include <algorithm>
#include <iostream>
#include <set>

#include <gtest/gtest.h>

#include <bilevel/problem/differenced.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>
#include <problem/planted.hpp>

namespace check_test {

using namespace bilevel;
using Names = std::set<std::string>;

template <class S>
CheckReport check(Planted<S>& problem, std::uint64_t seed) {
  typename Planted<S>::V phi = problem.initial_phi(), theta = problem.initial_theta();
  Space<typename Planted<S>::V>::random(2 * seed + 1000, phi);
  Space<typename Planted<S>::V>::random(2 * seed + 1001, theta);
  return check_derivatives(problem, phi, theta, {.seed = seed});
}

Names failures(const CheckReport& report) {
  Names names;
  for (const Finding& f : report.findings)
    if (!f.passed) names.insert(std::string(f.name));
  return names;
}

template <class S>
class CheckOf : public testing::Test {};
using Scalars = testing::Types<double, float>;
TYPED_TEST_SUITE(CheckOf, Scalars);

TYPED_TEST(CheckOf, HealthyProblemPassesForTwentySeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Planted<TypeParam> problem(seed);
    const CheckReport report = check(problem, seed);
    EXPECT_TRUE(report.passed()) << report.table();
    EXPECT_EQ(report.findings.size(), 16u);
    EXPECT_TRUE(report.not_offered.empty());
  }
}

/// A mistake, and all the checks that must see it; every other one must pass.
struct Case {
  const char* mistake;
  Names found_by;
};
const Case cases[] = {
    {"inner phi sign", {"inner-phi", "residual"}},
    {"inner phi factor", {"inner-phi", "residual"}},
    {"inner theta sign", {"inner-theta"}},
    {"inner theta factor", {"inner-theta"}},
    {"inner theta one element", {"inner-theta"}},
    {"inner theta adds", {"inner-theta", "value-consistent"}},
    {"inner both", {"value-consistent"}},
    {"value with derivative", {"value-consistent"}},
    {"outer phi sign", {"outer-phi", "nudged"}},
    {"outer phi factor", {"outer-phi", "nudged", "constants"}},
    {"outer theta missing", {"outer-theta"}},
    {"residual", {"residual"}},
    {"hessian factor", {"hessian-difference", "nudged"}},
    {"hessian not symmetric", {"hessian-difference", "hessian-symmetric", "nudged"}},
    {"transpose", {"hessian-symmetric", "nudged"}},
    {"nudge missing", {"nudged"}},
    {"nudge sign", {"nudged"}},
    {"nudge missing in cross", {"nudged"}},
    {"cross sign", {"cross-difference", "nudged"}},
    {"cross transposed", {"cross-difference", "nudged"}},
    {"cross transposed in one", {"cross-adjoint", "nudged"}},
    {"cross norm", {"cross-norm"}},
    {"dense", {"dense"}},
    {"dense shape", {"dense"}},
    {"diagonal", {"diagonal"}},
    {"mu", {"constants"}},
    {"smoothness", {"constants"}},
    {"hessian lipschitz", {"constants"}},
    {"sup of cross norm", {"constants"}},
    {"outer lipschitz", {"constants"}},
    {"outer smoothness", {"constants"}},
    {"outer cross lipschitz", {"constants"}},
    {"inner NaN", {"finite", "inner-phi", "inner-theta", "value-consistent"}},
    {"inner phi NaN", {"finite", "inner-phi", "residual", "value-consistent"}},
    {"outer infinite", {"finite", "outer-phi", "outer-theta", "value-consistent"}},
};

TYPED_TEST(CheckOf, PlantedMistakesAreFoundByName) {
  for (const Case& c : cases) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::string(c.mistake) + ", seed " + std::to_string(seed));
      Planted<TypeParam> problem(seed, c.mistake);
      const CheckReport report = check(problem, seed);
      Names found = failures(report);
      // A Hessian that is too large also exceeds its claimed bound on some draws.
      if (std::string(c.mistake).starts_with("hessian ") && !c.found_by.contains("constants"))
        found.erase("constants");
      EXPECT_EQ(found, c.found_by) << report.table();
      EXPECT_FALSE(report.passed());
    }
  }
}

TEST(Check, NotFiniteProductsAreFailuresWithASentence) {
  Planted<double> problem(1, "hessian NaN");
  const CheckReport report = check(problem, 1);
  ASSERT_NE(report.find("hessian-difference"), nullptr);
  EXPECT_FALSE(report.find("hessian-difference")->passed);
  EXPECT_NE(report.find("hessian-difference")->sentence.find("not finite"), std::string::npos)
      << report.table();
  EXPECT_TRUE(report.find("inner-phi")->passed);
}

TEST(Check, AProductThatAddsToItsOutputIsFound) {
  Planted<double> problem(1, "hessian adds");
  EXPECT_FALSE(check(problem, 1).find("hessian-difference")->passed);
}

TEST(Check, CurvatureThatIsPromisedAndRefusedIsAFailure) {
  Planted<double> problem(1, "refuses");
  const CheckReport report = check(problem, 1);
  EXPECT_EQ(failures(report), Names{"hessian-difference"});
  EXPECT_NE(report.find("hessian-difference")->sentence.find("no curvature today"), std::string::npos);
}

TEST(Check, AStationaryPointAndAZeroDerivativeAreNoDisagreement) {
  // At φ = θ = 0 both ∂φ L_in and ∂θ L_in are exactly zero and the values are pure rounding.
  Planted<double> problem(3);
  const CheckReport report = check_derivatives(problem, problem.initial_phi(), problem.initial_theta());
  EXPECT_TRUE(report.passed()) << report.table();
}

TEST(Check, ReportSaysWhatWasMeasured) {
  Planted<double> problem(1, "inner theta factor");
  const CheckReport report = check(problem, 1);
  const Finding* f = report.find("inner-theta");
  ASSERT_NE(f, nullptr);
  EXPECT_GT(f->error, 0.1);
  EXPECT_LT(f->error, 1.0);
  EXPECT_GT(f->step, 0);
  EXPECT_NEAR(f->tolerance, std::pow(2.0, -53 * 0.4), 1e-12);
  EXPECT_NE(f->sentence.find("claimed"), std::string::npos);
  EXPECT_NE(report.table().find("inner-theta        FAILED"), std::string::npos) << report.table();
  EXPECT_NE(report.table().find("1 of 16 checks failed"), std::string::npos) << report.table();
  EXPECT_EQ(report.find("no such check"), nullptr);
  EXPECT_FALSE(CheckReport{}.passed());
}

TEST(Check, SameSeedSameReport) {
  Planted<double> problem(4);
  EXPECT_EQ(check(problem, 9).table(), check(problem, 9).table());
}

TEST(Check, OptionsAreValidated) {
  const auto text = [](const CheckOptions& o) {
    const Violations v = o.validate();
    return v.empty() ? std::string() : v.texts().front();
  };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({.directions = 0}), "check.directions = 0 must be at least 1");
  EXPECT_EQ(text({.tolerance = -1}), "check.tolerance = -1 must be zero or more and finite");
  EXPECT_EQ(text({.beta = 0}), "check.beta = 0 must be finite and not zero");
  EXPECT_EQ(text({.radius = 0}), "check.radius = 0 must be positive and finite");
  EXPECT_EQ(text({.points = 0}), "check.points = 0 must be at least 1");
  Planted<double> problem(1);
  EXPECT_THROW(check_derivatives(problem, problem.initial_phi(), problem.initial_theta(), {.beta = 0}),
               InvalidInput);
  EXPECT_THROW(check_derivatives(problem, Eigen::VectorXd::Zero(2), problem.initial_theta()), InvalidInput);
}

/// A first-order problem: L_in = Σ ½φ_i² + ¼φ_i⁴ − φ_i sin θ_i, L_out = Σ ½(φ_i − θ_i)².
class Quartic final : public Problem<Eigen::VectorXd> {
 public:
  using V = Eigen::VectorXd;
  explicit Quartic(double factor = 1) : factor_(factor) {}
  V initial_phi() const override { return V::Constant(4, 0.5); }
  V initial_theta() const override { return V::Constant(4, 0.25); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    const auto p = phi.array();
    if (wanted.phi) *wanted.phi = p + p.cube() - theta.array().sin();
    if (wanted.theta) *wanted.theta = -factor_ * p * theta.array().cos();
    return (0.5 * p.square() + 0.25 * p.square().square() - p * theta.array().sin()).sum();
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    if (wanted.phi) *wanted.phi = phi - theta;
    if (wanted.theta) *wanted.theta = theta - phi;
    return 0.5 * (phi - theta).squaredNorm();
  }
  Capabilities capabilities() const override { return {.curvature = false}; }

 private:
  double factor_;
};

TEST(Check, WorksOnAnyVectorTypeAndOnFirstOrderProblems) {
  using conformance::BlockVector;
  Quartic original;
  conformance::Translated<BlockVector> problem(original);
  const CheckReport first = check_derivatives(problem, problem.initial_phi(), problem.initial_theta());
  EXPECT_TRUE(first.passed()) << first.table();
  EXPECT_EQ(first.find("hessian-difference"), nullptr);
  EXPECT_EQ(first.not_offered.size(), 9u);

  auto differenced = with_difference_products(problem);
  const CheckReport second = check_derivatives(differenced, problem.initial_phi(), problem.initial_theta());
  EXPECT_TRUE(second.passed()) << second.table();
  ASSERT_NE(second.find("nudged"), nullptr);

  // Differences of a wrong ∂θ are not the adjoint of differences of a right ∂φ.
  Quartic wrong_original(2);
  conformance::Translated<BlockVector> wrong(wrong_original);
  auto wrong_differenced = with_difference_products(wrong);
  EXPECT_EQ(failures(check_derivatives(wrong_differenced, wrong.initial_phi(), wrong.initial_theta())),
            (Names{"inner-theta", "cross-adjoint", "nudged"}));
}

/// √ and ln are not defined on the whole line: large steps leave the domain and are left out.
class OnHalfLine final : public Problem<Eigen::VectorXd> {
 public:
  using V = Eigen::VectorXd;
  V initial_phi() const override { return V::Constant(1, 0.01); }
  V initial_theta() const override { return V::Constant(1, 1.0); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    if (wanted.phi) (*wanted.phi)[0] = 1 - theta[0] / phi[0];
    if (wanted.theta) (*wanted.theta)[0] = -std::log(phi[0]);
    return phi[0] - theta[0] * std::log(phi[0]);
  }
  double outer(const V& phi, const V&, Wanted<V> wanted) override {
    if (wanted.phi) (*wanted.phi)[0] = 1;
    if (wanted.theta) (*wanted.theta)[0] = 0;
    return phi[0];
  }
  Capabilities capabilities() const override { return {.curvature = false}; }
};

TEST(Check, StepsThatLeaveTheDomainAreLeftOut) {
  OnHalfLine problem;
  const CheckReport report = check_derivatives(problem, problem.initial_phi(), problem.initial_theta());
  EXPECT_TRUE(report.passed()) << report.table();
}

/// What minimises nothing: residual = Aφ + φ³ − Bθ with a Jacobian that is not symmetric.
class Settling final : public Equilibrium<Eigen::VectorXd> {
 public:
  using V = Eigen::VectorXd;
  explicit Settling(bool wrong_transpose = false, double mu = unknown)
      : wrong_transpose_(wrong_transpose), mu_(mu) {
    a_ << 2, 1, -1, 3;
    b_ << 1, 0.5, -2, 1;
  }
  V initial_phi() const override { return V::Constant(2, 0.3); }
  V initial_theta() const override { return V::Constant(2, -0.7); }
  void residual(const V& phi, const V& theta, V& out) override {
    out = (a_ * phi - b_ * theta).array() + phi.array().cube();
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    if (wanted.phi) *wanted.phi = phi - theta;
    if (wanted.theta) *wanted.theta = theta - phi;
    return 0.5 * (phi - theta).squaredNorm();
  }
  void linearise(const V& phi, const V&, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Products>();
    auto& c = static_cast<Products&>(*reuse);
    c.j = a_;
    c.j.diagonal() += V(3 * phi.array().square() + beta);
    c.chi = -b_ - beta * Eigen::Matrix2d::Identity();
    c.wrong = wrong_transpose_;
  }
  Capabilities capabilities() const override { return {.symmetric = false}; }
  Constants constants(const V&, const V&, double) override {
    Constants c;
    c.mu = mu_;
    return c;
  }

 private:
  struct Products final : Curvature<V> {
    void times(const V& v, V& out) override { out = j * v; }
    void transpose_times(const V& v, V& out) override { out = wrong ? V(j * v) : V(j.transpose() * v); }
    void cross_times(const V& v, V& out) override { out = chi.transpose() * v; }
    void cross_apply(const V& u, V& out) override { out = chi * u; }
    Eigen::Matrix2d j, chi;
    bool wrong = false;
  };
  Eigen::Matrix2d a_, b_;
  bool wrong_transpose_;
  double mu_;
};

TEST(Check, AnEquilibriumWithoutSymmetryIsCheckedByItsTranspose) {
  Settling right;
  const CheckReport report = check_derivatives(right, right.initial_phi(), right.initial_theta());
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_EQ(report.find("inner-phi"), nullptr);
  EXPECT_EQ(report.find("residual"), nullptr);
  Settling wrong(true);
  EXPECT_EQ(failures(check_derivatives(wrong, wrong.initial_phi(), wrong.initial_theta())),
            (Names{"hessian-symmetric", "nudged"}));
  // The symmetric part of A is at least 2·I, and σ_min(J) ≥ λ_min of the symmetric part.
  Settling modest(false, 2.0), boastful(false, 4.0);
  EXPECT_TRUE(check_derivatives(modest, modest.initial_phi(), modest.initial_theta()).passed());
  EXPECT_EQ(failures(check_derivatives(boastful, boastful.initial_phi(), boastful.initial_theta())),
            Names{"constants"});
}

TEST(Ladder, FindsThePlateauOfSmoothFunctions) {
  const double u = 0x1p-53;
  const auto near = [&](auto f, double expected, double tolerance) {
    EXPECT_NEAR(differentiate_on_ladder(f, 1.0, u).value, expected, tolerance);
  };
  near([](double t) { return std::exp(t); }, 1, 1e-11);
  near([](double t) { return std::sin(50 * t); }, 50, 1e-7);
  near([](double t) { return 1e6 + std::sin(t); }, 1, 1e-6);
  near([](double) { return 3.0; }, 0, 0);
  EXPECT_TRUE(std::isnan(differentiate_on_ladder([](double) { return unknown; }, 1.0, u).value));
}

}  // namespace check_test
