#include <bilevel/problems/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/gamma.hpp>

#include "kernels_on.hpp"
#include "loss_reference.hpp"

namespace bilevel::problems {
namespace kernels_test {

using kernels::Loss;
using kernels::Target;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr std::uint64_t seed = 20250611;

Long loss_value(Loss loss, Long m, Long y) {
  return loss_at(loss, m, y, 1).value;
}
Long loss_slope(Loss loss, Long m, Long y) {
  return loss_at(loss, m, y, 1).slope;
}
Long loss_bend(Loss loss, Long m, Long y) {
  return loss_at(loss, m, y, 1).curvature;
}

struct Case {
  Case(Index rows, Index columns, std::mt19937_64& engine)
      : x(gaussian(rows, columns, engine)),
        labels(gaussian(rows, 1, engine).unaryExpr([](double v) { return v > 0 ? 1.0 : -1.0; })),
        weights(gaussian(rows, 1, engine).cwiseAbs()),
        phi(gaussian(columns, 1, engine)),
        workspace(x.view()) {}

  PaddedMatrix x;
  Vec labels, weights, phi;
  kernels::Workspace workspace;
};

const std::vector<std::pair<Index, Index>> shapes{{0, 3},    {1, 1},     {1, 64},   {2, 7},     {3, 8},
                                                  {7, 9},    {8, 8},     {9, 17},   {31, 22},   {32, 63},
                                                  {33, 1},   {65, 129},  {100, 3},  {257, 64},  {300, 40},
                                                  {63, 200}, {1000, 22}, {2049, 5}, {9001, 12}, {513, 71}};

// Every test of a sum: |computed − exact| ≤ γ_depth·Σ|terms|, with the depth that the kernels state.
TEST_P(KernelsOn, SumsAgreeWithNaiveLoopsInLongDouble) {
  std::mt19937_64 engine(seed);
  RecordProperty("seed", std::to_string(seed));
  for (const auto& [n, d] : shapes) {
    SCOPED_TRACE(testing::Message() << n << " x " << d << ", seed " << seed);
    Case c(n, d, engine);
    const auto x = c.x.matrix();
    const kernels::Chunking& chunking = c.workspace.chunking;
    std::vector<Long> margins(static_cast<std::size_t>(n)), reach(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < d; ++j) {
        const Long term = static_cast<Long>(x(i, j)) * c.phi[j];
        margins[static_cast<std::size_t>(i)] += term;
        reach[static_cast<std::size_t>(i)] += std::abs(term);
      }
    for (Loss loss : {Loss::squared, Loss::logistic}) {
      Vec gradient = Vec::Constant(d, std::nan("")), curvature = Vec::Constant(n, std::nan("")), alone = curvature;
      const double value = kernels::value_with_gradient(loss, c.x.view(), c.phi.data(), {c.labels.data()},
                                                        gradient.data(), curvature.data(), c.workspace);
      const double value_only = kernels::value_with_gradient(
          loss, c.x.view(), c.phi.data(), {c.labels.data()}, nullptr, nullptr, c.workspace);
      EXPECT_EQ(value, value_only);
      kernels::curvature(loss, c.x.view(), c.phi.data(), {c.labels.data()}, alone.data(), c.workspace);
      Long expected = 0, slope_sensitivity = 0;
      std::vector<Long> sums(static_cast<std::size_t>(d)), sizes(static_cast<std::size_t>(d));
      for (Index i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const Long slope = loss_slope(loss, margins[k], c.labels[i]);
        const Long margin_error = static_cast<Long>(gamma(chunking.margin_depth())) * reach[k];
        expected += loss_value(loss, margins[k], c.labels[i]);
        slope_sensitivity += std::abs(slope) * margin_error + margin_error * margin_error;
        const Long exact_curvature = loss_bend(loss, margins[k], c.labels[i]);
        EXPECT_LE(std::abs(curvature[i] - exact_curvature), margin_error / 10 + 16 * 0x1p-53L * exact_curvature);
        EXPECT_EQ(curvature[i], alone[i]);
        for (Index j = 0; j < d; ++j) {
          sums[static_cast<std::size_t>(j)] += slope * x(i, j);
          sizes[static_cast<std::size_t>(j)] +=
              std::abs(static_cast<Long>(x(i, j))) *
              (static_cast<Long>(gamma(chunking.sum_depth() + 16)) * std::abs(slope) + margin_error);
        }
      }
      EXPECT_LE(std::abs(value - expected),
                static_cast<Long>(gamma(chunking.sum_depth() + 24)) * expected + slope_sensitivity);
      for (Index j = 0; j < d; ++j)
        EXPECT_LE(std::abs(gradient[j] - sums[static_cast<std::size_t>(j)]),
                  sizes[static_cast<std::size_t>(j)]);
    }
  }
}

TEST_P(KernelsOn, HessianProductsAgreeWithNaiveLoopsInLongDouble) {
  std::mt19937_64 engine(seed + 1);
  for (const auto& [n, d] : shapes) {
    SCOPED_TRACE(testing::Message() << n << " x " << d << ", seed " << seed + 1);
    Case c(n, d, engine);
    const auto x = c.x.matrix();
    for (const double* weights :
         {static_cast<const double*>(nullptr), static_cast<const double*>(c.weights.data())}) {
      Vec out = Vec::Constant(d, std::nan("")), diagonal = out;
      Mat dense = Mat::Constant(d, d, std::nan(""));
      kernels::product(c.x.view(), weights, c.phi.data(), out.data(), c.workspace);
      kernels::gram(c.x.view(), weights, dense.data(), c.workspace);
      kernels::gram_diagonal(c.x.view(), weights, diagonal.data(), c.workspace);
      const kernels::Chunking& chunking = c.workspace.chunking;
      const double product_error = gamma(chunking.sum_depth() + chunking.margin_depth() + 2);
      const double dense_error = gamma(chunking.gram_depth());
      std::vector<Long> sum(static_cast<std::size_t>(d)), size(static_cast<std::size_t>(d));
      for (Index i = 0; i < n; ++i) {
        const Long w = weights ? weights[i] : 1;
        Long margin = 0, reach = 0;
        for (Index j = 0; j < d; ++j) {
          margin += static_cast<Long>(x(i, j)) * c.phi[j];
          reach += std::abs(static_cast<Long>(x(i, j)) * c.phi[j]);
        }
        for (Index j = 0; j < d; ++j) {
          sum[static_cast<std::size_t>(j)] += w * margin * x(i, j);
          size[static_cast<std::size_t>(j)] += w * reach * std::abs(x(i, j));
        }
      }
      for (Index j = 0; j < d; ++j)
        EXPECT_LE(std::abs(out[j] - sum[static_cast<std::size_t>(j)]),
                  static_cast<Long>(product_error) * size[static_cast<std::size_t>(j)]);
      for (Index j = 0; j < d; ++j)
        for (Index k = 0; k <= j; ++k) {
          Long entry = 0, reach = 0;
          for (Index i = 0; i < n; ++i) {
            const Long term = (weights ? weights[i] : 1) * static_cast<Long>(x(i, j)) * x(i, k);
            entry += term;
            reach += std::abs(term);
          }
          ASSERT_LE(std::abs(dense(j, k) - entry), static_cast<Long>(dense_error) * reach) << j << ", " << k;
          ASSERT_EQ(dense(j, k), dense(k, j));
          if (j == k) {
            EXPECT_LE(std::abs(diagonal[j] - entry),
                      static_cast<Long>(gamma(static_cast<double>(n) + 4)) * reach);
          }
        }
    }
  }
}

TEST_P(KernelsOn, TheNumberOfThreadsChangesNoBit) {
  std::mt19937_64 engine(seed + 2);
  for (const auto& size : {std::pair<Index, Index>{20011, 22}, {5000, 64}, {3001, 150}, {700, 300}}) {
    const Index n = size.first, d = size.second;
    SCOPED_TRACE(testing::Message() << n << " x " << d << ", seed " << seed + 2);
    Case c(n, d, engine);
    struct Result {
      double value;
      Vec gradient, curvature, product, diagonal;
      Mat dense;
    };
    const auto all_of_it = [&](int threads) {
      kernels::set_threads(threads);
      Result r{0, Vec(d), Vec(n), Vec(d), Vec(d), Mat(d, d)};
      r.value = kernels::value_with_gradient(Loss::logistic, c.x.view(), c.phi.data(), {c.labels.data()},
                                             r.gradient.data(), r.curvature.data(), c.workspace);
      kernels::product(c.x.view(), c.weights.data(), c.phi.data(), r.product.data(), c.workspace);
      kernels::gram(c.x.view(), c.weights.data(), r.dense.data(), c.workspace);
      kernels::gram_diagonal(c.x.view(), c.weights.data(), r.diagonal.data(), c.workspace);
      return r;
    };
    const Result one = all_of_it(1);
    for (int threads : {2, 3, 2, 1}) {
      const Result other = all_of_it(threads);
      EXPECT_EQ(one.value, other.value);
      EXPECT_EQ(one.gradient, other.gradient);
      EXPECT_EQ(one.curvature, other.curvature);
      EXPECT_EQ(one.product, other.product);
      EXPECT_EQ(one.diagonal, other.diagonal);
      EXPECT_EQ(one.dense, other.dense);
    }
  }
}

double units_in_the_last_place(double computed, Long exact) {
  const double rounded = static_cast<double>(exact);
  const double spacing =
      std::nextafter(std::abs(rounded), std::numeric_limits<double>::infinity()) - std::abs(rounded);
  return static_cast<double>(std::abs(computed - exact) / spacing);
}

TEST_P(KernelsOn, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  std::vector<double> x;
  for (int i = -1'400'000; i <= 1'400'000; ++i) x.push_back(i * 0.000505);
  for (int i = -20'000; i <= 20'000; ++i) x.push_back(i * 1e-6), x.push_back(i * 1e-12);
  for (int i = 0; i < 1000; ++i) x.push_back(709.78 + i * 2.7e-6), x.push_back(-708 + i * 1e-5);
  for (double v : {0.0, -0.0, 1e-300, -1e-300, 5e-324, 709.782712893384, std::nextafter(-708.0, 0.0)})
    x.push_back(v);
  std::vector<double> out(x.size());
  kernels::exponential(x.data(), out.data(), static_cast<Index>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] >= -708 && x[i] <= 709.782712893384)
      worst = std::max(worst, units_in_the_last_place(out[i], std::exp(static_cast<Long>(x[i]))));
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(worst, 2);

  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> ends{-708.5, -745.0, -746.0,   -1e300,      -infinity,
                                 710.0,  1e300,  infinity, std::nan("")};
  std::vector<double> at_ends(ends.size());
  kernels::exponential(ends.data(), at_ends.data(), static_cast<Index>(ends.size()));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(at_ends[i], 0.0) << ends[i];
  for (std::size_t i = 5; i < 8; ++i) EXPECT_EQ(at_ends[i], infinity) << ends[i];
  EXPECT_TRUE(std::isnan(at_ends[8]));
}

TEST_P(KernelsOn, SoftplusIsWithinTwoUnitsInTheLastPlace) {
  std::vector<double> x;
  for (int i = -1'400'000; i <= 1'400'000; ++i) x.push_back(i * 0.0005057);
  for (int i = -200'000; i <= 200'000; ++i) x.push_back(i * 1e-5), x.push_back(i * 1e-11);
  const double edge = -std::log(std::sqrt(2.0) - 1);  // where the reduction changes
  for (int i = -2000; i <= 2000; ++i) x.push_back(edge + i * 1e-15), x.push_back(-edge + i * 1e-9);
  std::vector<double> out(x.size());
  kernels::softplus_of_minus_abs(x.data(), out.data(), static_cast<Index>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) <= 708)
      worst = std::max(
          worst, units_in_the_last_place(out[i], std::log1p(std::exp(-std::abs(static_cast<Long>(x[i]))))));
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(worst, 2);

  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> ends{745.0, -745.0, 1e300, -1e300, infinity, -infinity};
  std::vector<double> at_ends(ends.size());
  kernels::softplus_of_minus_abs(ends.data(), at_ends.data(), static_cast<Index>(ends.size()));
  for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_EQ(at_ends[i], 0.0) << ends[i];
}

