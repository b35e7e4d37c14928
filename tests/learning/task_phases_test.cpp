// Both phases in the lanes of vectors, against the general estimator on each task alone, for every target;
// the same whatever the threads.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/learning/adaptation.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/torch/algorithms.hpp>

#include "../../learning/src/in_a_row.hpp"
#include "../../learning/src/task_phases.hpp"
#include "drawn_tasks.hpp"

namespace bilevel {
namespace task_phases_test {

using at::Tensor;
using learning::Learner;
using learning::MetaOptions;
using learning::Strengths;
using learning::TaskForm;
using learning::TaskPhases;
using learning::Tasks;
using learning_testing::drawn_tasks;
using problems::kernels::Target;

struct Case {
  std::vector<long> layers;
  Strengths strengths;
  double strength;
  const char* inner;
  double rate;
  long steps, products;
};

/// Strong regularisers, where conjugate gradients reach their tolerance, and weak ones, where they meet
/// Hessians that are not positive; numbers of units and rows that no tile divides.
const std::vector<Case> cases{{{5}, Strengths::weights, 3, "gradient-descent", 0.05, 7, 40},
                              {{7, 3}, Strengths::layers, 0.5, "gradient-descent", 0.02, 9, 4},
                              {{}, Strengths::one, 0.3, "gradient-descent", 0.05, 5, 30},
                              {{40, 40}, Strengths::weights, 1, "barzilai-borwein", 0.1, 12, 5},
                              {{6, 5, 4}, Strengths::one, 3, "barzilai-borwein", 0.1, 9, 15},
                              {{8, 8}, Strengths::weights, 0.001, "gradient-descent", 0.0001, 6, 15}};

MetaOptions options_of(const Case& c, const TaskForm& form, long tasks) {
  MetaOptions o;
  o.learner = {.layers = c.layers, .strengths = c.strengths, .strength = c.strength};
  o.adaptation = {.inner = c.inner, .inner_steps = c.steps, .inner_rate = c.rate};
  o.adjoint_steps = c.products;
  o.adjoint_tolerance = 1e-9;
  o.tasks = tasks;
  return resolve(o, form);
}

/// The mean over tasks of what the general estimator finds for each.
Estimate<Tensor> one_by_one(const Learner& learner, const MetaOptions& o, const Tasks& tasks,
                            const torch::Tensors& theta) {
  Estimate<Tensor> mean;
  mean.outer_value = 0;
  const auto count = static_cast<double>(tasks.size());
  for (long t = 0; t < tasks.size(); ++t) {
    const auto own = [&](const Tensor& all) { return all.narrow(0, t, 1).clone(); };
    const Tasks task{own(tasks.support_x), own(tasks.support_y), own(tasks.query_x), own(tasks.query_y)};
    auto problem = learning::adaptation<Tensor>(learner, task, theta);
    std::unique_ptr<InnerSolver<Tensor>> inner;
    if (o.adaptation.inner == "barzilai-borwein")
      inner = std::make_unique<learning::TaskwiseDescent<Tensor>>(
          problem, 1, o.adaptation.inner_rate,
          learning::StepLimits{.steps = o.adaptation.inner_steps, .tolerance = 1e-9});
    else
      inner = std::make_unique<learning::FixedSteps<Tensor>>(
          problem, inner_choice(o.adaptation),
          learning::StepLimits{.steps = o.adaptation.inner_steps, .tolerance = 1e-9});
    EstimatorOptions told;
    told.adjoint.relative_tolerance = o.adjoint_tolerance;
    told.adjoint.max_iterations = o.adjoint_steps;
    told.certificate.enabled = false;
    const auto e = make_estimator<Tensor>("implicit-cg", static_cast<Problem<Tensor>&>(problem), *inner, told)
                       ->estimate(problem.initial_theta(), {});
    mean.outer_value += e.outer_value / count;
    const Tensor share = e.gradient / count;
    mean.gradient = mean.gradient.defined() ? Tensor(mean.gradient + share) : share;
    mean.phi = mean.phi.defined() ? at::cat({mean.phi, e.phi}) : e.phi.clone();
  }
  return mean;
}

class EveryTarget : public ::testing::Test {
 protected:
  void TearDown() override { problems::kernels::use(usual_); }
  const Target usual_ = problems::kernels::chosen();
};
using TaskPhasesTest = EveryTarget;

double apart(const Tensor& a, const Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

TEST_F(TaskPhasesTest, AreTheGeneralEstimatorOnEachTask) {
  const TaskForm form{.input = {2}, .outputs = 1, .classes = false, .support = 7, .query = 4};
  for (const Case& c : cases) {
    const MetaOptions o = options_of(c, form, 11);
    const std::uint64_t seed = 5;
    SCOPED_TRACE(::testing::Message()
                 << c.layers.size() << " layers, strength " << c.strength << ", seed " << seed);
    const Learner learner(o.learner, form);
    const Tasks tasks = drawn_tasks(form, 11, seed);
    // Strengths that differ, as they do once they have been learned.
    torch::Tensors theta = learner.initial_theta(seed);
    ::torch::manual_seed(seed);
    for (Tensor& each : theta) each = each + 0.2 * at::randn_like(each);
    const Estimate<Tensor> expected = one_by_one(learner, o, tasks, theta);
    const Tensor row = learning::in_a_row(theta);
    for (const Target target : {Target::baseline, Target::avx2, Target::avx512}) {
      if (!problems::kernels::available(target)) continue;
      problems::kernels::use(target);
      SCOPED_TRACE(problems::kernels::name(target));
      const auto phases = TaskPhases<Tensor>::made_for(learner, o, tasks);
      ASSERT_NE(phases, nullptr);
      const auto e = phases->estimate(row, {});
      EXPECT_NEAR(e.outer_value, expected.outer_value, 1e-12 * expected.outer_value);
      EXPECT_LE(apart(e.phi, expected.phi.flatten()), 1e-12);
      EXPECT_LE(apart(e.gradient, expected.gradient), 1e-12) << e.message;
    }
  }
}

TEST_F(TaskPhasesTest, EndWhereTasksHaveSettled) {
  const TaskForm form{.input = {2}, .outputs = 1, .classes = false, .support = 5, .query = 4};
  MetaOptions o;
  o.learner = {.layers = {6, 5}, .strength = 3};
  o.adaptation.inner_tolerance = 1e-6;
  o.adjoint_tolerance = 1e-9;
  o.tasks = 5;
  o = resolve(o, form);
  const Learner learner(o.learner, form);
  const Tasks tasks = drawn_tasks(form, 5, 2);
  const torch::Tensors theta = learner.initial_theta(2);
  const auto phases = TaskPhases<Tensor>::made_for(learner, o, tasks);
  ASSERT_NE(phases, nullptr) << o.adaptation.inner;
  const auto e = phases->estimate(learning::in_a_row(theta), {});
  EXPECT_EQ(e.status, Status::converged) << e.message;
  EXPECT_LE(phases->residual(), 1e-6 * std::sqrt(5.0));
  auto problem = learning::adaptation<Tensor>(learner, tasks, theta);
  const auto inner = make_inner_solver<Tensor>("lbfgs", problem, {.gradient_tolerance = 1e-10});
  const auto exact = make_estimator<Tensor>("implicit-minres", static_cast<Problem<Tensor>&>(problem), *inner)
                         ->estimate(problem.initial_theta(), {.phi = e.phi});
  EXPECT_LE(apart(e.gradient, exact.gradient), 1e-4) << exact.message;
}

TEST_F(TaskPhasesTest, AreTheSameWhateverTheThreads) {
  const TaskForm form{.input = {1}, .outputs = 2, .classes = false, .support = 10, .query = 10};
  constexpr long many = 150;
  const MetaOptions o = options_of(cases[0], form, many);
  const Learner learner(o.learner, form);
  const Tasks tasks = drawn_tasks(form, many, 1);
  const Tensor row = learning::in_a_row(learner.initial_theta(1));
  const int usual = at::get_num_threads();
  Tensor first;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const Tensor gradient = TaskPhases<Tensor>::made_for(learner, o, tasks)->estimate(row, {}).gradient;
    if (!first.defined()) first = gradient;
    EXPECT_TRUE(gradient.equal(first)) << threads << " threads";
  }
  at::set_num_threads(usual);
}

TEST_F(TaskPhasesTest, AreTheSameInTheBlocksOfADevice) {
  if (!::torch::cuda::is_available()) GTEST_SKIP() << "there is no CUDA device here";
  const TaskForm form{.input = {2}, .outputs = 1, .classes = false, .support = 7, .query = 4};
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.layers.size() << " layers, strength " << c.strength);
    const MetaOptions o = options_of(c, form, 11);
    const Learner learner(o.learner, form);
    const Tasks tasks = drawn_tasks(form, 11, 5);
    const Tensor row = learning::in_a_row(learner.initial_theta(5));
    const auto expected = TaskPhases<Tensor>::made_for(learner, o, tasks)->estimate(row, {});
    const auto phases = TaskPhases<Tensor>::made_for(learner, o, tasks.to(at::kDouble, at::kCUDA));
    if (!phases) GTEST_SKIP() << "CUDA's compiler was not there when this was built";
    for (int again = 0; again < 3; ++again) {
      const auto e = phases->estimate(row.to(at::kCUDA), {});
      EXPECT_NEAR(e.outer_value, expected.outer_value, 1e-12 * expected.outer_value);
      EXPECT_LE(apart(e.phi.cpu(), expected.phi), 1e-12);
      EXPECT_LE(apart(e.gradient.cpu(), expected.gradient), 1e-12) << e.message;
    }
  }
}

