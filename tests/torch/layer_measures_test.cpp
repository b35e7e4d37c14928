// What layers that settle are measured by: the bytes that they take, and whether they contract.

#include <cmath>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/torch/implicit_layer.hpp>
#include <bilevel/torch/memory_use.hpp>
#include <refusal.hpp>

namespace bilevel {
namespace layer_measures_test {

using at::Tensor;
using torch::ImplicitLayer;
using torch::ImplicitLayerOptions;
using torch::MemoryUse;

TEST(TorchMemoryUse, CountsWhatIsHeldAndTheMostOfIt) {
  Tensor before = at::zeros({1000}, at::kDouble);
  MemoryUse use;
  Tensor kept = at::zeros({100}, at::kDouble);
  EXPECT_EQ(use.held(), 800);
  { const Tensor gone = at::zeros({1000}, at::kDouble); }
  EXPECT_EQ(use.held(), 800);
  EXPECT_EQ(use.peak(), 8800);
  before = Tensor();
  EXPECT_EQ(use.held(), 800) << "not what was there before";
  {
    const MemoryUse inner;
    const Tensor one = at::zeros({10}, at::kDouble);
    EXPECT_EQ(inner.held(), 80);
  }
  kept = Tensor();
  EXPECT_EQ(use.held(), 0);
  EXPECT_EQ(use.peak(), 8800);
}

/// The most bytes of a forward and a backward pass through so many steps, by the layer or one after the
/// other.
std::int64_t peak(long steps, bool settles) {
  ::torch::manual_seed(1);
  const Tensor w = (0.01 * at::randn({64, 64})).requires_grad_(), x = at::randn({32, 64});
  const auto map = [&](const Tensor& phi, const Tensor& in) { return at::tanh(phi.matmul(w) + in); };
  ImplicitLayer layer(map, ImplicitLayerOptions{.inner = FixedPointOptions{.step = 1e-3, .memory = 0},
                                                .tolerance = 1e-30,
                                                .max_iterations = steps,
                                                .adjoint_max_iterations = 5});
  const MemoryUse use;
  Tensor phi = at::zeros_like(x);
  if (settles) phi = layer->forward(x);
  for (long k = 0; k < steps && !settles; ++k) phi = map(phi, x);
  phi.sum().backward();
  EXPECT_EQ(layer->report().iterations, settles ? steps : 0);
  return use.peak();
}

TEST(TorchMemoryUse, OfALayerDoesNotGrowWithItsSteps) {
  const std::int64_t ten = peak(10, true);
  EXPECT_GT(ten, 64 * 32 * 4) << "something is kept";
  EXPECT_EQ(peak(100, true), ten);
  EXPECT_EQ(peak(1000, true), ten);
  EXPECT_GT(peak(100, false), 5 * peak(10, false)) << "of steps one after the other it does";
}

TEST(TorchSpectralRadii, AreThoseOfEachSample) {
  // φ A(x): a turn and a shrinking by x, whose eigenvalues are complex; and a shift, all of whose are zero.
  const double c = std::cos(0.7), s = std::sin(0.7);
  const Tensor turn = at::tensor({c, s, -s, c}, at::kDouble).reshape({2, 2});
  const Tensor x = at::tensor({0.5, 0.9, 1.3}, at::kDouble).reshape({3, 1}),
               phi = at::ones({3, 2}, at::kDouble);
  const Tensor radii =
      torch::spectral_radii([&](const Tensor& p, const Tensor& in) { return at::sin(in * p.matmul(turn)); },
                            at::zeros_like(phi), x);
  EXPECT_LT((radii - x.flatten()).abs().max().item<double>(), 1e-12);
  const Tensor shift = at::tensor({0.0, 5.0, 0.0, 0.0}, at::kDouble).reshape({2, 2});
  const Tensor none =
      torch::spectral_radii([&](const Tensor& p, const Tensor&) { return p.matmul(shift); }, phi, x);
  EXPECT_EQ(none.abs().max().item<double>(), 0);
  EXPECT_EQ(
      torch::spectral_radii([](const Tensor&, const Tensor& in) { return in; }, x, x).sum().item<double>(), 0)
      << "does not depend on φ";
}

TEST(TorchSpectralRadii, NearTheLargestEigenvalueOfARandomMatrix) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    ::torch::manual_seed(seed);
    const Tensor w = at::randn({20, 20}, at::kDouble), x = at::zeros({2, 20}, at::kDouble);
    const double exact = std::get<0>(at::linalg_eig(w)).abs().max().item<double>();
    const Tensor radii =
        torch::spectral_radii([&](const Tensor& p, const Tensor&) { return p.matmul(w); }, x, x, 400, seed);
    EXPECT_LT((radii / exact - 1).abs().max().item<double>(), 0.01);
  }
  EXPECT_NE(refusal([] {
              torch::spectral_radii([](const Tensor& p, const Tensor&) { return p; }, at::zeros({1, 1}),
                                    at::zeros({1, 1}), 1);
            }).find("spectral_radii.products = 1"),
            std::string::npos);
}

}  // namespace layer_measures_test
}  // namespace bilevel