TEST_P(KernelsOn, LogisticLossStaysExactAtExtremeMargins) {
  for (double m : {0.0, 1.0, -1.0, 36.0, -36.0, 700.0, -700.0, 745.0, -745.0, 1e10, -1e10, 1e300, -1e300}) {
    SCOPED_TRACE(m);
    const Mat x = Mat::Constant(1, 1, m);
    const PaddedMatrix design(x);
    kernels::Workspace workspace(design.view());
    const double phi = 1, label = 1;
    double gradient = std::nan(""), curvature = std::nan("");
    const double value = kernels::value_with_gradient(Loss::logistic, design.view(), &phi, {&label},
                                                      &gradient, &curvature, workspace);
    const Long e = std::exp(-std::abs(static_cast<Long>(m))), slope = m >= 0 ? -e / (1 + e) : -1 / (1 + e);
    EXPECT_LE(std::abs(value - loss_value(Loss::logistic, m, 1)),
              4 * 0x1p-52L * loss_value(Loss::logistic, m, 1) + 4e-308L);
    EXPECT_LE(std::abs(gradient - slope * m), 8 * 0x1p-52L * std::abs(slope * m) + 4e-308L * std::abs(m));
    EXPECT_LE(std::abs(curvature - e / ((1 + e) * (1 + e))), 8 * 0x1p-52L * e + 4e-308L);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelsOn, every_target(), name_of_target);

TEST(Kernels, RefuseZeroThreads) {
  EXPECT_THROW(kernels::set_threads(0), InvalidInput);
}

}  // namespace kernels_test
}  // namespace bilevel::problems