TEST_F(TaskPhasesTest, LeaveAloneWhatTheyDoNotKnow) {
  const TaskForm form{.input = {1}, .outputs = 1, .classes = false, .support = 3, .query = 3};
  const Tasks tasks = drawn_tasks(form, 2, 1);
  MetaOptions o = options_of(cases[0], form, 2);
  EXPECT_NE(TaskPhases<Tensor>::made_for(Learner(o.learner, form), o, tasks), nullptr);
  const auto refused = [&](auto change) {
    MetaOptions other = o;
    change(other);
    EXPECT_EQ(TaskPhases<Tensor>::made_for(Learner(other.learner, form), other, tasks), nullptr);
  };
  refused([](MetaOptions& other) { other.estimator = "one-step"; });
  refused([](MetaOptions& other) { other.adaptation.inner = "nesterov"; });
  refused([](MetaOptions& other) { other.learner.unit = learning::Unit::silu; });
  refused([](MetaOptions& other) { other.learner.kind = learning::LearnerKind::gain; });
  refused([](MetaOptions& other) { other.learner.layers = {2000, 2000}; });  // beyond any cache
}

TEST_F(TaskPhasesTest, SayWhereNumbersAreNotFinite) {
  const TaskForm form{.input = {1}, .outputs = 1, .classes = false, .support = 3, .query = 3};
  Tasks tasks = drawn_tasks(form, 3, 1);
  tasks.support_x[1].fill_(std::nan(""));
  const MetaOptions o = options_of(cases[0], form, 3);
  const Learner learner(o.learner, form);
  const Tensor row = learning::in_a_row(learner.initial_theta(1));
  const auto e = TaskPhases<Tensor>::made_for(learner, o, tasks)->estimate(row, {});
  EXPECT_EQ(e.status, Status::not_finite);
  EXPECT_FALSE(std::isfinite(e.outer_value));
}

/// A task whose loss is zero already has nothing to solve: the other says how it went.
TEST_F(TaskPhasesTest, ATaskWithoutAnErrorIsSolved) {
  const TaskForm form{.input = {1}, .outputs = 1, .classes = false, .support = 3, .query = 3};
  Tasks tasks = drawn_tasks(form, 2, 1);
  MetaOptions o;
  o.learner = {.layers = {4}, .strength = 3};
  o.tasks = 2;
  o = resolve(o, form);
  const Learner learner(o.learner, form);
  torch::Tensors theta = learner.initial_theta(1);
  theta[2].zero_();  // the last layer answers nothing
  theta[3].zero_();
  tasks.support_y[0].zero_();
  tasks.query_y[0].zero_();
  const auto e = TaskPhases<Tensor>::made_for(learner, o, tasks)->estimate(learning::in_a_row(theta), {});
  EXPECT_EQ(e.status, Status::converged) << e.message;
  EXPECT_TRUE(all_finite(e.gradient));
}

}  // namespace task_phases_test
}  // namespace bilevel
