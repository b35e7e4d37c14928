#include <bilevel/data/moments.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

#include "data/complaint.hpp"
#include "threads/pool.hpp"

namespace bilevel::data {
namespace {

using Sums = Eigen::ArrayXXd;  // a column of the data a row, a part of the rows a column

/// How many parts the rows are cut into. It depends on the data alone, so that sums have one order however
/// many threads there are, and the sums of all parts stay smaller than the data.
Index part_count(Index rows, Index entries, Index columns) {
  const Index affordable = entries / (4 * std::max<Index>(columns, 1));
  return std::clamp<Index>(std::min(affordable, rows / 256), 1, 64);
}

/// visit(part, first, last) for each part, on all cores.
template <class Visit>
void for_parts(Index parts, Index rows, Visit visit) {
  const auto count = static_cast<std::size_t>(parts);
  pool::for_each(count, count, [&](std::size_t piece) {
    const auto part = static_cast<Index>(piece);
    visit(part, rows * part / parts, rows * (part + 1) / parts);
  });
}

Eigen::VectorXd deviation_of(const Eigen::ArrayXd& squares, const Eigen::ArrayXd& sums,
                             const Eigen::ArrayXd& counts) {
  // What rounding left in the mean is taken out of the squares again.
  const Eigen::ArrayXd least = counts.max(1.0);
  return ((squares - sums.square() / least) / least).max(0.0).sqrt().matrix();
}

}  // namespace

ColumnMoments column_moments(const DenseRows& x, const std::vector<Index>& rows) {
  check_rows("column_moments", rows, x.rows());
  const Index columns = x.cols(), count = static_cast<Index>(rows.size());
  const auto row_at = [&](Index i) { return x.data() + rows[static_cast<std::size_t>(i)] * columns; };
  // Every sum is taken of the distance to a value of the column: a constant column has only zeros.
  Eigen::ArrayXd pivot = Eigen::ArrayXd::Zero(columns);
  for (Index j = 0; j < columns; ++j) {
    Index i = 0;
    while (i < count && std::isnan(row_at(i)[j])) ++i;
    if (i < count) pivot[j] = row_at(i)[j];
  }
  const Index parts = part_count(count, count * columns, columns);
  Sums sums = Sums::Zero(columns, parts), counts = sums, largest = sums;
  for_parts(parts, count, [&](Index part, Index first, Index last) {
    double* const sum = sums.col(part).data();
    double* const number = counts.col(part).data();
    double* const most = largest.col(part).data();
    for (Index i = first; i < last; ++i) {
      const double* const row = row_at(i);
      for (Index j = 0; j < columns; ++j) {
        const bool there = !std::isnan(row[j]);
        sum[j] += there ? row[j] - pivot[j] : 0.0;
        number[j] += there ? 1.0 : 0.0;
        most[j] = there ? std::max(most[j], std::abs(row[j])) : most[j];
      }
    }
  });
  const Eigen::ArrayXd number = counts.rowwise().sum();
  const Eigen::ArrayXd mean = pivot + sums.rowwise().sum() / number.max(1.0);
  Sums squares = Sums::Zero(columns, parts);
  sums.setZero();
  for_parts(parts, count, [&](Index part, Index first, Index last) {
    double* const sum = sums.col(part).data();
    double* const square = squares.col(part).data();
    for (Index i = first; i < last; ++i) {
      const double* const row = row_at(i);
      for (Index j = 0; j < columns; ++j) {
        const double distance = std::isnan(row[j]) ? 0.0 : row[j] - mean[j];
        sum[j] += distance;
        square[j] += distance * distance;
      }
    }
  });
  return {mean.matrix(), deviation_of(squares.rowwise().sum(), sums.rowwise().sum(), number),
          largest.rowwise().maxCoeff().matrix()};
}

ColumnMoments column_moments(const SparseRows& x, const std::vector<Index>& rows) {
  check_rows("column_moments", rows, x.rows());
  const Index columns = x.cols(), count = static_cast<Index>(rows.size());
  const int* const starts = x.outerIndexPtr();
  // visit(column, value) for each stored entry of some of the rows.
  const auto for_entries = [&](Index first, Index last, auto visit) {
    for (Index i = first; i < last; ++i) {
      const Index row = rows[static_cast<std::size_t>(i)];
      for (int k = starts[row]; k < starts[row + 1]; ++k) visit(x.innerIndexPtr()[k], x.valuePtr()[k]);
    }
  };
  Eigen::ArrayXd pivot = Eigen::ArrayXd::Constant(columns, std::numeric_limits<double>::quiet_NaN());
  for_entries(0, count, [&](int j, double value) {
    if (std::isnan(pivot[j])) pivot[j] = value;
  });
  pivot = pivot.isNaN().select(0.0, pivot);

  const Index parts = part_count(count, x.nonZeros(), columns);
  Sums sums = Sums::Zero(columns, parts), stored = sums, missing = sums, largest = sums;
  for_parts(parts, count, [&](Index part, Index first, Index last) {
    for_entries(first, last, [&](int j, double value) {
      if (std::isnan(value)) {
        missing(j, part) += 1;
        return;
      }
      sums(j, part) += value - pivot[j];
      stored(j, part) += 1;
      largest(j, part) = std::max(largest(j, part), std::abs(value));
    });
  });
  const Eigen::ArrayXd held = stored.rowwise().sum();
  const Eigen::ArrayXd number = static_cast<double>(count) - missing.rowwise().sum();
  const Eigen::ArrayXd sum = sums.rowwise().sum();
  const Eigen::ArrayXd least = number.max(1.0);
  // A full column is treated as a dense one; elsewhere the zeros that are not stored count in.
  const Eigen::ArrayXd mean = (held == number).select(pivot + sum / least, (held * pivot + sum) / least);
  Sums squares = Sums::Zero(columns, parts);
  sums.setZero();
  for_parts(parts, count, [&](Index part, Index first, Index last) {
    for_entries(first, last, [&](int j, double value) {
      const double distance = std::isnan(value) ? 0.0 : value - mean[j];
      sums(j, part) += distance;
      squares(j, part) += distance * distance;
    });
  });
  const Eigen::ArrayXd zeros = number - held;
  return {mean.matrix(),
          deviation_of(squares.rowwise().sum() + zeros * mean.square(), sums.rowwise().sum() - zeros * mean,
                       number),
          largest.rowwise().maxCoeff().matrix()};
}

ColumnMoments column_moments(const Dataset& data, const std::vector<Index>& rows) {
  return std::visit([&](const auto& x) { return column_moments(x, rows); }, data.x);
}

void impute(Dataset& data, const Eigen::VectorXd& means) {
  if (means.size() != data.features()) {
    throw InvalidInput(fmt::format("impute: {} means for {} features", means.size(), data.features()));
  }
  if (data.sparse()) {
    auto& x = std::get<SparseRows>(data.x);
    for (Index k = 0; k < x.nonZeros(); ++k) {
      if (std::isnan(x.valuePtr()[k])) x.valuePtr()[k] = means[x.innerIndexPtr()[k]];
    }
    return;
  }
  auto& x = std::get<DenseRows>(data.x);
#pragma omp parallel for schedule(static) if (x.size() > 65536)
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      if (std::isnan(x(i, j))) x(i, j) = means[j];
    }
  }
}

}  // namespace bilevel::data
