#include <bilevel/problem/adapter.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bilevel/problem/check.hpp>
#include <bilevel/problem/functions.hpp>
#include <bilevel/space/eigen.hpp>

namespace adapter_test {

using namespace bilevel;
using Vec = Eigen::VectorXd;

/// L_in = ½‖φ‖² − Σ φ_i sin θ_i, L_out = ½‖φ − θ‖²: first derivatives only.
struct FirstOrder {
  Vec initial_phi() const { return Vec::Zero(2); }
  Vec initial_theta() const { return Vec::Constant(2, 0.5); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    ++calls;
    if (wanted.phi) *wanted.phi = phi.array() - theta.array().sin();
    if (wanted.theta) *wanted.theta = -phi.array() * theta.array().cos();
    return 0.5 * phi.squaredNorm() - phi.dot(Vec(theta.array().sin()));
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = phi - theta;
    if (wanted.theta) *wanted.theta = theta - phi;
    return 0.5 * (phi - theta).squaredNorm();
  }
  int calls = 0;
};

struct SecondOrder : FirstOrder {
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) { out = (1 + beta) * v; }
  void cross_times(const Vec&, const Vec& theta, double beta, const Vec& v, Vec& out) {
    out = -(theta.array().cos() + beta) * v.array();
  }
  void cross_apply(const Vec& phi, const Vec& theta, double beta, const Vec& u, Vec& out) {
    cross_times(phi, theta, beta, u, out);
  }
};

struct Everything : SecondOrder {
  void residual(const Vec& phi, const Vec& theta, Vec& out) { out = phi.array() - theta.array().sin(); }
  void dense(const Vec&, const Vec&, double beta, Eigen::MatrixXd& out) {
    out = (1 + beta) * Eigen::MatrixXd::Identity(2, 2);
  }
  double cross_norm(const Vec&, const Vec&, double beta) { return 1 + std::abs(beta); }
  Constants constants(const Vec&, const Vec&, double) {
    Constants c;
    c.mu = c.smoothness = c.cross_norm = 1;
    return c;
  }
  Rounding rounding(const Vec&, const Vec&, const Vec&) {
    return {.residual = 1e-15, .adjoint = 2e-15, .gradient = 0};
  }
};

struct Settling {
  Vec initial_phi() const { return Vec::Constant(2, 0.1); }
  Vec initial_theta() const { return Vec::Constant(2, 0.5); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) {
    out << 2 * phi[0] + phi[1] - theta[0], -phi[0] + 3 * phi[1] - theta[1];
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = phi;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * phi.squaredNorm();
  }
};

struct SettlingWithProducts : Settling {
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) {
    out << (2 + beta) * v[0] + v[1], -v[0] + (3 + beta) * v[1];
  }
  void hessian_transpose_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) {
    out << (2 + beta) * v[0] - v[1], v[0] + (3 + beta) * v[1];
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) { out = -v; }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) { out = -u; }
};

static_assert(Oracles<FirstOrder, Vec> && Oracles<FirstOrder&, Vec> && Oracles<Functions<Vec>, Vec>);
static_assert(!Oracles<Settling, Vec> && ResidualOracles<Settling, Vec> &&
              ResidualOracles<ResidualFunctions<Vec>, Vec>);
static_assert(!ResidualOracles<Everything, Vec>);
static_assert(!OffersSecondOrder<FirstOrder, Vec> && OffersSecondOrder<SecondOrder, Vec>);

template <class P>
CheckReport check(P& problem) {
  return check_derivatives(problem, Vec{{0.3, -0.8}}, Vec{{0.4, 1.1}});
}

