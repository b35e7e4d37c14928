#include "row_program.hpp"

#include <algorithm>
#include <cmath>

#include "row_functions.hpp"

namespace bilevel::adolc {

void RowProgram::record(Index variables, Index width, double most_operations, const Function& f) {
  most_steps_ = most_operations / lanes;
  steps_.clear();
  uniform_.clear();
  of_rows_.clear();
  cells_.assign(static_cast<std::size_t>(width), -1);
  variables_ = variables;
  struct Recording {
    explicit Recording(RowProgram* now) : before(slot()) { slot() = now; }
    ~Recording() { slot() = before; }
    RowProgram* before;
  };
  try {
    const Recording recording(this);
    std::vector<RowNumber> x;
    for (Index j = 0; j < variables; ++j)
      x.push_back(RowNumber(
          add({.operation = RowOperation::variable, .a = static_cast<int>(j), .uniform = true}), true));
    RowNumber out;
    f(x, RecordedRow(), out);
    out_ = out.step_;
  } catch (...) {
    steps_.clear();
    throw;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i)
    (steps_[i].uniform ? uniform_ : of_rows_).push_back(static_cast<int>(i));
  values_.assign(steps_.size() * lanes, 0);
  tangents_.clear();
  adjoints_.clear();
  adjoint_tangents_.clear();
}

std::size_t RowProgram::bytes() const {
  return steps_.size() * sizeof(Step) +
         sizeof(double) * (values_.size() + tangents_.size() + adjoints_.size() + adjoint_tangents_.size());
}

std::vector<bool> RowProgram::dependence() const {
  std::vector<bool> reached(steps_.size()), of(static_cast<std::size_t>(variables_));
  reached[static_cast<std::size_t>(out_)] = true;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& s = steps_[i];
    if (!reached[i]) continue;
    if (s.operation == RowOperation::variable) of[static_cast<std::size_t>(s.a)] = true;
    if (s.operation == RowOperation::variable || s.operation == RowOperation::cell) continue;
    for (const int from : {s.a, s.b})
      if (from >= 0) reached[static_cast<std::size_t>(from)] = true;
  }
  return of;
}

namespace {

/// How much of the derivative goes to a, where the larger of a and b is taken: half at a tie.
double share(double a, double b) {
  return a > b ? 1 : a < b ? 0 : 0.5;
}

}  // namespace

template <bool tangents>
void RowProgram::forward(int step) {
  const Step& s = steps_[static_cast<std::size_t>(step)];
  if (s.operation <= RowOperation::cell) return;
  double* const y = value(step);
  const double *const a = value(s.a), *const b = s.b < 0 ? a : value(s.b);
  double* const dy = tangents ? tangent(step) : nullptr;
  const double *const da = tangents ? tangent(s.a) : nullptr, *const db =
                                                                  tangents && s.b >= 0 ? tangent(s.b) : da;
  // Every iteration has its own lane, whichever of the operands are one.
  const auto lane = [&](const auto& of_value, const auto& of_tangent) {
#pragma GCC ivdep
    for (std::size_t k = 0; k < lanes; ++k) {
      y[k] = of_value(a[k], b[k]);
      if constexpr (tangents) dy[k] = of_tangent(k);
    }
  };
  switch (s.operation) {
    case RowOperation::add:
      return lane([](double p, double q) { return p + q; }, [&](std::size_t k) { return da[k] + db[k]; });
    case RowOperation::subtract:
      return lane([](double p, double q) { return p - q; }, [&](std::size_t k) { return da[k] - db[k]; });
    case RowOperation::multiply:
      return lane([](double p, double q) { return p * q; },
                  [&](std::size_t k) { return da[k] * b[k] + a[k] * db[k]; });
    case RowOperation::divide:
      return lane([](double p, double q) { return p / q; },
                  [&](std::size_t k) { return (da[k] - y[k] * db[k]) / b[k]; });
    case RowOperation::maximum:
    case RowOperation::minimum: {
      const double sign = s.operation == RowOperation::maximum ? 1 : -1;
      for (std::size_t k = 0; k < lanes; ++k) kink_ = kink_ || a[k] == b[k];
      return lane([sign](double p, double q) { return sign > 0 ? std::fmax(p, q) : std::fmin(p, q); },
                  [&](std::size_t k) {
                    const double part = share(sign * a[k], sign * b[k]);
                    return part * da[k] + (1 - part) * db[k];
                  });
    }
    default:
      break;
  }
  if (s.operation == RowOperation::absolute)
    for (std::size_t k = 0; k < lanes; ++k) kink_ = kink_ || a[k] == 0;
  with_function(s.operation, s.constant, [&](const auto& f, const auto& first, const auto&) {
    lane([&](double x, double) { return f(x); }, [&](std::size_t k) { return first(a[k], y[k]) * da[k]; });
  });
}

