// Layers that settle: what they return, what comes back through them, and what they say of themselves.

#include <cmath>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/torch/implicit_layer.hpp>
#include <refusal.hpp>

namespace bilevel {
namespace implicit_layer_test {

using at::Tensor;
using torch::ImplicitLayer;
using torch::ImplicitLayerOptions;
using torch::LayerReport;
using torch::Tensors;

constexpr double tight = 1e-13;

/// φ = tanh(φW + xU + b), with ‖W‖ < 1.
struct Net {
  explicit Net(std::uint64_t seed, at::ScalarType type = at::kDouble, double gain = 0.7) {
    ::torch::manual_seed(seed);
    const auto numbers = at::TensorOptions(type);
    w = at::randn({6, 6}, numbers);
    w = (gain / at::linalg_matrix_norm(w, 2).item<double>() * w).detach().requires_grad_();
    u = (0.5 * at::randn({4, 6}, numbers)).requires_grad_();
    b = (0.1 * at::randn({6}, numbers)).requires_grad_();
    x = at::randn({5, 4}, numbers).requires_grad_();
    above = at::randn({5, 6}, numbers);
  }
  auto map() const {
    return
        [*this](const Tensor& phi, const Tensor& in) { return at::tanh(phi.matmul(w) + in.matmul(u) + b); };
  }
  Tensor start() const { return at::zeros({5, 6}, w.options().requires_grad(false)); }

