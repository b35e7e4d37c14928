#pragma once

#include <Eigen/Core>

#include <bilevel/problems/kernels.hpp>

namespace bilevel::problems {

/// The features of a data set, one sample a row, copied once into the layout that the kernels read:
/// row-major, rows padded with zeros to whole cache lines. Any Eigen matrix or expression converts.
class DesignMatrix {
 public:
  template <class Derived>
  DesignMatrix(const Eigen::MatrixBase<Derived>& x)  // NOLINT: the conversion is the purpose
      : rows_(x.rows()),
        columns_(x.cols()),
        stride_(kernels::padded(x.cols())),
        storage_(kernels::allocate(rows_ * stride_)) {
    Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>(storage_.get(), rows_, columns_,
                                                  Eigen::OuterStride<>(stride_)) = x.template cast<double>();
    measure();
  }

  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using ConstMap = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;

  Index rows() const { return rows_; }
  Index columns() const { return columns_; }
  kernels::View view() const { return {storage_.get(), rows_, columns_, stride_}; }
  ConstMap matrix() const { return {storage_.get(), rows_, columns_, Eigen::OuterStride<>(stride_)}; }
  Eigen::Map<const Eigen::VectorXd> row(Index i) const { return {storage_.get() + i * stride_, columns_}; }
  bool finite() const { return finite_; }

  /// Upper bounds, rounding included, of ‖x_i‖'s mean, mean square, mean cube and maximum.
  double mean_norm() const { return mean_norm_; }
  double mean_square() const { return mean_square_; }
  double mean_cube() const { return mean_cube_; }
  double largest_norm() const { return largest_norm_; }

 private:
  void measure();

  Index rows_, columns_, stride_;
  kernels::Buffer storage_;
  bool finite_ = true;
  double mean_norm_ = 0, mean_square_ = 0, mean_cube_ = 0, largest_norm_ = 0;
};

}  // namespace bilevel::problems
