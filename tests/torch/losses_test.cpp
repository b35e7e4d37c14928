// Two losses written as functions of tensors against the same problem by hand, and what they refuse.

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>
#include <bilevel/torch/row_sampler.hpp>
#include <refusal.hpp>

#include "tensor_logistic.hpp"

namespace bilevel {
namespace losses_test {

using at::Tensor;
using Vec = Eigen::VectorXd;
using torch::Losses;
using torch::Start;
using torch::Tensors;
using torch_testing::tensor;
using Logistic = torch_testing::TensorLogistic;

Vec draw(Index n, std::uint64_t seed) {
  Vec x(n);
  Space<Vec>::random(seed, x);
  return x;
}

double apart(const Tensor& ours, const Vec& expected) {
  return (host_copy(ours) - expected).norm() / std::max(expected.norm(), 1e-300);
}

TEST(TorchLosses, ValuesGradientsAndProductsAreThoseOfTheNativeLogistic) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Logistic both(seed);
    Losses<> ours = both.losses();
    const Vec phi = draw(8, seed + 10), theta = -2 + 0.5 * draw(8, seed + 20).array();
    const Tensor p = tensor(phi), t = tensor(theta);
    for (const bool outer : {false, true}) {
      Vec phi_slope(8), theta_slope(8);
      Tensor p_slope = at::zeros_like(p), t_slope = at::full_like(t, 7);
      const Wanted<Vec> theirs{.phi = &phi_slope, .theta = &theta_slope};
      const Wanted<Tensor> wanted{.phi = &p_slope, .theta = &t_slope};
      const double expected =
          outer ? both.native.outer(phi, theta, theirs) : both.native.inner(phi, theta, theirs);
      EXPECT_NEAR(outer ? ours.outer(p, t, wanted) : ours.inner(p, t, wanted), expected, 1e-12);
      EXPECT_NEAR(outer ? ours.outer(p, t, {}) : ours.inner(p, t, {}), expected, 1e-12);
      EXPECT_LE(apart(p_slope, phi_slope), 1e-12);
      EXPECT_LE((host_copy(t_slope) - theta_slope).norm(), 1e-12)
          << "zero where the outer loss does not see θ";
    }
    for (const double beta : {0.0, 0.3, -0.1}) {
      std::unique_ptr<Curvature<Vec>> native;
      std::unique_ptr<Curvature<Tensor>> curvature;
      both.native.linearise(phi, theta, beta, native);
      ours.linearise(p, t, beta, curvature);
      const Vec v = draw(8, seed + 30);
      Vec expected(8);
      Tensor out = at::full_like(p, std::nan(""));
      native->times(v, expected);
      curvature->times(tensor(v), out);
      EXPECT_LE(apart(out, expected), 1e-12);
      native->cross_times(v, expected);
      curvature->cross_times(tensor(v), out);
      EXPECT_LE(apart(out, expected), 1e-12);
      native->cross_apply(v, expected);
      curvature->cross_apply(tensor(v), out);
      EXPECT_LE(apart(out, expected), 1e-12);
    }
  }
}

TEST(TorchLosses, HypergradientsAreThoseOfTheNativeLogistic) {
  for (const std::uint64_t seed : {1, 2}) {
    Logistic both(seed);
    Losses<> ours = both.losses();
    const Vec theta = -2 + 0.5 * draw(8, seed + 20).array();
    const AdjointOptions tight{.relative_tolerance = 1e-13};
    const EquilibriumPropagationOptions nudged{.nudge = Nudge::forward, .points = 5, .beta = 0.05};
    for (const auto& [method, choice] : std::vector<std::pair<std::string, EstimatorChoice>>{
             {"implicit-cg", with_options(estimator_named("implicit-cg"), {.adjoint = tight})},
             {"implicit-neumann", with_options(estimator_named("implicit-neumann"), {.adjoint = tight})},
             {"ep-forward-5", nudged},
             {"unrolled", estimator_named("unrolled")}}) {
      SCOPED_TRACE(::testing::Message() << method << ", seed " << seed);
      const MinimiserOptions options{.gradient_tolerance = 1e-14, .max_iterations = 300};
      const auto gradient = [&](auto& problem, const auto& at) {
        using V = std::decay_t<decltype(at)>;
        const auto inner = make_inner_solver<V>("newton", static_cast<Problem<V>&>(problem), options);
        const auto estimator = make_estimator<V>(choice, static_cast<Problem<V>&>(problem), *inner);
        estimator->set_tolerances(1e-14, 1e-13);
        return host_copy(estimator->estimate(at, {}).gradient);
      };
      const Vec expected = gradient(both.native, theta);
      EXPECT_LE((gradient(ours, tensor(theta)) - expected).norm(), 1e-10 * expected.norm());
    }
  }
}