TEST(Adapter, APlainStructIsAFirstOrderProblem) {
  auto problem = make_problem(FirstOrder{});
  static_assert(std::is_base_of_v<Problem<Vec>, decltype(problem)>);
  EXPECT_FALSE(problem.capabilities().curvature);
  const CheckReport report = check(problem);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_EQ(report.find("hessian-difference"), nullptr);
  std::unique_ptr<Curvature<Vec>> curvature;
  EXPECT_THROW(problem.linearise(problem.initial_phi(), problem.initial_theta(), 0, curvature), InvalidInput);
  EXPECT_TRUE(std::isnan(problem.constants(problem.initial_theta(), problem.initial_phi(), 1).mu));
}

TEST(Adapter, SecondOrderMembersAreUsed) {
  auto problem = make_problem(SecondOrder{});
  EXPECT_TRUE(problem.capabilities().curvature);
  const CheckReport report = check(problem);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_NE(report.find("nudged"), nullptr);
  EXPECT_EQ(report.not_offered,
            (std::vector<std::string_view>{"cross-norm", "dense", "diagonal", "constants"}));
}

TEST(Adapter, OptionalMembersAreForwarded) {
  auto problem = make_problem(Everything{});
  const CheckReport report = check(problem);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_EQ(report.not_offered, (std::vector<std::string_view>{"diagonal"}));
  const Vec x = Vec::Ones(2);
  EXPECT_EQ(problem.rounding(x, x, x).adjoint, 2e-15);
  EXPECT_EQ(problem.constants(x, x, 1).mu, 1);
  Vec r(2);
  const int calls = problem.oracles().calls;
  problem.residual(x, x, r);
  EXPECT_EQ(problem.oracles().calls, calls) << "the struct's own residual is used, not its inner";
}

TEST(Adapter, OwnsAValueAndRefersToAReference) {
  FirstOrder plain;
  auto owning = make_problem(plain);
  auto referring = make_problem(std::ref(plain));
  static_assert(std::is_same_v<decltype(referring), Adapter<FirstOrder&, Vec>>);
  const Vec x = Vec::Ones(2);
  owning.inner(x, x, {});
  EXPECT_EQ(plain.calls, 0);
  referring.inner(x, x, {});
  EXPECT_EQ(plain.calls, 1);
}

TEST(Adapter, AReusedCurvatureMovesToTheNewPoint) {
  auto problem = make_problem(SecondOrder{});
  std::unique_ptr<Curvature<Vec>> curvature;
  const Vec phi = Vec::Zero(2), one = Vec::Ones(2);
  Vec out(2);
  problem.linearise(phi, Vec::Zero(2), 0, curvature);
  curvature->cross_apply(one, out);
  EXPECT_DOUBLE_EQ(out[0], -1);
  const Curvature<Vec>* before = curvature.get();
  problem.linearise(phi, Vec::Constant(2, 1.0), 2, curvature);
  EXPECT_EQ(curvature.get(), before);
  curvature->cross_apply(one, out);
  EXPECT_DOUBLE_EQ(out[0], -std::cos(1.0) - 2);
  curvature->transpose_times(one, out);
  EXPECT_DOUBLE_EQ(out[0], 3);
}

/// Products that depend on a number of its own.
struct Scaled : SecondOrder {
  double factor = 1;
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) { out = factor * v; }
};

double first_of_product(Curvature<Vec>& curvature) {
  Vec out(2);
  curvature.times(Vec::Ones(2), out);
  return out[0];
}

TEST(Adapter, CurvaturesOutliveTheMoveOfTheirAdapter) {
  const Vec x = Vec::Ones(2);
  std::unique_ptr<Curvature<Vec>> curvature;
  auto first = std::make_optional(make_problem(Scaled{}));
  first->oracles().factor = 3;
  first->linearise(x, x, 0, curvature);
  auto second = std::move(*first);
  first.reset();
  EXPECT_EQ(first_of_product(*curvature), 3);
  second.oracles().factor = 4;
  EXPECT_EQ(first_of_product(*curvature), 4) << "the same oracles, in the same place";
  const Curvature<Vec>* const before = curvature.get();
  second.linearise(x, x, 0, curvature);
  EXPECT_EQ(curvature.get(), before);
  EXPECT_EQ(first_of_product(*curvature), 4);
  std::vector<decltype(second)> many;
  many.push_back(std::move(second));
  for (int i = 0; i < 10; ++i) many.push_back(make_problem(Scaled{}));  // moves them about
  EXPECT_EQ(first_of_product(*curvature), 4);
  EXPECT_EQ(many.front().oracles().factor, 4);
}

