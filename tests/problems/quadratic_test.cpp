#include <bilevel/problems/quadratic.hpp>

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

#include <problems/reference.hpp>

namespace quadratic_test {

using namespace reference;
using bilevel::problems::Quadratic;
using bilevel::problems::QuadraticOptions;

/// A quadratic problem of which the test knows every matrix.
struct Known {
  explicit Known(std::uint64_t seed, Index n = 5, Index m = 3) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    const auto gaussian = [&](Index rows, Index cols) {
      return Mat(Mat::NullaryExpr(rows, cols, [&] { return normal(engine); }));
    };
    const Mat a = gaussian(n, n), c = gaussian(n, n);
    h = a * a.transpose() + 0.1 * Mat::Identity(n, n);
    h = Mat(0.5 * (h + h.transpose()));
    g = c * c.transpose();
    g = Mat(0.5 * (g + g.transpose()));
    j = gaussian(n, m);
    b = gaussian(n, 1);
    y = gaussian(n, 1);
  }
  Quadratic problem() const { return Quadratic(h, j, b, g, y); }
  LongVec settle(const LongVec& theta) const { return widen(h).ldlt().solve(widen(j) * theta + widen(b)); }
  Long value(const LongVec& theta) const {
    const LongVec d = settle(theta) - widen(y);
    return d.dot(widen(g) * d) / 2;
  }
  Mat h, j, g;
  Vec b, y;
};

TEST(Quadratic, DerivativesPassTheCheck) {
  expect_derivatives([](std::uint64_t seed) {
    return std::make_unique<Quadratic>(
        Quadratic::random({.phi = 2 + static_cast<Index>(seed), .theta = 4, .seed = seed}));
  });
}

TEST(Quadratic, AnswersAgreeWithDifferencesOfTheWholeSolve) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Known known(seed);
    const Quadratic problem = known.problem();
    std::mt19937_64 engine(seed + 100);
    const Vec theta = random_vector(3, engine);
    const LongVec settled = known.settle(widen(theta));
    EXPECT_LE(static_cast<double>((widen(*problem.settled(theta)) - settled).norm()),
              1e-11 * static_cast<double>(settled.norm()));
    const LongVec gradient = differentiate([&](const LongVec& t) { return known.value(t); }, widen(theta));
    EXPECT_LE(static_cast<double>((widen(*problem.outer_gradient(theta)) - gradient).norm()),
              1e-10 * static_cast<double>(gradient.norm()));
    const auto best = problem.best_theta();
    ASSERT_TRUE(best);
    EXPECT_LE(problem.outer_gradient(*best)->norm(), 1e-9 * problem.outer_gradient(theta)->norm());
  }
}

TEST(Quadratic, ConstantsAreThoseOfTheMatrices) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Known known(seed);
    Quadratic problem = known.problem();
    const auto c = problem.constants(Vec::Zero(3), Vec::Zero(5), 2);
    const LongVec eigenvalues = Eigen::SelfAdjointEigenSolver<LongMat>(widen(known.h)).eigenvalues();
    EXPECT_LE(c.mu, eigenvalues[0]);
    EXPECT_GE(c.mu, eigenvalues[0] * (1 - 1e-9L));
    EXPECT_GE(c.smoothness, eigenvalues[4]);
    EXPECT_GE(c.cross_norm, Eigen::JacobiSVD<LongMat>(widen(known.j)).singularValues()[0]);
    std::mt19937_64 engine(seed);
    for (int i = 0; i < 200; ++i) {
      Vec phi = random_vector(5, engine), g(5);
      phi *= 2 / phi.norm();
      problem.outer(phi, Vec::Zero(3), {.phi = &g});
      EXPECT_LE(g.norm(), c.outer_lipschitz);
    }
  }
}

TEST(Quadratic, RoundingStaysWithinItsBounds) {
  RoundingTally tally;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    const Index n = 1 + static_cast<Index>(seed % 12), m = 1 + static_cast<Index>(seed % 7);
    const Known known(seed, n, m);
    Quadratic problem = known.problem();
    const Vec theta = random_vector(m, engine, random_scale(engine));
    // Every other draw at the settled state, where the residual is nothing but rounding.
    const Vec phi = seed % 2 ? random_vector(n, engine, random_scale(engine)) : *problem.settled(theta);
    const Vec pi = random_vector(n, engine, random_scale(engine));
    const LongVec p = widen(phi), q = widen(pi);
    tally.add(problem, phi, theta, pi,
              {widen(known.h) * p - widen(known.j) * widen(theta) - widen(known.b),
               widen(known.g) * (p - widen(known.y)) - widen(known.h) * q, widen(known.j).transpose() * q});
  }
  tally.print("quadratic");
}

TEST(Quadratic, OptionsAndSizesAreValidated) {
  EXPECT_THROW(Quadratic::random({.phi = 0}), bilevel::InvalidInput);
  EXPECT_THROW(Quadratic::random({.theta = 0}), bilevel::InvalidInput);
  EXPECT_THROW(Quadratic::random({.condition = 0.5}), bilevel::InvalidInput);
  const Known k(1);
  EXPECT_THROW(Quadratic(k.h, k.j, k.b.head(2), k.g, k.y), bilevel::InvalidInput);
  EXPECT_THROW(Quadratic(-k.h, k.j, k.b, k.g, k.y), bilevel::InvalidInput);
}

}  // namespace quadratic_test
