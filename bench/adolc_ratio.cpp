// What derivatives by ADOL-C cost, as multiples of the plain value: the logistic loss of 2,000 rows and 20
// features, by hand, on one tape, and as a loss of one row; and the adapter beside ADOL-C's
// own drivers on the same tape. Prints markdown.

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <fmt/format.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/problems/logistic.hpp>

using namespace bilevel;

namespace {

using Vec = Eigen::VectorXd;
constexpr Index rows = 2000, features = 20;

/// Microseconds of one call, the least of several rounds: what others do to the machine only adds.
template <class Work>
double microseconds(Work&& work) {
  double least = 1e300;
  for (int round = 0; round < 15; ++round) {
    int calls = 0;
    Stopwatch watch;
    do {
      work(calls++);
    } while (watch.seconds() < 0.03);
    least = std::min(least, 1e6 * watch.seconds() / calls);
  }
  return least;
}

/// Row after row, the label ±1 last.
struct Table {
  std::vector<double> numbers;
  static constexpr Index width = features + 1;

  template <class T, class Row>
  T loss(const Span<T>& phi, const Row& row) const {
    T margin = 0;
    for (std::size_t j = 0; j < features; ++j) margin += phi[j] * row[j];
    return log(1 + exp(-margin * row[features]));
  }
  template <class T>
  T penalty(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (std::size_t j = 0; j < features; ++j) sum += 0.5 * exp(theta[j]) * phi[j] * phi[j];
    return sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};
struct Whole : Table {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (Index i = 0; i < rows; ++i) sum += loss(phi, &numbers[static_cast<std::size_t>(i * width)]);
    return sum / rows + penalty(phi, theta);
  }
};
struct ByRows : Table {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return penalty(phi, theta);
  }
  Rows inner_rows() const { return {numbers.data(), rows, width}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    return loss(phi, row) / static_cast<double>(rows);
  }
};

struct Times {
  double value, gradient, product;
};

Times times_of(Problem<Vec>& problem, const Vec& phi, const Vec& theta) {
  Vec dphi(features), dtheta(features), v = Vec::Ones(features), out(features), moved = phi;
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(phi, theta, 0, curvature);
  // The ready-made problem remembers its last point: each call is at another.
  const auto somewhere = [&](int call) -> const Vec& {
    moved[0] = phi[0] + 1e-9 * (call % 97);
    return moved;
  };
  Times t{};
  t.value = microseconds([&](int call) { problem.inner(somewhere(call), theta, {}); });
  t.gradient = microseconds(
      [&](int call) { problem.inner(somewhere(call), theta, {.phi = &dphi, .theta = &dtheta}); });
  t.product = microseconds([&](int call) {
    v[0] = 1 + call % 97;
    curvature->times(v, out);
  });
  return t;
}

/// The same tape as the whole loss's, without the adapter: ADOL-C's own calls.
Times times_of_drivers(const Whole& losses, const Vec& phi, const Vec& theta) {
  constexpr short tag = 7;
  constexpr int n = 2 * features;
  std::vector<double> x(n), g(n), v(n, 0), pairs(2 * n);
  std::copy(phi.begin(), phi.end(), x.begin());
  std::copy(theta.begin(), theta.end(), x.begin() + features);
  std::fill_n(v.begin(), features, 1);
  trace_on(tag, 0, 4000000, 16000000, 4000000, 4000000, 1);
  {
    std::vector<adouble> in(n);
    for (int j = 0; j < n; ++j) in[static_cast<std::size_t>(j)] <<= x[static_cast<std::size_t>(j)];
    const Span<adouble> all(in);
    adouble loss = losses.inner(all.first(features), all.subspan(features));
    double value = 0;
    loss >>= value;
  }
  trace_off();
  double y = 0, dy = 0, one = 1;
  std::vector<double*> pair(n);
  for (int j = 0; j < n; ++j) pair[static_cast<std::size_t>(j)] = &pairs[2 * static_cast<std::size_t>(j)];
  Times t{};
  t.value = microseconds([&](int) { zos_forward(tag, 1, n, 0, x.data(), &y); });
  t.gradient = microseconds([&](int) {
    zos_forward(tag, 1, n, 1, x.data(), &y);
    fos_reverse(tag, 1, n, &one, g.data());
  });
  t.product = microseconds([&](int) {
    fos_forward(tag, 1, n, 2, x.data(), v.data(), &y, &dy);
    hos_reverse(tag, 1, n, 1, &one, pair.data());
  });
  return t;
}

}  // namespace

int main() {
  problems::Logistic native =
      problems::Logistic::random({.rows = rows, .validation_rows = 10, .features = features, .seed = 1});
  Whole whole;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < features; ++j) whole.numbers.push_back(native.x()(i, j));
    whole.numbers.push_back(native.labels()[i]);
  }
  ByRows by_rows;
  by_rows.numbers = whole.numbers;
  const Vec phi = Vec::Constant(features, 0.1), theta = Vec::Constant(features, -2);
  auto one_tape = differentiate(whole, {.phi = features, .theta = features});

  const double plain = microseconds([&](int) { one_tape.inner(phi, theta, {}); });
  fmt::print("| | value | gradient | ÷ plain value | Hessian product | ÷ plain value | bytes of tape |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  const auto row = [&](std::string_view name, const Times& t, std::size_t bytes) {
    fmt::print("| {} | {:.0f} µs | {:.0f} µs | {:.1f} | {:.0f} µs | {:.1f} | {} |\n", name, t.value,
               t.gradient, t.gradient / plain, t.product, t.product / plain,
               bytes ? fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes)) : "–");
  };
  row("by hand (`problems::Logistic`)", times_of(native, phi, theta), 0);
  const Times drivers = times_of_drivers(whole, phi, theta), adapter = times_of(one_tape, phi, theta);
  row("ADOL-C's own calls, one tape", drivers, 0);
  row("`differentiate`, one tape", adapter, one_tape.tapes().bytes);
  auto program = differentiate(by_rows, {.phi = features, .theta = features});
  const Times rows_alone = times_of(program, phi, theta);
  row("`differentiate`, `inner_row`", rows_alone, program.tapes().bytes);
  fmt::print("\nThe adapter beside ADOL-C's own calls: gradient {:.2f}, Hessian product {:.2f} times.\n",
             adapter.gradient / drivers.gradient, adapter.product / drivers.product);
}
