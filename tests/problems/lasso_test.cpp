// Lasso and elastic net settle: closed forms, optimality conditions in extended precision, real data.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <zlib.h>

#include <bilevel/outcome/violations.hpp>

#include "lasso_cases.hpp"

namespace lasso_test {

using namespace lasso_cases;

constexpr std::uint64_t seed = 20240611;

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Lasso, OrthogonalDesignsHaveSoftThresholds) {
  std::cout << "seed " << seed << '\n';
  int zeros = 0, others = 0;
  for (int which = 0; which < 16; ++which) {
    const bool elastic = which & 1, intercept = which & 2, standardised = which & 4, per_feature = which & 8;
    const Case c = orthogonal_case(seed + static_cast<std::uint64_t>(which), elastic, intercept, standardised,
                                   per_feature);
    Lasso problem = c.make();
    for (const double log_lambda : {-3.0, -1.0, 0.0, 1.0}) {
      Vec theta = problem.initial_theta();
      for (Index k = 0; k < c.penalties.count; ++k) theta[k] = log_lambda + 0.1 * static_cast<double>(k);
      if (elastic) theta[c.penalties.count] = -0.5;
      const Lasso::Settled s = problem.settle(theta, problem.initial_phi(), 1e-12);
      const ClosedForm truth(c, theta);
      EXPECT_TRUE(s.converged) << s.message;
      EXPECT_LT((s.phi - truth.phi).lpNorm<Eigen::Infinity>(), 1e-10) << which << ' ' << log_lambda;
      for (Index j = 0; j < c.features(); ++j) {
        EXPECT_EQ(s.phi[j] == 0, truth.phi[j] == 0);
        ++(s.phi[j] == 0 ? zeros : others);
      }
      EXPECT_LT(s.duality_gap, 1e-10);
    }
  }
  EXPECT_GT(zeros, 100);
  EXPECT_GT(others, 100);
}

TEST(Lasso, EveryCoefficientIsZeroFromLambdaMaxOn) {
  for (const bool intercept : {true, false}) {
    Case c = random_case(seed, 50, 10, 20, 1);
    c.intercept = intercept;
    Lasso problem = c.make();
    const auto at = [&](double factor) {
      const Vec theta = Vec::Constant(1, std::log(factor * problem.lambda_max()));
      return problem.settle(theta, problem.initial_phi(), 1e-12).phi.head(20).cwiseAbs().maxCoeff();
    };
    EXPECT_EQ(at(1.000001), 0);
    EXPECT_GT(at(0.999), 0);
  }
}

