#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/moments.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/kernels.hpp>

namespace bilevel::data {
namespace moments_test {

constexpr unsigned seed = 31337;

std::vector<Index> all_rows(Index rows) {
  std::vector<Index> result(static_cast<std::size_t>(rows));
  std::iota(result.begin(), result.end(), Index{0});
  return result;
}

/// Columns of very different kinds, many cells zero.
DenseRows sample(Index rows) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  DenseRows x = DenseRows::Zero(rows, 6);
  for (Index i = 0; i < rows; ++i) {
    x(i, 0) = normal(engine);
    x(i, 1) = 1e9 + normal(engine);  // a large mean must not eat the deviation
    x(i, 2) = engine() % 10 == 0 ? normal(engine) : 0;
    x(i, 3) = 0.1;  // constant, and no sum of it is exact
    x(i, 5) = engine() % 50 == 0 ? -3 : 0;
  }
  return x;
}

SparseRows sparse_of(const DenseRows& x) {
  SparseRows sparse = x.sparseView();
  sparse.makeCompressed();
  return sparse;
}

void expect_close(const ColumnMoments& moments, const DenseRows& x, const std::vector<Index>& rows) {
  for (Index j = 0; j < x.cols(); ++j) {
    long double sum = 0, square = 0, largest = 0, count = 0;
    for (const Index i : rows) {
      if (std::isnan(x(i, j))) continue;
      sum += x(i, j);
      largest = std::max<long double>(largest, std::abs(x(i, j)));
      ++count;
    }
    const long double mean = count > 0 ? sum / count : 0;
    for (const Index i : rows) {
      if (!std::isnan(x(i, j))) square += (x(i, j) - mean) * (x(i, j) - mean);
    }
    const auto deviation = static_cast<double>(count > 0 ? std::sqrt(square / count) : 0);
    EXPECT_NEAR(moments.mean[j], static_cast<double>(mean),
                1e-15 * std::abs(static_cast<double>(mean)) + 1e-15)
        << j;
    EXPECT_NEAR(moments.deviation[j], deviation, 1e-13 * deviation) << j;
    EXPECT_EQ(moments.largest[j], static_cast<double>(largest)) << j;
  }
}

TEST(Moments, AgreeWithLongDouble) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const DenseRows x = sample(5000);
  std::vector<Index> some;
  for (Index i = 0; i < x.rows(); i += 3) some.push_back(i);
  for (const auto& rows : {all_rows(x.rows()), some, std::vector<Index>{17}, std::vector<Index>{4, 4, 9}}) {
    const ColumnMoments dense = column_moments(x, rows), sparse = column_moments(sparse_of(x), rows);
    expect_close(dense, x, rows);
    expect_close(sparse, x, rows);
    EXPECT_EQ(dense.deviation[3], 0);
    EXPECT_EQ(dense.mean[3], 0.1);
    EXPECT_EQ(dense.deviation[4], 0);
    EXPECT_EQ(sparse.deviation[3], 0);
    EXPECT_EQ(sparse.deviation[4], 0);
  }
}

TEST(Moments, LeaveMissingCellsOut) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  DenseRows x = sample(2000);
  std::mt19937_64 engine(seed);
  for (Index i = 0; i < x.rows(); ++i) x(i, static_cast<Index>(engine() % 4)) = std::nan("");
  x.col(5).setConstant(std::nan(""));
  const auto rows = all_rows(x.rows());
  expect_close(column_moments(x, rows), x, rows);
  expect_close(column_moments(sparse_of(x), rows), x, rows);
  EXPECT_EQ(column_moments(x, rows).mean[5], 0);

  Dataset dense, sparse;
  dense.x = x;
  sparse.x = sparse_of(x);
  const Eigen::VectorXd means = column_moments(dense, rows).mean;
  impute(dense, means);
  impute(sparse, means);
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      EXPECT_EQ(dense.dense_rows()(i, j), std::isnan(x(i, j)) ? means[j] : x(i, j));
    }
  }
  EXPECT_EQ(DenseRows(sparse.sparse_rows()), dense.dense_rows());
  EXPECT_THROW(impute(dense, Eigen::VectorXd::Zero(2)), InvalidInput);
}

TEST(Moments, DoNotDependOnTheThreads) {
  const DenseRows x = sample(20'000);
  const SparseRows sparse = sparse_of(x);
  const auto rows = all_rows(x.rows());
  const int before = problems::kernels::threads();
  std::vector<ColumnMoments> dense_moments, sparse_moments;
  for (const int threads : {1, 2, 5}) {
    problems::kernels::set_threads(threads);
    dense_moments.push_back(column_moments(x, rows));
    sparse_moments.push_back(column_moments(sparse, rows));
  }
  problems::kernels::set_threads(before);
  for (const auto* moments : {&dense_moments, &sparse_moments}) {
    for (std::size_t k = 1; k < moments->size(); ++k) {
      EXPECT_EQ((*moments)[k].mean, moments->front().mean);
      EXPECT_EQ((*moments)[k].deviation, moments->front().deviation);
    }
  }
}

TEST(Moments, RowsThatDoNotExist) {
  const DenseRows x = sample(3);
  EXPECT_THROW(column_moments(x, {3}), InvalidInput);
  EXPECT_THROW(column_moments(sparse_of(x), {-1}), InvalidInput);
}

}  // namespace moments_test
}  // namespace bilevel::data
