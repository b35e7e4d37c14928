// Where the outer loss has kinks: zero in the hull of the gradients around θ, found or refused.

#include <bilevel/outer/impl/kink.hpp>

#include <cmath>
#include <filesystem>
#include <functional>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include <bilevel/gradient/forwarding.hpp>
#include <bilevel/outer/solve.hpp>

namespace bilevel {
namespace kink_test {

using Vec = Eigen::VectorXd;

// v is the least of a convex set exactly where every generator g has g·v ≥ ‖v‖², and every wall w·v ≥ 0.
TEST(LeastInHull, SatisfiesTheConditionsOfItsOptimum) {
  const unsigned seed = 5;
  std::mt19937 draw(seed);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 400; ++round) {
    const Index n = 1 + static_cast<Index>(draw() % 8);
    const auto count = 1 + draw() % 12;
    const Vec shift = Vec::NullaryExpr(n, [&] { return 0.5 * normal(draw); });
    std::vector<Vec> gradients;
    for (unsigned k = 0; k < count; ++k)
      gradients.push_back(shift + Vec::NullaryExpr(n, [&] { return normal(draw); }));
    Box box;
    Vec theta = Vec::Zero(n);
    if (round % 2) {
      box = {Vec::Constant(n, -1), Vec::Constant(n, 1)};
      for (Index i = 0; i < n; ++i) theta[i] = static_cast<double>(draw() % 3) - 1;
    }
    const HullPoint point = least_in_hull(gradients, box, theta);
    ASSERT_NEAR(point.weights.sum(), 1, 1e-12) << "seed " << seed << ", round " << round;
    EXPECT_GE(point.weights.minCoeff(), 0);
    const Vec& v = point.direction;
    const double slack = 1e-9;
    for (const Vec& g : gradients) {
      // A wall takes up what pushes through it: only the rest of g counts where v rests on the wall.
      EXPECT_GE(g.dot(v), v.squaredNorm() - slack) << "seed " << seed << ", round " << round;
    }
    for (Index i = 0; i < n; ++i) {
      if (box.lower.size() && theta[i] == -1) {
        EXPECT_LE(v[i], slack);
      }
      if (box.upper.size() && theta[i] == 1) {
        EXPECT_GE(v[i], -slack);
      }
    }
  }
}

/// A loss given as such, with its gradient; φ plays no part.
class Given final : public Estimator<Vec> {
 public:
  using Loss = std::function<double(const Vec& theta, Vec& gradient)>;
  Given(Vec start, Loss loss, std::function<bool(const Vec&)> doubtful = {})
      : start_(std::move(start)), loss_(std::move(loss)), doubtful_(std::move(doubtful)) {}
  std::string_view name() const override { return "given"; }
  Estimate<Vec> estimate(const Vec& theta, const Warm<Vec>&) override {
    Estimate<Vec> e;
    e.gradient.resize(theta.size());
    e.outer_value = e.corrected_value = loss_(theta, e.gradient);
    e.phi = e.pi = Vec::Zero(1);
    e.status = Status::converged;
    e.certificate.kind = Kind::rigorous;
    e.certificate.bound = doubtful_ && doubtful_(theta) ? everywhere : 1e-12;
    return e;
  }
  Vec initial_phi() const override { return Vec::Zero(1); }
  Vec initial_theta() const override { return start_; }

