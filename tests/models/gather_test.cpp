// Which cells of a dense file need not be stored.

#include "models/gather.hpp"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace bilevel::models {
namespace gather_test {

/// Columns of two values, the rarer one, which is 1, in this share of the cells.
bilevel::data::Dataset flags(Index rows, Index columns, double share, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::bernoulli_distribution rare(share);
  bilevel::data::DenseRows x(rows, columns);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) x(i, j) = rare(engine) ? 1 : -static_cast<double>(j);
  bilevel::data::Dataset data;
  data.x = std::move(x);
  return data;
}

TEST(Gather, CommonValuesAreThoseOfMostCellsHoweverManyRows) {
  constexpr std::uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const std::vector<Index> columns{5, 0, 2};
  const Eigen::Vector3d most{-5, 0, -2}, otherwise{7, 8, 9};
  for (const Index rows : {200, 5000, 20000}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const auto few = common_values(flags(rows, 6, 0.05, seed), columns, otherwise);
    ASSERT_TRUE(few.has_value());
    EXPECT_EQ(*few, most);
    // Too many by little, which a part of the rows does not tell, and by much.
    EXPECT_FALSE(common_values(flags(rows, 6, 0.25, seed), columns, otherwise).has_value());
    EXPECT_FALSE(common_values(flags(rows, 6, 0.45, seed), columns, otherwise).has_value());
  }
  // A column in which no value is so common has what was given.
  bilevel::data::Dataset data = flags(20000, 30, 0.01, seed);
  auto& x = std::get<bilevel::data::DenseRows>(data.x);
  for (Index i = 0; i < x.rows(); ++i) x(i, 3) = static_cast<double>(i);
  std::vector<Index> all(30);
  std::iota(all.begin(), all.end(), Index{0});
  const auto mixed = common_values(data, all, Eigen::VectorXd::Constant(30, 0.5));
  ASSERT_TRUE(mixed.has_value());
  for (Index j = 0; j < 30; ++j) EXPECT_EQ((*mixed)[j], j == 3 ? 0.5 : -static_cast<double>(j)) << j;
}

}  // namespace gather_test
}  // namespace bilevel::models
