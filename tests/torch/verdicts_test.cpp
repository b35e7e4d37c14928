// Derivatives by autograd, judged as those by hand are.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>
#include <same_verdicts.hpp>

#include "tensor_logistic.hpp"

namespace bilevel {
namespace torch_verdicts_test {

using at::Tensor;
using testing::same_verdicts::Counts;
using testing::same_verdicts::expect_same_verdicts;
using testing::same_verdicts::SoftByHand;
using torch::Losses;
using Vec = Eigen::VectorXd;

Tensor all(long size, double value) {
  return at::full({size}, value, at::kDouble);
}

/// L_in = φ⁴ − θφ², L_out = ½(φ − 1)², from this φ.
Losses<> fork(double start) {
  return Losses<>(
      [](const Tensor& phi, const Tensor& theta) { return (phi.pow(4) - theta * phi.pow(2)).sum(); },
      [](const Tensor& phi, const Tensor&) { return 0.5 * (phi - 1).pow(2).sum(); },
      {all(1, start), all(1, 1)});
}

TEST(TorchVerdicts, AreThoseOfDerivativesByHand) {
  Counts counts;
  {
    problems::Pitchfork native;
    Losses<> ours = fork(1);
    // A branch, near the fork, at it, and before it.
    for (const double theta : {2.0, 1e-2, 1e-5, 0.0, -1.0})
      expect_same_verdicts<Tensor>(ours, native, Vec::Constant(1, theta), counts);
    // From the saddle between the branches.
    Losses<> saddle = fork(0);
    const auto inner = make_inner_solver<Tensor>("newton", saddle);
    const auto e = make_estimator<Tensor>("implicit-direct", saddle, *inner)->estimate(all(1, 1), {});
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
  }
  for (const double soft : {1.0, 1e-3, 1e-6}) {
    auto native = make_problem(SoftByHand{soft});
    const Tensor stiffness = ::torch::tensor({1.0, soft}, at::kDouble),
                 above = ::torch::tensor({1.0, 0.009}, at::kDouble);
    Losses<> ours([=](const Tensor& phi,
                      const Tensor& theta) { return (0.5 * stiffness * phi.pow(2) - phi * theta).sum(); },
                  [=](const Tensor& phi, const Tensor&) { return above.dot(phi); }, {all(2, 0), all(2, 0)});
    expect_same_verdicts<Tensor>(ours, native, Vec{{0.1, 0.2}}, counts);
  }
  torch_testing::TensorLogistic both(2);
  both.native.keep_units_of_one();
  Losses<> ours = both.losses(false);
  expect_same_verdicts<Tensor>(ours, both.native, both.native.initial_theta(), counts);
  // None of the verdicts is the only one that was met.
  EXPECT_GT(counts.trusted, counts.compared / 10);
  EXPECT_GT(counts.untrusted, counts.compared / 10);
  EXPECT_LE(counts.ended_differently, counts.compared / 50);
  RecordProperty("compared", counts.compared);
}

}  // namespace torch_verdicts_test
}  // namespace bilevel
