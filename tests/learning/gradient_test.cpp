// The outer gradient of every learner against differences of the whole solve, a linear model's against its
// closed form, and the ways to it against each other.

#include <cmath>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/learning/adaptation.hpp>
#include <bilevel/torch/algorithms.hpp>

#include "../../learning/src/meta_gradient.hpp"
#include "drawn_tasks.hpp"

namespace bilevel {
namespace gradient_test {

using at::Tensor;
using learning::Learner;
using learning::LearnerKind;
using learning::LearnerOptions;
using learning::Strengths;
using learning::TaskForm;
using learning::Tasks;
using learning::Tensors;
using learning_testing::drawn;
using learning_testing::drawn_tasks;
using Problem = bilevel::Problem<Tensor>;

struct Case {
  const char* name;
  LearnerOptions options;
  TaskForm form;
};

const TaskForm rows{.input = {2}, .outputs = 1, .classes = false, .support = 4, .query = 3};
const TaskForm pictures{.input = {1, 6, 6}, .outputs = 2, .classes = true, .support = 4, .query = 4};

LearnerOptions small(LearnerKind kind, Strengths strengths = Strengths::weights) {
  return {.kind = kind,
          .layers = {4, 3},
          .filters = 3,
          .blocks = 1,
          .strengths = strengths,
          .strength = 3,
          .embedding = 3};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"center", small(LearnerKind::center), rows},
      {"center, one strength", small(LearnerKind::center, Strengths::one), rows},
      {"center, a strength a layer", small(LearnerKind::center, Strengths::layers), rows},
      {"gain", small(LearnerKind::gain), rows},
      {"heads", small(LearnerKind::heads), rows},
      {"hypernetwork", small(LearnerKind::hypernetwork), rows},
      {"center of pictures", small(LearnerKind::center), pictures},
      {"gain on pictures", small(LearnerKind::gain), pictures},
      {"heads on pictures", small(LearnerKind::heads), pictures},
      {"hypernetwork of pictures", small(LearnerKind::hypernetwork), pictures}};
  return all;
}

struct Solved {
  explicit Solved(const Case& c, std::uint64_t seed)
      : learner(c.options, c.form),
        tasks(drawn_tasks(c.form, 2, seed)),
        problem(learning::adaptation<Tensor>(learner, tasks, learner.initial_theta(seed))),
        inner(make_inner_solver<Tensor>("lbfgs", problem,
                                        {.gradient_tolerance = 1e-11, .max_iterations = 5000})) {}

  Estimate<Tensor> estimate(const char* name, double beta = 0) {
    EstimatorOptions options;
    options.adjoint.relative_tolerance = 1e-12;
    options.adjoint.max_iterations = 5000;
    options.beta = beta;
    return make_estimator<Tensor>(name, static_cast<Problem&>(problem), *inner, options)
        ->estimate(problem.initial_theta(), {});
  }
  /// ∇θ along `way`, by central differences of the whole solve, of the fourth order.
  double difference(const Tensor& way, const Tensor& phi) {
    const auto value = [&](double step) {
      const Tensor theta = problem.initial_theta() + step * way;
      return problem.outer(inner->solve(theta, 0, phi).phi, theta, {});
    };
    const double h = 1e-3;
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
  }

  Learner learner;
  Tasks tasks;
  torch::Losses<Tensor> problem;
  std::unique_ptr<InnerSolver<Tensor>> inner;
};

TEST(MetaGradient, OfEveryLearnerIsTheDifferenceOfWholeSolves) {
  for (const Case& c : cases()) {
    const std::uint64_t seed = 3;
    SCOPED_TRACE(::testing::Message() << c.name << ", seed " << seed);
    Solved s(c, seed);
    const auto e = s.estimate("implicit-minres");
    ASSERT_EQ(e.inner_status, Status::converged) << e.message;
    for (const std::uint64_t direction : {1, 2}) {
      Tensor way = drawn({e.gradient.numel()}, direction);
      way /= way.norm();
      const double slope = Space<Tensor>::dot(e.gradient, way), difference = s.difference(way, e.phi);
      EXPECT_NEAR(slope, difference, 1e-7 * norm(e.gradient)) << e.message;
    }
  }
}

/// Of min over w of mean (x·w − y)² + ½Σ λ(w − ω)²:  w* = H⁻¹(2XᵀY/n + λω),  H = 2XᵀX/n + λ, and with g = ∂w
/// L_out and u = H⁻¹g:  ∂ω L_out = λu,  ∂(log λ) L_out = λ(ω − w*)u, a sum over the tasks.
TEST(MetaGradient, OfALinearModelIsItsClosedForm) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const TaskForm form{.input = {3}, .outputs = 1, .classes = false, .support = 6, .query = 5};
    Case c{"linear", {.kind = LearnerKind::center, .layers = {}, .strength = 0.5}, form};
    Solved s(c, seed);
    const auto e = s.estimate("implicit-cg");
    ASSERT_EQ(e.status, Status::converged) << e.message;

    const Tensors theta = s.problem.theta_list(s.problem.initial_theta());
    const Tensor omega = at::cat({theta[0].flatten(), theta[1]}), lambda = theta[2].exp();
    const auto with_one = [](const Tensor& x) {
      return at::cat({x, at::ones({x.size(0), 1}, at::kDouble)}, 1);
    };
    Tensor by_omega = at::zeros({4}, at::kDouble), by_log = at::zeros({4}, at::kDouble);
    for (long t = 0; t < 2; ++t) {
      const Tensor x = with_one(s.tasks.support_x[t]), q = with_one(s.tasks.query_x[t]);
      const Tensor y = s.tasks.support_y[t].flatten(), z = s.tasks.query_y[t].flatten();
      const Tensor inverse = at::linalg_inv(2.0 / 6 * x.t().matmul(x) + lambda.diag());
      const Tensor w = inverse.matmul(2.0 / 6 * x.t().matmul(y) + lambda * omega);
      const Tensor u = inverse.matmul(2.0 / 5 / 2 * q.t().matmul(q.matmul(w) - z));
      by_omega += lambda * u;
      by_log += lambda * (omega - w) * u;
    }
    const Tensor expected = at::cat({by_omega, by_log});
    EXPECT_LE(norm(Tensor(e.gradient - expected)), 1e-8 * norm(expected));
  }
}