template <bool tangents>
void RowProgram::reverse(int step) {
  const Step& s = steps_[static_cast<std::size_t>(step)];
  if (s.operation <= RowOperation::cell) return;
  const bool two = s.b >= 0;
  const double *const y = value(step), *const a = value(s.a), *const b = two ? value(s.b) : a,
                      *const w = adjoint(step);
  double *const wa = adjoint(s.a), *const wb = two ? adjoint(s.b) : wa;
  const double *const dy = tangents ? tangent(step) : nullptr, *const da = tangents ? tangent(s.a) : nullptr,
                      *const db = tangents && two ? tangent(s.b) : da,
                      *const dw = tangents ? adjoint_tangent(step) : nullptr;
  double *const dwa = tangents ? adjoint_tangent(s.a) : nullptr, *const dwb = tangents && two
                                                                                  ? adjoint_tangent(s.b)
                                                                                  : dwa;
  const auto each = [](const auto& work) {
#pragma GCC ivdep
    for (std::size_t k = 0; k < lanes; ++k) work(k);
  };
  switch (s.operation) {
    case RowOperation::add:
    case RowOperation::subtract: {
      const double sign = s.operation == RowOperation::add ? 1 : -1;
      return each([&](std::size_t k) {
        wa[k] += w[k];
        wb[k] += sign * w[k];
        if constexpr (tangents) {
          dwa[k] += dw[k];
          dwb[k] += sign * dw[k];
        }
      });
    }
    case RowOperation::multiply:
      return each([&](std::size_t k) {
        wa[k] += w[k] * b[k];
        wb[k] += w[k] * a[k];
        if constexpr (tangents) {
          dwa[k] += dw[k] * b[k] + w[k] * db[k];
          dwb[k] += dw[k] * a[k] + w[k] * da[k];
        }
      });
    case RowOperation::divide:
      return each([&](std::size_t k) {
        const double to_a = w[k] / b[k];
        wa[k] += to_a;
        wb[k] -= to_a * y[k];
        if constexpr (tangents) {
          const double d_to_a = (dw[k] - to_a * db[k]) / b[k];
          dwa[k] += d_to_a;
          dwb[k] -= d_to_a * y[k] + to_a * dy[k];
        }
      });
    case RowOperation::maximum:
    case RowOperation::minimum: {
      const double sign = s.operation == RowOperation::maximum ? 1 : -1;
      return each([&](std::size_t k) {
        const double part = share(sign * a[k], sign * b[k]);
        wa[k] += part * w[k];
        wb[k] += (1 - part) * w[k];
        if constexpr (tangents) {
          dwa[k] += part * dw[k];
          dwb[k] += (1 - part) * dw[k];
        }
      });
    }
    default:
      break;
  }
  with_function(s.operation, s.constant, [&](const auto&, const auto& first, const auto& second) {
    each([&](std::size_t k) {
      const double slope = first(a[k], y[k]);
      wa[k] += w[k] * slope;
      if constexpr (tangents) dwa[k] += dw[k] * slope + w[k] * second(a[k], y[k]) * da[k];
    });
  });
}

void RowProgram::begin(const double* x, const double* dx) {
  kink_ = false;
  if (dx && tangents_.empty()) tangents_.assign(values_.size(), 0);
  for (const int step : uniform_) {
    const Step& s = steps_[static_cast<std::size_t>(step)];
    if (s.operation == RowOperation::constant) std::fill_n(value(step), lanes, s.constant);
    if (s.operation == RowOperation::variable) {
      std::fill_n(value(step), lanes, x[s.a]);
      if (dx) std::fill_n(tangent(step), lanes, dx[s.a]);
    }
    dx ? forward<true>(step) : forward<false>(step);
  }
}

template <class Each>
void RowProgram::for_each_block(const Rows& rows, const Each& each) {
  const auto width = static_cast<std::size_t>(rows.width), count = static_cast<std::size_t>(rows.count);
  for (std::size_t begin = 0; begin < count; begin += lanes) {
    const std::size_t here = std::min(lanes, count - begin);
    for (std::size_t j = 0; j < width; ++j) {
      if (cells_[j] < 0) continue;
      double* const to = value(cells_[j]);
      // What lies beyond the last row is the last row, and counts for nothing.
      for (std::size_t k = 0; k < lanes; ++k) to[k] = rows.data[(begin + std::min(k, here - 1)) * width + j];
    }
    each(here);
  }
}

template <bool tangents>
Match RowProgram::sweep(const Rows& rows, double& y, bool back) {
  const auto clear = [this](std::vector<double>& all, const std::vector<int>& steps) {
    if (all.empty()) all.assign(values_.size(), 0);
    for (const int step : steps) std::fill_n(&all[static_cast<std::size_t>(step) * lanes], lanes, 0.0);
  };
  if (back) clear(adjoints_, uniform_);
  if (back && tangents) clear(adjoint_tangents_, uniform_);
  for_each_block(rows, [&](std::size_t here) {
    for (const int step : of_rows_) forward<tangents>(step);
    const double* const out = value(out_);
    for (std::size_t k = 0; k < here; ++k) y += out[k];
    if (!back) return;
    clear(adjoints_, of_rows_);
    if (tangents) clear(adjoint_tangents_, of_rows_);
    for (std::size_t k = 0; k < here; ++k) adjoint(out_)[k] += 1;
    for (auto step = of_rows_.rbegin(); step != of_rows_.rend(); ++step) reverse<tangents>(*step);
  });
  if (back)
    for (auto step = uniform_.rbegin(); step != uniform_.rend(); ++step) reverse<tangents>(*step);
  return kink_ ? Match::kink : Match::smooth;
}

void RowProgram::collect(const std::vector<double>& from, double* to) const {
  for (const int step : uniform_) {
    const Step& s = steps_[static_cast<std::size_t>(step)];
    if (s.operation != RowOperation::variable) continue;
    for (std::size_t k = 0; k < lanes; ++k) to[s.a] += from[static_cast<std::size_t>(step) * lanes + k];
  }
}

Match RowProgram::values(const Rows& rows, const double* x, double& y) {
  begin(x, nullptr);
  return sweep<false>(rows, y, false);
}

Match RowProgram::gradient(const Rows& rows, const double* x, double& y, double* g) {
  begin(x, nullptr);
  const Match match = sweep<false>(rows, y, true);
  collect(adjoints_, g);
  return match;
}

Match RowProgram::second(const Rows& rows, const double* x, const double* dx, double* h) {
  begin(x, dx);
  double ignored = 0;
  const Match match = sweep<true>(rows, ignored, true);
  collect(adjoint_tangents_, h);
  return match;
}

}  // namespace bilevel::adolc
