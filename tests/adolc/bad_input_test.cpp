// Losses that cannot be what was meant: each is refused or named, by the loss at fault.

#include <cmath>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

#include "refusal.hpp"

namespace bilevel {
namespace taped_bad_input_test {

using Vec = Eigen::VectorXd;

/// What may be wrong with it is chosen at run time: each field is a fault.
struct Faulty {
  bool inner_without_phi = false, inner_without_theta = false, outer_without_phi = false;
  bool nan_inner = false, nan_outer = false, random = false, counts = false;
  std::shared_ptr<std::mt19937_64> engine = std::make_shared<std::mt19937_64>(1);
  std::shared_ptr<long> calls = std::make_shared<long>(0);

  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T r = (inner_without_phi ? T(0.0) : phi[0]) - (inner_without_theta ? T(1.0) : theta[0]);
    if (random) r += 1e-3 * static_cast<double>((*engine)() % 1000);
    if (counts) r += static_cast<double>(++*calls);
    if (nan_inner) r *= sqrt(-1 - phi[0] * phi[0]);
    return 0.5 * r * r;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>& theta) const {
    T r = (outer_without_phi ? theta[0] : phi[0]) - 2;
    if (nan_outer) r *= log(-1 - phi[0] * phi[0]);
    return 0.5 * r * r;
  }
};

std::string refused(Faulty faulty) {
  return refusal([&] { minimise(differentiate(faulty, {.phi = 1, .theta = 1})); });
}

TEST(TapedBadInput, TheSoundOneIsAccepted) {
  EXPECT_EQ(refused({}), "accepted");
}

TEST(TapedBadInput, LossesThatDoNotDependOnWhatTheyShould) {
  EXPECT_EQ(refused({.inner_without_phi = true}), "inner: does not depend on phi, so that nothing settles");
  EXPECT_EQ(refused({.inner_without_theta = true}),
            "inner: does not depend on theta, so that there is nothing to learn");
  EXPECT_EQ(refused({.outer_without_phi = true}),
            "outer: does not depend on phi, so that nothing judges what settles");
}

TEST(TapedBadInput, HiddenRandomStateAndCounters) {
  for (const Faulty& faulty : {Faulty{.random = true}, Faulty{.counts = true}}) {
    const std::string message = refused(faulty);
    EXPECT_TRUE(message.starts_with("inner: two values at the same point, ") ||
                message.starts_with("inner: recorded as "))
        << message;
    EXPECT_TRUE(
        message.ends_with("it keeps a state, or draws random numbers; draw them before, into a member"))
        << message;
  }
}

TEST(TapedBadInput, NanIsNamedWithTheStage) {
  const Summary inner = minimise(differentiate(Faulty{.nan_inner = true}, {.phi = 1, .theta = 1}));
  EXPECT_FALSE(succeeded(inner.status));
  EXPECT_NE(inner.certificate.verdict, Verdict::trusted);
  EXPECT_NE(inner.message.find("phase 1"), std::string::npos) << inner.message;
  const Summary outer = minimise(differentiate(Faulty{.nan_outer = true}, {.phi = 1, .theta = 1}));
  EXPECT_FALSE(succeeded(outer.status));
  EXPECT_NE(outer.certificate.verdict, Verdict::trusted);
  EXPECT_NE(outer.message.find("outer"), std::string::npos) << outer.message;
}

TEST(TapedBadInput, OptionsAreNamed) {
  const auto with = [](const adolc::TapedOptions& options) {
    return refusal([&] { differentiate(Faulty{}, options); });
  };
  EXPECT_EQ(with({}), "differentiate.phi = 0 must be at least 1; differentiate.theta = 0 must be at least 1");
  EXPECT_EQ(with({.phi = 1, .theta = 1, .most_operations = 0}),
            "differentiate.most_operations = 0 must be between 1 and 1e9");
  EXPECT_EQ(with({.phi = 1, .theta = 1, .sparse_share = 2}),
            "differentiate.sparse_share = 2 must be between 0 and 1");
}

TEST(TapedBadInput, WrongSizesOfVariables) {
  auto problem = differentiate(Faulty{}, {.phi = 1, .theta = 1});
  EXPECT_EQ(refusal([&] { problem.inner(Vec::Zero(2), Vec::Zero(1), {}); }),
            "differentiate: phi and theta have 2 and 1 elements, the problem has 1 and 1");
}

/// A table whose rows may be exchanged behind the problem's back.
struct Table {
  std::shared_ptr<std::vector<double>> numbers =
      std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3});
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * exp(theta[0]) * phi[0] * phi[0];
  }
  Rows inner_rows() const { return {numbers->data(), static_cast<Index>(numbers->size()), 1}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    return 0.5 * (phi[0] - row[0]) * (phi[0] - row[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedBadInput, TablesThatChangeTheirShape) {
  Table table;
  auto problem = differentiate(table, {.phi = 1, .theta = 1});
  Vec g(1);
  EXPECT_NEAR(problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}), 7, 1e-15);
  EXPECT_NEAR(g[0], -6, 1e-15);
  table.numbers->push_back(4);
  const std::string message = refusal([&] { problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}); });
  EXPECT_TRUE(message.starts_with("inner_rows: 4 rows of 1 numbers, which were 3 of 1")) << message;
  table.numbers->clear();
  EXPECT_EQ(refusal([&] { differentiate(table, {.phi = 1, .theta = 1}); }),
            "inner_rows: 0 rows of 1 numbers; there must be some of each");
}

