// Losses of rows in every operation that they know, beside the same losses on ADOL-C's tapes.

#include <random>

#include <gtest/gtest.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace row_program_test {

using Vec = Eigen::VectorXd;

/// One operation by number, of a and b > 0, of which b is a number of the row.
template <class T, class Number>
T operation(int which, const T& a, const Number& b) {
  using std::erf, std::cbrt, std::asinh, std::acosh, std::atanh, std::fmax, std::fmin, std::fabs;
  switch (which) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / b;
    case 4:
      return b / a;
    case 5:
      return -a * b;
    case 6:
      return exp(a * b);
    case 7:
      return log(a + b);
    case 8:
      return log10(a + b);
    case 9:
      return sqrt(a * b);
    case 10:
      // Debian's ADOL-C records it and cannot replay it.
      if constexpr (std::is_same_v<T, adouble>)
        return exp(log(a + b) / 3);
      else
        return cbrt(a + b);
    case 11:
      return sin(a * b);
    case 12:
      return cos(a * b);
    case 13:
      return tan(0.3 * a * b);
    case 14:
      return asin(0.2 * a * b);
    case 15:
      return acos(0.2 * a * b);
    case 16:
      return atan(a * b);
    case 17:
      return sinh(a * b);
    case 18:
      return cosh(a * b);
    case 19:
      return tanh(a * b);
    case 20:
      return asinh(a * b);
    case 21:
      return acosh(2 + a * b);
    case 22:
      return atanh(0.2 * a * b);
    case 23:
      return erf(a * b);
    case 24:
      return pow(a + b, 2.5);
    case 25:
      return pow(a * b, 3);
    case 26:
      return pow(a - b, 2) + pow(a, 1) + pow(a, 0);
    case 27:
      return fmax(T(a * b), T(a + 0.4));
    case 28:
      return fmin(T(a * b), T(a + 0.4));
    case 29:
      return fabs(a - b);
    case 30:
      return 2 * a + b / 3.0 - 1 / (1 + a) + (a - 0.5) * (a - b);
    case 31: {
      T sum = 0, product = 1;
      for (int k = 0; k < 3; ++k) {
        sum += a * b;
        product *= a;
        sum -= product / 2;
      }
      sum /= a + 1;
      return sum;
    }
    default:
      return a;
  }
}
constexpr int operations = 32;

struct Table {
  int which = 0;
  std::vector<double> numbers;
  template <class T, class Row>
  T row(const Span<T>& phi, const Span<T>& theta, const Row& r) const {
    const T a = 0.5 + 0.1 * phi[0] * phi[0] + 0.05 * phi[1] * theta[0];
    // The same with variables on both sides.
    return operation<T>(which, a, r[1]) * r[0] + operation<T>(which, T(a * r[1]), T(1.1 + 0.1 * theta[1]));
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};
struct ByRows : Table {
  Rows inner_rows() const { return {numbers.data(), static_cast<Index>(numbers.size()) / 2, 2}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>& theta, const Row& r) const {
    return row(phi, theta, r);
  }
};
struct OnTape : Table {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (std::size_t i = 0; i < numbers.size(); i += 2) sum += row(phi, theta, &numbers[i]);
    return sum;
  }
};

