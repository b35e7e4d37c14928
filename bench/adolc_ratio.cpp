// What derivatives by ADOL-C cost, as multiples of the plain value: the logistic loss of 2,000 rows and 20
// features, by hand, on one tape, and as a loss of one row; and the adapter beside ADOL-C's
// own drivers on the same tape. Prints markdown.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
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

/// What is timed: value, gradient and Hessian product. Each call gets its number.
using Work = std::function<void(int)>;
using Works = std::array<Work, 3>;

/// Microseconds of one call of each, the least of many short rounds that take turns: what others do to the
/// machine only adds, and adds to all.
std::vector<std::array<double, 3>> microseconds(const std::vector<Works>& all) {
  std::vector<std::array<double, 3>> least(all.size(), {1e300, 1e300, 1e300});
  for (int round = 0; round < 60; ++round)
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t k = 0; k < 3; ++k) {
        int calls = 0;
        Stopwatch watch;
        do {
          all[i][k](calls++);
        } while (watch.seconds() < 0.004);
        least[i][k] = std::min(least[i][k], 1e6 * watch.seconds() / calls);
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

/// The problem's own, each call at another point: the ready-made one remembers its last.
class Timed {
 public:
  Timed(Problem<Vec>& problem, const Vec& phi, const Vec& theta)
      : problem_(problem), phi_(phi), theta_(theta) {
    problem.linearise(phi, theta, 0, curvature_);
  }
  Works works() {
    return {[this](int call) { problem_.inner(somewhere(call), theta_, {}); },
            [this](int call) { problem_.inner(somewhere(call), theta_, {.phi = &dphi_, .theta = &dtheta_}); },
            [this](int call) {
              direction_[0] = 1 + call % 97;
              curvature_->times(direction_, out_);
            }};
  }

 private:
  const Vec& somewhere(int call) {
    moved_ = phi_;
    moved_[0] += 1e-9 * (call % 97);
    return moved_;
  }
  Problem<Vec>& problem_;
  Vec phi_, theta_, moved_, dphi_{features}, dtheta_{features}, direction_ = Vec::Ones(features),
                                                                out_{features};
  std::unique_ptr<Curvature<Vec>> curvature_;
};

/// The tape of the whole loss without the adapter: ADOL-C's own calls.
class Drivers {
 public:
  Drivers(const Whole& losses, const Vec& phi, const Vec& theta)
      : x_(n), g_(n), v_(n), pairs_(2 * n), pair_(n) {
    std::copy(phi.begin(), phi.end(), x_.begin());
    std::copy(theta.begin(), theta.end(), x_.begin() + features);
    std::fill_n(v_.begin(), features, 1);
    for (std::size_t j = 0; j < n; ++j) pair_[j] = &pairs_[2 * j];
    trace_on(tag, 0, 4000000, 16000000, 4000000, 4000000, 1);
    {
      std::vector<adouble> in(n);
      for (std::size_t j = 0; j < n; ++j) in[j] <<= x_[j];
      const Span<adouble> all(in);
      adouble loss = losses.inner(all.first(features), all.subspan(features));
      loss >>= y_;
    }
    trace_off();
  }
  Works works() {
    return {[this](int) { zos_forward(tag, 1, n, 0, x_.data(), &y_); },
            [this](int) {
              zos_forward(tag, 1, n, 1, x_.data(), &y_);
              fos_reverse(tag, 1, n, &one_, g_.data());
            },
            [this](int) {
              fos_forward(tag, 1, n, 2, x_.data(), v_.data(), &y_, &dy_);
              hos_reverse(tag, 1, n, 1, &one_, pair_.data());
            }};
  }

 private:
  static constexpr short tag = 7;
  static constexpr int n = 2 * features;
  double y_ = 0, dy_ = 0, one_ = 1;
  std::vector<double> x_, g_, v_, pairs_;
  std::vector<double*> pair_;
};

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
  auto of_rows = differentiate(by_rows, {.phi = features, .theta = features});
  Drivers drivers(whole, phi, theta);
  Timed by_hand(native, phi, theta), taped(one_tape, phi, theta), program(of_rows, phi, theta);

  const auto times = microseconds({by_hand.works(), drivers.works(), taped.works(), program.works()});
  const double plain = times[2][0];
  fmt::print("| | value | gradient | ÷ plain value | Hessian product | ÷ plain value | bytes of tape |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  const auto row = [&](std::string_view name, std::size_t i, std::size_t bytes) {
    fmt::print("| {} | {:.0f} µs | {:.0f} µs | {:.1f} | {:.0f} µs | {:.1f} | {} |\n", name, times[i][0],
               times[i][1], times[i][1] / plain, times[i][2], times[i][2] / plain,
               bytes ? fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes)) : "–");
  };
  row("by hand (`problems::Logistic`)", 0, 0);
  row("ADOL-C's own calls, one tape", 1, 0);
  row("`differentiate`, `inner`: one tape", 2, one_tape.tapes().bytes);
  row("`differentiate`, `inner_row`", 3, of_rows.tapes().bytes);
  fmt::print("\nThe adapter beside ADOL-C's own calls: gradient {:.2f}, Hessian product {:.2f} times.\n",
             times[2][1] / times[1][1], times[2][2] / times[1][2]);
}
