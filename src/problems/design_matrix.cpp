#include <bilevel/problems/design_matrix.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

namespace bilevel::problems {

void DesignMatrix::measure() {
  for (Index i = 0; i < rows_; ++i) {
    const double square = row(i).squaredNorm(), norm = std::sqrt(square);
    // A finite row can have an infinite norm; only then are the elements looked at one by one.
    if (!std::isfinite(square)) finite_ = finite_ && row(i).allFinite();
    mean_norm_ += norm;
    mean_square_ += square;
    mean_cube_ += square * norm;
    largest_norm_ = std::max(largest_norm_, norm);
  }
  const double n = static_cast<double>(std::max<Index>(rows_, 1));
  const double up = 1 + gamma(static_cast<double>(rows_ + 2 * columns_ + 8));
  mean_norm_ *= up / n;
  mean_square_ *= up / n;
  mean_cube_ *= up / n;
  largest_norm_ *= up;
}

}  // namespace bilevel::problems
