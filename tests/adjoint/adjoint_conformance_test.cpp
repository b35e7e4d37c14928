#include <adjoint/adjoint_conformance.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace bilevel {

/// A vector that has nothing of Eigen: what Space does not ask for, it does not have.
struct PlainVector {
  std::vector<double> elements;
};

template <>
struct Space<PlainVector> {
  using V = PlainVector;
  using Scalar = double;

  static double dot(const V& x, const V& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.elements.size(); ++i) sum += x.elements[i] * y.elements[i];
    return sum;
  }
  static void axpy(double a, const V& x, V& y) {
    for (std::size_t i = 0; i < x.elements.size(); ++i) y.elements[i] += a * x.elements[i];
  }
  static void scale(double a, V& x) {
    for (double& e : x.elements) e = a == 0 ? 0 : a * e;
  }
  static void copy(const V& x, V& y) { y.elements = x.elements; }
  static V zeros_like(const V& x) { return {std::vector<double>(x.elements.size(), 0.0)}; }
  static void multiply(const V& x, V& y) {
    for (std::size_t i = 0; i < x.elements.size(); ++i) y.elements[i] *= x.elements[i];
  }
  static void divide(const V& x, V& y) {
    for (std::size_t i = 0; i < x.elements.size(); ++i) y.elements[i] /= x.elements[i];
  }
  static void sqrt(V& x) {
    for (double& e : x.elements) e = std::sqrt(e);
  }
  static void clamp(const V& lower, const V& upper, V& x) {
    for (std::size_t i = 0; i < x.elements.size(); ++i)
      x.elements[i] = std::min(std::max(x.elements[i], lower.elements[i]), upper.elements[i]);
  }
  static double max_abs(const V& x) {
    double largest = 0;
    for (const double e : x.elements) {
      if (std::isnan(e)) return e;
      largest = std::max(largest, std::abs(e));
    }
    return largest;
  }
  static void random(std::uint64_t seed, V& x) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    for (double& e : x.elements) e = normal(engine);
  }
  static Index size(const V& x) { return static_cast<Index>(x.elements.size()); }
  static void to_host(const V& x, double* host) { std::copy(x.elements.begin(), x.elements.end(), host); }
  static void from_host(const double* host, V& x) {
    std::copy(host, host + x.elements.size(), x.elements.begin());
  }
};

namespace testing {

template <>
struct HostTraits<PlainVector> {
  static PlainVector from_host(const Eigen::VectorXd& x) {
    return {std::vector<double>(x.data(), x.data() + x.size())};
  }
  static Eigen::VectorXd to_host(const PlainVector& x) {
    return Eigen::Map<const Eigen::VectorXd>(x.elements.data(), static_cast<Eigen::Index>(x.elements.size()));
  }
};

using VectorTypes = ::testing::Types<Eigen::VectorXd, Eigen::VectorXf, PlainVector>;
INSTANTIATE_TYPED_TEST_SUITE_P(AllVectors, AdjointConformance, VectorTypes);

TEST(AdjointConformanceList, EverySolverThatCanBeMadeIsInTheSuite) {
  const auto entries = conforming_solvers();
  for (const std::string_view name : adjoint_solver_names())
    EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; }))
        << name;
  EXPECT_EQ(entries.size(), adjoint_solver_names().size());
}

}  // namespace testing
}  // namespace bilevel
