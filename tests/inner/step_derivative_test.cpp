// Derivatives of single steps against differences of the step itself, and the two directions against each
// other; and the schedule by which states are computed again.

#include <functional>
#include <map>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/inner/adam.hpp>
#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/heavy_ball.hpp>
#include <bilevel/inner/impl/revolve.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/nesterov.hpp>
#include <bilevel/inner/newton.hpp>
#include <bilevel/inner/recorded_run.hpp>
#include <conformance/block_vector.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace step_derivative_test {

using conformance::BlockVector;

template <Vector V>
std::map<std::string, std::function<std::unique_ptr<Step<V>>()>> plain_steps() {
  return {
      {"gradient-descent",
       [] { return std::make_unique<GradientDescent<V>>(GradientDescentOptions{.step = 0.3}); }},
      {"heavy-ball",
       [] { return std::make_unique<HeavyBall<V>>(HeavyBallOptions{.step = 0.3, .momentum = 0.7}); }},
      {"nesterov",
       [] { return std::make_unique<Nesterov<V>>(NesterovOptions{.step = 0.3, .momentum = 0.7}); }},
      {"adam",
       [] {
         return std::make_unique<Adam<V>>(
             AdamOptions{.step = 0.1, .first_decay = 0.8, .second_decay = 0.7, .floor = 1e-4});
       }},
  };
}

/// A step in the middle of a run: random φ, memory and gradient.
template <Vector V>
class StepDerivative : public ::testing::Test {
 public:
  static constexpr Index size = 7;
  static constexpr bool single = sizeof(typename Space<V>::Scalar) == 4;

  V random(std::uint64_t seed, double least = -1e300) {
    V x = conformance::shaped<V>(size);
    Space<V>::random(seed, x);
    std::vector<double> host(size);
    Space<V>::to_host(x, host.data());
    for (double& each : host) each = least >= 0 ? least + std::abs(each) : each;
    Space<V>::from_host(host.data(), x);
    return x;
  }
  std::vector<double> diagonal;
  inner_tests::Made<V> problem =
      inner_tests::bowl<V>(conformance::shaped<V>(size), conformance::shaped<V>(1), 10, diagonal);
  Nudged<V> nudged{problem};

  State<V> middle(Step<V>& step, std::uint64_t seed) {
    State<V> state(conformance::shaped<V>(size));
    nudged.set(problem.initial_theta(), 0);
    step.check(nudged, state);
    step.begin(nudged, state);
    Space<V>::copy(random(seed), state.phi);
    Space<V>::copy(random(seed + 1), state.gradient);
    // The moments of Adam are positive; v̂ lies on either side of what it is compared with.
    for (std::size_t i = 0; i < step.footprint().memory; ++i)
      Space<V>::copy(random(seed + 2 + i, step.name() == "adam" && i > 0 ? 0.1 : -1), state.memory[i]);
    state.iteration = 4;
    state.evaluated = true;
    return state;
  }
  static void fill(std::uint64_t seed, Motion<V>& motion) {
    Space<V>::random(seed, motion.phi);
    for (V& each : motion.memory) Space<V>::random(++seed, each);
  }
  static double dot(const Motion<V>& a, const Motion<V>& b) {
    double sum = Space<V>::dot(a.phi, b.phi);
    for (std::size_t i = 0; i < a.memory.size(); ++i) sum += Space<V>::dot(a.memory[i], b.memory[i]);
    return sum;
  }
};
using VectorTypes = ::testing::Types<Eigen::VectorXd, Eigen::VectorXf, BlockVector>;
TYPED_TEST_SUITE(StepDerivative, VectorTypes);

