#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <Eigen/SparseCore>

#include <bilevel/problems/kernels.hpp>
#include <bilevel/problems/sparse_kernels.hpp>

namespace bilevel::problems {

/// Rows first … second − 1.
using RowRange = std::pair<Index, Index>;
Index row_count(const std::vector<RowRange>& ranges);

/// The features of all samples, one sample a row, and a last column of ones for the intercept: stored where
/// the matrix is dense, implied where it is sparse. Read-only, so that the parts and folds of a data set
/// share one: each is a range of rows, or two.
class ModelMatrix {
 public:
  using Sparse = Eigen::SparseMatrix<double, Eigen::RowMajor, int>;
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using DenseMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;

  /// `fill` writes the features of row i.
  ModelMatrix(Index rows, Index features, const std::function<void(Index i, double* row)>& fill);
  explicit ModelMatrix(const RowMajor& dense);
  explicit ModelMatrix(Sparse sparse);

  Index rows() const { return rows_; }
  Index features() const { return features_; }
  bool sparse() const { return !dense_; }
  std::size_t bytes() const;

  kernels::View dense_rows(RowRange range) const;
  /// The same rows as a matrix, the column of ones last.
  DenseMap dense_map(RowRange range) const;
  kernels::SparseView sparse_rows(RowRange range) const;
  /// Calls visit(j, x_ij) for the stored features of row i.
  template <class Visit>
  void for_each(Index i, Visit&& visit) const {
    if (dense_) {
      const double* row = dense_.get() + i * stride_;
      for (Index j = 0; j < features_; ++j) visit(j, row[j]);
    } else {
      for (Sparse::InnerIterator it(sparse_, i); it; ++it) visit(static_cast<Index>(it.col()), it.value());
    }
  }

 private:
  Index rows_ = 0, features_ = 0, stride_ = 0;
  kernels::Buffer dense_;
  Sparse sparse_;
};

/// Some rows of a matrix, with the scratch of the kernels that pass over them.
template <class Dense, class Sparse>
class RowPass {
 public:
  /// `more` is what the workspaces take beside the rows.
  template <class... More>
  RowPass(const ModelMatrix& matrix, RowRange range, More... more)
      : rows_(matrix.sparse() ? Either(OfSparse(matrix.sparse_rows(range), more...))
                              : Either(OfDense(matrix.dense_rows(range), more...))) {}

  /// work(view, workspace), of the one kind or of the other.
  template <class Work>
  auto visit(Work&& work) {
    return std::visit([&](auto& rows) { return work(rows.view, rows.workspace); }, rows_);
  }
  template <class Work>
  auto visit(Work&& work) const {
    return std::visit([&](const auto& rows) { return work(rows.view, rows.workspace); }, rows_);
  }

 private:
  template <class View, class Workspace>
  struct With {
    template <class... More>
    explicit With(const View& of, More... more) : view(of), workspace(of, more...) {}
    View view;
    Workspace workspace;
  };
  using OfDense = With<kernels::View, Dense>;
  using OfSparse = With<kernels::SparseView, Sparse>;
  using Either = std::variant<OfDense, OfSparse>;
  Either rows_;
};

/// x̃_j = (x_j − shift_j)·inverse_scale_j. Where there is an intercept, shifts change its value and
/// nothing else; an inverse scale of 0 silences a column.
struct Standardisation {
  Eigen::VectorXd shift, inverse_scale;

  static Standardisation none(Index features);
};

/// How large the standardised features of some rows are, column by column, the column of ones last.
struct Extent {
  Eigen::VectorXd mean_square;  ///< mean of x̃_ij², by weight
  Eigen::VectorXd largest;      ///< max |x̃_ij|
  /// The same of (|x_ij| + |shift_j|)·inverse_scale_j, from which rounding errors come.
  Eigen::VectorXd stored_mean_square, stored_largest;
  Eigen::VectorXd plain_mean_square;  ///< of |x_ij|·inverse_scale_j, without the shift
  Eigen::VectorXd plain_mean;         ///< mean of the same, rows counted alike
  Index longest_row = 0;     ///< stored elements, the one of the intercept included
  Index fullest_column = 0;  ///< stored elements
};

/// `weights` (null: ones) has an element for each row of the matrix.
Extent measure(const ModelMatrix& matrix, const std::vector<RowRange>& ranges, const double* weights,
               const Standardisation& standardisation);

}  // namespace bilevel::problems