TEST(TorchLosses, TheDerivativeCheckerPasses) {
  Logistic both(4);
  Losses<> ours = both.losses();
  const CheckReport report =
      check_derivatives<Tensor>(ours, tensor(draw(8, 1)), tensor(-2 + 0.3 * draw(8, 2).array()));
  EXPECT_TRUE(report.passed()) << report.table();
  for (const char* each : {"hessian-difference", "cross-difference", "cross-adjoint", "nudged"})
    EXPECT_NE(report.find(each), nullptr) << each;
}

TEST(TorchLosses, AProductIsOneBackwardPassAndNoForwardOne) {
  Logistic both(5);
  Losses<> ours = both.losses();
  EXPECT_EQ(ours.autograd_cost().forward_passes, 0) << "the first look is not counted";
  std::unique_ptr<Curvature<Tensor>> curvature;
  ours.linearise(ours.initial_phi(), ours.initial_theta(), 0, curvature);
  const torch::AutogradCost before = ours.autograd_cost();
  EXPECT_EQ(before.forward_passes, 1);
  EXPECT_EQ(before.backward_passes, 1);
  const long fetched = torch::synchronisations();
  Tensor out = ours.initial_phi(), cross = ours.initial_theta();
  const Tensor v = tensor(draw(8, 3));
  for (int i = 0; i < 3; ++i) curvature->times(v, out);
  curvature->cross_times(v, cross);
  curvature->cross_apply(v, out);
  EXPECT_EQ(ours.autograd_cost().forward_passes, before.forward_passes);
  EXPECT_EQ(ours.autograd_cost().backward_passes, before.backward_passes + 5);
  EXPECT_EQ(torch::synchronisations(), fetched) << "no number is fetched";
}

TEST(TorchLosses, CurvatureStaysWhereItWasPrepared) {
  Logistic both(6);
  Losses<> ours = both.losses();
  Tensor phi = tensor(draw(8, 1)), theta = ours.initial_theta(), before = at::zeros_like(phi),
         after = before.clone();
  const Tensor v = tensor(draw(8, 2));
  std::unique_ptr<Curvature<Tensor>> curvature;
  ours.linearise(phi, theta, 0, curvature);
  curvature->times(v, before);
  Space<Tensor>::fill(3, phi);
  Space<Tensor>::fill(1, theta);
  curvature->times(v, after);
  EXPECT_TRUE(after.equal(before));
}

TEST(TorchLosses, SomebodyElsesNoGradDoesNotMatter) {
  Logistic both(7);
  Losses<> ours = both.losses();
  const at::NoGradGuard guard;
  Tensor slope = ours.initial_phi();
  const Tensor phi = tensor(draw(8, 1));
  ours.inner(phi, ours.initial_theta(), {.phi = &slope});
  Vec expected(8);
  both.native.inner(host_copy(phi), both.native.initial_theta(), {.phi = &expected});
  EXPECT_LE(apart(slope, expected), 1e-12);
}

/// A small network whose weights each have a decay.
template <Vector V>
Losses<V> network(at::ScalarType type, torch::LossesOptions options = {}) {
  ::torch::manual_seed(11);
  const auto numbers = at::TensorOptions().dtype(type);
  const Tensor x = at::randn({20, 3}, numbers), y = at::randn({20, 1}, numbers);
  const Tensor validation_x = at::randn({15, 3}, numbers), validation_y = at::randn({15, 1}, numbers);
  const auto fit = [](const Tensor& in, const Tensor& out, const Tensors& w) {
    return (at::tanh(in.matmul(w[0]) + w[1]).matmul(w[2]) - out).pow(2).mean();
  };
  return Losses<V>(
      [=](const Tensors& w, const Tensors& decay) {
        Tensor loss = fit(x, y, w);
        for (std::size_t i = 0; i < w.size(); ++i)
          loss = loss + 0.5 * decay[0][static_cast<long>(i)].exp() * w[i].pow(2).sum();
        return loss;
      },
      [=](const Tensors& w, const Tensors&) { return fit(validation_x, validation_y, w); },
      Start(Tensors{0.5 * at::randn({3, 4}, numbers), at::zeros({4}, numbers),
                    0.5 * at::randn({4, 1}, numbers)},
            Tensors{at::full({3}, -1.0, numbers)}),
      options);
}