TEST(MetaGradient, EquilibriumPropagationAgrees) {
  for (const Case& c : {cases()[0], cases()[3], cases()[4], cases()[5], cases()[8]}) {
    SCOPED_TRACE(c.name);
    Solved s(c, 4);
    const auto exact = s.estimate("implicit-minres"), nudged = s.estimate("ep-central", 0.005);
    EXPECT_LE(norm(Tensor(exact.gradient - nudged.gradient)), 1e-3 * norm(exact.gradient)) << nudged.message;
  }
}

TEST(MetaGradient, WhatIsPreparedGivesTheSameLosses) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Solved s(c, 5);
    const Tensors prepared = s.learner.prepare(s.learner.initial_theta(5), s.tasks);
    auto quick = learning::prepared_adaptation<Tensor>(s.learner, s.tasks, prepared);
    const Tensor phi = 0.3 * drawn({quick.initial_phi().numel()}, 6);
    EXPECT_NEAR(quick.inner(phi, quick.initial_theta(), {}),
                s.problem.inner(phi, s.problem.initial_theta(), {}), 1e-12);
    EXPECT_NEAR(quick.outer(phi, quick.initial_theta(), {}),
                s.problem.outer(phi, s.problem.initial_theta(), {}), 1e-12);
  }
}

/// Known constants are promises: no Hessian may bend more, or less.
TEST(MetaGradient, ConstantsOfHeadsHold) {
  for (const Case& c : {cases()[4], cases()[8]}) {
    SCOPED_TRACE(c.name);
    Solved s(c, 6);
    const Tensors prepared = s.learner.prepare(s.learner.initial_theta(6), s.tasks);
    auto quick = learning::prepared_adaptation<Tensor>(s.learner, s.tasks, prepared);
    const Constants known = quick.constants(quick.initial_theta(), quick.initial_phi(), everywhere);
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
      const Tensor phi = drawn({quick.initial_phi().numel()}, seed);
      Eigen::MatrixXd hessian(phi.numel(), phi.numel());
      std::unique_ptr<Curvature<Tensor>> curvature;
      quick.linearise(phi, quick.initial_theta(), 0, curvature);
      Tensor unit = at::zeros_like(phi), column = at::zeros_like(phi);
      for (Index j = 0; j < hessian.cols(); ++j) {
        Space<Tensor>::unit(j, unit);
        curvature->times(unit, column);
        Space<Tensor>::to_host(column, hessian.col(j).data());
      }
      const Eigen::VectorXd bends = hessian.selfadjointView<Eigen::Lower>().eigenvalues();
      EXPECT_GE(bends.minCoeff(), known.mu - 1e-10);
      EXPECT_LE(bends.maxCoeff(), known.smoothness + 1e-10);
    }
  }
}

/// What a run says of its gradients: an error is part of the bound, and no wrong one is trusted.
TEST(MetaGradient, ACertificateSeesWhatLiesBetweenAGradientAndItsReference) {
  using torch::SingleTensor;
  const TaskForm form{.input = {1}, .outputs = 1, .classes = false, .support = 5, .query = 5};
  for (const LearnerKind kind : {LearnerKind::center, LearnerKind::hypernetwork}) {
    SCOPED_TRACE(name(kind));
    learning::MetaOptions o;
    o.learner = {.kind = kind, .layers = {6}, .strength = 3, .embedding = 3};
    if (kind == LearnerKind::center) o.learner.embedding = LearnerOptions{}.embedding;
    o.tasks = 3;
    o = resolve(o, form);
    const Learner learner(o.learner, form);
    const Tensor theta = learning::in_a_row(learner.initial_theta(4)).to(at::kFloat);
    learning::MetaGradient gradient(learner, o, drawn_tasks(form, 3, 4).to(at::kFloat, at::kCPU), theta);
    const Estimate<SingleTensor> right = gradient.estimate(theta);
    const auto beside = gradient.beside_reference(theta, right);
    const double size = norm(beside.reference.gradient);
    EXPECT_EQ(beside.certificate.verdict, Verdict::trusted) << beside.certificate.reason;
    EXPECT_LE(beside.distance, 1e-2 * size);
    EXPECT_GE(beside.certificate.bound, beside.distance);
    for (const double factor : {1.5, 0.0, -1.0, unknown}) {
      Estimate<SingleTensor> wrong = right;
      wrong.gradient = SingleTensor(right.gradient.tensor * factor);
      const Certificate c = gradient.beside_reference(theta, wrong).certificate;
      EXPECT_NE(c.verdict, Verdict::trusted) << factor << ": " << c.reason;
      if (std::isfinite(factor)) {
        EXPECT_GE(c.bound, 0.98 * std::abs(factor - 1) * size) << factor;
      }
    }
  }
}

}  // namespace gradient_test
}  // namespace bilevel
