#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <bilevel/data/split.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {
namespace split_test {

std::vector<int> three_classes(Index rows) {
  std::vector<int> strata;
  for (Index row = 0; row < rows; ++row) strata.push_back(row % 7 == 0 ? 2 : row % 3 == 0 ? 0 : 1);
  return strata;
}

struct Fold {
  std::vector<Index> training, validation;
};

Fold make_fold(const std::vector<bool>& drawn) {
  Fold fold;
  for (std::size_t row = 0; row < drawn.size(); ++row) {
    (drawn[row] ? fold.validation : fold.training).push_back(static_cast<Index>(row));
  }
  return fold;
}

TEST(Split, FoldsAreEvenInEveryStratum) {
  for (const Index rows : {5, 17, 100, 1003}) {
    for (const int folds : {2, 3, 5}) {
      for (const bool stratified : {false, true}) {
        const std::vector<int> strata = three_classes(rows);
        const std::vector<int> assigned = assign_folds(rows, folds, 42, stratified ? &strata : nullptr);
        std::map<int, std::vector<int>> sizes;  // of each stratum; -1: all rows
        for (std::size_t row = 0; row < assigned.size(); ++row) {
          for (const int stratum : {-1, stratified ? strata[row] : -2}) {
            sizes[stratum].resize(static_cast<std::size_t>(folds));
            ++sizes[stratum][static_cast<std::size_t>(assigned[row])];
          }
        }
        for (const auto& [stratum, counts] : sizes) {
          const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
          EXPECT_LE(*most - *least, 1) << rows << " rows, " << folds << " folds, stratum " << stratum;
        }
      }
    }
  }
}

TEST(Split, TheSeedDecidesAndNothingElse) {
  EXPECT_EQ(assign_folds(100, 5, 1), assign_folds(100, 5, 1));
  EXPECT_NE(assign_folds(100, 5, 1), assign_folds(100, 5, 2));
  // Worked out by hand from the definition of mt19937_64, whose first draws the standard fixes.
  std::mt19937_64 engine(3);
  std::vector<Index> rows = {0, 1, 2, 3, 4, 5};
  for (std::size_t left = 6; left > 1; --left) std::swap(rows[left - 1], rows[engine() % left]);
  const std::vector<int> assigned = assign_folds(6, 2, 3);
  for (std::size_t k = 0; k < 6; ++k)
    EXPECT_EQ(assigned[static_cast<std::size_t>(rows[k])], static_cast<int>(k % 2));
}

// Each row is equally likely to be drawn: over many seeds no row stands out.
TEST(Split, DrawsAreFair) {
  std::array<int, 10> times{};
  constexpr int seeds = 4000;
  for (int seed = 0; seed < seeds; ++seed) {
    const std::vector<bool> drawn = draw_part(10, 0.3, static_cast<std::uint64_t>(seed));
    for (std::size_t row = 0; row < 10; ++row) times[row] += drawn[row] ? 1 : 0;
  }
  // Binomial with mean 1200 and deviation 29: five deviations.
  for (const int count : times) EXPECT_NEAR(count, 0.3 * seeds, 145);
}

TEST(Split, PartsHaveTheirShare) {
  for (const Index rows : {2, 3, 10, 999}) {
    for (const double fraction : {0.001, 0.2, 0.5, 0.999}) {
      const std::vector<bool> drawn = draw_part(rows, fraction, 5);
      const auto count = std::count(drawn.begin(), drawn.end(), true);
      EXPECT_EQ(count, std::clamp<Index>(std::llround(fraction * static_cast<double>(rows)), 1, rows - 1));
      const Fold fold = make_fold(drawn);
      EXPECT_EQ(static_cast<Index>(fold.validation.size()), count);
      EXPECT_EQ(static_cast<Index>(fold.training.size()), rows - count);
    }
  }
  const std::vector<int> strata = three_classes(500);
  const std::vector<bool> drawn = draw_part(500, 0.2, 5, &strata);
  for (const int stratum : {0, 1, 2}) {
    double size = 0, taken = 0;
    for (std::size_t row = 0; row < 500; ++row) {
      size += strata[row] == stratum ? 1 : 0;
      taken += strata[row] == stratum && drawn[row] ? 1 : 0;
    }
    EXPECT_NEAR(taken, 0.2 * size, 1) << stratum;
  }
  // A stratum of two rows keeps one.
  const std::vector<int> pairs = {0, 0, 1, 1, 2, 2};
  const Fold fold = make_fold(draw_part(6, 0.9, 1, &pairs));
  std::set<int> left;
  for (const Index row : fold.training) left.insert(pairs[static_cast<std::size_t>(row)]);
  EXPECT_EQ(left.size(), 3u);
}

TEST(Split, StrataOfATarget) {
  EXPECT_EQ(strata_of((Eigen::VectorXd(5) << 1, -1, 1, 3, -1).finished()), (std::vector<int>{1, 0, 1, 2, 0}));
}

TEST(Split, RefusesWhatCannotBe) {
  EXPECT_THROW(assign_folds(3, 4, 1), InvalidInput);
  EXPECT_THROW(assign_folds(3, 1, 1), InvalidInput);
  EXPECT_THROW(draw_part(1, 0.5, 1), InvalidInput);
  EXPECT_THROW(draw_part(10, 0, 1), InvalidInput);
  EXPECT_THROW(draw_part(10, 1, 1), InvalidInput);
  const std::vector<int> short_strata = {1, 2};
  EXPECT_THROW(assign_folds(3, 2, 1, &short_strata), InvalidInput);
}

}  // namespace split_test
}  // namespace bilevel::data
