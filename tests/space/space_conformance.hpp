#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <bilevel/space/eigen.hpp>
#include <conformance/block_vector.hpp>

/// One suite for every vector type: what Space promises. A vector type joins by instantiating
/// SpaceConformance, and by specialising conformance::Shaped where it cannot be made of a number of elements.
namespace bilevel::testing {

template <class V>
V make(std::initializer_list<double> values) {
  const std::vector<double> host(values);
  V x = conformance::shaped<V>(static_cast<Index>(host.size()));
  Space<V>::from_host(host.data(), x);
  return x;
}

template <class V>
std::vector<double> host(const V& x) {
  std::vector<double> h(static_cast<std::size_t>(Space<V>::size(x)));
  Space<V>::to_host(x, h.data());
  return h;
}

template <class V>
class SpaceConformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(SpaceConformance);

TYPED_TEST_P(SpaceConformance, DoesWhatItsDocumentationSays) {
  using V = TypeParam;
  using S = Space<V>;
  using List = std::vector<double>;
  V x = make<V>({1, -2, 3, 0.5}), y = make<V>({4, 1, -1, 2});
  EXPECT_EQ(S::dot(x, y), 4 - 2 - 3 + 1);
  S::axpy(2, x, y);
  EXPECT_EQ(host(y), (List{6, -3, 5, 3}));
  S::multiply(x, y);
  EXPECT_EQ(host(y), (List{6, 6, 15, 1.5}));
  S::divide(x, y);
  EXPECT_EQ(host(y), (List{6, -3, 5, 3}));
  S::scale(-1, y);
  EXPECT_EQ(host(y), (List{-6, 3, -5, -3}));
  EXPECT_EQ(S::max_abs(y), 6);
  S::clamp(make<V>({-1, -1, -1, -1}), make<V>({1, 2, 1, 1}), y);
  EXPECT_EQ(host(y), (List{-1, 2, -1, -1}));
  V squares = make<V>({4, 9, 0, 0.25});
  S::sqrt(squares);
  EXPECT_EQ(host(squares), (List{2, 3, 0, 0.5}));
  S::fill(-0.25, squares);
  EXPECT_EQ(host(squares), (List{-0.25, -0.25, -0.25, -0.25}));
  for (Index j = 0; j < 4; ++j) {
    List expected(4, 0.0);
    expected[static_cast<std::size_t>(j)] = 1;
    S::unit(j, squares);
    EXPECT_EQ(host(squares), expected);
  }
  S::fill(std::nan(""), squares);
  EXPECT_FALSE(all_finite(squares));
  S::unit(2, squares);
  EXPECT_EQ(host(squares), (List{0, 0, 1, 0})) << "whatever was there";
  V zero = S::zeros_like(x);
  EXPECT_EQ(host(zero), (List{0, 0, 0, 0}));
  S::copy(x, zero);
  EXPECT_EQ(host(zero), host(x));
  S::scale(3, zero);
  EXPECT_EQ(host(x), (List{1, -2, 3, 0.5})) << "copy shares nothing";
  EXPECT_DOUBLE_EQ(norm(make<V>({3, 4})), 5);
  EXPECT_EQ(bytes_of(x), 4 * sizeof(typename S::Scalar));
}

TYPED_TEST_P(SpaceConformance, NotANumberIsSeenAndCanBeCleared) {
  using V = TypeParam;
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    V x = make<V>({1, bad, 2});
    EXPECT_FALSE(all_finite(x));
    Space<V>::scale(0, x);
    EXPECT_EQ(host(x), (std::vector<double>{0, 0, 0}));
  }
  EXPECT_TRUE(all_finite(make<V>({})));
  EXPECT_EQ(Space<V>::max_abs(make<V>({})), 0);
  EXPECT_EQ(norm(make<V>({})), 0);
}

TYPED_TEST_P(SpaceConformance, RandomFillFollowsItsSeed) {
  using V = TypeParam;
  V x = make<V>({0, 0, 0, 0, 0}), y = make<V>({9, 9, 9, 9, 9}), z = make<V>({0, 0, 0, 0, 0});
  Space<V>::random(7, x);
  Space<V>::random(7, y);
  Space<V>::random(8, z);
  EXPECT_EQ(host(x), host(y));
  EXPECT_NE(host(x), host(z));
}

REGISTER_TYPED_TEST_SUITE_P(SpaceConformance, DoesWhatItsDocumentationSays, NotANumberIsSeenAndCanBeCleared,
                            RandomFillFollowsItsSeed);

}  // namespace bilevel::testing