TEST(TorchLosses, ListsAreOneVectorWithoutCopies) {
  Losses<> problem = network<Tensor>(at::kDouble);
  const Tensor phi = problem.initial_phi();
  EXPECT_EQ(phi.sizes(), (std::vector<std::int64_t>{12 + 4 + 4}));
  const Tensors list = problem.phi_list(phi);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].sizes(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(list[1].data_ptr<double>(), phi.data_ptr<double>() + 12);
  EXPECT_EQ(list[2].data_ptr<double>(), phi.data_ptr<double>() + 16);
  const CheckReport report = check_derivatives<Tensor>(problem, phi, problem.initial_theta());
  EXPECT_TRUE(report.passed()) << report.table();
}

TEST(TorchLosses, FloatsAreAProblemToo) {
  Losses<torch::SingleTensor> problem = network<torch::SingleTensor>(at::kFloat);
  const CheckReport report =
      check_derivatives<torch::SingleTensor>(problem, problem.initial_phi(), problem.initial_theta());
  EXPECT_TRUE(report.passed()) << report.table();
}

TEST(TorchLosses, TheHypergradientOfANetworkIsTheDifferenceOfWholeSolves) {
  Losses<> problem = network<Tensor>(at::kDouble);
  const auto inner = make_inner_solver<Tensor>("newton", problem, {.gradient_tolerance = 1e-13});
  const auto estimator =
      make_estimator<Tensor>("implicit-cg", problem, *inner, {.adjoint = {.relative_tolerance = 1e-12}});
  const Tensor theta = problem.initial_theta();
  const Estimate<Tensor> e = estimator->estimate(theta, {});
  ASSERT_EQ(e.status, Status::converged) << e.message;
  EXPECT_EQ(e.certificate.kind, Kind::estimated) << "nobody gave constants";
  for (Index j = 0; j < 3; ++j) {
    const auto value = [&](double step) {
      Tensor moved = theta.clone();
      moved[j] += step;
      return problem.outer(inner->solve(moved, 0, e.phi).phi, moved, {});
    };
    const double h = 1e-3;
    const double difference = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
    EXPECT_NEAR(e.gradient[j].item<double>(), difference, 1e-8 * std::max(1.0, std::abs(difference)));
  }
}

TEST(TorchLosses, MinimiseLearnsWhatTheNativeProblemLearns) {
  Logistic both(8);
  Losses<> ours = both.losses();
  MinimiseOptions options;
  options.outer.box = {.lower = Vec::Constant(8, -6), .upper = Vec::Constant(8, 3)};
  options.outer.gradient_tolerance = 1e-8;
  const Summary expected = minimise(both.native, options), s = minimise(ours, options);
  ASSERT_EQ(expected.status, Status::converged) << expected.message;
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.theta - expected.theta).norm(), 1e-5 * expected.theta.norm());
  EXPECT_NEAR(s.outer_value, expected.outer_value, 1e-10);
  // The ledger knows what was fetched, for vectors that say so: at least θ and its gradient each time.
  EXPECT_GE(s.cost.synchronisations, 2 * s.evaluations);
  EXPECT_EQ(expected.cost.synchronisations, 0);
}

/// ½·mean over rows of (x·φ − y)², decays as before; the outer loss over rows of its own.
Losses<> by_rows(std::vector<std::int64_t>* seen = nullptr) {
  ::torch::manual_seed(12);
  const Tensor x = at::randn({12, 3}, at::kDouble), y = at::randn({12}, at::kDouble);
  const Tensor validation_x = at::randn({9, 3}, at::kDouble), validation_y = at::randn({9}, at::kDouble);
  const auto fit = [](const Tensor& in, const Tensor& out, const Tensor& phi, const Tensor& rows) {
    return 0.5 * (in.index_select(0, rows).matmul(phi) - out.index_select(0, rows)).pow(2).mean();
  };
  return Losses(
      [=](const Tensors& phi, const Tensors& theta, const Tensor& rows) {
        if (seen) seen->push_back(rows.numel());
        return fit(x, y, phi[0], rows) + 0.5 * (theta[0].exp() * phi[0].pow(2)).sum();
      },
      [=](const Tensors& phi, const Tensors&, const Tensor& rows) {
        return fit(validation_x, validation_y, phi[0], rows);
      },
      Start(Tensors{at::ones({3}, at::kDouble)}, Tensors{at::zeros({3}, at::kDouble)}), torch::Rows{12, 9});
}

