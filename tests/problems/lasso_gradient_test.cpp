// The outer gradient of lasso and elastic net, and what its certificates may claim.

#include <iostream>

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/implicit.hpp>

#include "lasso_cases.hpp"

namespace lasso_gradient_test {

using namespace lasso_cases;
using bilevel::Kind;

constexpr std::uint64_t seed = 20240612;

bilevel::Estimate<Vec> estimate(Lasso& problem, const Vec& theta, std::string_view adjoint,
                                double disturb = 0, double adjoint_tolerance = 1e-12) {
  SettlingSolver solver(problem);
  solver.disturb = disturb;
  bilevel::AdjointOptions options;
  options.relative_tolerance = adjoint_tolerance;
  bilevel::Implicit<Vec> implicit(problem, solver, bilevel::make_adjoint_solver<Vec>(adjoint, options));
  return implicit.estimate(theta, {});
}

Vec theta_for(const Case& c, double log_lambda, double log_lambda2) {
  Vec theta(c.penalties.thetas() + c.elastic);
  for (Index k = 0; k < c.penalties.count; ++k) theta[k] = log_lambda + 0.05 * static_cast<double>(k % 7);
  if (c.penalties.slope.size() > 0) theta[c.penalties.count] = 0.3;
  if (c.elastic) theta[c.penalties.thetas()] = log_lambda2;
  return theta;
}

TEST(LassoGradient, EqualsTheClosedFormOnOrthogonalDesigns) {
  std::cout << "seed " << seed << '\n';
  for (int which = 0; which < 16; ++which) {
    const Case c =
        orthogonal_case(seed + static_cast<std::uint64_t>(which), which & 1, which & 2, which & 4, which & 8);
    Lasso problem = c.make();
    for (const double log_lambda : {-2.0, -0.5, 0.5}) {
      const Vec theta = theta_for(c, log_lambda, -0.7);
      const ClosedForm truth(c, theta);
      for (const auto adjoint : {"direct", "cg", "cg-preconditioned"}) {
        const auto e = estimate(problem, theta, adjoint);
        EXPECT_EQ(e.status, bilevel::Status::converged) << e.message;
        EXPECT_LT((e.gradient - truth.gradient).norm(), 1e-8 * std::max(1.0, truth.gradient.norm()))
            << which << ' ' << adjoint;
        EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
        EXPECT_EQ(e.certificate.verdict, bilevel::Verdict::trusted);
        EXPECT_LE((e.gradient - truth.gradient).norm(), e.certificate.bound);
        EXPECT_LT(e.certificate.bound, 1e-8);
      }
    }
  }
}

/// Errors of many sizes in either phase; the bound holds, and is rigorous only where nothing can cross.
TEST(LassoGradient, RigorousBoundsHoldAndEndWhereACoordinateCanCross) {
  std::cout << "seed " << seed << '\n';
  int rigorous = 0, others = 0;
  double tightest = 1e300;
  for (int which = 0; which < 64; ++which) {
    const Case c = orthogonal_case(seed + 100 + static_cast<std::uint64_t>(which), which & 1, which & 2,
                                   which & 4, which & 8);
    Lasso problem = c.make();
    const Vec theta = theta_for(c, -0.5, -0.7);
    const ClosedForm truth(c, theta);
    for (double disturb = 1e-14; disturb < 10; disturb *= 10)
      for (const double adjoint : {1e-12, 1e-2}) {
        const auto e = estimate(problem, theta, "cg", disturb, adjoint);
        const double error = (e.gradient - truth.gradient).norm();
        if (e.certificate.kind == Kind::rigorous) {
          ++rigorous;
          EXPECT_LE(error, e.certificate.bound) << which << ' ' << disturb;
          if (error > 1e-12) tightest = std::min(tightest, e.certificate.bound / error);
          EXPECT_LE((e.phi - truth.phi).norm(), e.certificate.delta * (1 + 1e-9));
          for (Index j = 0; j < c.features(); ++j) EXPECT_EQ(e.phi[j] == 0, truth.phi[j] == 0);
        } else {
          ++others;
        }
      }
  }
  std::cout << rigorous << " rigorous, " << others << " others, bound/error at least " << tightest << '\n';
  EXPECT_GT(rigorous, 800);
  EXPECT_GT(others, 50);
}

TEST(LassoGradient, IsNotRigorousAtAKink) {
  const Case c = orthogonal_case(seed, false, true, false, true);
  Lasso problem = c.make();
  const Vec correlations = ClosedForm(c, Vec::Constant(9, -50.0)).phi;
  for (const double margin : {1e-9, -1e-9, 1e-7, -1e-7}) {
    Vec theta = Vec::Constant(9, -2.0);
    theta[4] = std::log(std::abs(correlations[4]) * (1 + margin));
    EXPECT_EQ(estimate(problem, theta, "direct").certificate.kind, Kind::rigorous) << margin;
    // An error of 1e-6 elsewhere may hide which side coordinate 4 is on.
    EXPECT_NE(estimate(problem, theta, "direct", 1e-6).certificate.kind, Kind::rigorous) << margin;
  }
  // A coefficient that is not zero and should be: the state is off the manifold.
  bilevel::Constants constants = problem.constants(Vec::Constant(9, 8.0), Vec::Constant(10, 1e-9), 1e-12);
  EXPECT_TRUE(std::isnan(constants.hessian_lipschitz));
  constants = problem.constants(Vec::Constant(9, 8.0), Vec::Zero(10), 1e-12);
  EXPECT_EQ(constants.hessian_lipschitz, 0);
}

/// Central differences of fourth order of the whole solve, where the support is the same at all of its
/// points.
TEST(LassoGradient, EqualsDifferencesOfTheWholeSolve) {
  std::cout << "seed " << seed << '\n';
  struct Shape {
    Index training, features;
    double density;
  };
  int compared = 0, unstable = 0;
  double worst = 0;
  for (const Shape shape :
       {Shape{80, 20, 1}, Shape{38, 300, 1}, Shape{60, 1300, 1}, Shape{150, 60, 0.2}, Shape{120, 1200, 0.05}})
    for (int which = 0; which < 6; ++which) {
      Case c = random_case(seed + static_cast<std::uint64_t>(which), shape.training, 40, shape.features,
                           shape.density);
      c.elastic = which & 1;
      if (which & 2) {
        std::mt19937_64 engine(seed);
        std::uniform_real_distribution<double> uniform(0.2, 2);
        c.weights = Vec::NullaryExpr(c.x.rows(), [&] { return uniform(engine); });
        std::vector<Index> group;
        for (Index j = 0; j < shape.features; ++j) group.push_back(j % 5);
        c.penalties = PenaltyMap::per_group(group, 5, 1);
        if (which == 3) c.standardisation = Standardisation::none(shape.features);
      }
      if (which & 4) {
        std::mt19937_64 engine(seed);
        std::normal_distribution<double> normal;
        c.penalties = PenaltyMap::global(shape.features, 1);
        c.penalties.offset = Vec::NullaryExpr(shape.features, [&] { return 0.3 * normal(engine); });
        c.penalties.slope = Vec::NullaryExpr(shape.features, [&] { return normal(engine); });
      }
      Lasso problem = c.make();
      const Vec theta = theta_for(c, std::log(0.15 * problem.lambda_max()), -3);
      const bool small = problem.initial_phi().size() <= 400;
      const auto e = estimate(problem, theta, small ? "direct" : "cg-preconditioned");
      const auto other = estimate(problem, theta, "cg");
      EXPECT_LT((e.gradient - other.gradient).norm(), 1e-8 * e.gradient.norm());
      EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
      EXPECT_EQ(e.certificate.verdict, bilevel::Verdict::trusted) << e.certificate.bound;
      for (Index k = 0; k < theta.size(); ++k) {
        const double h = 2e-4;
        bool stable = true;
        const auto value = [&](double step) {
          Vec moved = theta;
          moved[k] += step;
          const Vec phi = problem.settle(moved, e.phi, 1e-12).phi;
          for (Index j = 0; j < shape.features; ++j) stable = stable && (phi[j] != 0) == (e.phi[j] != 0);
          return problem.outer(phi, moved, {});
        };
        const double difference = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
        if (!stable) {
          ++unstable;
          continue;
        }
        ++compared;
        const double error = std::abs(difference - e.gradient[k]) / e.gradient.norm();
        worst = std::max(worst, error);
        EXPECT_LT(error, 1e-6) << shape.training << 'x' << shape.features << " case " << which << " theta "
                               << k;
      }
    }
  std::cout << compared << " components compared, worst " << worst << " relative; " << unstable
            << " left out, where the support changes\n";
  EXPECT_GT(compared, 40);
  EXPECT_LT(unstable, 15);
}

/// What is computed against long double, on data far from the origin where roundings are large.
TEST(LassoGradient, RoundingErrorsStayWithinTheirBounds) {
  std::cout << "seed " << seed << '\n';
  struct Shape {
    Index training, features;
    double density, shift;
  };
  double most = 0;
  for (const Shape shape : {Shape{80, 20, 1, 0}, Shape{80, 20, 1, 1e4}, Shape{400, 20, 0.3, 0},
                            Shape{40, 1250, 1, 0}, Shape{40, 1250, 1, 1e3}, Shape{60, 1250, 0.1, 0}})
    for (int which = 0; which < 4; ++which) {
      Case c = random_case(seed + static_cast<std::uint64_t>(which), shape.training, 30, shape.features,
                           shape.density);
      if (shape.shift > 0) c.x.array() += shape.shift;
      c.elastic = which & 1;
      c.intercept = which & 2;
      c.standardise();
      Lasso problem = c.make();
      const Vec theta = theta_for(c, std::log(0.15 * problem.lambda_max()), -3);
      const Vec phi = problem.settle(theta, problem.initial_phi(), 1e-5).phi;
      const Index size = phi.size();
      std::mt19937_64 engine(seed);
      std::normal_distribution<double> normal;
      const Vec pi = Vec::NullaryExpr(size, [&] { return normal(engine); });
      const bilevel::Rounding bounds = problem.rounding(phi, theta, pi);
      Vec residual(size), outer(size), product(size);
      problem.residual(phi, theta, residual);
      problem.outer(phi, theta, {.phi = &outer});
      std::unique_ptr<bilevel::Curvature<Vec>> curvature;
      problem.linearise(phi, theta, 0, curvature);
      curvature->times(pi, product);

      // H·π on the support is a difference of slopes, which are affine.
      Vec on_support = Vec::Zero(size);
      for (Index j = 0; j < size; ++j)
        if (j == c.features() || phi[j] != 0) on_support[j] = pi[j];
      const auto slopes = c.slopes(phi, 0, c.training), outer_slopes = c.slopes(phi, c.training, c.x.rows());
      const auto zero = c.slopes(Vec::Zero(size), 0, c.training), moved = c.slopes(on_support, 0, c.training);
      const Long l = std::exp(Long(theta[0])), l2 = c.elastic ? std::exp(Long(theta[1])) : 0;
      Long inner_error = 0, adjoint_error = 0;
      for (Index j = 0; j < size; ++j) {
        const bool feature = j < c.features();
        if (feature && phi[j] == 0) continue;
        const Long penalty = feature ? (phi[j] > 0 ? l : -l) + l2 * Long(phi[j]) : 0;
        inner_error += std::pow(slopes[j] + penalty - Long(residual[j]), 2);
        const Long true_product = moved[j] - zero[j] + (feature ? l2 * Long(pi[j]) : 0);
        adjoint_error += std::pow(outer_slopes[j] - true_product - (Long(outer[j]) - Long(product[j])), 2);
      }
      const double inner_ratio = static_cast<double>(std::sqrt(inner_error)) / bounds.residual;
      const double adjoint_ratio = static_cast<double>(std::sqrt(adjoint_error)) / bounds.adjoint;
      EXPECT_LT(inner_ratio, 1) << shape.training << 'x' << shape.features << " case " << which;
      EXPECT_LT(adjoint_ratio, 1) << shape.training << 'x' << shape.features << " case " << which;
      most = std::max({most, inner_ratio, adjoint_ratio});
      EXPECT_LT(bounds.residual, 1e-10 * (1 + shape.shift * shape.shift));
    }
  std::cout << "errors reach " << most << " of their bounds\n";
}

TEST(LassoGradient, CurvatureIsWhatItsPartsSay) {
  std::cout << "seed " << seed << '\n';
  for (const bool sparse : {false, true}) {
    Case c = random_case(seed, 60, 20, 30, sparse ? 0.3 : 1);
    c.elastic = true;
    Lasso problem = c.make();
    const Vec theta = theta_for(c, std::log(0.1 * problem.lambda_max()), -2);
    const Vec phi = problem.settle(theta, problem.initial_phi(), 1e-12).phi;
    std::unique_ptr<bilevel::Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    Mat dense;
    ASSERT_TRUE(curvature->dense(dense));
    // Differences of the residual: those of active rows by active columns, and the inactive diagonal.
    const double h = 1e-6;
    Vec up(31), down(31), v(31), out(31), diagonal(31);
    ASSERT_TRUE(curvature->diagonal(diagonal));
    EXPECT_LT((diagonal - dense.diagonal()).norm(), 1e-14);
    for (Index k = 0; k < 31; ++k) {
      Vec moved = phi;
      moved[k] += h;
      problem.residual(moved, theta, up);
      moved[k] -= 2 * h;
      problem.residual(moved, theta, down);
      const bool active = k == 30 || phi[k] != 0;
      for (Index j = 0; j < 31; ++j) {
        const bool row_active = j == 30 || phi[j] != 0;
        if (active != row_active) continue;
        EXPECT_NEAR(dense(j, k), (up[j] - down[j]) / (2 * h), 1e-7) << j << ' ' << k;
      }
      v = Vec::Unit(31, k);
      curvature->times(v, out);
      EXPECT_LT((out - dense.col(k)).norm(), 1e-14);
      Vec back(31);
      ASSERT_TRUE(curvature->precondition(out, back));
      EXPECT_LT((back - v).norm(), 1e-10);
    }
    const double least = Eigen::SelfAdjointEigenSolver<Mat>(dense).eigenvalues()[0];
    EXPECT_LE(curvature->least_eigenvalue(), least);
    EXPECT_GT(curvature->least_eigenvalue(), 0.5 * least);
    // χ against differences of the residual in θ, and its norm.
    Mat cross(31, theta.size());
    for (Index k = 0; k < theta.size(); ++k) {
      Vec moved = theta;
      moved[k] += h;
      problem.residual(phi, moved, up);
      moved[k] -= 2 * h;
      problem.residual(phi, moved, down);
      curvature->cross_apply(Vec::Unit(theta.size(), k), out);
      EXPECT_LT((out - (up - down) / (2 * h)).norm(), 1e-8);
      cross.col(k) = out;
    }
    Vec transposed(theta.size());
    v = Vec::LinSpaced(31, -1, 2);
    curvature->cross_times(v, transposed);
    EXPECT_LT((transposed - cross.transpose() * v).norm(), 1e-13);
    EXPECT_GE(curvature->cross_norm(), cross.jacobiSvd().singularValues()[0]);
    // With a nudge the validation rows curve it too: products against differences of the nudged residual.
    problem.linearise(phi, theta, 1e-3, curvature);
    for (Index k = 0; k < 31; ++k) {
      if (k < 30 && phi[k] == 0) continue;
      Vec g_up(31), g_down(31), moved = phi;
      moved[k] += h;
      problem.residual(moved, theta, up);
      problem.outer(moved, theta, {.phi = &g_up});
      moved[k] -= 2 * h;
      problem.residual(moved, theta, down);
      problem.outer(moved, theta, {.phi = &g_down});
      curvature->times(Vec::Unit(31, k), out);
      EXPECT_NEAR(out[k], (up[k] + 1e-3 * g_up[k] - down[k] - 1e-3 * g_down[k]) / (2 * h), 1e-7);
    }
  }
}

}  // namespace lasso_gradient_test
