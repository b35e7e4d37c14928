#include <bilevel/problems/model_matrix.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

namespace bilevel::problems {

using Vec = Eigen::VectorXd;

ModelMatrix::ModelMatrix(Index rows, Index features, const std::function<void(Index, double*)>& fill)
    : rows_(rows),
      features_(features),
      stride_(kernels::padded(features + 1)),
      dense_(kernels::allocate(rows * stride_)) {
  for (Index i = 0; i < rows; ++i) {
    double* row = dense_.get() + i * stride_;
    fill(i, row);
    row[features] = 1;
  }
}

ModelMatrix::ModelMatrix(const RowMajor& dense)
    : ModelMatrix(dense.rows(), dense.cols(), [&](Index i, double* row) {
        std::copy_n(dense.data() + i * dense.cols(), dense.cols(), row);
      }) {}

ModelMatrix::ModelMatrix(Sparse sparse)
    : rows_(sparse.rows()), features_(sparse.cols()), sparse_(std::move(sparse)) {
  sparse_.makeCompressed();
}

std::size_t ModelMatrix::bytes() const {
  if (dense_) return sizeof(double) * static_cast<std::size_t>(rows_ * stride_);
  return static_cast<std::size_t>(sparse_.nonZeros()) * (sizeof(double) + sizeof(int)) +
         static_cast<std::size_t>(rows_ + 1) * sizeof(int);
}

kernels::View ModelMatrix::dense_rows(RowRange range) const {
  return {dense_.get() + range.first * stride_, range.second - range.first, features_ + 1, stride_};
}

ModelMatrix::DenseMap ModelMatrix::dense_map(RowRange range) const {
  const kernels::View view = dense_rows(range);
  return {view.x, view.rows, view.columns, Eigen::OuterStride<>(view.stride)};
}

kernels::SparseView ModelMatrix::sparse_rows(RowRange range) const {
  return {sparse_.outerIndexPtr() + range.first, sparse_.innerIndexPtr(), sparse_.valuePtr(),
          range.second - range.first, features_};
}

Standardisation Standardisation::none(Index features) {
  return {Vec::Zero(features), Vec::Ones(features)};
}

Extent measure(const ModelMatrix& matrix, const std::vector<RowRange>& ranges, const double* weights,
               const Standardisation& standardisation) {
  const Index d = matrix.features();
  const Vec &shift = standardisation.shift, &inverse = standardisation.inverse_scale;
  Extent e;
  e.mean_square = e.largest = e.stored_mean_square = e.stored_largest = Vec::Zero(d + 1);
  e.plain_mean_square = e.plain_mean = e.mean_square;
  Vec stored = Vec::Zero(d);  // weight of the rows in which a column is stored
  std::vector<Index> count(static_cast<std::size_t>(d), 0);
  double total = 0;
  Index rows = 0;
  for (const auto& [first, last] : ranges)
    for (Index i = first; i < last; ++i) {
      const double w = weights ? weights[i] : 1;
      total += w;
      ++rows;
      Index length = 1;
      matrix.for_each(i, [&](Index j, double x) {
        const double centred = std::abs(x - shift[j]), whole = std::abs(x) + std::abs(shift[j]);
        e.mean_square[j] += w * centred * centred;
        e.stored_mean_square[j] += w * whole * whole;
        e.plain_mean_square[j] += w * x * x;
        e.plain_mean[j] += std::abs(x);
        e.largest[j] = std::max(e.largest[j], centred);
        e.stored_largest[j] = std::max(e.stored_largest[j], whole);
        stored[j] += w;
        ++count[static_cast<std::size_t>(j)];
        ++length;
      });
      e.longest_row = std::max(e.longest_row, length);
    }
  // What is not stored is zero: x̃ = −shift/scale. The factor covers the rounding of these sums.
  const double up = 1 + gamma(static_cast<double>(rows) + 16);
  for (Index j = 0; j < d; ++j) {
    e.fullest_column = std::max(e.fullest_column, count[static_cast<std::size_t>(j)]);
    if (count[static_cast<std::size_t>(j)] < rows) {
      const double rest = std::max(0.0, total - stored[j]) * shift[j] * shift[j];
      e.mean_square[j] += rest;
      e.stored_mean_square[j] += rest;
      e.largest[j] = std::max(e.largest[j], std::abs(shift[j]));
      e.stored_largest[j] = std::max(e.stored_largest[j], std::abs(shift[j]));
    }
    const double squared = inverse[j] * inverse[j] * up / std::max(total, 1e-300);
    e.mean_square[j] *= squared;
    e.stored_mean_square[j] *= squared;
    e.plain_mean_square[j] *= squared;
    e.plain_mean[j] *= inverse[j] * up / static_cast<double>(std::max<Index>(rows, 1));
    e.largest[j] *= inverse[j] * up;
    e.stored_largest[j] *= inverse[j] * up;
  }
  e.mean_square[d] = e.largest[d] = e.stored_mean_square[d] = e.stored_largest[d] = 1;
  e.plain_mean_square[d] = e.plain_mean[d] = 1;
  return e;
}

}  // namespace bilevel::problems