TEST(TorchLosses, MinibatchesAddUpToTheWhole) {
  Losses<> whole = by_rows();
  torch::RowSampler inner({.rows = 12, .batch = 4, .seed = 3}), outer({.rows = 9, .batch = 3, .seed = 4});
  const Tensor phi = whole.initial_phi(), theta = whole.initial_theta();
  Tensor slope = phi.clone(), sum = at::zeros_like(phi), expected = phi.clone();
  double inner_sum = 0, outer_sum = 0;
  for (int i = 0; i < 3; ++i) {
    Losses<> part = whole.subset(inner.next(), outer.next());
    EXPECT_EQ(part.rows().inner, 4);
    inner_sum += part.inner(phi, theta, {.phi = &slope});
    outer_sum += part.outer(phi, theta, {});
    sum += slope;
  }
  EXPECT_NEAR(inner_sum / 3, whole.inner(phi, theta, {.phi = &expected}), 1e-14);
  EXPECT_NEAR(outer_sum / 3, whole.outer(phi, theta, {}), 1e-14);
  EXPECT_TRUE(at::allclose(sum / 3, expected, 1e-13, 1e-13));
  EXPECT_EQ(inner.rounds(), 1);
  inner.next();
  EXPECT_EQ(inner.rounds(), 2);
}

TEST(TorchLosses, ASubsetOfASubsetCountsWithinIt) {
  Losses<> whole = by_rows();
  const auto list = [](std::vector<std::int64_t> rows) { return ::torch::tensor(rows, at::kLong); };
  Losses<> half = whole.subset(list({2, 4, 6, 8}), list({1, 3}));
  Losses<> one = half.subset(list({1, 3}), {}), same = whole.subset(list({4, 8}), list({1, 3}));
  const Tensor phi = whole.initial_phi(), theta = whole.initial_theta();
  EXPECT_EQ(one.inner(phi, theta, {}), same.inner(phi, theta, {}));
  EXPECT_EQ(one.outer(phi, theta, {}), same.outer(phi, theta, {}));
  EXPECT_EQ(one.rows().inner, 2);
  EXPECT_EQ(one.rows().outer, 2);
  const Tensor changing = list({4, 8});
  Losses<> kept = whole.subset(changing, list({1, 3}));
  changing.fill_(99);
  EXPECT_EQ(kept.inner(phi, theta, {}), same.inner(phi, theta, {}));
}

TEST(TorchLosses, ConstraintsOnPhiHold) {
  // min ½‖φ − θ‖² in the unit box: φ* is θ put into it, and only free elements follow θ.
  const auto inner = [](const Tensor& phi, const Tensor& theta) { return 0.5 * (phi - theta).pow(2).sum(); };
  const auto outer = [](const Tensor& phi, const Tensor&) { return 0.5 * (phi - 3).pow(2).sum(); };
  const Start start(at::full({3}, 0.5, at::kDouble), ::torch::tensor({2.0, -1.0, 0.25}, at::kDouble));
  Losses<> losses(inner, outer, start, {.phi_constraints = PhiConstraints::box(Vec::Zero(3), Vec::Ones(3))});
  const auto solver = make_inner_solver<Tensor>("newton", losses, {.gradient_tolerance = 1e-10});
  const auto e = make_estimator<Tensor>("implicit-cg", losses, *solver)->estimate(losses.initial_theta(), {});
  EXPECT_LE(apart(e.phi, Vec{{1, 0, 0.25}}), 1e-9);
  EXPECT_LE((host_copy(e.gradient) - Vec{{0, 0, -2.75}}).norm(), 1e-8) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  EXPECT_NE(refusal([&] {
              Losses<>(inner, outer, start, {.phi_constraints = PhiConstraints::simplex(2)});
            }).find("phi_constraints"),
            std::string::npos);
}

