// Adaptation by steps without a look: where it ends, that tasks do not disturb each other, that nothing
// waits.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/learning/adaptation.hpp>
#include <bilevel/learning/saved_learner.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <refusal.hpp>

#include "drawn_tasks.hpp"

namespace bilevel {
namespace adaptation_test {

using at::Tensor;
using learning::FixedSteps;
using learning::Learner;
using learning::LearnerKind;
using learning::TaskForm;
using learning::TaskwiseDescent;
using learning::TaskwiseLbfgs;
using learning_testing::drawn_tasks;

const TaskForm form{.input = {2}, .outputs = 1, .classes = false, .support = 5, .query = 4};

auto heads_on(const learning::Tasks& tasks) {
  const Learner learner({.kind = LearnerKind::heads, .layers = {6}}, form);
  return learning::prepared_adaptation<Tensor>(learner, tasks,
                                               learner.prepare(learner.initial_theta(2), tasks));
}

TEST(Adaptation, StepsWithoutALookSettle) {
  auto problem = heads_on(drawn_tasks(form, 3, 1));
  const auto reference = make_inner_solver<Tensor>("newton", problem, {.gradient_tolerance = 1e-12});
  const Tensor theta = problem.initial_theta(), start = problem.initial_phi();
  for (const double beta : {0.0, 0.1}) {
    const Tensor settled = reference->solve(theta, beta, start).phi;
    TaskwiseDescent<Tensor> taskwise(problem, 3, 0.1, {.steps = 200, .tolerance = 1e-8});
    TaskwiseLbfgs<Tensor> remembering(problem, 3, 0.1, {.steps = 200, .tolerance = 1e-9, .look_every = 4});
    FixedSteps<Tensor> fixed(problem, NesterovOptions{}, {.steps = 400, .tolerance = 1e-8});
    for (InnerSolver<Tensor>* each :
         {static_cast<InnerSolver<Tensor>*>(&taskwise), static_cast<InnerSolver<Tensor>*>(&remembering),
          static_cast<InnerSolver<Tensor>*>(&fixed)}) {
      const auto solution = each->solve(theta, beta, start);
      EXPECT_EQ(solution.status, Status::converged) << each->name() << ": " << solution.message;
      EXPECT_LE(norm(Tensor(solution.phi - settled)), 1e-8) << each->name();
      if (each == &remembering) EXPECT_LT(solution.iterations, 60) << "it may end once it has settled";
    }
  }
}

TEST(Adaptation, ATaskGoesItsWayWhateverTheOthersDo) {
  learning::Tasks both = drawn_tasks(form, 2, 3);
  both.support_y[1].mul_(100);
  auto together = heads_on(both), alone = heads_on(both.first(1));
  const learning::StepLimits seven{.steps = 7, .tolerance = 1e-8};
  const auto compare = [&](auto&& two, auto&& one) {
    const Tensor first = two.solve(together.initial_theta(), 0, together.initial_phi()).phi.view({2, -1})[0];
    const Tensor own = one.solve(alone.initial_theta(), 0, alone.initial_phi()).phi.flatten();
    EXPECT_LE((first - own).abs().max().item<double>(), 1e-10) << two.name();
  };
  compare(TaskwiseDescent<Tensor>(together, 2, 0.1, seven), TaskwiseDescent<Tensor>(alone, 1, 0.1, seven));
  compare(TaskwiseLbfgs<Tensor>(together, 2, 0.1, seven), TaskwiseLbfgs<Tensor>(alone, 1, 0.1, seven));
}

/// Weights of a network are no convex matter: steps that went too far are taken back.
TEST(Adaptation, NetworksOfTheirOwnSettle) {
  const TaskForm waves{.input = {1}, .outputs = 1, .classes = false, .support = 10, .query = 5};
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    learning::Tasks tasks = drawn_tasks(waves, 4, seed);
    tasks.support_x.mul_(3);
    tasks.support_y.copy_(4 * at::sin(tasks.support_x + 0.3));
    const Learner learner({.kind = LearnerKind::center, .layers = {20, 20}}, waves);
    auto problem = learning::prepared_adaptation<Tensor>(learner, tasks,
                                                         learner.prepare(learner.initial_theta(seed), tasks));
    TaskwiseLbfgs<Tensor> remembering(problem, 4, 0.1, {.steps = 500, .tolerance = 1e-9, .look_every = 4});
    const auto solution = remembering.solve(problem.initial_theta(), 0, problem.initial_phi());
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_LT(solution.value, 0.5 * problem.inner(problem.initial_phi(), problem.initial_theta(), {}));
  }
}

TEST(Adaptation, NothingWaitsForADeviceOnTheWay) {
  auto problem = heads_on(drawn_tasks(form, 2, 4));
  const auto waits = [&](long steps) {
    TaskwiseLbfgs<Tensor> descent(problem, 2, 0.1, {.steps = steps, .tolerance = 1e-8});
    const long before = torch::synchronisations();
    descent.solve(problem.initial_theta(), 0, problem.initial_phi());
    return torch::synchronisations() - before;
  };
  EXPECT_EQ(waits(5), waits(50));
}

TEST(Adaptation, AStepThatIsTooLongIsSaid) {
  auto problem = heads_on(drawn_tasks(form, 2, 5));
  FixedSteps<Tensor> wild(problem, GradientDescentOptions{.step = 1e3}, {.steps = 200, .tolerance = 1e-8});
  const auto solution = wild.solve(problem.initial_theta(), 0, problem.initial_phi());
  EXPECT_TRUE(solution.status == Status::not_finite || solution.status == Status::diverged)
      << solution.message;
}

TEST(Adaptation, WhatSearchesIsRefused) {
  auto problem = heads_on(drawn_tasks(form, 2, 5));
  EXPECT_THROW(FixedSteps<Tensor>(problem, LbfgsOptions{}, {.steps = 10}), InvalidInput);
  EXPECT_THROW(TaskwiseDescent<Tensor>(problem, 3, 0.1, {.steps = 10}), InvalidInput);
  EXPECT_THROW(Learner({.kind = LearnerKind::center, .unit = learning::Unit::relu}, form), InvalidInput);
}

TEST(Adaptation, ASavedLearnerIsReadAgain) {
  learning::SavedLearner saved{.options = {.kind = LearnerKind::hypernetwork, .layers = {3}, .embedding = 2},
                               .form = form,
                               .adaptation = {.inner = "nesterov", .inner_steps = 5, .inner_rate = 0.1},
                               .source = "tasks"};
  const Learner learner = saved.learner();
  for (long i = 0; i < learner.shared_parameters(); ++i) saved.theta.push_back(0.01F * static_cast<float>(i));
  const std::string path = ::testing::TempDir() + "learner_test.learner";
  saved.save(path);
  const learning::SavedLearner read = learning::read_learner(path);
  EXPECT_EQ(read.text(), saved.text());
  learning::Tasks tasks = drawn_tasks(form, 2, 7);
  const auto adapted = read.adapt(tasks);
  EXPECT_TRUE(adapted.after.equal(saved.adapt(tasks).after));
  EXPECT_LT(adapted.loss_after, adapted.loss_before);
}

}  // namespace adaptation_test
}  // namespace bilevel