/// One design after another; the conditions are checked by code that shares nothing with the library.
TEST(Lasso, OptimalityConditionsHoldInExtendedPrecision) {
  std::cout << "seed " << seed << '\n';
  struct Shape {
    Index training, features;
    double density;
  };
  for (const Shape shape : {Shape{120, 30, 1}, Shape{38, 500, 1}, Shape{60, 1400, 1}, Shape{150, 200, 0.1},
                            Shape{120, 1300, 0.05}})
    for (int which = 0; which < 4; ++which) {
      Case c = random_case(seed + static_cast<std::uint64_t>(which), shape.training, 10, shape.features,
                           shape.density);
      c.elastic = which & 1;
      if (which == 1) c.standardisation = Standardisation::none(shape.features);
      std::mt19937_64 engine(seed);
      if (which & 2) {
        std::uniform_real_distribution<double> uniform(0, 2);
        c.weights = Vec::NullaryExpr(c.x.rows(), [&] { return uniform(engine); });
        c.offsets = Vec::NullaryExpr(c.x.rows(), [&] { return uniform(engine); });
        c.weights[3] = 0;
        c.standardise();
        c.penalties = PenaltyMap::per_feature(shape.features, 1);
        c.intercept = which == 2;
      }
      Lasso problem = c.make();
      Vec warm = problem.initial_phi();
      for (const double share : {0.5, 0.1, 0.02}) {
        Vec theta = problem.initial_theta();
        for (Index k = 0; k < c.penalties.count; ++k)
          theta[k] = std::log(share * problem.lambda_max()) + 0.3 * std::sin(static_cast<double>(k));
        if (c.elastic) theta[c.penalties.count] = -4;
        const Lasso::Settled s = problem.settle(theta, warm, 1e-11);
        EXPECT_TRUE(s.converged) << s.message;
        EXPECT_LT(c.violation(s.phi, theta), 2e-11)
            << shape.training << 'x' << shape.features << " case " << which << " share " << share;
        EXPECT_LT(s.duality_gap, 1e-8 * (1 + std::abs(s.value)));
        // The residual says the same, and every start leads to the same state.
        Vec residual = Vec::Zero(s.phi.size());
        problem.residual(s.phi, theta, residual);
        EXPECT_NEAR(residual.norm(), s.kkt, 1e-12 * s.kkt);
        std::normal_distribution<double> normal;
        for (const double noise : {1e-3, 1.0}) {
          const Vec anywhere = s.phi + Vec::NullaryExpr(s.phi.size(), [&] { return noise * normal(engine); });
          const Lasso::Settled again = problem.settle(theta, anywhere, 1e-11);
          EXPECT_TRUE(again.converged) << again.message;
          EXPECT_LT((again.phi - s.phi).lpNorm<Eigen::Infinity>(),
                    1e-7 * (1 + s.phi.lpNorm<Eigen::Infinity>()));
        }
        warm = s.phi;
      }
    }
}

TEST(Lasso, SilentAndRepeatedColumnsDoNotStopIt) {
  Case c = random_case(seed, 60, 10, 12, 1);
  c.x.col(3).setConstant(5);
  c.x.col(7) = c.x.col(0);
  c.standardise();
  c.standardisation.inverse_scale[3] = 0;  // its mean may be off in the last digit: that is no spread
  Lasso problem = c.make();
  const Vec theta = Vec::Constant(1, std::log(0.05 * problem.lambda_max()));
  const Vec everywhere = Vec::Ones(13);
  const Lasso::Settled s = problem.settle(theta, everywhere, 1e-11);
  EXPECT_TRUE(s.converged) << s.message;
  EXPECT_EQ(s.phi[3], 0);
  EXPECT_LT(c.violation(s.phi, theta), 1e-11);
  // The twin column may enter at no cost.
  const Lasso::Support support = problem.support(s.phi, theta);
  EXPECT_TRUE(support.degenerate);
  EXPECT_FALSE(support.warning.empty());
}

TEST(Lasso, WarnsOfADegenerateSupport) {
  const Case c = orthogonal_case(seed, false, true, false, true);
  Lasso problem = c.make();
  const Vec correlations = ClosedForm(c, Vec::Constant(9, -50.0)).phi;
  Vec theta = Vec::Constant(9, std::log(0.05));
  const auto support = [&] {
    return problem.support(problem.settle(theta, problem.initial_phi(), 1e-13).phi, theta);
  };
  Lasso::Support s = support();
  EXPECT_FALSE(s.degenerate) << s.warning;
  theta[2] = std::log(std::abs(correlations[2]) * (1 + 1e-8));
  s = support();
  EXPECT_TRUE(s.degenerate);
  EXPECT_EQ(s.weakest_inactive, 2);
  EXPECT_NEAR(s.least_slack, 1e-8, 1e-11);
  theta[2] = std::log(std::abs(correlations[2]) * (1 - 1e-8));
  s = support();
  EXPECT_TRUE(s.degenerate);
  EXPECT_EQ(s.weakest_active, 2);
  theta[2] = std::log(std::abs(correlations[2]) * (1 - 1e-3));
  EXPECT_FALSE(support().degenerate);
}