TEST(TorchLosses, ASecondPhaseMayDrawItsRows) {
  // A ridge regression of 4,000 rows, whose gradient by all rows is that of `implicit-direct`.
  ::torch::manual_seed(5);
  const Tensor x = at::randn({4000, 6}, at::kDouble),
               y = x.matmul(at::ones({6}, at::kDouble)) + at::randn({4000}, at::kDouble);
  const auto error = [=](const Tensors& phi, const Tensor& rows) {
    return 0.5 * (x.index_select(0, rows).matmul(phi[0]) - y.index_select(0, rows)).pow(2).mean();
  };
  const auto made = [&](long drawn) {
    return Losses<>(
        [=](const Tensors& phi, const Tensors& theta, const Tensor& rows) {
          return error(phi, rows) + 0.5 * (theta[0].exp() * phi[0].pow(2)).sum();
        },
        [=](const Tensors& phi, const Tensors&, const Tensor& rows) { return error(phi, rows); },
        Start(Tensors{at::zeros({6}, at::kDouble)}, Tensors{at::full({6}, -1.0, at::kDouble)}),
        torch::Rows{.inner = 4000, .outer = 400}, {.drawn_rows = drawn, .seed = 7});
  };
  Losses<> losses = made(100);
  const auto inner = make_inner_solver<Tensor>("newton", losses);
  const auto exact =
      make_estimator<Tensor>("implicit-direct", losses, *inner)->estimate(losses.initial_theta(), {});
  StochasticOptions sgd;
  sgd.relative_tolerance = 1e-2;
  const auto drawing = make_estimator<Tensor>(ImplicitMethod{.adjoint = sgd}, losses, *inner);
  const auto drawn = drawing->estimate(losses.initial_theta(), {});
  EXPECT_EQ(drawing->name(), "implicit-sgd");
  EXPECT_EQ(drawn.adjoint_status, Status::converged) << drawn.message;
  const double off = (host_copy(drawn.gradient) - host_copy(exact.gradient)).norm();
  EXPECT_LE(off, drawn.certificate.bound) << drawn.certificate.reason;
  EXPECT_LE(off, 0.02 * host_copy(exact.gradient).norm());
  EXPECT_GT(off, 0);
  EXPECT_EQ(drawn.certificate.verdict, Verdict::trusted) << drawn.certificate.reason;
  // A drawn product is a fortieth of a whole one.
  EXPECT_NEAR(drawn.cost.drawn_products, (drawn.adjoint_iterations + sgd.power_steps) / 40.0, 1e-9);
  // The same rows every time.
  EXPECT_EQ(host_copy(drawing->estimate(losses.initial_theta(), {}).gradient), host_copy(drawn.gradient));
  Losses<> all = made(0);
  EXPECT_NE(refusal([&] {
              make_estimator<Tensor>(ImplicitMethod{.adjoint = sgd}, all,
                                     *make_inner_solver<Tensor>("newton", all))
                  ->estimate(all.initial_theta(), {});
            }).find("draws no rows"),
            std::string::npos);
  EXPECT_NE(refusal([&] { made(4001); }).find("drawn_rows = 4001"), std::string::npos);
}

TEST(TorchLosses, RowsThatAreNotThereAreRefused) {
  Losses<> whole = by_rows();
  EXPECT_NE(refusal([&] {
              whole.subset(::torch::tensor({0, 12}, at::kLong), {});
            }).find("inner rows 0 … 12"),
            std::string::npos);
  EXPECT_NE(refusal([&] { whole.subset({}, ::torch::tensor({-1}, at::kLong)); }).find("outer rows"),
            std::string::npos);
  EXPECT_NE(refusal([&] { whole.subset(at::ones({2}), {}); }).find("int64"), std::string::npos);
  EXPECT_NE(refusal([] {
              const torch::RowLoss any = [](const Tensors& phi, const Tensors&, const Tensor&) {
                return phi[0].sum();
              };
              Losses<>(any, any,
                       Start(Tensors{at::ones({1}, at::kDouble)}, Tensors{at::ones({1}, at::kDouble)}),
                       torch::Rows{.inner = 3, .outer = 0});
            }).find("rows.outer = 0"),
            std::string::npos);
  Logistic both(1);
  EXPECT_NE(refusal([&] { both.losses().subset({}, {}); }).find("given by rows"), std::string::npos);
  EXPECT_NE(refusal([] { torch::RowSampler({.rows = 3, .batch = 4}); }).find("batch"), std::string::npos);
}

}  // namespace losses_test
}  // namespace bilevel