TEST(Adapter, ACopyHasOraclesOfItsOwn) {
  const Vec x = Vec::Ones(2);
  std::unique_ptr<Curvature<Vec>> of_first, of_copy;
  auto first = make_problem(Scaled{});
  first.oracles().factor = 3;
  first.linearise(x, x, 0, of_first);
  auto copy = first;
  copy.oracles().factor = 5;
  copy.linearise(x, x, 0, of_copy);
  EXPECT_EQ(first_of_product(*of_first), 3);
  EXPECT_EQ(first_of_product(*of_copy), 5);
  // A curvature that is handed to another adapter becomes that one's.
  copy.linearise(x, x, 0, of_first);
  EXPECT_EQ(first_of_product(*of_first), 5);
  copy = first;
  EXPECT_EQ(copy.oracles().factor, 3);
  EXPECT_NE(&copy.oracles(), &first.oracles());
  EXPECT_EQ(first_of_product(*of_copy), 5) << "of the oracles that prepared it, which it keeps alive";

  Scaled plain;
  auto referring = make_problem(std::ref(plain));
  auto again = referring;
  EXPECT_EQ(&again.oracles(), &plain);
}

struct OnlyMoved : SecondOrder {
  std::unique_ptr<int> own = std::make_unique<int>(7);
};

TEST(Adapter, IsCopiedOnlyWhereItsStructIs) {
  using Moved = decltype(make_problem(OnlyMoved{}));
  static_assert(std::is_move_constructible_v<Moved> && std::is_move_assignable_v<Moved>);
  static_assert(!std::is_copy_constructible_v<Moved> && !std::is_copy_assignable_v<Moved>);
  static_assert(std::is_copy_constructible_v<decltype(make_problem(Settling{}))>);
  auto problem = make_problem(OnlyMoved{});
  auto moved = std::move(problem);
  EXPECT_EQ(*moved.oracles().own, 7);
}

TEST(Adapter, ACopyOfWhatWasMovedFromIsMovedFrom) {
  auto first = make_problem(Settling{});
  auto second = std::move(first);
  auto third = first;  // nothing to copy
  third = second;      // alive again
  second = first;      // and the other way round
  EXPECT_EQ(third.initial_theta().size(), third.oracles().initial_theta().size());
}

TEST(Adapter, AResidualMakesAnEquilibrium) {
  auto first = make_problem(Settling{});
  static_assert(std::is_base_of_v<Equilibrium<Vec>, decltype(first)>);
  static_assert(!std::is_base_of_v<Problem<Vec>, decltype(first)>);
  EXPECT_FALSE(first.capabilities().curvature);
  EXPECT_TRUE(check(first).passed());
  auto second = make_problem(SettlingWithProducts{});
  EXPECT_FALSE(second.capabilities().symmetric);
  const CheckReport report = check(second);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_NE(report.find("hessian-symmetric"), nullptr);
}

Functions<Vec> lambdas() {
  return {.initial_phi = [] { return Vec::Zero(2); },
          .initial_theta = [] { return Vec::Zero(2); },
          .inner = [o = FirstOrder()](const Vec& p, const Vec& t,
                                      Wanted<Vec> w) mutable { return o.inner(p, t, w); },
          .outer = [o = FirstOrder()](const Vec& p, const Vec& t,
                                      Wanted<Vec> w) mutable { return o.outer(p, t, w); }};
}