TEST(Lasso, RefusesWhatDoesNotFit) {
  const Case c = random_case(seed, 20, 5, 4, 1);
  Lasso problem = c.make();
  EXPECT_THROW(problem.settle(Vec::Zero(2), Vec::Zero(5), 1e-8), bilevel::InvalidInput);
  EXPECT_THROW(problem.settle(Vec::Zero(1), Vec::Zero(4), 1e-8), bilevel::InvalidInput);
  EXPECT_THROW(problem.settle(Vec::Zero(1), Vec::Zero(5), 0), bilevel::InvalidInput);
  EXPECT_THROW(problem.settle(Vec::Zero(1), Vec::Constant(5, NAN), 1e-8), bilevel::InvalidInput);
  Case wrong = c;
  wrong.penalties = PenaltyMap::global(3, 1);
  EXPECT_THROW(wrong.make(), bilevel::InvalidInput);
  wrong = c;
  wrong.standardisation = Standardisation::none(3);
  EXPECT_THROW(wrong.make(), bilevel::InvalidInput);
}

TEST(Lasso, DoesNotDependOnTheNumberOfThreads) {
  namespace kernels = bilevel::problems::kernels;
  const int before = kernels::threads();
  std::vector<Vec> answers;
  for (const int threads : {1, 2, 3}) {
    kernels::set_threads(threads);
    for (const double density : {1.0, 0.05}) {
      const Case c = random_case(seed, 200, 10, 1500, density);
      Lasso problem = c.make();
      answers.push_back(
          problem
              .settle(Vec::Constant(1, std::log(0.05 * problem.lambda_max())), problem.initial_phi(), 1e-10)
              .phi);
    }
  }
  kernels::set_threads(before);
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_EQ(answers[0], answers[4]);
  EXPECT_EQ(answers[1], answers[3]);
  EXPECT_EQ(answers[1], answers[5]);
}

TEST(Lasso, SettlesOnLeukemiaInWellUnderASecond) {
  const char* folder = std::getenv("BILEVEL_DATA");
  const std::string path =
      std::string(folder ? folder : BILEVEL_DATA_DEFAULT) + "/leukemia/leukemia.train.svm.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  Case c;
  c.x = Mat::Zero(38, 7129);
  c.y = Vec::Zero(38);
  gzFile file = gzopen(path.c_str(), "rb");
  std::vector<char> line(1 << 20);
  for (Index i = 0; i < 38; ++i) {
    ASSERT_NE(gzgets(file, line.data(), static_cast<int>(line.size())), nullptr);
    char* at = line.data();
    c.y[i] = std::strtod(at, &at);
    while (*at == ' ') {
      const long j = std::strtol(at, &at, 10);
      if (*at != ':') break;
      c.x(i, j - 1) = std::strtod(at + 1, &at);
    }
  }
  gzclose(file);
  c.penalties = PenaltyMap::global(7129, 1);
  for (const Index training : {37, 30}) {
    c.training = training;
    c.standardise();
    for (const bool elastic : {false, true}) {
      c.elastic = elastic;
      Lasso problem = c.make();
      for (const double share : {0.5, 0.1, 0.01}) {
        Vec theta = Vec::Constant(1 + elastic, std::log(share * problem.lambda_max()));
        if (elastic) theta[1] = -3;
        Lasso fresh = c.make();
        Lasso::Settled s;
        const double seconds = seconds_of([&] { s = fresh.settle(theta, fresh.initial_phi(), 1e-11); });
        EXPECT_TRUE(s.converged) << s.message;
        EXPECT_LT(c.violation(s.phi, theta), 2e-11);
        std::cout << (elastic ? "elastic net" : "lasso") << ", " << c.training << " rows, " << share
                  << " of lambda_max: " << seconds << " s, " << (s.phi.head(7129).array() != 0).count()
                  << " coefficients, " << s.message << '\n';
        EXPECT_LT(seconds, 2);
      }
    }
  }
}

}  // namespace lasso_test