TYPED_TEST(StepDerivative, PullbackAndPushforwardAreTransposes) {
  using V = TypeParam;
  for (const auto& [name, make] : plain_steps<V>())
    for (std::uint64_t seed = 10; seed < 400; seed += 10) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
      const auto step = make();
      State<V> state = this->middle(*step, seed);
      if (!step->linear()) step->differentiate(state);
      const std::size_t memory = step->footprint().memory;
      Motion<V> tangent(state.phi, memory), cotangent(state.phi, memory), before(state.phi, memory),
          after(state.phi, memory);
      this->fill(seed + 1000, tangent);
      this->fill(seed + 2000, cotangent);
      this->fill(seed + 1000, before);
      this->fill(seed + 2000, after);
      V gradient_tangent = this->random(seed + 3000), gradient_cotangent = conformance::shaped<V>(this->size);
      step->pushforward(gradient_tangent, tangent);
      step->pullback(cotangent, gradient_cotangent);
      const double forward = this->dot(tangent, after);
      const double backward =
          this->dot(before, cotangent) + Space<V>::dot(gradient_tangent, gradient_cotangent);
      const double scale =
          norm(tangent.phi) * norm(after.phi) + norm(gradient_tangent) * norm(gradient_cotangent);
      EXPECT_NEAR(forward, backward, (this->single ? 1e-4 : 1e-13) * scale);
    }
}

// Differences in float would show nothing.
template <Vector V>
class StepDifference : public StepDerivative<V> {};
using DoubleTypes = ::testing::Types<Eigen::VectorXd, BlockVector>;
TYPED_TEST_SUITE(StepDifference, DoubleTypes);

TYPED_TEST(StepDifference, PushforwardIsTheDifferenceOfTheStep) {
  using V = TypeParam;
  const double h = 1e-3;
  for (const auto& [name, make] : plain_steps<V>())
    for (std::uint64_t seed = 10; seed < 400; seed += 10) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
      const auto step = make();
      State<V> state = this->middle(*step, seed);
      if (!step->linear()) step->differentiate(state);
      const std::size_t memory = step->footprint().memory;
      Motion<V> tangent(state.phi, memory), direction(state.phi, memory), expected(state.phi, memory);
      this->fill(seed + 1000, tangent);
      this->fill(seed + 1000, direction);
      const V gradient_direction = this->random(seed + 3000);
      step->pushforward(gradient_direction, tangent);
      for (const auto& [distance, weight] :
           {std::pair{1, 0.75}, {-1, -0.75}, {2, -0.15}, {-2, 0.15}, {3, 1.0 / 60}, {-3, -1.0 / 60}}) {
        const auto moved_step = make();
        State<V> moved = this->middle(*moved_step, seed);
        Space<V>::axpy(distance * h, direction.phi, moved.phi);
        Space<V>::axpy(distance * h, gradient_direction, moved.gradient);
        for (std::size_t i = 0; i < memory; ++i)
          Space<V>::axpy(distance * h, direction.memory[i], moved.memory[i]);
        ASSERT_FALSE(moved_step->advance(this->nudged, moved));
        Space<V>::axpy(weight / h, moved.phi, expected.phi);
        for (std::size_t i = 0; i < memory; ++i)
          Space<V>::axpy(weight / h, moved.memory[i], expected.memory[i]);
      }
      Space<V>::axpy(-1, tangent.phi, expected.phi);
      EXPECT_LE(norm(expected.phi), 1e-9 * norm(tangent.phi));
      for (std::size_t i = 0; i < memory; ++i) {
        Space<V>::axpy(-1, tangent.memory[i], expected.memory[i]);
        EXPECT_LE(norm(expected.memory[i]), 1e-9 * norm(tangent.memory[i])) << "memory " << i;
      }
    }
}

