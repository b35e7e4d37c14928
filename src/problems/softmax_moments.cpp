#include "problems/softmax_moments.hpp"

#include <algorithm>

#include <cblas.h>

#include "threads/one_blas_thread.hpp"
#include "problems/kernels/pieces.hpp"

namespace bilevel::problems {
namespace {

/// A block of Y is written and read again while it is in the cache: so many doubles.
constexpr Index block_size = Index{1} << 16;
/// Each group has a sum of its own: at most so many, and no more than these doubles.
constexpr Index most_groups = 32, affordable = Index{1} << 22;

Index pairs(Index count) {
  return count * (count + 1) / 2;
}

}  // namespace

SoftmaxMoments::SoftmaxMoments(Index rows, Index columns, Index classes)
    : rows_(rows),
      columns_(columns),
      classes_(classes),
      of_features_(pairs(columns)),
      of_classes_(pairs(classes)),
      rows_in_block_(std::clamp<Index>(block_size / (of_features_ + of_classes_), 16, 256)) {
  const Index most = std::clamp<Index>(affordable / (of_features_ * of_classes_), 1, most_groups);
  const Index blocks = kernels::divide_up(rows, rows_in_block_);
  rows_in_group_ = std::max<Index>(1, kernels::divide_up(blocks, most)) * rows_in_block_;
}

double SoftmaxMoments::depth() const {
  // x·x, w·p·p, their product; the rows of a block, the blocks of a group, the groups.
  return static_cast<double>(6 + rows_in_block_ + rows_in_group_ / rows_in_block_ +
                             kernels::divide_up(rows_, rows_in_group_));
}

void SoftmaxMoments::sum(const kernels::View& view, Index first, Index last, const double* probabilities,
                         const double* weights, Group& g) const {
  g.sum.setZero(of_features_, of_classes_);
  g.y.resize(of_features_, rows_in_block_);
  g.q.resize(of_classes_, rows_in_block_);
  const auto height = static_cast<int>(of_features_), width = static_cast<int>(of_classes_);
  for (Index start = first; start < last; start += rows_in_block_) {
    const Index rows = std::min(rows_in_block_, last - start);
    for (Index i = 0; i < rows; ++i) {
      const double* const x = view.x + (start + i) * view.stride;
      const double* const p = probabilities + (start + i) * classes_;
      const double w = weights ? weights[start + i] : 1;
      double* y = g.y.col(i).data();
      for (Index j = 0; j < columns_; y += ++j)
        for (Index l = 0; l <= j; ++l) y[l] = x[j] * x[l];
      double* q = g.q.col(i).data();
      for (Index a = 0; a < classes_; q += ++a) {
        const double own = w * p[a];
        for (Index b = 0; b < a; ++b) q[b] = -own * p[b];
        q[a] = own * (1 - p[a]);
      }
    }
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, height, width, static_cast<int>(rows), 1, g.y.data(),
                height, g.q.data(), width, 1, g.sum.data(), height);
  }
}

void SoftmaxMoments::add(const kernels::View& view, const double* probabilities, const double* weights,
                         Eigen::MatrixXd& out) {
  const Index c = classes_, count = kernels::divide_up(rows_, rows_in_group_);
  groups_.resize(static_cast<std::size_t>(count));
  {
    const OneBlasThread one;
    // Sixteen products in the time of an element of a pass.
    kernels::for_each_piece(count, rows_ * of_features_ * of_classes_ / 16, [&](Index group) {
      const Index first = group * rows_in_group_, last = std::min(rows_, first + rows_in_group_);
      sum(view, first, last, probabilities, weights, groups_[static_cast<std::size_t>(group)]);
    });
  }
  // In the order of the groups, and to the up to four places that a number has.
  for (Index a = 0; a < c; ++a)
    for (Index b = 0; b <= a; ++b) {
      const Index column = pairs(a) + b;
      double* const total = groups_[0].sum.col(column).data();
      for (std::size_t k = 1; k < groups_.size(); ++k)
        groups_[0].sum.col(column) += groups_[k].sum.col(column);
      for (Index j = 0, at = 0; j < columns_; ++j)
        for (Index l = 0; l <= j; ++l, ++at) {
          const double value = total[at];
          out(j * c + a, l * c + b) += value;
          if (a != b) out(j * c + b, l * c + a) += value;
          if (j == l) continue;
          out(l * c + b, j * c + a) += value;
          if (a != b) out(l * c + a, j * c + b) += value;
        }
    }
}

}  // namespace bilevel::problems