TEST(Functions, ThreeLambdasAndAStartAreAProblem) {
  auto problem = make_problem(lambdas());
  EXPECT_FALSE(problem.capabilities().curvature);
  const CheckReport report = check(problem);
  EXPECT_TRUE(report.passed()) << report.table();
  std::unique_ptr<Curvature<Vec>> curvature;
  EXPECT_THROW(problem.linearise(problem.initial_phi(), problem.initial_theta(), 0, curvature), InvalidInput);
  EXPECT_TRUE(std::isnan(problem.constants(problem.initial_theta(), problem.initial_phi(), 1).mu));
  EXPECT_TRUE(std::isnan(
      problem.rounding(problem.initial_phi(), problem.initial_theta(), problem.initial_phi()).residual));
}

TEST(Functions, OptionalLambdasAreDetectedAtRunTime) {
  Functions<Vec> f = lambdas();
  f.hessian_times = [](const Vec&, const Vec&, double beta, const Vec& v, Vec& out) { out = (1 + beta) * v; };
  f.cross_times = f.cross_apply = [](const Vec&, const Vec& theta, double beta, const Vec& v, Vec& out) {
    out = -(theta.array().cos() + beta) * v.array();
  };
  auto problem = make_problem(f);
  EXPECT_TRUE(problem.capabilities().curvature);
  CheckReport report = check(problem);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_EQ(report.find("dense"), nullptr);

  f.dense = [](const Vec&, const Vec&, double beta, Eigen::MatrixXd& out) {
    out = (1 + beta) * Eigen::MatrixXd::Identity(2, 2);
  };
  f.cross_norm = [](const Vec&, const Vec&, double) { return 1.0; };
  f.constants = [](const Vec&, const Vec&, double) { return Constants{.mu = 1}; };
  f.rounding = [](const Vec&, const Vec&, const Vec&) { return Rounding{.residual = 3}; };
  auto whole = make_problem(f);
  report = check(whole);
  EXPECT_TRUE(report.passed()) << report.table();
  EXPECT_NE(report.find("dense"), nullptr);
  EXPECT_NE(report.find("constants"), nullptr);
  EXPECT_EQ(whole.rounding(Vec::Zero(2), Vec::Zero(2), Vec::Zero(2)).residual, 3);
}

std::string refusal(const auto& functions) {
  try {
    make_problem(functions);
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Functions, EmptyRequiredFieldsAreNamed) {
  Functions<Vec> f = lambdas();
  f.inner = nullptr;
  EXPECT_EQ(refusal(f), "functions.inner = (empty) must be set");
  f.initial_theta = nullptr;
  EXPECT_NE(refusal(f).find("functions.initial_theta"), std::string::npos);
  EXPECT_NE(refusal(f).find("functions.inner"), std::string::npos);
  f = lambdas();
  f.cross_apply = [](const Vec&, const Vec&, double, const Vec&, Vec&) {};
  EXPECT_NE(refusal(f).find("functions.hessian_times = (empty) must be set"), std::string::npos)
      << refusal(f);
  EXPECT_NE(refusal(f).find("functions.cross_times"), std::string::npos);
}

TEST(Functions, ResidualLambdasAreAnEquilibrium) {
  ResidualFunctions<Vec> f{
      .initial_phi = [] { return Vec::Zero(2); },
      .initial_theta = [] { return Vec::Zero(2); },
      .residual = [o = Settling()](const Vec& p, const Vec& t, Vec& out) mutable { o.residual(p, t, out); },
      .outer = [o = Settling()](const Vec& p, const Vec& t,
                                Wanted<Vec> w) mutable { return o.outer(p, t, w); }};
  auto problem = make_problem(f);
  EXPECT_FALSE(problem.capabilities().curvature);
  EXPECT_TRUE(check(problem).passed());
  f.residual = nullptr;
  EXPECT_EQ(refusal(f), "functions.residual = (empty) must be set");
}

}  // namespace adapter_test
