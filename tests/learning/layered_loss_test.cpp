// Losses of tasks by one loop, against the same by LibTorch's operations: values, gradients and products.

#include <algorithm>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "../../learning/src/kernels/small_products.hpp"
#include "../../learning/src/layered_loss.hpp"

namespace layered_loss_test {

using bilevel::learning::LayeredLoss;
using bilevel::learning::Tensor;
using torch::autograd::grad;

Tensor by_operations(const LayeredLoss& l, const Tensor& w, const Tensor& x, const Tensor& y) {
  Tensor h = x;
  std::int64_t at = 0;
  for (std::size_t i = 0; i + 1 < l.sizes.size(); ++i) {
    const std::int64_t in = l.sizes[i], out = l.sizes[i + 1];
    const Tensor weight = w.narrow(1, at, in * out).reshape({w.size(0), out, in});
    h = at::baddbmm(w.narrow(1, at + in * out, out).unsqueeze(1), h, weight.transpose(1, 2));
    at += out * (in + 1);
    if (i + 2 < l.sizes.size()) h = at::tanh(h);
  }
  return l.classes ? -(y * at::log_softmax(h, 2)).sum(2).mean(1) : (h - y).pow(2).sum(2).mean(1);
}

double apart(const Tensor& a, const Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

/// Sizes that are no multiple of any vector, and layers of one unit.
const std::vector<std::vector<long>> shapes{{1, 40, 40, 1}, {3, 5, 2}, {2, 1, 33, 7, 4}, {4, 3}};

TEST(LayeredLoss, AgreesWithOperationsInValueGradientAndProduct) {
  at::manual_seed(7);
  for (const auto& sizes : shapes)
    for (const bool classes : {false, true})
      for (const auto type : {at::kDouble, at::kFloat}) {
        const LayeredLoss layered{sizes, classes};
        std::int64_t parameters = 0;
        for (std::size_t i = 0; i + 1 < sizes.size(); ++i) parameters += sizes[i + 1] * (sizes[i] + 1);
        constexpr std::int64_t tasks = 5, rows = 7;
        const auto options = at::TensorOptions().dtype(type);
        const Tensor w = (0.7 * at::randn({tasks, parameters}, options)).set_requires_grad(true);
        const Tensor x = at::randn({tasks, rows, sizes.front()}, options);
        Tensor y = at::randn({tasks, rows, sizes.back()}, options);
        if (classes) y = at::softmax(y, 2);
        const Tensor above = at::randn({tasks}, options), v = at::randn({tasks, parameters}, options);
        const double close = type == at::kDouble ? 1e-12 : 1e-4;

        const Tensor ours = layered(w, x, y), theirs = by_operations(layered, w, x, y);
        EXPECT_LE(apart(ours, theirs), close);
        const auto slope = [&](const Tensor& losses) {
          return grad({losses.dot(above)}, {w}, {}, true, true)[0];
        };
        const Tensor our_slope = slope(ours), their_slope = slope(theirs);
        EXPECT_LE(apart(our_slope, their_slope), close);
        const Tensor their_product = grad({their_slope}, {w}, {v}, true)[0];
        for (int again = 0; again < 2; ++again)
          EXPECT_LE(apart(grad({our_slope}, {w}, {v}, true)[0], their_product), close)
              << classes << " " << sizes.size();
      }
}

TEST(LayeredLoss, RefusesThirdDerivatives) {
  const LayeredLoss layered{{1, 2, 1}, false};
  const Tensor w = at::randn({2, 7}).set_requires_grad(true), x = at::randn({2, 3, 1}),
               v = at::randn({2, 7}).set_requires_grad(true);
  const Tensor slope = grad({layered(w, x, x).sum()}, {w}, {}, true, true)[0];
  EXPECT_THROW(grad({slope}, {w}, {v}, true, true), c10::Error);
}

TEST(SmallProducts, EveryTargetComputesTheSame) {
  using namespace bilevel::learning::kernels;
  at::manual_seed(8);
  std::vector<const Products*> targets{&baseline_products};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) targets.push_back(&avx2_products);
#endif
  for (const std::int64_t rows : {1, 2, 3, 7, 10})
    for (const std::int64_t inner : {1, 5, 16})
      for (const std::int64_t columns : {1, 3, 8, 25, 40, 49})
        for (const bool add : {false, true})
          for (const bool transposed : {false, true})
            for (const Products* each : targets) {
              const Tensor a = at::randn({rows, inner}, at::kDouble),
                           b = at::randn({inner, columns}, at::kDouble),
                           c = at::randn({rows, columns}, at::kDouble);
              const Tensor expected = add ? c + a.matmul(b) : a.matmul(b);
              const Tensor stored = transposed ? a.t().contiguous() : a;
              each->whole(rows, inner, columns, stored.data_ptr<double>(), transposed ? 1 : inner,
                          transposed ? rows : 1, b.data_ptr<double>(), add, c.data_ptr<double>());
              EXPECT_LE((c - expected).abs().max().item<double>(), 1e-13)
                  << rows << " " << inner << " " << columns;
            }
}

}  // namespace layered_loss_test
