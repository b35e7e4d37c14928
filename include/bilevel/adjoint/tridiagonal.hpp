#pragma once

#include <utility>
#include <vector>

namespace bilevel {

/// The symmetric tridiagonal matrix T = VᵀAV of a Lanczos process. Its eigenvalues, the Ritz values,
/// lie within A's spectrum and its extreme ones approach A's first.
class Tridiagonal {
 public:
  /// Keeps the leading `rows` rows; what comes later is dropped, which leaves the Ritz values valid
  /// and no longer improving. Storage is taken here and not while the process runs.
  explicit Tridiagonal(long rows);

  bool full() const { return diagonal_.size() >= rows_; }
  /// One more row: T_kk, and T_{k−1,k} which the first row ignores.
  void append(double diagonal, double coupling);

  bool empty() const { return diagonal_.empty(); }
  /// The smallest and the largest eigenvalue; NaN where there is no row.
  std::pair<double, double> extremes() const;
  std::size_t bytes() const { return 2 * rows_ * sizeof(double); }

 private:
  std::size_t rows_;
  std::vector<double> diagonal_;
  std::vector<double> coupling_;
};

}  // namespace bilevel
