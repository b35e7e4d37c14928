#pragma once

#include <bilevel/problems/kernels.hpp>

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <Eigen/Core>

/// Naive sums in long double over a dense matrix, with the size of their terms: what a kernel may err is a
/// small multiple of the unit roundoff times these.
namespace bilevel::problems {

using Long = long double;

struct LossAt {
  Long value, slope, curvature;
};

inline LossAt loss_at(kernels::Loss loss, Long m, Long y, Long parameter) {
  const Long r = m - y, z = y * m;
  switch (loss) {
    case kernels::Loss::squared:
      return {r * r / 2, r, 1};
    case kernels::Loss::logistic: {
      const Long e = std::exp(-std::abs(z));
      return {std::log1p(e) + (z < 0 ? -z : 0), z >= 0 ? -y * e / (1 + e) : -y / (1 + e),
              e / ((1 + e) * (1 + e))};
    }
    case kernels::Loss::poisson:
      return {std::exp(m) - y * m, std::exp(m) - y, std::exp(m)};
    case kernels::Loss::huber:
      if (std::abs(r) <= parameter) return {r * r / 2, r, 1};
      return {parameter * std::abs(r) - parameter * parameter / 2, r > 0 ? parameter : -parameter, 0};
    case kernels::Loss::squared_hinge:
      if (z < 1) return {(1 - z) * (1 - z) / 2, -y * (1 - z), 1};
      return {0, 0, 0};
    case kernels::Loss::gamma:
      return {y * std::exp(-m) + m, 1 - y * std::exp(-m), y * std::exp(-m)};
    case kernels::Loss::negative_binomial: {
      // −log of the probability of y at a mean of μ and r = 1/α, up to what does not depend on μ.
      const Long mean = std::exp(m), size = 1 / parameter;
      return {(y + size) * std::log(mean + size) - y * m - size * std::log(size),
              (mean - y) / (1 + parameter * mean),
              mean * (1 + parameter * y) / ((1 + parameter * mean) * (1 + parameter * mean))};
    }
  }
  return {};
}

/// Labels, weights (every fifth is zero) and offsets for a loss.
struct RandomRows {
  RandomRows(kernels::Loss loss, Index rows, std::mt19937_64& engine) : y(rows), w(rows), o(rows) {
    std::normal_distribution<double> normal;
    const bool signs = loss == kernels::Loss::logistic || loss == kernels::Loss::squared_hinge;
    for (Index i = 0; i < rows; ++i) {
      const double v = 2 * normal(engine);
      const bool counts = loss == kernels::Loss::poisson || loss == kernels::Loss::negative_binomial;
      y[i] = signs                          ? (v > 0 ? 1 : -1)
             : counts                       ? std::floor(std::abs(v))
             : loss == kernels::Loss::gamma ? 0.01 + std::abs(v)
                                            : v;
      w[i] = i % 5 == 4 ? 0 : std::abs(normal(engine));
      o[i] = normal(engine);
    }
  }
  Eigen::VectorXd y, w, o;
};

struct ExpectedSums {
  Long value = 0, value_size = 0;
  std::vector<Long> gradient, gradient_size, curvature, curvature_size;

  /// x holds every column, an intercept's too.
  ExpectedSums(kernels::Loss loss, const Eigen::MatrixXd& x, const Eigen::VectorXd& phi,
               const kernels::Rows& rows)
      : gradient(static_cast<std::size_t>(x.cols())),
        gradient_size(gradient.size()),
        curvature(static_cast<std::size_t>(x.rows())),
        curvature_size(curvature.size()) {
    for (Index i = 0; i < x.rows(); ++i) {
      Long m = rows.offsets ? rows.offsets[i] : 0, reach = std::abs(m);
      for (Index j = 0; j < x.cols(); ++j) {
        const Long term = static_cast<Long>(x(i, j)) * phi[j];
        m += term;
        reach += std::abs(term);
      }
      const Long w = rows.weights ? rows.weights[i] : 1, y = rows.labels[i];
      const LossAt at = loss_at(loss, m, y, rows.parameter);
      // A margin off by δ·reach moves the value by slope·δ·reach and the slope by curvature·δ·reach.
      const Long scale = std::abs(at.slope) + std::abs(y) + std::max<Long>(at.curvature, 1) * reach;
      value += w * at.value;
      value_size += w * (std::abs(at.value) + std::abs(y * m) + scale * reach);
      curvature[static_cast<std::size_t>(i)] = w * at.curvature;
      curvature_size[static_cast<std::size_t>(i)] = w * at.curvature * (1 + reach);
      for (Index j = 0; j < x.cols(); ++j) {
        gradient[static_cast<std::size_t>(j)] += w * at.slope * x(i, j);
        gradient_size[static_cast<std::size_t>(j)] += w * scale * std::abs(x(i, j));
      }
    }
  }

  void compare(double got_value, const Eigen::VectorXd& got_gradient, const Eigen::VectorXd& got_curvature) const {
    constexpr Long unit = 0x1p-50L;  // sums of some thousand terms, cut into chunks
    EXPECT_LE(std::abs(got_value - value), 8 * unit * value_size);
    for (Index j = 0; j < got_gradient.size(); ++j)
      ASSERT_LE(std::abs(got_gradient[j] - gradient[static_cast<std::size_t>(j)]),
                8 * unit * gradient_size[static_cast<std::size_t>(j)])
          << "column " << j;
    for (Index i = 0; i < got_curvature.size(); ++i)
      ASSERT_LE(std::abs(got_curvature[i] - curvature[static_cast<std::size_t>(i)]),
                8 * unit * curvature_size[static_cast<std::size_t>(i)])
          << "row " << i;
  }
};

}  // namespace bilevel::problems
