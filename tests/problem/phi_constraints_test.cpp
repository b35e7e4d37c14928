#include <bilevel/problem/phi_constraints.hpp>

#include <limits>

#include <gtest/gtest.h>

namespace bilevel {
namespace phi_constraints_test {

using Vec = Eigen::VectorXd;
constexpr double infinite = std::numeric_limits<double>::infinity();

std::string why(double lower, double upper) {
  std::string all;
  const auto violations = PhiConstraints::box(Vec::Constant(1, lower), Vec::Constant(1, upper)).validate(1);
  for (const std::string& text : violations.texts()) all += text + "\n";
  return all;
}

TEST(PhiConstraints, NoElementIsHeldAtInfinity) {
  EXPECT_EQ(why(-infinite, infinite), "");
  EXPECT_EQ(why(0, infinite), "");
  EXPECT_EQ(why(2, 2), "");
  EXPECT_NE(why(infinite, infinite).find("lower[0]"), std::string::npos);
  EXPECT_NE(why(-infinite, -infinite).find("upper[0]"), std::string::npos);
  EXPECT_NE(why(1, 0).find("lower[0]"), std::string::npos);
  EXPECT_FALSE(PhiConstraints::box(Vec::Constant(1, infinite), Vec()).validate(1).empty());
  EXPECT_FALSE(PhiConstraints::box(Vec(), Vec::Constant(1, -infinite)).validate(1).empty());
}

}  // namespace phi_constraints_test
}  // namespace bilevel
