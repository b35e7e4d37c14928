#include "problems/softmax_moments.hpp"

#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "outcome/one_blas_thread.hpp"
#include "problems/kernels/pieces.hpp"

namespace bilevel::problems {
namespace {

/// Long enough for BLAS, short enough for the cache.
constexpr Index rows_in_block = 128;
/// Each group has sums of its own: at most so many, and no more than these doubles.
constexpr Index most_groups = 16, affordable = Index{1} << 22;

}  // namespace

SoftmaxMoments::SoftmaxMoments(Index rows, Index columns, Index classes)
    : rows_(rows), columns_(columns), classes_(classes) {
  const Index size = columns * classes;
  const Index most = std::clamp<Index>(affordable / std::max<Index>(1, size * size), 1, most_groups);
  const Index blocks = kernels::divide_up(rows, rows_in_block);
  rows_in_group_ = std::max<Index>(2, kernels::divide_up(blocks, most)) * rows_in_block;
}

double SoftmaxMoments::depth() const {
  // √w, its products with p and x, twice; their product; the rows of a block, the blocks of a group, the
  // groups.
  return static_cast<double>(8 + rows_in_block + rows_in_group_ / rows_in_block +
                             kernels::divide_up(rows_, rows_in_group_));
}

void SoftmaxMoments::sum(const kernels::View& view, Index first, Index last, const double* probabilities,
                         const double* weights, Group& g) const {
  const Index c = classes_, n = columns_, size = n * c;
  const auto height = static_cast<int>(size), features = static_cast<int>(n);
  g.between.setZero(size, size);
  g.within.setZero(n, size);
  g.x.resize(n, rows_in_block);
  g.z.resize(size, rows_in_block);
  g.q.resize(size, rows_in_block);
  for (Index start = first; start < last; start += rows_in_block) {
    const Index rows = std::min(rows_in_block, last - start);
    for (Index i = 0; i < rows; ++i) {
      const double* x = view.x + (start + i) * view.stride;
      const double w = weights ? weights[start + i] : 1;
      const Eigen::Map<const Eigen::ArrayXd> p(probabilities + (start + i) * c, c);
      std::copy_n(x, n, g.x.col(i).data());
      // The row for a feature of one stands where the last feature's multiple will: that one comes last.
      auto z = g.z.col(i).array(), q = g.q.col(i).array();
      auto first_z = z.tail(c), first_q = q.tail(c);
      first_z = std::sqrt(w) * p;
      first_q = w * p * (1 - p);
      for (Index j = 0; j < n; ++j) {
        const double factor = x[j];
        for (Index a = 0; a < c; ++a) {
          z[j * c + a] = factor * first_z[a];
          q[j * c + a] = factor * first_q[a];
        }
      }
    }
    cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, height, static_cast<int>(rows), 1, g.z.data(),
                height, 1, g.between.data(), height);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, features, height, static_cast<int>(rows), 1,
                g.x.data(), features, g.q.data(), height, 1, g.within.data(), features);
  }
}

void SoftmaxMoments::add(const kernels::View& view, const double* probabilities, const double* weights,
                         Eigen::MatrixXd& out) {
  const Index c = classes_, n = columns_, size = n * c, count = kernels::divide_up(rows_, rows_in_group_);
  groups_.resize(static_cast<std::size_t>(count));
  {
    const OneBlasThread one;
    // Thirty-two products in the time of an element of a pass.
    kernels::for_each_piece(count, rows_ * size * size / 32, [&](Index group) {
      const Index first = group * rows_in_group_, last = std::min(rows_, first + rows_in_group_);
      sum(view, first, last, probabilities, weights, groups_[static_cast<std::size_t>(group)]);
    });
  }
  kernels::for_each_piece(size, size * size * count / 8, [&](Index column) {
    const Index b = column % c;
    for (Index row = column; row < size; ++row) {
      double value = 0;
      if (row % c == b)
        for (const Group& g : groups_) value += g.within(row / c, column);
      else
        for (const Group& g : groups_) value -= g.between(row, column);
      out(row, column) += value;
    }
  });
  for (Index column = 0; column < size; ++column)
    for (Index row = column + 1; row < size; ++row) out(column, row) = out(row, column);
}

}  // namespace bilevel::problems