TEST(TapedBadInput, NumbersOfATableThatChangeAreSeen) {
  Table table;
  auto problem = differentiate(table, {.phi = 1, .theta = 1});
  Vec g(1);
  problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g});
  (*table.numbers)[0] = 5;
  EXPECT_NEAR(problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}), 19, 1e-14);
  EXPECT_NEAR(g[0], -10, 1e-14);
}

/// A member that no tape sees: what was recorded with its old value is recorded again.
struct Scaled {
  std::shared_ptr<double> scale = std::make_shared<double>(1);
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return *scale * (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedBadInput, MembersThatChangeBetweenCallsAreSeen) {
  Scaled scaled;
  auto problem = differentiate(scaled, {.phi = 1, .theta = 1});
  Vec g(1);
  problem.inner(Vec::Ones(1), Vec::Zero(1), {.phi = &g});
  EXPECT_EQ(g[0], 2);
  *scaled.scale = 3;
  problem.inner(Vec::Ones(1), Vec::Zero(1), {.phi = &g});
  EXPECT_EQ(g[0], 6);
  EXPECT_EQ(problem.tapes().rerecorded, 1);
}

struct TooLong {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T sum = phi[0] - theta[0];
    for (int k = 0; k < 100000; ++k) sum += 1e-9 * sin(sum);
    return sum * sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

struct RowTooLong {
  std::vector<double> y{1, 2};
  Rows inner_rows() const { return {y.data(), 2, 1}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>& theta, const Row& row) const {
    T sum = phi[0] - theta[0];
    for (int k = 0; k < 10000; ++k) sum += 1e-9 * sin(sum * row[0]);
    return sum * sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedBadInput, RowsThatGrowTooLong) {
  auto problem = differentiate(RowTooLong{}, {.phi = 1, .theta = 1, .most_operations = 1e4});
  Vec g(1);
  EXPECT_EQ(refusal([&] { problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}); }),
            "adolc: a loss of one row takes more than 1e+04 operations (most_operations)");
}

TEST(TapedBadInput, TapesThatGrowTooLong) {
  auto problem = differentiate(TooLong{}, {.phi = 1, .theta = 1, .most_operations = 1e4});
  Vec g(1);
  const std::string message = refusal([&] { problem.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}); });
  EXPECT_NE(message.find("takes more than 1e+04 operations (most_operations)"), std::string::npos) << message;
  auto roomy = differentiate(TooLong{}, {.phi = 1, .theta = 1});
  EXPECT_EQ(refusal([&] { roomy.inner(Vec::Zero(1), Vec::Zero(1), {.phi = &g}); }), "accepted");
  EXPECT_GT(roomy.tapes().operations, 100000U);
}

struct Unreplayable {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    using std::cbrt;
    return cbrt(phi[0]) + 0.5 * (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedBadInput, FunctionsThatADOLCRecordsAndCannotReplay) {
  auto problem = differentiate(Unreplayable{}, {.phi = 1, .theta = 1});
  Vec g(1);
  for (int round = 0; round < 2; ++round) {
    const std::string message = refusal([&] { problem.inner(Vec::Ones(1), Vec::Zero(1), {.phi = &g}); });
    // A library that can is welcome.
    EXPECT_TRUE(message == "accepted" ||
                message.starts_with("adolc: ADOL-C recorded something that it cannot"))
        << message;
  }
  EXPECT_EQ(refused({}), "accepted") << "others go on as before";
}

/// A loss that throws while it is recorded leaves nothing half recorded behind.
struct Throws {
  std::shared_ptr<bool> armed = std::make_shared<bool>(true);
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T r = phi[0] - theta[0];
    if (*armed && !std::is_same_v<T, double>) throw std::runtime_error("no data");
    return r * r;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedBadInput, LossesThatThrow) {
  Throws losses;
  auto problem = differentiate(losses, {.phi = 1, .theta = 1});
  Vec g(1);
  EXPECT_THROW(problem.inner(Vec::Ones(1), Vec::Zero(1), {.phi = &g}), std::runtime_error);
  *losses.armed = false;
  problem.inner(Vec::Ones(1), Vec::Zero(1), {.phi = &g});
  EXPECT_EQ(g[0], 2);
}

}  // namespace taped_bad_input_test
}  // namespace bilevel
