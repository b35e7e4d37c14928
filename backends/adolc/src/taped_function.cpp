#include "taped_function.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace bilevel::adolc {
namespace {

/// What a replay and the plain function may differ by: orders of summation, and products that the compiler
/// joins with sums. A function that has become another one differs by more, or by nothing that matters here.
constexpr double agreement = 1e-9;

struct Difference {
  double difference = 0, size = 0;
  bool of_range = false;  // one is finite and the other is not
  bool within(double blur) const { return !of_range && difference <= agreement * size + blur; }
};

Difference compare(const std::vector<double>& a, const std::vector<double>& b) {
  Difference d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      d.difference = std::max(d.difference, std::abs(a[i] - b[i]));
      d.size = std::max({d.size, std::abs(a[i]), std::abs(b[i])});
    } else if (std::isfinite(a[i]) != std::isfinite(b[i])) {
      d.of_range = true;
    }
    // Else both have left their range, and whoever asked is told so by the value.
  }
  return d;
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

TapedFunction::TapedFunction(Recordable function, std::string name, Index phis, Index thetas,
                             const TapedOptions& options)
    : function_(std::move(function)),
      name_(std::move(name)),
      phis_(phis),
      thetas_(thetas),
      options_(options),
      plain_(static_cast<std::size_t>(function_.outputs)),
      replayed_(plain_.size()) {
  if (!function_.rows) return;
  rows_ = function_.rows();
  if (rows_.count < 1 || rows_.width < 1 || !rows_.data)
    throw InvalidInput(fmt::format("{}_rows: {} rows of {} numbers; there must be some of each", name_,
                                   rows_.count, rows_.width));
}

void TapedFunction::require_same_rows() const {
  if (!function_.rows) return;
  const Rows now = function_.rows();
  if (now.count != rows_.count || now.width != rows_.width || now.data != rows_.data)
    throw InvalidInput(
        fmt::format("{}_rows: {} rows of {} numbers, which were {} of {} or stood elsewhere when the problem "
                    "was made; make "
                    "another problem for other data",
                    name_, now.count, now.width, rows_.count, rows_.width));
}

void TapedFunction::values(const double* x, double* y) const {
  y[0] = 0;
  if (function_.value) function_.value(phi(x), theta(x), {y, static_cast<std::size_t>(function_.outputs)});
  if (!function_.rows) return;
  require_same_rows();
  double sum = 0;
  for (Index i = 0; i < rows_.count; ++i) sum += function_.row_value(phi(x), theta(x), rows_[i]);
  y[0] += sum;
}

double TapedFunction::value(const double* x) const {
  double y = 0;
  values(x, &y);
  return y;
}

void TapedFunction::record(const double* x) {
  ++recordings_;
  if (by_program()) record_row();
  tape_.record(variables(x), function_.outputs, options_.most_operations,
               [this](std::span<adouble> in, std::span<adouble> out) {
                 const Span<adouble> all(in);
                 const auto phis = static_cast<std::size_t>(phis_);
                 const Span<adouble> phi = all.first(phis), theta = all.subspan(phis);
                 for (adouble& each : out) each = 0;
                 if (function_.record) function_.record(phi, theta, out);
                 if (!rows_fixed_) return;
                 adouble of_row;
                 for (Index i = 0; i < rows_.count; ++i) {
                   function_.record_fixed_row(phi, theta, rows_[i], of_row);
                   out[0] += of_row;
                 }
               });
  require_sense(x);
}

void TapedFunction::record_row() {
  try {
    program_.record(phis_ + thetas_, rows_.width, options_.most_operations,
                    [this](Span<RowNumber> all, const RecordedRow& row, RowNumber& out) {
                      const auto phis = static_cast<std::size_t>(phis_);
                      function_.record_row(all.first(phis), all.subspan(phis), row, out);
                    });
  } catch (const RowNumber::Branches&) {
    rows_fixed_ = true;
  }
}

