#include <bilevel/problems/pitchfork.hpp>

#include <problems/reference.hpp>

namespace pitchfork_test {

using namespace reference;
using bilevel::problems::Pitchfork;

Vec one(double x) {
  return Vec::Constant(1, x);
}

/// Newton's method on 4φ³ − 2θφ = 0 in long double, from above, where it converges.
Long settle(Long theta, Long start = 4) {
  Long p = start;
  for (int i = 0; i < 200; ++i) p -= (4 * p * p * p - 2 * theta * p) / (12 * p * p - 2 * theta);
  return p;
}

TEST(Pitchfork, DerivativesPassTheCheck) {
  expect_derivatives([](std::uint64_t seed) {
    return std::make_unique<Pitchfork>(
        bilevel::problems::PitchforkOptions{.target = 0.1 * static_cast<double>(seed)});
  });
}

TEST(Pitchfork, AnswersAgreeWithNewtonsMethod) {
  for (const double y : {0.3, 1.0, 2.5}) {
    const Pitchfork problem({.target = y});
    for (const double theta : {0.05, 0.5, 1.0, 2.0, 7.0}) {
      const Long p = settle(theta);
      EXPECT_NEAR((*problem.settled(one(theta)))[0], static_cast<double>(p),
                  1e-15 * static_cast<double>(p) * 4);
      const LongVec gradient = differentiate(
          [&](const LongVec& t) {
            const Long d = settle(t[0]) - static_cast<Long>(y);
            return d * d / 2;
          },
          widen(one(theta)));
      EXPECT_NEAR((*problem.outer_gradient(one(theta)))[0], static_cast<double>(gradient[0]), 1e-10);
    }
    EXPECT_EQ((*problem.settled(one(-1)))[0], 0);
    EXPECT_EQ((*problem.settled(one(0)))[0], 0);
    EXPECT_EQ((*problem.outer_gradient(one(-1)))[0], 0);
    EXPECT_FALSE(problem.outer_gradient(one(0))) << "the Hessian is singular there";
    const Vec best = *problem.best_theta();
    EXPECT_DOUBLE_EQ(best[0], 2 * y * y);
    EXPECT_NEAR((*problem.outer_gradient(best))[0], 0, 1e-15);
  }
}

TEST(Pitchfork, StartsOnThePositiveBranch) {
  Pitchfork problem;
  EXPECT_EQ(problem.initial_phi()[0], 1);
  EXPECT_EQ(problem.initial_theta()[0], 1);
  Vec r(1);
  problem.residual(*problem.settled(one(1)), one(1), r);
  EXPECT_NEAR(r[0], 0, 1e-15);
}

TEST(Pitchfork, ConstantsHoldOnTheBall) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Pitchfork problem;
  int with_mu = 0;
  for (int ball = 0; ball < 300; ++ball) {
    const double center = 2 * uniform(engine), radius = 0.5 + 0.5 * uniform(engine),
                 theta = 3 * uniform(engine);
    const auto c = problem.constants(one(theta), one(center), radius);
    double least = bilevel::everywhere, most = 0;
    for (int i = 0; i <= 400; ++i) {
      const double p = center + radius * (i / 200.0 - 1), h = 12 * p * p - 2 * theta;
      least = std::min(least, h);
      most = std::max(most, std::abs(h));
      EXPECT_LE(24 * std::abs(p), c.hessian_lipschitz);
      EXPECT_LE(2 * std::abs(p), c.cross_norm);
      EXPECT_LE(std::abs(p - 1), c.outer_lipschitz);
    }
    EXPECT_LE(most, c.smoothness);
    EXPECT_GE(1.02 * most + 1e-3, c.smoothness) << "not a needlessly large bound";
    EXPECT_EQ(c.cross_lipschitz, 2);
    EXPECT_EQ(c.outer_smoothness, 1);
    EXPECT_EQ(c.outer_cross_lipschitz, 0);
    if (std::isnan(c.mu)) {
      EXPECT_LE(least, 0.1) << "mu is withheld only where the Hessian is not positive (on the grid: hardly)";
    } else {
      ++with_mu;
      EXPECT_GT(c.mu, 0);
      EXPECT_LE(c.mu, least);
    }
  }
  EXPECT_GT(with_mu, 50);
  // θ < 0: strongly convex everywhere; otherwise nothing of the second order holds on the whole line.
  EXPECT_NEAR(problem.constants(one(-1), one(0), bilevel::everywhere).mu, 2, 1e-12);
  const auto whole = problem.constants(one(1), one(1), bilevel::everywhere);
  EXPECT_TRUE(std::isnan(whole.mu) && std::isnan(whole.smoothness) && std::isnan(whole.hessian_lipschitz));
}

TEST(Pitchfork, RoundingStaysWithinItsBounds) {
  RoundingTally tally;
  Pitchfork problem({.target = 0.7});
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    const Vec theta = random_vector(1, engine, random_scale(engine)),
              pi = random_vector(1, engine, random_scale(engine));
    const Vec phi = seed % 2 ? random_vector(1, engine, random_scale(engine)) : *problem.settled(theta);
    const Long p = phi[0], t = theta[0], q = pi[0], y = 0.7;
    tally.add(problem, phi, theta, pi,
              {LongVec::Constant(1, 4 * p * p * p - 2 * t * p),
               LongVec::Constant(1, p - y - q * (12 * p * p - 2 * t)), LongVec::Constant(1, 2 * p * q)});
  }
  tally.print("pitchfork");
}

TEST(Pitchfork, OptionsAreValidated) {
  EXPECT_THROW(Pitchfork({.target = 0}), bilevel::InvalidInput);
}

}  // namespace pitchfork_test