TEST(RowProgram, EveryOperationAndItsDerivativesAreThoseOfATape) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> positive(0.5, 1.5);
  for (int which = 0; which < operations; ++which) {
    for (const std::size_t count : {1U, 15U, 16U, 37U}) {
      SCOPED_TRACE(testing::Message() << "operation " << which << ", " << count << " rows");
      Table table{.which = which, .numbers = std::vector<double>(2 * count)};
      for (double& each : table.numbers) each = positive(engine);
      auto rows = differentiate(ByRows{table}, {.phi = 2, .theta = 2});
      auto tape = differentiate(OnTape{table}, {.phi = 2, .theta = 2});
      const Vec phi{{0.7, -0.4}}, theta{{0.3, 0.9}}, v{{1.3, -0.2}};
      Vec a(2), b(2), c(2), d(2);
      EXPECT_NEAR(rows.inner(phi, theta, {.phi = &a, .theta = &b}),
                  tape.inner(phi, theta, {.phi = &c, .theta = &d}), 1e-12);
      EXPECT_LE((a - c).norm() + (b - d).norm(), 1e-13 * (1 + c.norm() + d.norm()));
      std::unique_ptr<Curvature<Vec>> one, other;
      rows.linearise(phi, theta, 0.3, one);
      tape.linearise(phi, theta, 0.3, other);
      one->times(v, a);
      other->times(v, c);
      EXPECT_LE((a - c).norm(), 1e-12 * (1 + c.norm()));
      one->cross_times(v, b);
      other->cross_times(v, d);
      EXPECT_LE((b - d).norm(), 1e-12 * (1 + d.norm()));
      one->cross_apply(v, a);
      other->cross_apply(v, c);
      EXPECT_LE((a - c).norm(), 1e-12 * (1 + c.norm()));
      EXPECT_FALSE(rows.tapes().rows_fixed);
      EXPECT_EQ(rows.tapes().rerecorded, 0) << "the replayed value is the plain one";
    }
    // And once more by differences, of which no tape knows.
    Table table{.which = which, .numbers = {0.6, 1.2, 1.4, 0.8, 0.9, 0.7}};
    auto rows = differentiate(ByRows{table}, {.phi = 2, .theta = 2});
    const CheckReport report = check_derivatives<Vec>(rows, Vec{{0.7, -0.4}}, Vec{{0.3, 0.9}});
    EXPECT_TRUE(report.passed()) << "operation " << which << "\n" << report.table();
  }
}

/// Σ_i |φ − y_i| and hinges: rows may stand at a kink.
struct Median {
  std::vector<double> y{1, 2, 4};
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * exp(theta[0]) * phi[0] * phi[0];
  }
  Rows inner_rows() const { return {y.data(), 3, 1}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    using std::fabs, std::fmax;
    return fabs(phi[0] - row[0]) + fmax(T(0), T(1 - phi[0] * row[0]));
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0];
  }
};

TEST(RowProgram, KinksOfRowsAreSeen) {
  auto problem = differentiate(Median{}, {.phi = 1, .theta = 1});
  const Vec theta = Vec::Zero(1);
  EXPECT_EQ(problem.kink(Vec::Constant(1, 1.5), theta), "");
  for (const double at : {1.0, 2.0, 4.0, 0.5, 0.25})
    EXPECT_NE(problem.kink(Vec::Constant(1, at), theta), "") << at;
  EXPECT_EQ(problem.kink(Vec::Constant(1, 3.0), theta), "");
  Vec g(1);
  problem.inner(Vec::Constant(1, 0.3), theta, {.phi = &g});
  EXPECT_NEAR(g[0], 0.3 - 3 - 1 - 2, 1e-14);  // of the hinges those of 1 and of 2 are active
}

/// A loss of rows alone, which uses one of three columns, and neither θ nor a number of the row in one term.
struct Sparse {
  std::vector<double> table{9, 1, 9, 9, 3, 9};
  Rows inner_rows() const { return {table.data(), 2, 3}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>& theta, const Row& row) const {
    return (phi[0] - row[1] * theta[0]) * (phi[0] - row[1] * theta[0]) + exp(phi[1]) * 0.5 - phi[1];
  }
  Rows outer_rows() const { return {table.data(), 2, 3}; }
  template <class T, class Row>
  T outer_row(const Span<T>& phi, const Span<T>&, const Row&) const {
    return phi[1] * phi[1];
  }
};

TEST(RowProgram, WhatIsTheSameForAllRowsCountsForEach) {
  auto problem = differentiate(Sparse{}, {.phi = 2, .theta = 1});
  Vec g(2);
  problem.inner(Vec::Zero(2), Vec::Ones(1), {.phi = &g});
  EXPECT_NEAR(g[0], -2 * (1 + 3), 1e-15);
  EXPECT_NEAR(g[1], 2 * (0.5 - 1), 1e-15);
  EXPECT_NEAR(problem.outer(Vec{{0, 3}}, Vec::Ones(1), {.phi = &g}), 18, 1e-14);
  EXPECT_NEAR(g[1], 12, 1e-14);
  const Summary s = minimise(problem, {.outer = {.max_iterations = 3}});
  EXPECT_NEAR(s.phi[1], std::log(2.0), 1e-6);
}

}  // namespace row_program_test
}  // namespace bilevel