 private:
  Vec start_;
  Loss loss_;
  std::function<bool(const Vec&)> doubtful_;
};

Summary minimise(Given& given, const SolveOptions& options = {}) {
  const auto optimizer = make_lbfgs();
  return solve<Vec>(given, *optimizer, given.initial_theta(), options);
}

/// Two kinks and a parabola; least at (0.3, −0.1, 1).
double ridges(const Vec& t, Vec& g) {
  g[0] = t[0] > 0.3 ? 1 : -1;
  g[1] = t[1] > -0.1 ? 2 : -2;
  g[2] = 2 * (t[2] - 1);
  return std::abs(t[0] - 0.3) + 2 * std::abs(t[1] + 0.1) + (t[2] - 1) * (t[2] - 1);
}

TEST(Kink, TheMinimumOnARidgeIsFoundAndCertified) {
  Given given(Vec::Zero(3), ridges);
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary s = minimise(given, options);
  ASSERT_EQ(s.status, Status::converged) << s.message;
  EXPECT_TRUE(s.at_kink) << s.message;
  EXPECT_LE(s.gradient_norm, 1e-6);
  EXPECT_EQ(s.certificate.verdict, Verdict::trusted);
  EXPECT_EQ(s.certificate.kind, Kind::rigorous);
  EXPECT_NEAR(s.theta[0], 0.3, 1e-4);
  EXPECT_NEAR(s.theta[1], -0.1, 1e-4);
  EXPECT_NEAR(s.theta[2], 1, 1e-4);
}

TEST(Kink, AMaximumOfSmoothFunctionsToo) {
  // max of three paraboloids whose minimum is where all three meet.
  std::vector<Vec> centres{Vec::Zero(2), Vec::Zero(2), Vec::Zero(2)};
  for (int k = 0; k < 3; ++k)
    centres[static_cast<std::size_t>(k)] << std::cos(2.0944 * k), std::sin(2.0944 * k);
  Given given(Vec::Constant(2, 1.7), [&](const Vec& t, Vec& g) {
    double most = -everywhere;
    for (const Vec& c : centres)
      if (const double value = (t - c).squaredNorm(); value > most) {
        most = value;
        g = 2 * (t - c);
      }
    return most;
  });
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary s = minimise(given, options);
  ASSERT_EQ(s.status, Status::converged) << s.message;
  EXPECT_TRUE(s.at_kink);
  EXPECT_LE(s.theta.norm(), 1e-4) << s.message;
}

TEST(Kink, WithinBounds) {
  // The ridge in the first coordinate, pushed against bounds in the others.
  Given given(Vec::Zero(3), ridges);
  SolveOptions options;
  options.max_iterations = 2000;
  options.box = {Vec::Constant(3, 0), Vec::Constant(3, 0.5)};
  const Summary s = minimise(given, options);
  ASSERT_EQ(s.status, Status::converged) << s.message;
  EXPECT_NEAR(s.theta[0], 0.3, 1e-4);
  EXPECT_EQ(s.theta[1], 0);
  EXPECT_EQ(s.theta[2], 0.5);
}

TEST(Kink, GradientsThatAreNotTrustedProveNothing) {
  Given given(Vec::Zero(3), ridges, [](const Vec& t) { return std::abs(t[0] - 0.3) < 0.1; });
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary s = minimise(given, options);
  EXPECT_NE(s.status, Status::converged) << s.message;
  EXPECT_FALSE(s.at_kink);
}

TEST(Kink, RightAtTheKinkNoGradientIsTrustedBesideItEachIs) {
  Given given(Vec::Zero(3), ridges,
              [](const Vec& t) { return std::abs(t[0] - 0.3) < 1e-9 || std::abs(t[1] + 0.1) < 1e-9; });
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary s = minimise(given, options);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_EQ(s.certificate.verdict, Verdict::trusted);
}

TEST(Kink, AGradientThatIsWrongIsNoKink) {
  // The values say that the way down is the other one: nothing combines to zero.
  Given given(Vec::Zero(2), [](const Vec& t, Vec& g) {
    g = Vec::Constant(2, 1);
    return -t.sum();
  });
  SolveOptions options;
  options.box = {Vec::Constant(2, -1), Vec::Constant(2, 1)};
  const Summary s = minimise(given, options);
  EXPECT_EQ(s.status, Status::stalled) << s.message;
  EXPECT_FALSE(s.at_kink);
  EXPECT_NE(s.message.find("kink"), std::string::npos) << s.message;
}

TEST(Kink, ErrorsOfGradientsThatCancelMustBeSmallBesideTheSum) {
  // Each gradient is right to a tenth of its norm, but along the ridge that is all there is.
  class Rough final : public Forwarding<Vec> {
   public:
    using Forwarding::Forwarding;
    Estimate<Vec> estimate(const Vec& theta, const Warm<Vec>& warm) override {
      Estimate<Vec> e = Forwarding::estimate(theta, warm);
      e.gradient[1] -= 0.09;
      e.certificate.bound = 0.09;
      return e;
    }
  };
  Rough rough(std::make_unique<Given>(Vec::Ones(2), [](const Vec& t, Vec& g) {
    g[0] = t[0] > 0 ? 1 : -1;
    g[1] = t[1];
    return std::abs(t[0]) + 0.5 * t[1] * t[1];
  }));
  const auto optimizer = make_lbfgs();
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary s = solve<Vec>(rough, *optimizer, rough.initial_theta(), options);
  EXPECT_NE(s.status, Status::converged) << s.message;
}

TEST(Kink, SlopesOfVeryDifferentSizesCombineToo) {
  // Up to 10⁷: beyond, the rounding of the steep ones is no longer small beside the flat one.
  for (const double steep : {1e2, 1e3})
    for (const double flat : {1e-4, 1e-3, 1e-2}) {
      Given given(Vec::Ones(2), [&](const Vec& t, Vec& g) {
        g[0] = t[0] > 0.2 ? steep : -steep;
        g[1] = t[1] > 0.9 ? flat : -flat;
        return steep * std::abs(t[0] - 0.2) + flat * std::abs(t[1] - 0.9);
      });
      SolveOptions options;
      options.max_iterations = 5000;
      const Summary s = minimise(given, options);
      EXPECT_EQ(s.status, Status::converged) << steep << ", " << flat << ": " << s.message;
    }
}

TEST(Kink, ASmoothMinimumIsNoKink) {
  Given given(Vec::Zero(2), [](const Vec& t, Vec& g) {
    g = 2 * (t.array() - 0.5).matrix();
    return (t.array() - 0.5).square().sum();
  });
  const Summary s = minimise(given);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_FALSE(s.at_kink);
}

TEST(Kink, ASearchThatIsInterruptedAtEveryPointEndsWithTheSameBits) {
  Given given(Vec::Zero(3), ridges);
  SolveOptions options;
  options.max_iterations = 2000;
  const Summary whole = minimise(given, options);
  ASSERT_TRUE(whole.at_kink) << whole.message;

  options.checkpoint =
      (std::filesystem::temp_directory_path() / fmt::format("bilevel_kink_{}.ckpt", ::getpid())).string();
  options.callback = [](const HistoryEntry&) { return false; };
  Summary pieces = minimise(given, options);
  options.resume = true;
  for (int k = 0; k < 5000 && pieces.status == Status::interrupted; ++k) pieces = minimise(given, options);
  EXPECT_EQ(pieces.status, Status::converged) << pieces.message;
  EXPECT_EQ(pieces.theta, whole.theta);
  EXPECT_EQ(pieces.evaluations, whole.evaluations);
  EXPECT_EQ(pieces.message, whole.message);
  std::filesystem::remove(options.checkpoint);
}

}  // namespace kink_test
}  // namespace bilevel