// Where v̂ and what it is compared with are equal, v̂ is taken to have stayed: nothing flows to v.
TEST(AdamDerivative, ATieBelongsToTheOldMaximum) {
  using V = Eigen::VectorXd;
  auto problem = inner_tests::flat_quartic(1);
  Nudged<V> nudged(problem);
  Adam<V> adam({.second_decay = 0.5});
  // From v = 0 and g, v′/(1 − ½) = g² = 1. Next to it, one unit in the last place below and above.
  for (const auto& [largest, grew] : {std::pair{1.0, false}, {1 - 0x1p-53, true}, {1 + 0x1p-52, false}}) {
    SCOPED_TRACE(largest);
    State<V> state(V::Zero(1));
    adam.begin(nudged, state);
    state.gradient[0] = 1;
    state.memory[2][0] = largest;
    adam.differentiate(state);
    Motion<V> cotangent(state.phi, 3);
    cotangent.memory[2][0] = 3;
    V gradient = V::Zero(1);
    adam.pullback(cotangent, gradient);
    EXPECT_EQ(cotangent.memory[2][0], grew ? 0 : 3);
    EXPECT_EQ(cotangent.memory[1][0], grew ? 3 : 0);  // b₂·c·3 with b₂ = ½, c = 2
    EXPECT_EQ(gradient[0], grew ? 6 : 0);             // 2(1 − b₂)·g·c·3
  }
}

TEST(StepDerivatives, StepsThatSearchHaveNone) {
  using V = Eigen::VectorXd;
  Lbfgs<V> lbfgs;
  Newton<V> newton;
  V gradient = V::Zero(2);
  Motion<V> motion(gradient, 0);
  for (Step<V>* step : {static_cast<Step<V>*>(&lbfgs), static_cast<Step<V>*>(&newton)}) {
    EXPECT_FALSE(step->differentiable());
    EXPECT_THROW(step->pullback(motion, gradient), InvalidInput);
    EXPECT_THROW(step->pushforward(gradient, motion), InvalidInput);
  }
}

/// The least number of forward steps to reverse `length` steps with `snapshots` states, the first among them.
long least_steps(long length, long snapshots, std::map<std::pair<long, long>, long>& known) {
  if (length == 1) return 0;
  if (snapshots == 1) return length * (length - 1) / 2;
  const auto [entry, fresh] = known.try_emplace({length, snapshots}, 0);
  if (!fresh) return entry->second;
  long best = std::numeric_limits<long>::max();
  for (long m = 1; m < length; ++m)
    best =
        std::min(best, m + least_steps(length - m, snapshots - 1, known) + least_steps(m, snapshots, known));
  return known[{length, snapshots}] = best;
}

long steps_by_splitting(long length, long snapshots) {
  if (length == 1) return 0;
  if (snapshots == 1) return length * (length - 1) / 2;
  const long m = Revolve(length, snapshots).split();
  EXPECT_GE(m, 1);
  EXPECT_LT(m, length);
  return m + steps_by_splitting(length - m, snapshots - 1) + steps_by_splitting(m, snapshots);
}

TEST(Revolve, TakesAsFewStepsAsDynamicProgrammingFindsPossible) {
  std::map<std::pair<long, long>, long> known;
  for (long snapshots = 1; snapshots <= 12; ++snapshots)
    for (long length = 1; length <= 120; ++length) {
      SCOPED_TRACE(::testing::Message() << length << " steps, " << snapshots << " snapshots");
      const long least = least_steps(length, snapshots, known);
      EXPECT_EQ(Revolve(length, snapshots).forward_steps(), least);
      EXPECT_EQ(steps_by_splitting(length, snapshots), least);
    }
}

TEST(Revolve, ReachesBinomialLengths) {
  EXPECT_EQ(Revolve(1, 5).repetitions(), 0);
  EXPECT_EQ(Revolve(6, 5).repetitions(), 1);  // C(6, 5)
  EXPECT_EQ(Revolve(7, 5).repetitions(), 2);
  EXPECT_EQ(Revolve(56, 5).repetitions(), 3);  // C(8, 5)
  EXPECT_EQ(Revolve(57, 5).repetitions(), 4);
  EXPECT_EQ(Revolve(1000000000, 40).repetitions(), 9);  // C(48, 40) < 10⁹ ≤ C(49, 40)
  EXPECT_EQ(Revolve(1000000000, 1000000000).forward_steps(), 999999999);
}

}  // namespace step_derivative_test
}  // namespace bilevel