  Tensor w, u, b, x, above;
};

ImplicitLayerOptions to_the_last_digits() {
  return {.tolerance = tight, .max_iterations = 1000, .adjoint_tolerance = tight};
}

TEST(TorchImplicitLayer, SettlesAndReturnsWhereItSettled) {
  Net net(1);
  ImplicitLayer layer(net.map(), to_the_last_digits());
  const Tensor phi = layer->forward_from(net.x, net.start());
  EXPECT_LE((phi - net.map()(phi, net.x)).abs().max().item<double>(), tight);
  const LayerReport& r = layer->report();
  EXPECT_EQ(r.status, Status::converged) << r.message;
  EXPECT_EQ(r.samples, std::vector<Status>(5, Status::converged));
  EXPECT_EQ(r.residuals.numel(), 5);
  EXPECT_LE(r.worst, tight);
  EXPECT_GT(r.evaluations, 3);
  EXPECT_EQ(r.verdict(), Verdict::doubtful) << "nothing has come back yet";
  phi.backward(net.above);
  EXPECT_EQ(r.adjoint_status, Status::converged) << r.adjoint_message;
  EXPECT_LE(r.adjoint_residual, tight);
  EXPECT_EQ(r.verdict(), Verdict::trusted);
}

/// φ = φW + xU + b: φ* = (xU + b)(1 − W)⁻¹, and with A = above·(1 − W)⁻ᵀ what comes back is
///   ∂x = A·Uᵀ,   ∂U = xᵀA,   ∂b = Σ A,   ∂W = φ*ᵀA.
TEST(TorchImplicitLayer, ALinearLayerIsItsClosedForm) {
  for (const AdjointChoice& adjoint :
       std::initializer_list<AdjointChoice>{GmresOptions{}, BicgstabOptions{}, NeumannOptions{{}, 1.0}}) {
    SCOPED_TRACE(name(adjoint));
    Net net(2);
    ImplicitLayerOptions options = to_the_last_digits();
    options.adjoint = adjoint;
    options.adjoint_tolerance = 1e-12;
    ImplicitLayer layer(
        [&](const Tensor& phi, const Tensor& x) { return phi.matmul(net.w) + x.matmul(net.u) + net.b; },
        options);
    const Tensor phi = layer->forward_from(net.x, net.start());
    const Tensor inverse = at::inverse(at::eye(6, at::kDouble) - net.w.detach());
    const Tensor expected = (net.x.detach().matmul(net.u.detach()) + net.b.detach()).matmul(inverse);
    EXPECT_TRUE(at::allclose(phi, expected, 0, 1e-11));
    phi.backward(net.above);
    EXPECT_EQ(layer->report().adjoint_status, Status::converged) << layer->report().adjoint_message;
    const Tensor a = net.above.matmul(inverse.t());
    const auto near = [](const Tensor& x, const Tensor& y) {
      return (x - y).norm().item<double>() / y.norm().item<double>();
    };
    EXPECT_LE(near(net.x.grad(), a.matmul(net.u.detach().t())), 1e-8);
    EXPECT_LE(near(net.u.grad(), net.x.detach().t().matmul(a)), 1e-8);
    EXPECT_LE(near(net.b.grad(), a.sum(0)), 1e-8);
    EXPECT_LE(near(net.w.grad(), expected.t().matmul(a)), 1e-8);
  }
}

TEST(TorchImplicitLayer, DerivativesAreDifferencesOfTheWholeSolve) {
  for (const std::uint64_t seed : {3, 4}) {
    Net net(seed);
    ImplicitLayer layer(net.map(), to_the_last_digits());
    const auto loss = [&] {
      return (layer->forward_from(net.x, net.start()) * net.above).sum().item<double>();
    };
    layer->forward_from(net.x, net.start()).backward(net.above);
    for (const auto& [what, leaf] : std::initializer_list<std::pair<const char*, Tensor>>{
             {"x", net.x}, {"W", net.w}, {"U", net.u}, {"b", net.b}}) {
      SCOPED_TRACE(::testing::Message() << what << ", seed " << seed);
      const Tensor gradient = leaf.grad().clone(), direction = at::randn_like(leaf.detach());
      const Tensor kept = leaf.detach().clone();
      const auto at_step = [&](double h) {
        const at::NoGradGuard guard;
        leaf.detach().copy_(kept + h * direction);
        const double value = loss();
        leaf.detach().copy_(kept);
        return value;
      };
      const double h = 1e-3;
      const double difference =
          (8 * (at_step(h) - at_step(-h)) - (at_step(2 * h) - at_step(-2 * h))) / (12 * h);
      EXPECT_NEAR((gradient * direction).sum().item<double>(), difference,
                  1e-8 * std::max(1.0, std::abs(difference)));
    }
  }
}

TEST(TorchImplicitLayer, FloatsSettleToTheirOwnAccuracy) {
  Net net(5, at::kFloat), exact(5);
  for (auto [to, from] :
       {std::pair{&exact.w, &net.w}, {&exact.u, &net.u}, {&exact.b, &net.b}, {&exact.x, &net.x}})
    *to = from->detach().to(at::kDouble).requires_grad_();
  ImplicitLayer layer(net.map(), ImplicitLayerOptions{.tolerance = 1e-6, .adjoint_tolerance = 1e-5});
  ImplicitLayer truth(exact.map(), to_the_last_digits());
  const Tensor phi = layer->forward_from(net.x, net.start()),
               expected = truth->forward_from(exact.x, exact.start());
  EXPECT_EQ(layer->report().status, Status::converged) << layer->report().message;
  EXPECT_LE((phi - expected).abs().max().item<double>(), 1e-5);
  phi.backward(net.above);
  expected.backward(net.above.to(at::kDouble));
  EXPECT_EQ(layer->report().verdict(), Verdict::trusted) << layer->report().adjoint_message;
  EXPECT_LE((net.w.grad() - exact.w.grad()).norm().item<double>(),
            1e-4 * exact.w.grad().norm().item<double>());
}

/// E = Σ ½φ² + log cosh(φA) − φ·(xU): its minimum is where the gradient vanishes.
TEST(TorchImplicitLayer, AnArgminIsDifferentiatedToo) {
  for (const InnerChoice& inner : std::initializer_list<InnerChoice>{LbfgsOptions{}, NewtonOptions{}}) {
    SCOPED_TRACE(name(inner));
    Net net(6);
    ImplicitLayerOptions options = to_the_last_digits();
    options.inner = inner;
    options.tolerance = 1e-11;
    options.adjoint = ConjugateGradientOptions{};
    const auto energy = [&](const Tensor& phi, const Tensor& x) {
      return (0.5 * phi.pow(2) + at::log(at::cosh(phi.matmul(net.w))) - phi * x.matmul(net.u)).sum();
    };
    ImplicitLayer layer = ImplicitLayer::argmin(energy, {}, options);
    const auto loss = [&] { return (layer->forward_from(net.x, net.start()) * net.above).sum(); };
    loss().backward();
    EXPECT_EQ(layer->report().verdict(), Verdict::trusted)
        << layer->report().message << layer->report().adjoint_message;
    for (const Tensor& leaf : {net.x, net.w, net.u}) {
      const Tensor direction = at::randn_like(leaf.detach()), kept = leaf.detach().clone();
      const auto at_step = [&](double h) {
        leaf.detach().copy_(kept + h * direction);
        const double value = loss().item<double>();
        leaf.detach().copy_(kept);
        return value;
      };
      const double h = 1e-3;
      const double difference =
          (8 * (at_step(h) - at_step(-h)) - (at_step(2 * h) - at_step(-2 * h))) / (12 * h);
      EXPECT_NEAR((leaf.grad() * direction).sum().item<double>(), difference,
                  2e-8 * std::max(1.0, std::abs(difference)));
    }
  }
}

TEST(TorchImplicitLayer, EachSampleHasItsStatus) {
  // φ ← cφ + x: c is 0.5 for the first sample, 1.2 for the second (away from everything), NaN for the third.
  const Tensor c = ::torch::tensor({{0.5}, {1.2}, {std::nan("")}}, at::kDouble);
  const auto report_of = [](const Tensor& factors) {
    ImplicitLayer layer([=](const Tensor& phi, const Tensor& x) { return factors * phi + x; },
                        ImplicitLayerOptions{.inner = FixedPointOptions{.memory = 0}, .max_iterations = 30});
    layer->forward(at::ones_like(factors));
    return layer->report();
  };
  const LayerReport both = report_of(c.narrow(0, 0, 2));
  EXPECT_EQ(both.samples[0], Status::converged) << both.message;
  EXPECT_EQ(both.samples[1], Status::iteration_limit) << both.message;
  EXPECT_NE(both.status, Status::converged);
  EXPECT_EQ(both.verdict(), Verdict::untrusted);
  EXPECT_NE(both.message.find("1 of 2 samples settled"), std::string::npos) << both.message;
  const LayerReport bad = report_of(c.narrow(0, 2, 1));
  EXPECT_EQ(bad.samples[0], Status::not_finite) << bad.message;
  EXPECT_EQ(bad.status, Status::not_finite);
  EXPECT_EQ(bad.verdict(), Verdict::untrusted);
}

TEST(TorchImplicitLayer, OneSampleThatIsBehindIsNotHiddenByTheOthers) {
  // The whole is within √100 tolerances while the slow one alone is not.
  Tensor c = at::full({100, 1}, 0.1, at::kDouble);
  c[7] = 0.97;
  ImplicitLayer layer(
      [=](const Tensor& phi, const Tensor& x) { return c * phi + x; },
      ImplicitLayerOptions{
          .inner = FixedPointOptions{.memory = 0}, .tolerance = 1e-6, .max_iterations = 2000});
  layer->forward(0.01 * at::ones_like(c));
  EXPECT_EQ(layer->report().status, Status::converged) << layer->report().message;
  EXPECT_LE(layer->report().worst, 1e-6);
}

TEST(TorchImplicitLayer, TheOneStepGradientIsWhatItsNameSays) {
  Net net(7);
  ImplicitLayerOptions options = to_the_last_digits();
  options.adjoint = IdentityOptions{};
  ImplicitLayer layer(net.map(), options);
  const Tensor phi = layer->forward_from(net.x, net.start());
  phi.backward(net.above);
  const Tensor ours = net.u.grad().clone();
  net.u.mutable_grad() = Tensor();
  net.map()(phi.detach(), net.x).backward(net.above);
  EXPECT_TRUE(at::allclose(ours, net.u.grad(), 1e-12, 1e-12));
  EXPECT_EQ(layer->report().adjoint_status, Status::approximate);
  EXPECT_NE(layer->report().verdict(), Verdict::trusted);
}

TEST(TorchImplicitLayer, KeepsTheGraphOfOneEvaluation) {
  Net net(8);
  long recorded = 0, all = 0;
  const auto map = net.map();
  ImplicitLayer layer(
      [&](const Tensor& phi, const Tensor& x) {
        const Tensor mapped = map(phi, x);
        ++all;
        recorded += mapped.requires_grad();
        return mapped;
      },
      to_the_last_digits());
  layer->forward_from(net.x, net.start()).backward(net.above);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(all, layer->report().evaluations);
  {
    const at::NoGradGuard guard;
    EXPECT_FALSE(layer->forward_from(net.x, net.start()).requires_grad());
  }
  EXPECT_EQ(recorded, 1) << "nothing is recorded where nobody asks for a gradient";
}

TEST(TorchImplicitLayer, FewNumbersAreFetched) {
  Net net(17);
  ImplicitLayer layer(net.map(), to_the_last_digits());
  layer->forward_from(net.x, net.start());
  const LayerReport& r = layer->report();
  // An iteration: ‖F‖, ‖φ‖, and what Anderson combines twice.
  EXPECT_LE(r.synchronisations, 4 * r.iterations + 20);
  EXPECT_GT(r.iterations, 10);
}

TEST(TorchImplicitLayer, BroydenSettlesWhereAndersonDoes) {
  for (const std::uint64_t seed : {18, 19, 20}) {
    SCOPED_TRACE(seed);
    Net net(seed);
    ImplicitLayerOptions options = to_the_last_digits();
    ImplicitLayer anderson(net.map(), options);
    options.inner = FixedPointOptions::broyden();
    ImplicitLayer broyden(net.map(), options);
    const Tensor expected = anderson->forward_from(net.x, net.start()),
                 phi = broyden->forward_from(net.x, net.start());
    const LayerReport& r = broyden->report();
    EXPECT_EQ(r.status, Status::converged) << r.message;
    EXPECT_LE((phi - expected).abs().max().item<double>(), 1e-12);
    // As often as Anderson: ‖F‖, ‖φ‖ and products twice. A third time would show.
    EXPECT_LE(r.synchronisations, 4 * r.iterations + 10);
    EXPECT_GT(r.iterations, 10);
    phi.backward(net.above);
    const Tensor back = net.w.grad().clone();
    net.w.mutable_grad() = Tensor();
    expected.backward(net.above);
    EXPECT_LE((back - net.w.grad()).norm().item<double>(), 1e-10 * back.norm().item<double>());
  }
}

TEST(TorchImplicitLayer, StartsWarmWhereItIsTold) {
  Net net(9);
  ImplicitLayerOptions options = to_the_last_digits();
  options.warm_start = true;
  ImplicitLayer layer(net.map(), options);
  layer->forward_from(net.x, net.start());
  const long first = layer->report().iterations;
  layer->forward_from(net.x, net.start());
  EXPECT_LE(layer->report().iterations, 1);
  EXPECT_GT(first, 5);
}

TEST(TorchImplicitLayer, ThePenaltyIsThatOfTheJacobian) {
  // ∂f/∂φ = W for every sample of a linear layer: ‖J‖²_F/|φ| = ‖W‖²_F/6.
  Net net(10);
  ImplicitLayerOptions options = to_the_last_digits();
  options.jacobian_directions = 4000;
  ImplicitLayer layer([&](const Tensor& phi, const Tensor& x) { return phi.matmul(net.w) + x.matmul(net.u); },
                      options);
  layer->forward_from(net.x, net.start());
  const Tensor penalty = layer->jacobian_penalty();
  const double expected = net.w.detach().pow(2).sum().item<double>() / 6;
  EXPECT_NEAR(penalty.item<double>(), expected, 0.03 * expected);
  penalty.backward();
  const Tensor slope = 2.0 / 6 * net.w.detach();
  EXPECT_LE((net.w.grad() - slope).norm().item<double>(), 0.1 * slope.norm().item<double>());
  ImplicitLayer without(net.map());
  without->forward_from(net.x, net.start());
  EXPECT_NE(refusal([&] { without->jacobian_penalty(); }).find("jacobian_directions"), std::string::npos);
}

TEST(TorchImplicitLayer, IsAModuleInsideOfANetwork) {
  ::torch::manual_seed(13);
  const auto cell = ::torch::nn::Linear(4, 4).ptr();
  {
    const at::NoGradGuard guard;
    cell->weight.mul_(0.3);
  }
  ImplicitLayer layer([=](const Tensor& phi, const Tensor& x) { return at::tanh(cell->forward(phi) + x); },
                      std::vector<std::shared_ptr<::torch::nn::Module>>{cell},
                      ImplicitLayerOptions{.tolerance = 1e-6});
  ::torch::nn::Sequential network(::torch::nn::Linear(3, 4), layer, ::torch::nn::Linear(4, 1));
  EXPECT_EQ(network->parameters().size(), 6U);
  const Tensor x = at::randn({32, 3}), y = (x.sum(1, true)).sin();
  ::torch::optim::Adam adam(network->parameters(), ::torch::optim::AdamOptions(0.02));
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    adam.zero_grad();
    const Tensor loss = (network->forward(x) - y).pow(2).mean();
    loss.backward();
    adam.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  EXPECT_LE(last, 0.2 * first);
  EXPECT_EQ(layer->report().status, Status::converged);
}

TEST(TorchImplicitLayer, WhatItCannotDoIsSaid) {
  Net net(14);
  const auto said = [](auto&& work) { return refusal(work); };
  ImplicitLayer layer(net.map());
  EXPECT_NE(said([&] { layer->forward_from(net.x, Tensor()); }).find("first dimension"), std::string::npos);
  EXPECT_NE(said([&] { layer->forward_from(net.x, net.start().to(at::kHalf)); }).find("Half"),
            std::string::npos);
  EXPECT_NE(said([&] { layer->forward_from(net.x, net.start().to(at::kMeta)); }).find("phi on meta"),
            std::string::npos);
  EXPECT_NE(said([&] {
              ImplicitLayer(net.map(), ImplicitLayerOptions{.inner = LbfgsOptions{}});
            }).find("minimises"),
            std::string::npos);
  EXPECT_NE(said([&] { ImplicitLayer(net.map(), ImplicitLayerOptions{.tolerance = -1}); }).find("tolerance"),
            std::string::npos);
  EXPECT_NE(said([] { ImplicitLayer(torch::ImplicitLayerImpl::Map()); }).find("empty"), std::string::npos);
  ImplicitLayer wide([](const Tensor& phi, const Tensor&) { return at::cat({phi, phi}); });
  EXPECT_NE(said([&] { wide->forward_from(net.x, net.start()); }).find("shape"), std::string::npos);
  ImplicitLayer energies = ImplicitLayer::argmin([](const Tensor& phi, const Tensor&) { return phi.pow(2); });
  EXPECT_NE(said([&] { energies->forward_from(net.x, net.start()); }).find("not a scalar"),
            std::string::npos);
}

TEST(TorchImplicitLayer, SecondDerivativesAreRefused) {
  Net net(15);
  ImplicitLayer layer(net.map());
  const Tensor phi = layer->forward_from(net.x, net.start());
  std::string said = "accepted";
  try {
    ::torch::autograd::grad({phi.sum()}, {net.x}, {}, true, true);
  } catch (const std::exception& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("first derivatives only"), std::string::npos) << said;
}

TEST(TorchImplicitLayer, NaNFromAboveIsNamed) {
  Net net(16);
  ImplicitLayer layer(net.map());
  const Tensor phi = layer->forward_from(net.x, net.start());
  phi.backward(net.above * std::nan(""));
  EXPECT_EQ(layer->report().adjoint_status, Status::not_finite);
  EXPECT_EQ(layer->report().verdict(), Verdict::untrusted);
}

}  // namespace implicit_layer_test
}  // namespace bilevel