/// Once: that the function depends on what it should, and on nothing that it hides.
void TapedFunction::require_sense(const double* x) {
  if (sensible_) return;
  std::vector<double> again(plain_.size());
  values(x, plain_.data());
  values(x, again.data());
  for (std::size_t i = 0; i < again.size(); ++i)
    if (!same(plain_[i], again[i]))
      throw InvalidInput(fmt::format(
          "{}: two values at the same point, {:.17g} and {:.17g}: it keeps a state, or draws random "
          "numbers; draw them before, into a member",
          name_, plain_[i], again[i]));
  std::vector<bool> matters = tape_.dependence();
  if (by_program()) {
    const std::vector<bool> of_rows = program_.dependence();
    for (std::size_t j = 0; j < matters.size(); ++j) matters[j] = matters[j] || of_rows[j];
  }
  const auto theta_begins = matters.begin() + phis_;
  if (std::find(matters.begin(), theta_begins, true) == theta_begins)
    throw InvalidInput(fmt::format(
        "{}: does not depend on phi{}", name_,
        name_ == "outer" ? ", so that nothing judges what settles" : ", so that nothing settles"));
  if (name_ != "outer" && std::find(theta_begins, matters.end(), true) == matters.end())
    throw InvalidInput(fmt::format("{}: does not depend on theta, so that there is nothing to learn", name_));
  sensible_ = true;
}

Match TapedFunction::replay(const double* x, const Replay& all) {
  values(x, plain_.data());
  if (!tape_.recorded()) record(x);
  Match match = all();
  if (match == Match::other || !compare(replayed_, plain_).within(blur_)) {
    ++rerecorded_;
    record(x);
    match = all();
    const Difference d = compare(replayed_, plain_);
    if (match == Match::other || !d.within(blur_)) {
      require_no_state(x, match);
      // What cancels, then: a value that is small beside its terms.
      blur_ = 4 * d.difference;
    }
  } else {
    // What cancelled far from here hides nothing here.
    blur_ = std::min(blur_, std::max(blur_ / 4, 16 * compare(replayed_, plain_).difference));
  }
  if (match == Match::kink) ++kinks_;
  return match;
}

/// Of a function that has just been recorded at x, and replayed as something else there.
void TapedFunction::require_no_state(const double* x, Match match) const {
  std::vector<double> again(plain_.size());
  values(x, again.data());
  for (std::size_t i = 0; i < again.size(); ++i)
    if (match == Match::other || !same(plain_[i], again[i]))
      throw InvalidInput(
          fmt::format("{}: recorded as {:.17g}, evaluated as {:.17g} and {:.17g} at the same point: it keeps "
                      "a state, or draws random numbers; draw them before, into a member",
                      name_, replayed_[i], plain_[i], again[i]));
}

Match TapedFunction::fit(const double* x) {
  return replay(x, [&] {
    const Match match = tape_.values(x, replayed_.data());
    if (match == Match::other || !by_program()) return match;
    return std::max(match, program_.values(rows_, x, replayed_[0]));
  });
}

double TapedFunction::gradient(const double* x, const double* u, Eigen::VectorXd& g) {
  replay(x, [&] {
    const Match match = tape_.gradient(x, u, replayed_.data(), g.data());
    if (match == Match::other || !by_program()) return match;
    return std::max(match, program_.gradient(rows_, x, replayed_[0], g.data()));
  });
  // That of the plain function: searches compare it with values that were asked for alone.
  return std::inner_product(plain_.begin(), plain_.end(), u, 0.0);
}

void TapedFunction::second(const double* x, const double* dx, Eigen::VectorXd& h) {
  const auto sweep = [&] {
    const Match match = tape_.second(x, dx, h.data());
    if (match == Match::other || !by_program()) return match;
    return std::max(match, program_.second(rows_, x, dx, h.data()));
  };
  Match match = sweep();
  if (match == Match::other) {  // another point has been fitted since
    fit(x);
    match = sweep();
  }
  kinks_ += match == Match::kink;
}

bool TapedFunction::bends(const double* x) {
  return fit(x) == Match::kink || tape_.look(x) == Match::kink;
}

void TapedFunction::directional(const double* x, const double* dx, double* dy) {
  if (tape_.directional(x, dx, dy) != Match::other) return;
  fit(x);
  tape_.directional(x, dx, dy);
}

Pattern TapedFunction::pattern(const double* x) {
  if (function_.rows) return {};
  Pattern all = tape_.second_dependence(x);
  all.resize(static_cast<std::size_t>(phis_));
  for (auto& column : all) {
    std::erase_if(column, [this](unsigned i) { return i >= static_cast<unsigned>(phis_); });
    std::sort(column.begin(), column.end());
  }
  return all;
}

void TapedFunction::add_to(TapeReport& report) const {
  report.recordings += recordings_;
  report.rerecorded += rerecorded_;
  report.kinks += kinks_;
  report.rows_fixed = report.rows_fixed || rows_fixed_;
  if (tape_.recorded()) {
    report.operations += tape_.operations();
    report.bytes += tape_.bytes();
  }
  if (program_.recorded()) {
    report.operations += program_.operations();
    report.bytes += program_.bytes();
  }
}

}  // namespace bilevel::adolc
