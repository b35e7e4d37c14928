#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/space/impl/lanczos.hpp>
#include <conformance/block_vector.hpp>

namespace bilevel {
namespace lanczos_test {

template <class V>
class LanczosOn : public ::testing::Test {
 protected:
  static V of(const Eigen::VectorXd& host) {
    V x = conformance::shaped<V>(host.size());
    Space<V>::from_host(host.data(), x);
    return x;
  }
  static V start(Index size, std::uint64_t seed) {
    V x = conformance::shaped<V>(size);
    Space<V>::random(seed, x);
    return x;
  }
  /// Of a diagonal matrix, whose eigenvalues are its elements.
  static RitzEnds ends(const Eigen::VectorXd& diagonal, std::uint64_t seed, LanczosOptions options = {}) {
    const V factor = of(diagonal);
    const auto apply = [&](const V& x, V& out) {
      Space<V>::copy(x, out);
      Space<V>::multiply(factor, out);
    };
    return Lanczos<V>(apply, start(diagonal.size(), seed), options).run();
  }
};
using LanczosVectors = ::testing::Types<Eigen::VectorXd, Eigen::VectorXf, conformance::BlockVector>;
TYPED_TEST_SUITE(LanczosOn, LanczosVectors);

TYPED_TEST(LanczosOn, FindsBothEndsWithinTheResidual) {
  // The error is at most the residual, and its square over the gap where that is less.
  const double rounding = 1e4 * unit_roundoff<TypeParam>();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const Eigen::VectorXd even = Eigen::VectorXd::LinSpaced(300, 1, 100);
    const RitzEnds s = this->ends(even, seed);
    EXPECT_TRUE(s.converged);
    EXPECT_NEAR(s.smallest, 1, 1e-7 + 100 * rounding);
    EXPECT_NEAR(s.largest, 100, 1e-3);
    EXPECT_LE(s.largest, 100 * (1 + rounding)) << "from inside";
    EXPECT_GE(s.smallest, 1 - 100 * rounding);
    // Both signs.
    const RitzEnds t = this->ends(even.array() - 50, seed);
    EXPECT_TRUE(t.converged);
    EXPECT_NEAR(t.smallest, -49, 1e-3);
    EXPECT_NEAR(t.largest, 50, 1e-3);
  }
}

TYPED_TEST(LanczosOn, AnInvariantSpaceIsEnough) {
  // Three different eigenvalues: three products span all that there is to know.
  Eigen::VectorXd diagonal(200);
  for (Index i = 0; i < 200; ++i) diagonal[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : 7;
  const RitzEnds s = this->ends(diagonal, 1);
  EXPECT_TRUE(s.converged);
  EXPECT_NEAR(s.smallest, 1, 1e3 * unit_roundoff<TypeParam>());
  EXPECT_NEAR(s.largest, 7, 1e3 * unit_roundoff<TypeParam>());
  EXPECT_TRUE(this->ends(Eigen::VectorXd::Ones(50), 1).converged);
  // A basis as large as the space.
  const RitzEnds whole = this->ends(Eigen::VectorXd::LinSpaced(10, 1, 10), 1, {.basis = 10});
  EXPECT_TRUE(whole.converged);
  EXPECT_NEAR(whole.smallest, 1, 1e4 * unit_roundoff<TypeParam>());
}

TYPED_TEST(LanczosOn, SaysThatItDidNotConverge) {
  // The small end of ten orders of magnitude is not seen in forty products.
  const Eigen::VectorXd wide =
      Eigen::VectorXd::NullaryExpr(500, [](Index i) { return std::pow(10.0, -10.0 * double(i) / 499); });
  const RitzEnds s = this->ends(wide, 1, {.sweeps = 1});
  EXPECT_FALSE(s.converged);
  EXPECT_GT(s.smallest, 1e-10);
  EXPECT_NEAR(s.largest, 1, 1e-2);
}

TYPED_TEST(LanczosOn, KnowsNothingOfWhatIsNotFinite) {
  Eigen::VectorXd diagonal = Eigen::VectorXd::Ones(20);
  diagonal[7] = std::nan("");
  const RitzEnds s = this->ends(diagonal, 1);
  EXPECT_TRUE(std::isnan(s.smallest) && std::isnan(s.largest) && !s.converged);
  using V = TypeParam;
  const V zero = Space<V>::zeros_like(this->of(diagonal));
  EXPECT_FALSE(Lanczos<V>([](const V& x, V& out) { Space<V>::copy(x, out); }, zero, {}).run().converged);
}

}  // namespace lanczos_test
}  // namespace bilevel
