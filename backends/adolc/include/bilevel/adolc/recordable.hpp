#pragma once

#include <functional>
#include <span>
#include <utility>

#include <adolc/adolc.h>

#include <bilevel/adolc/row_number.hpp>
#include <bilevel/adolc/whole_power.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// The variables of a loss: read-only, of `double` where a value is wanted, of a type that records what is
/// done to it where derivatives are.
template <class T>
using Span = std::span<const T>;

/// A table over whose rows a loss is a sum. It stays where it is: the struct that holds the data.
struct Rows {
  const double* data = nullptr;  ///< row after row
  Index count = 0, width = 0;

  Span<double> operator[](Index i) const { return {data + i * width, static_cast<std::size_t>(width)}; }
};

}  // namespace bilevel

namespace bilevel::adolc {

/// A function of (φ, θ) in both arithmetics; what a user's templates become.
struct Recordable {
  using Numbers = Span<double>;
  using Recorded = Span<adouble>;

  Index outputs = 1;
  bool is_residual = false;  ///< one output for each element of φ, which is zero once it has settled
  std::function<void(Numbers phi, Numbers theta, std::span<double> out)> value;
  std::function<void(Recorded phi, Recorded theta, std::span<adouble> out)> record;

  /// A sum over rows beside it; all empty where there is none. Only with one output.
  std::function<Rows()> rows = {};
  std::function<double(Numbers phi, Numbers theta, Span<double> row)> row_value = {};
  std::function<void(Span<RowNumber> phi, Span<RowNumber> theta, const RecordedRow& row, RowNumber& out)>
      record_row = {};
  std::function<void(Recorded phi, Recorded theta, Span<double> row, adouble& out)> record_fixed_row = {};
};

/// How many elements a variable has, which start at zero, or where it starts.
class Start {
 public:
  Start() = default;
  Start(Index size) : said_(Eigen::VectorXd(Eigen::VectorXd::Zero(size < 0 ? 0 : size))) {}
  template <class Derived>
  Start(const Eigen::MatrixBase<Derived>& at) : said_(at) {}
  const Eigen::VectorXd& at() const { return said_; }

 private:
  Eigen::VectorXd said_;
};

struct TapedOptions {
  /// Sizes or starts. Not needed where the struct has initial_phi() and initial_theta().
  Start phi = {}, theta = {};
  /// Operations of one tape before it is refused, ≥ 1: an operation takes about 50 bytes. Losses that are
  /// sums over many rows have inner_row and outer_row for this.
  double most_operations = 2e8;
  /// The Hessian is formed by a few products, its columns coloured, where that takes at most this share of
  /// |φ| of them; in [0, 1], 0 never.
  double sparse_share = 0.5;
  /// Whether to look for such a pattern beyond 5,000 elements of φ too: where the Hessian turns out to be
  /// dense its pattern takes 4·|φ|² bytes.
  bool sparse = false;

  Violations validate() const;
};

/// What happened to the tapes of a problem so far.
struct TapeReport {
  long recordings = 0;  ///< tapes recorded, the first of each loss among them
  long rerecorded = 0;  ///< of these, because a comparison fell the other way or a value had changed
  /// Evaluations at a kink: a tie of a comparison, |·| at zero, max of equals. Derivatives there are
  /// one-sided.
  long kinks = 0;
  bool rows_fixed = false;     ///< a loss of rows compares numbers: all rows are on one tape
  std::size_t operations = 0;  ///< of all tapes
  std::size_t bytes = 0;
};

}  // namespace bilevel::adolc
