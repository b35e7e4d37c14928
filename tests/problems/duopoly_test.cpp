#include <bilevel/problems/duopoly.hpp>

#include <problems/reference.hpp>

namespace duopoly_test {

using namespace reference;
using bilevel::problems::Duopoly;
using bilevel::problems::DuopolyOptions;

Vec one(double x) {
  return Vec::Constant(1, x);
}

DuopolyOptions market(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(0.1, 3);
  return {.demand = 5 + uniform(engine),
          .slope = uniform(engine),
          .leader_cost = uniform(engine),
          .follower_cost = uniform(engine)};
}

TEST(Duopoly, DerivativesPassTheCheck) {
  expect_derivatives([](std::uint64_t seed) { return std::make_unique<Duopoly>(market(seed)); });
}

TEST(Duopoly, AnswersAgreeWithDifferencesOfTheFollowersBestResponse) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const DuopolyOptions o = market(seed);
    const Duopoly problem(o);
    const Long a = o.demand, b = o.slope, leader = o.leader_cost, follower = o.follower_cost;
    // One step of Newton's method from φ = 0 is exact for the follower's quadratic loss.
    const auto respond = [&](Long t) { return (a - b * t - follower) / (2 * b); };
    const auto loss = [&](const LongVec& t) { return -t[0] * (a - b * (t[0] + respond(t[0])) - leader); };
    for (const double theta : {-1.0, 0.0, 0.5, 4.0}) {
      EXPECT_NEAR((*problem.settled(one(theta)))[0], static_cast<double>(respond(theta)), 1e-13);
      EXPECT_NEAR((*problem.outer_gradient(one(theta)))[0],
                  static_cast<double>(differentiate(loss, widen(one(theta)))[0]), 1e-12);
    }
    EXPECT_NEAR((*problem.outer_gradient(*problem.best_theta()))[0], 0, 1e-13);
  }
}

TEST(Duopoly, TextbookMarket) {
  // a = 10, b = 1, no costs: the leader sells half of the competitive quantity, the follower a quarter.
  const Duopoly problem({.demand = 10, .slope = 1, .leader_cost = 0, .follower_cost = 0});
  EXPECT_EQ((*problem.best_theta())[0], 5);
  EXPECT_EQ((*problem.settled(one(5)))[0], 2.5);
}

TEST(Duopoly, RoundingStaysWithinItsBounds) {
  RoundingTally tally;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    const DuopolyOptions o = market(seed);
    Duopoly problem(o);
    const Vec theta = random_vector(1, engine, random_scale(engine)),
              pi = random_vector(1, engine, random_scale(engine));
    const Vec phi = seed % 2 ? random_vector(1, engine, random_scale(engine)) : *problem.settled(theta);
    const Long p = phi[0], t = theta[0], q = pi[0];
    const Long a = o.demand, b = o.slope, leader = o.leader_cost, follower = o.follower_cost;
    tally.add(
        problem, phi, theta, pi,
        {LongVec::Constant(1, 2 * b * p + b * t - a + follower), LongVec::Constant(1, b * t - 2 * b * q),
         LongVec::Constant(1, 2 * b * t + b * p - a + leader - b * q)});
  }
  tally.print("duopoly");
}

TEST(Duopoly, OptionsAreValidated) {
  EXPECT_THROW(Duopoly({.demand = 0}), bilevel::InvalidInput);
  EXPECT_THROW(Duopoly({.slope = 0}), bilevel::InvalidInput);
  EXPECT_THROW(Duopoly({.leader_cost = -1}), bilevel::InvalidInput);
  EXPECT_THROW(Duopoly({.follower_cost = -1}), bilevel::InvalidInput);
}

}  // namespace duopoly_test
