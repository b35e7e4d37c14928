#include "training_cases.hpp"

#include <limits>

#include <bilevel/networks/weight_steps.hpp>
#include <bilevel/space/adam_moments.hpp>

#include "networks/training/weights.hpp"

namespace weights_test {

using namespace training_cases;

/// Weights that no gradient holds shrink by 1 − rate·λ a step; biases stay.
TEST(Weights, DecayShrinksWeightsAlone) {
  for (const WeightOptimizer optimizer : {WeightOptimizer::sgd, WeightOptimizer::adam}) {
    TrainOptions task;
    task.layers = {7};
    task.optimizer = optimizer;
    task.learning_rate = 0.5;
    task.weight_decay = 0.2;
    const TrainSettings s = resolve_options(task, 5, 9, 3);
    const Eigen::VectorXf start = Eigen::VectorXf::Ones(s.architecture.parameters());
    Weights weights(s, start);
    for (int i = 0; i < 3; ++i) weights.step(Eigen::VectorXf::Zero(start.size()), 0.5);
    for (Index k = 1; k <= 2; ++k) {
      const auto p = s.architecture.layer(k);
      const double rate = 0.5 * s.learning_rates[static_cast<std::size_t>(k - 1)];
      EXPECT_NEAR(weights.theta()[p.weights], std::pow(1 - 0.2 * rate, 3), 1e-6);
      EXPECT_EQ(weights.theta()[p.bias], 1);
    }
  }
}

/// Steps with centred gradients are those of W in tᵀWt, t = s − m: what units in their middle receive moves
/// by the biases' own step alone.
TEST(Weights, CentredStepsAreThoseOfCentredCouplings) {
  TrainOptions task;
  task.layers = {5, 7, 6, 3};
  TrainSettings s = resolve_options(task, 5, 9, 3);
  ASSERT_TRUE(s.centred);
  s.optimizer = WeightOptimizer::sgd;
  s.learning_rates.assign(3, 0.1);
  const auto& a = s.architecture;
  const Eigen::VectorXf start = Eigen::VectorXf::Random(a.parameters()),
                        gradient = Eigen::VectorXf::Random(a.parameters());
  Weights weights(s, start);
  weights.step(gradient, 1);
  const auto matrix = [&](const Eigen::VectorXf& of, Index k) -> Eigen::MatrixXf {
    const auto p = a.layer(k);
    return Eigen::Map<const Eigen::MatrixXf>(of.data() + p.weights, p.units, p.inputs);
  };
  const auto bias = [&](const Eigen::VectorXf& of, Index k) -> Eigen::VectorXf {
    return of.segment(a.layer(k).bias, a.layer(k).units);
  };
  const Eigen::VectorXf& end = weights.theta();
  for (Index k = 1; k <= 3; ++k) {
    const float own = k < 3 ? 0.5f : 0;
    Eigen::MatrixXf expected = matrix(gradient, k);
    if (k > 1) {
      expected.colwise() -= 0.5f * bias(gradient, k);
      expected.rowwise() -= own * bias(gradient, k - 1).transpose();
    }
    EXPECT_LT((matrix(start, k) - 0.1f * expected - matrix(end, k)).norm(), 1e-5f) << k;
    const auto at_the_middle = [&](const Eigen::VectorXf& theta) -> Eigen::VectorXf {
      Eigen::VectorXf sum = bias(theta, k);
      if (k > 1) sum += 0.5f * matrix(theta, k).rowwise().sum();
      if (k < 2) sum += 0.5f * matrix(theta, k + 1).colwise().sum().transpose();
      return sum;
    };
    EXPECT_LT((at_the_middle(start) - 0.1f * bias(gradient, k) - at_the_middle(end)).norm(), 1e-5f) << k;
  }
}

/// The kernel's one pass is the step that every Adam of the library takes.
TEST(WeightSteps, AdamIsThatOfTheOtherRooms) {
  const Index count = 1003;
  Eigen::VectorXf weights = Eigen::VectorXf::Random(count), m = Eigen::VectorXf::Zero(count), v = m;
  Eigen::VectorXf expected = weights, first = m, second = m, square = m;
  const AdamMoments moments;
  for (int k = 1; k <= 5; ++k) {
    const Eigen::VectorXf gradient = Eigen::VectorXf::Random(count);
    const double rate = 0.01 / moments.first_weight(k), correction = 1 / moments.second_weight(k);
    adam_step(count, 1, rate, correction, moments.first_decay, moments.second_decay, 1e-8, gradient.data(),
              m.data(), v.data(), -std::numeric_limits<float>::infinity(), weights.data());
    moments.update(gradient, first, second, square);
    expected.array() -= static_cast<float>(rate) * first.array() /
                        ((static_cast<float>(correction) * second.array()).sqrt() + 1e-8f);
  }
  EXPECT_LT((m - first).cwiseAbs().maxCoeff(), 1e-6f);
  EXPECT_LT((v - second).cwiseAbs().maxCoeff(), 1e-6f);
  EXPECT_LT((weights - expected).cwiseAbs().maxCoeff(), 1e-5f);
}

}  // namespace weights_test
