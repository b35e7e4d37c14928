#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include <bilevel/outer/optimizer.hpp>

namespace bilevel {
namespace optimizer_test {

using Vec = Eigen::VectorXd;
using Function = std::function<double(const Vec&, Vec&)>;

/// Runs until the projected gradient is small; the last accepted point.
Vec minimise(Optimizer& optimizer, const Function& f, Vec theta, const Box& box, double tolerance, int limit,
             int* used = nullptr) {
  optimizer.begin(box);
  box.project(theta);
  Vec accepted = theta, gradient(theta.size());
  for (int i = 0; i < limit; ++i) {
    const Vec at = theta;
    const double value = f(at, gradient);
    const Move move = optimizer.advance(value, gradient, theta);
    if (used) *used = i + 1;
    if (move == Move::accepted) {
      accepted = at;
      if (box.projected_gradient_norm(at, gradient) <= tolerance) break;
    }
    if (move == Move::stuck) break;
  }
  return accepted;
}

double rosenbrock(const Vec& x, Vec& g) {
  const double a = 1 - x[0], b = x[1] - x[0] * x[0];
  g[0] = -2 * a - 400 * x[0] * b;
  g[1] = 200 * b;
  return a * a + 100 * b * b;
}

TEST(Optimizer, LbfgsSolvesRosenbrock) {
  const auto optimizer = make_lbfgs();
  int used = 0;
  const Vec x = minimise(*optimizer, rosenbrock, Eigen::Vector2d(-1.2, 1), {}, 1e-9, 200, &used);
  EXPECT_NEAR(x[0], 1, 1e-8);
  EXPECT_NEAR(x[1], 1, 1e-8);
  EXPECT_LE(used, 80);
}

TEST(Optimizer, LbfgsBeginsWithAStepOfTheLengthThatItIsGiven) {
  // A loss so flat that steps as long as its gradient lead nowhere.
  const Function flat = [](const Vec& x, Vec& g) {
    g = 1e-4 * (x.array() - 1);
    return 0.5e-4 * (x.array() - 1).square().sum();
  };
  const auto optimizer = make_lbfgs({.first_step = 0.1});
  optimizer->begin({});
  Vec theta = Vec::Zero(2), gradient(2);
  const double value = flat(theta, gradient);
  EXPECT_EQ(optimizer->advance(value, gradient, theta), Move::accepted);
  EXPECT_NEAR(theta.norm(), 0.1, 1e-15);
  int used = 0;
  const Vec x = minimise(*optimizer, flat, Vec::Zero(2), {}, 1e-12, 50, &used);
  EXPECT_NEAR((x.array() - 1).matrix().norm(), 0, 1e-8);
  EXPECT_LE(used, 4);
}

TEST(Optimizer, GradientDescentSearchesItsStep) {
  const Vec scales = Vec::LinSpaced(6, 0.1, 50);
  const Function f = [&](const Vec& x, Vec& g) {
    g = scales.cwiseProduct(x);
    return 0.5 * x.dot(g);
  };
  const auto optimizer = make_gradient_descent();
  EXPECT_LE(minimise(*optimizer, f, Vec::Ones(6), {}, 1e-10, 2000).norm(), 1e-8);
}

TEST(Optimizer, GradientDescentWithAFixedStepIsThePlainIteration) {
  const Function f = [](const Vec& x, Vec& g) {
    g = 2 * x;
    return x.squaredNorm();
  };
  const auto optimizer = make_gradient_descent({.step = 0.25});
  optimizer->begin({});
  Vec x = Vec::Ones(1), g(1);
  for (int i = 1; i <= 10; ++i) {
    const double value = f(x, g);
    EXPECT_EQ(optimizer->advance(value, g, x), Move::accepted);
    EXPECT_DOUBLE_EQ(x[0], std::pow(0.5, i));
  }
}

// min ½‖x − c‖² over a box is the projection of c, whichever optimiser finds it.
TEST(Optimizer, EveryOneStaysInTheBoxAndFindsItsOptimum) {
  const Vec c = Eigen::Vector4d(3, -2, 0.3, 0);
  const Box box{Vec::Constant(4, -1), Vec::Constant(4, 1)};
  const Function f = [&](const Vec& x, Vec& g) {
    EXPECT_LE(x.maxCoeff(), 1);
    EXPECT_GE(x.minCoeff(), -1);
    g = x - c;
    return 0.5 * g.squaredNorm();
  };
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = make_optimizer(name);
    const Vec x = minimise(*optimizer, f, Vec::Constant(4, 0.9), box, 1e-7, 5000);
    EXPECT_LE((x - Eigen::Vector4d(1, -1, 0.3, 0)).norm(), 1e-5) << name;
  }
}

TEST(Optimizer, LbfgsReleasesABoundThatIsNoLongerActive) {
  // Coupled quadratic whose path touches a bound that the optimum does not.
  Eigen::Matrix2d a;
  a << 10, 9, 9, 10;
  const Eigen::Vector2d best(0.5, -0.5);
  const Function f = [&](const Vec& x, Vec& g) {
    g = a * (x - best);
    return 0.5 * (x - best).dot(g);
  };
  const Box box{Vec::Constant(2, -1), Vec::Constant(2, 1)};
  const auto optimizer = make_lbfgs();
  EXPECT_LE((minimise(*optimizer, f, Eigen::Vector2d(1, 1), box, 1e-10, 100) - best).norm(), 1e-8);
}

TEST(Optimizer, AValueThatIsNotFiniteIsSteppedBackFrom) {
  const Function f = [](const Vec& x, Vec& g) {  // −log x + x, undefined for x ≤ 0
    g = Vec::Constant(1, x[0] > 0 ? 1 - 1 / x[0] : std::nan(""));
    return x[0] > 0 ? x[0] - std::log(x[0]) : std::nan("");
  };
  for (const char* name : {"gradient-descent", "lbfgs"}) {
    const auto optimizer = make_optimizer(name);
    EXPECT_NEAR(minimise(*optimizer, f, Vec::Constant(1, 8.0), {}, 1e-9, 300)[0], 1, 1e-7) << name;
  }
}

TEST(Optimizer, SaysStuckWhereNothingDecreases) {
  const Function f = [](const Vec& x, Vec& g) {  // a gradient of the wrong sign
    g = -x;
    return 0.5 * x.squaredNorm();
  };
  for (const char* name : {"gradient-descent", "lbfgs"}) {
    const auto optimizer = make_optimizer(name);
    optimizer->begin({});
    Vec x = Vec::Ones(3), g(3);
    Move move = Move::accepted;
    for (int i = 0; i < 500 && move != Move::stuck; ++i) {
      const double value = f(x, g);
      move = optimizer->advance(value, g, x);
    }
    EXPECT_EQ(move, Move::stuck) << name;
  }
}

TEST(Optimizer, StateRoundTripsBitForBit) {
  for (const std::string& name : optimizer_names()) {
    const auto one = make_optimizer(name), two = make_optimizer(name);
    one->begin({});
    two->begin({});
    Vec x = Eigen::Vector2d(-1.2, 1), g(2);
    for (int i = 0; i < 60; ++i) {
      two->load(one->save());
      Vec y = x;
      const double value = rosenbrock(x, g);
      EXPECT_EQ(one->advance(value, g, x), two->advance(value, g, y));
      EXPECT_EQ(x, y) << name << " at evaluation " << i;
    }
  }
}

TEST(Optimizer, BadOptionsAreNamed) {
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const InvalidInput& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([] { make_gradient_descent({.step = -1}); }).find("step = -1"), std::string::npos);
  EXPECT_NE(message([] { make_adam({.step = 0, .beta1 = 1}); }).find("beta1 = 1"), std::string::npos);
  EXPECT_NE(message([] { make_adam({.step = 0, .beta1 = 1}); }).find("step = 0"), std::string::npos);
  EXPECT_NE(message([] { make_lbfgs({.memory = 0}); }).find("memory = 0"), std::string::npos);
  EXPECT_NE(message([] { make_lbfgs({.first_step = -0.5}); }).find("first_step = -0.5"), std::string::npos);
  EXPECT_NE(message([] { make_optimizer("sgd"); }).find("lbfgs"), std::string::npos);
  EXPECT_FALSE((Box{Vec::Constant(2, 1), Vec::Constant(2, 0)}.validate(2).empty()));
  EXPECT_FALSE((Box{Vec::Constant(3, 1), {}}.validate(2).empty()));
}

}  // namespace optimizer_test
}  // namespace bilevel
