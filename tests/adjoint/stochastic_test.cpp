#include <bilevel/adjoint/make_adjoint_solver.hpp>

#include <random>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>
#include <refusal.hpp>

namespace bilevel::testing {
namespace stochastic_test {

/// A = mean of ridge + x_i·x_iᵀ over rows x_i, some of which are drawn for a product.
class Rows final : public LinearOperator<Vec> {
 public:
  Rows(Mat rows, double ridge, Index batch, std::uint64_t seed)
      : rows_(std::move(rows)), ridge_(ridge), batch_(batch), engine_(seed) {}

  void apply(const Vec& v, Vec& out) override {
    ++products;
    out = ridge_ * v + rows_.transpose() * (rows_ * v) / static_cast<double>(rows_.rows());
  }
  bool drawn_apply(const Vec& v, Vec& out) override {
    ++drawn;
    out = ridge_ * v;
    for (Index k = 0; k < batch_; ++k) {
      const auto row = rows_.row(static_cast<Index>(engine_() % static_cast<std::uint64_t>(rows_.rows())));
      out += row.transpose() * (row.dot(v) / static_cast<double>(batch_));
    }
    if (drawn == poisoned) out[0] = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  const StopToken* stop_token() const override { return stop; }
  Mat matrix() const {
    return ridge_ * Mat::Identity(rows_.cols(), rows_.cols()) +
           Mat(rows_.transpose() * rows_) / static_cast<double>(rows_.rows());
  }

  long products = 0, drawn = 0, poisoned = -1;
  const StopToken* stop = nullptr;

 private:
  Mat rows_;
  double ridge_;
  Index batch_;
  std::mt19937_64 engine_;
};

StochasticOptions options(double tolerance, long steps = 0) {
  StochasticOptions o;
  o.relative_tolerance = tolerance;
  o.max_iterations = steps;
  return o;
}

TEST(Stochastic, ReachesAFewDigitsWithFewWholeProducts) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    Draw draw(seed);
    Rows a(draw.matrix(2000, 20), 0.5, 50, seed);
    const Vec b = draw.vector(20), exact = a.matrix().llt().solve(b);
    const auto solution = Stochastic<Vec>(options(1e-2)).solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << "seed " << seed << ": " << solution.message;
    EXPECT_LE((solution.x - exact).norm(), 2e-2 * b.norm()) << "seed " << seed;  // μ ≥ 0.5
    EXPECT_EQ(solution.products, a.products);
    EXPECT_LE(a.products, 20) << "seed " << seed;
    // What it says of its residual is true with all rows.
    EXPECT_NEAR(solution.residual_norm, (b - a.matrix() * solution.x).norm(), 1e-13);
  }
}

TEST(Stochastic, TheMeanOfItsIteratesConvergesAsOneByTheRootOfTheSteps) {
  double few = 0, many = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Draw draw(seed);
    Rows a(draw.matrix(500, 10), 0.3, 10, seed);
    const Vec b = draw.vector(10);
    few += Stochastic<Vec>(options(1e-12, 1 << 10)).solve(a, b, nullptr).residual_norm / b.norm();
    many += Stochastic<Vec>(options(1e-12, 1 << 16)).solve(a, b, nullptr).residual_norm / b.norm();
  }
  // 64 times the steps: 8 times less, give or take the spread of ten draws.
  EXPECT_GT(few / many, 5) << few << " / " << many;
  EXPECT_LT(few / many, 13) << few << " / " << many;
}

/// Whose parts are all the same.
class Same final : public LinearOperator<Vec> {
 public:
  explicit Same(Mat matrix) : matrix_(std::move(matrix)) {}
  void apply(const Vec& v, Vec& out) override { out = matrix_ * v; }
  bool drawn_apply(const Vec& v, Vec& out) override {
    out = matrix_ * v;
    return true;
  }

 private:
  Mat matrix_;
};

