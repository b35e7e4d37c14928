#pragma once

#include <cstddef>
#include <stdexcept>

namespace bilevel::adolc {

/// What a loss of rows does to numbers. `variable` and `cell` are elements of (φ, θ) and of a row.
enum class RowOperation : unsigned char {
  constant,
  variable,
  cell,
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  negate,
  absolute,
  power,  // to a constant exponent
  exp,
  log,
  log10,
  sqrt,
  cbrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
};

class RowProgram;

/// The arithmetic in which a loss of one row is recorded, as the program that is then run over many rows side
/// by side. Lives while the loss is being recorded.
class RowNumber {
 public:
  RowNumber(double constant = 0);

  RowNumber& operator+=(const RowNumber& other) { return *this = *this + other; }
  RowNumber& operator-=(const RowNumber& other) { return *this = *this - other; }
  RowNumber& operator*=(const RowNumber& other) { return *this = *this * other; }
  RowNumber& operator/=(const RowNumber& other) { return *this = *this / other; }

  friend RowNumber operator+(const RowNumber& a, const RowNumber& b) { return of(RowOperation::add, a, b); }
  friend RowNumber operator-(const RowNumber& a, const RowNumber& b) {
    return of(RowOperation::subtract, a, b);
  }
  friend RowNumber operator*(const RowNumber& a, const RowNumber& b) {
    return of(RowOperation::multiply, a, b);
  }
  friend RowNumber operator/(const RowNumber& a, const RowNumber& b) {
    return of(RowOperation::divide, a, b);
  }
  friend RowNumber operator+(const RowNumber& a) { return a; }
  friend RowNumber operator-(const RowNumber& a) { return of(RowOperation::negate, a); }

  // Rows may answer differently: there is no one program, then.
  friend bool operator<(const RowNumber&, const RowNumber&) { throw Branches(); }
  friend bool operator>(const RowNumber&, const RowNumber&) { throw Branches(); }
  friend bool operator<=(const RowNumber&, const RowNumber&) { throw Branches(); }
  friend bool operator>=(const RowNumber&, const RowNumber&) { throw Branches(); }
  friend bool operator==(const RowNumber&, const RowNumber&) { throw Branches(); }

  friend RowNumber fmax(const RowNumber& a, const RowNumber& b) { return of(RowOperation::maximum, a, b); }
  friend RowNumber fmin(const RowNumber& a, const RowNumber& b) { return of(RowOperation::minimum, a, b); }
  friend RowNumber fabs(const RowNumber& a) { return of(RowOperation::absolute, a); }
  friend RowNumber exp(const RowNumber& a) { return of(RowOperation::exp, a); }
  friend RowNumber log(const RowNumber& a) { return of(RowOperation::log, a); }
  friend RowNumber log10(const RowNumber& a) { return of(RowOperation::log10, a); }
  friend RowNumber sqrt(const RowNumber& a) { return of(RowOperation::sqrt, a); }
  friend RowNumber cbrt(const RowNumber& a) { return of(RowOperation::cbrt, a); }
  friend RowNumber sin(const RowNumber& a) { return of(RowOperation::sin, a); }
  friend RowNumber cos(const RowNumber& a) { return of(RowOperation::cos, a); }
  friend RowNumber tan(const RowNumber& a) { return of(RowOperation::tan, a); }
  friend RowNumber asin(const RowNumber& a) { return of(RowOperation::asin, a); }
  friend RowNumber acos(const RowNumber& a) { return of(RowOperation::acos, a); }
  friend RowNumber atan(const RowNumber& a) { return of(RowOperation::atan, a); }
  friend RowNumber sinh(const RowNumber& a) { return of(RowOperation::sinh, a); }
  friend RowNumber cosh(const RowNumber& a) { return of(RowOperation::cosh, a); }
  friend RowNumber tanh(const RowNumber& a) { return of(RowOperation::tanh, a); }
  friend RowNumber asinh(const RowNumber& a) { return of(RowOperation::asinh, a); }
  friend RowNumber acosh(const RowNumber& a) { return of(RowOperation::acosh, a); }
  friend RowNumber atanh(const RowNumber& a) { return of(RowOperation::atanh, a); }
  friend RowNumber erf(const RowNumber& a) { return of(RowOperation::erf, a); }
  friend RowNumber pow(const RowNumber& base, double exponent);
  friend RowNumber pow(const RowNumber& base, const RowNumber& exponent) { return exp(exponent * log(base)); }

  /// A comparison was met.
  struct Branches : std::logic_error {
    Branches() : std::logic_error("a loss of a row compares numbers of it") {}
  };

 private:
  friend class RowProgram;
  friend class RecordedRow;
  explicit RowNumber(int step, bool) : step_(step) {}
  static RowNumber of(RowOperation operation, const RowNumber& a, double constant = 0);
  static RowNumber of(RowOperation operation, const RowNumber& a, const RowNumber& b);

  int step_;
};

/// One row as a loss sees it while it is recorded: row[j] and nothing else.
class RecordedRow {
 public:
  RowNumber operator[](std::size_t j) const;
};

}  // namespace bilevel::adolc
