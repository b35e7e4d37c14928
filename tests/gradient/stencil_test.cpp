// The finite-difference stencils of equilibrium propagation, in exact arithmetic.

#include <gtest/gtest.h>

#include <bilevel/gradient/stencil.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel {
namespace stencil_test {

using Fractions = std::vector<Fraction>;

TEST(Stencil, CoefficientsAreThePapersTable) {
  EXPECT_EQ(Stencil::forward(2).fractions(), (Fractions{{-1, 1}, {1, 1}}));
  EXPECT_EQ(Stencil::forward(3).fractions(), (Fractions{{-3, 2}, {2, 1}, {-1, 2}}));
  EXPECT_EQ(Stencil::forward(4).fractions(), (Fractions{{-11, 6}, {3, 1}, {-3, 2}, {1, 3}}));
  EXPECT_EQ(Stencil::forward(5).fractions(), (Fractions{{-25, 12}, {4, 1}, {-3, 1}, {4, 3}, {-1, 4}}));
  EXPECT_EQ(Stencil::central().fractions(), (Fractions{{-1, 2}, {1, 2}}));
  EXPECT_EQ(Stencil::central().points(), (std::vector<int>{-1, 1}));
}

TEST(Stencil, VandermondeConditionsHoldInIntegerArithmetic) {
  constexpr std::int64_t common = 840;  // divisible by 1 … 8
  const auto moment = [](const Stencil& s, int k) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < s.points().size(); ++i) {
      EXPECT_EQ(common % s.fractions()[i].denominator, 0);
      std::int64_t power = 1;
      for (int j = 0; j < k; ++j) power *= s.points()[i];
      sum += s.fractions()[i].numerator * (common / s.fractions()[i].denominator) * power;
    }
    return sum;
  };
  for (int p = Stencil::least_points; p <= Stencil::most_points; ++p) {
    const Stencil s = Stencil::forward(p);
    EXPECT_EQ(s.order(), p - 1);
    ASSERT_EQ(s.points().size(), static_cast<std::size_t>(p));
    for (int k = 0; k < p; ++k) EXPECT_EQ(moment(s, k), k == 1 ? common : 0) << "p = " << p << ", k = " << k;
    EXPECT_NE(moment(s, p), 0) << "p = " << p << ": the order would be higher than stated";
  }
  for (int k = 0; k <= 2; ++k) EXPECT_EQ(moment(Stencil::central(), k), k == 1 ? common : 0);
  EXPECT_EQ(Stencil::central().order(), 2);
}

TEST(Stencil, NoiseGains) {
  const double expected[] = {2, 4, 20.0 / 3, 32.0 / 3};
  for (int p = 2; p <= 5; ++p) EXPECT_NEAR(Stencil::forward(p).noise_gain(), expected[p - 2], 1e-15 * 11);
  EXPECT_EQ(Stencil::central().noise_gain(), 1);
}

TEST(Stencil, RefusesOtherNumbersOfPoints) {
  for (int p : {-1, 0, 1, 9, 100}) EXPECT_THROW(Stencil::forward(p), InvalidInput) << p;
}

}  // namespace stencil_test
}  // namespace bilevel