TEST(Stochastic, WithoutNoiseItIsGradientDescentToTheLastDigits) {
  Draw draw(6);
  const Mat matrix = draw.with_spectrum(log_spectrum(15, 20));
  Same a(matrix);
  const Vec b = draw.vector(15), exact = matrix.llt().solve(b);
  const auto solution = Stochastic<Vec>(options(1e-12)).solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_LE((solution.x - exact).norm(), 1e-10 * exact.norm());
  const auto warm = Stochastic<Vec>(options(1e-11)).solve(a, b, &solution.x);
  EXPECT_EQ(warm.status, Status::converged);
  EXPECT_EQ(warm.iterations, 0);
}

TEST(Stochastic, AStepThatIsTooLongIsHalvedWhereItWasEstimatedAndSaidWhereItWasGiven) {
  Draw draw(7);
  // One row in a hundred is ten times as long: few of the draws that the step is estimated from see it.
  Mat rows = draw.matrix(300, 8);
  for (Index i = 0; i < rows.rows(); i += 100) rows.row(i) *= 10;
  Rows a(rows, 1, 1, 7);
  const Vec b = draw.vector(8);
  const auto solution = Stochastic<Vec>(options(0.3, 20000)).solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  StochasticOptions given = options(0.1);
  given.step = 5;
  const auto wild = Stochastic<Vec>(given).solve(a, b, nullptr);
  EXPECT_EQ(wild.status, Status::diverged) << wild.message;
  EXPECT_NE(wild.message.find("run away"), std::string::npos) << wild.message;
  EXPECT_LE(wild.residual_norm, b.norm());
}

TEST(Stochastic, AnIndefiniteMatrixIsNoSuccess) {
  Same a(diagonal({1, 0.5, -0.2}));
  const auto solution = Stochastic<Vec>(options(1e-3)).solve(a, Vec::Ones(3), nullptr);
  EXPECT_FALSE(succeeded(solution.status)) << solution.message;
  EXPECT_LE(solution.residual_norm, std::sqrt(3.0));
}

TEST(Stochastic, NaNIsNamedAndTheBestSurvives) {
  Draw draw(8);
  Rows a(draw.matrix(100, 5), 1, 10, 8);
  const Vec b = draw.vector(5);
  a.poisoned = 3;  // of the power method
  EXPECT_EQ(Stochastic<Vec>(options(1e-9)).solve(a, b, nullptr).status, Status::not_finite);
  // One step that went wrong costs the steps since the last look.
  a.poisoned = a.drawn + 200;
  const auto solution = Stochastic<Vec>(options(0.05)).solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
}

TEST(Stochastic, EndsWhereItIsToldAndBeginsTheSameAgain) {
  Draw draw(9);
  const Mat rows = draw.matrix(200, 6);
  const Vec b = draw.vector(6);
  Rows a(rows, 1, 5, 3), again(rows, 1, 5, 3);
  const auto one = Stochastic<Vec>(options(1e-12, 300)).solve(a, b, nullptr);
  EXPECT_EQ(one.status, Status::iteration_limit);
  EXPECT_EQ(one.iterations, 300);
  EXPECT_EQ(one.x, Stochastic<Vec>(options(1e-12, 300)).solve(again, b, nullptr).x);
  const StopToken stop([] { return true; });
  a.stop = &stop;
  EXPECT_EQ(Stochastic<Vec>(options(1e-12)).solve(a, b, nullptr).status, Status::interrupted);
}

TEST(Stochastic, RefusesWhatHasNoPartsAndOptionsThatMakeNoSense) {
  Draw draw(10);
  Operator a(draw.with_spectrum(log_spectrum(5, 10)));
  const Vec b = draw.vector(5);
  const auto solver = make_adjoint_solver<Vec>("sgd");
  EXPECT_EQ(solver->name(), "sgd");
  EXPECT_NE(refusal([&] { solver->solve(a, b, nullptr); }).find("draws no rows"), std::string::npos);
  StochasticOptions wrong;
  wrong.step = -1;
  wrong.power_steps = 1;
  wrong.first_look = 0;
  const std::string said = refusal([&] { make_adjoint_solver<Vec>(AdjointChoice(wrong)); });
  for (const char* each : {"sgd.step = -1", "sgd.power_steps = 1", "sgd.first_look = 0"})
    EXPECT_NE(said.find(each), std::string::npos) << said;
}

}  // namespace stochastic_test
}  // namespace bilevel::testing
