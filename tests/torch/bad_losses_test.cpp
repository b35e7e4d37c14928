// Losses that cannot be used: what is said of each, and when.

#include <cmath>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>
#include <refusal.hpp>

namespace bilevel {
namespace bad_losses_test {

using at::Tensor;
using torch::Loss;
using torch::Losses;
using torch::Start;
using torch::Tensors;

const Loss good_inner = [](const Tensor& phi, const Tensor& theta) {
  return 0.5 * (phi - theta).pow(2).sum() + phi.pow(4).sum();
};
const Loss good_outer = [](const Tensor& phi, const Tensor&) { return (phi - 1).pow(2).sum(); };

Start start() {
  return {at::full({3}, 0.5, at::kDouble), at::zeros({3}, at::kDouble)};
}

/// What is said of two losses before any work.
std::string said_of(Loss inner, Loss outer, Start from = start()) {
  return refusal([&] { Losses<>(std::move(inner), std::move(outer), std::move(from)); });
}

void expect_said(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(BadLosses, GoodOnesAreAccepted) {
  EXPECT_EQ(said_of(good_inner, good_outer), "accepted");
}

TEST(BadLosses, NotAScalar) {
  expect_said(
      said_of([](const Tensor& phi, const Tensor& theta) { return (phi - theta).pow(2); }, good_outer),
      {"the inner loss is not a scalar", "[3]"});
  expect_said(said_of(good_inner, [](const Tensor& phi, const Tensor&) { return phi; }),
              {"the outer loss is not a scalar"});
  expect_said(said_of([](const Tensor&, const Tensor&) { return Tensor(); }, good_outer),
              {"the inner loss is undefined"});
  expect_said(said_of([](const Tensor& phi, const Tensor&) { return phi.sum().to(at::kLong); }, good_outer),
              {"the inner loss is of Long"});
  expect_said(said_of(Loss(), good_outer), {"the inner loss is an empty function"});
}

TEST(BadLosses, DependOnNothing) {
  expect_said(said_of([](const Tensor&, const Tensor& theta) { return theta.pow(2).sum(); }, good_outer),
              {"the inner loss does not depend on phi"});
  expect_said(said_of([](const Tensor& phi, const Tensor&) { return phi.pow(2).sum(); }, good_outer),
              {"the inner loss does not depend on theta"});
  expect_said(said_of(good_inner, [](const Tensor&, const Tensor& theta) { return theta.pow(2).sum(); }),
              {"the outer loss does not depend on phi"});
  expect_said(said_of([](const Tensor& phi, const Tensor&) { return phi.detach().pow(2).sum(); }, good_outer),
              {"the inner loss depends neither on phi nor on theta"});
}

TEST(BadLosses, OnDifferentDevices) {
  expect_said(said_of(good_inner, good_outer,
                      Start(at::zeros({3}, at::kDouble),
                            at::zeros({3}, at::TensorOptions(at::kDouble).device(at::kMeta)))),
              {"phi is on cpu", "theta on meta"});
  expect_said(
      said_of([](const Tensor& phi, const Tensor&) { return at::zeros({}, phi.options().device(at::kMeta)); },
              good_outer),
      {"the inner loss is on meta"});
  expect_said(refusal([] {
                Losses<>([](const Tensors& phi, const Tensors&) { return phi[0].sum(); },
                         [](const Tensors& phi, const Tensors&) { return phi[0].sum(); },
                         Start(Tensors{at::zeros({3}, at::kDouble),
                                       at::zeros({3}, at::TensorOptions(at::kDouble).device(at::kMeta))},
                               Tensors{at::zeros({3}, at::kDouble)}));
              }),
              {"tensor 1 of phi is on meta", "tensor 0 on cpu"});
}

TEST(BadLosses, OfAnotherTypeOrEmpty) {
  expect_said(said_of(good_inner, good_outer, Start(at::zeros({3}, at::kFloat), at::zeros({3}, at::kDouble))),
              {"phi is of Float", "SingleTensor"});
  expect_said(said_of(good_inner, good_outer, Start(at::zeros({3}, at::kDouble), Tensor())),
              {"theta is undefined"});
  expect_said(said_of(good_inner, good_outer,
                      Start(Tensors{at::zeros({3}, at::kDouble)}, Tensors{at::zeros({3}, at::kDouble)})),
              {"functions of two tensors start at two tensors"});
  expect_said(said_of([](const Tensor& phi,
                         const Tensor& theta) { return (phi - theta).pow(2).sum().to(at::kFloat); },
                      good_outer),
              {"the inner loss is of Float, phi of Double"});
}

TEST(BadLosses, NaNAtTheStart) {
  expect_said(said_of([](const Tensor& phi, const Tensor& theta) { return ((phi - 1).log() * theta).sum(); },
                      good_outer),
              {"the inner loss is nan at the start"});
  expect_said(said_of(good_inner, good_outer,
                      Start(at::full({3}, std::nan(""), at::kDouble), at::zeros({3}, at::kDouble))),
              {"the start phi holds NaN"});
}

TEST(BadLosses, NaNOnTheWayIsAStatusThatSaysWhere) {
  // Fine at the start; the argument of the root turns negative on the way down.
  Losses<> problem(
      [](const Tensor& phi, const Tensor& theta) {
        return (phi + 1).pow(2).sum() + 1e-3 * (phi * theta).sum() + 1e-3 * phi.pow(1.5).sum();
      },
      good_outer, start());
  const auto inner = make_inner_solver<Tensor>("gradient-descent", problem, {.gradient_tolerance = 1e-8});
  const Solution<Tensor> s = inner->solve(problem.initial_theta(), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::not_finite) << s.message;
  EXPECT_NE(s.message.find("iteration"), std::string::npos) << s.message;
}

TEST(BadLosses, NotTwiceDifferentiable) {
  // A factor is detached: the gradient is half of what it should be, and the second derivative is none at
  // all.
  expect_said(said_of([](const Tensor& phi,
                         const Tensor& theta) { return (phi.detach() * phi).sum() + (phi * theta).sum(); },
                      good_outer),
              {"the inner loss is not twice differentiable", "detached"});
  // Linear between its kinks, and at one.
  expect_said(said_of([](const Tensor& phi,
                         const Tensor& theta) { return (phi - 0.5).abs().sum() + (phi * theta).sum(); },
                      good_outer),
              {"the inner loss is not twice differentiable", "kink"});
}

/// y = x², whose derivative was written without one of its own.
struct Once : ::torch::autograd::Function<Once> {
  static Tensor forward(::torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static Tensors backward(::torch::autograd::AutogradContext* context, Tensors above) {
    const at::NoGradGuard guard;
    return {2 * context->get_saved_variables()[0].detach() * above[0].detach()};
  }
};

TEST(BadLosses, AnOperationWithoutASecondDerivative) {
  expect_said(said_of([](const Tensor& phi, const Tensor& theta) { return Once::apply(phi - theta).sum(); },
                      good_outer),
              {"the inner loss is not twice differentiable"});
}

TEST(BadLosses, ChangeTheirShapeBetweenCalls) {
  bool wide = false;
  Losses<> problem(
      [&](const Tensor& phi, const Tensor& theta) {
        const Tensor each = (phi - theta).pow(2);
        return wide ? each : each.sum();
      },
      good_outer, start());
  const Tensor phi = problem.initial_phi(), theta = problem.initial_theta();
  EXPECT_EQ(refusal([&] { problem.inner(phi, theta, {}); }), "accepted");
  wide = true;
  expect_said(refusal([&] { problem.inner(phi, theta, {}); }), {"the inner loss is not a scalar", "[3]"});
  wide = false;
  expect_said(refusal([&] { problem.inner(at::zeros({4}, at::kDouble), theta, {}); }),
              {"phi has shape [4]", "started with [3]"});
}

TEST(BadLosses, HideAState) {
  expect_said(said_of(
                  [](const Tensor& phi, const Tensor& theta) {
                    return (phi - theta).pow(2).sum() + (at::dropout(phi, 0.5, true)).pow(2).sum();
                  },
                  good_outer),
              {"the inner loss draws random numbers"});
  int calls = 0;
  expect_said(
      said_of(good_inner, [&](const Tensor& phi, const Tensor&) { return phi.pow(2).sum() * ++calls; }),
      {"the outer loss hides a state"});
}

TEST(BadLosses, FailInsideOfLibTorch) {
  expect_said(
      said_of([](const Tensor& phi,
                 const Tensor& theta) { return phi.matmul(at::ones({5}, at::kDouble)) * theta.sum(); },
              good_outer),
      {"the inner loss failed", "size"});
}

TEST(BadLosses, NoLookIsTakenWhereNoneIsAskedFor) {
  int calls = 0;
  Losses<>(
      [&](const Tensor& phi, const Tensor&) {
        ++calls;
        return phi.sum();
      },
      good_outer, start(), {.look_first = false});
  EXPECT_EQ(calls, 0);
}

}  // namespace bad_losses_test
}  // namespace bilevel
