#pragma once

#include <bilevel/problems/kernels.hpp>

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <Eigen/Core>

namespace bilevel::problems {

/// Runs each test once for every target that this processor has.
class KernelsOn : public testing::TestWithParam<kernels::Target> {
 protected:
  void SetUp() override {
    before_ = kernels::chosen();
    threads_ = kernels::threads();
    if (!kernels::available(GetParam()))
      GTEST_SKIP() << kernels::name(GetParam()) << " is not available here";
    kernels::use(GetParam());
  }
  void TearDown() override {
    kernels::use(before_);
    kernels::set_threads(threads_);
  }

 private:
  kernels::Target before_;
  int threads_;
};

inline auto every_target() {
  using kernels::Target;
  return testing::Values(Target::baseline, Target::avx2, Target::avx512);
}
inline std::string name_of_target(const testing::TestParamInfo<kernels::Target>& param) {
  return std::string(kernels::name(param.param));
}

inline Eigen::MatrixXd gaussian(Index rows, Index columns, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  return Eigen::MatrixXd::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

/// A copy of a matrix in the layout that the kernels read.
class PaddedMatrix {
 public:
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  template <class Derived>
  PaddedMatrix(const Eigen::MatrixBase<Derived>& x)
      : view_{nullptr, x.rows(), x.cols(), kernels::padded(x.cols())},
        storage_(kernels::allocate(x.rows() * view_.stride)) {
    view_.x = storage_.get();
    Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>(storage_.get(), x.rows(), x.cols(),
                                                  Eigen::OuterStride<>(view_.stride)) = x;
  }

  const kernels::View& view() const { return view_; }
  Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>> matrix() const {
    return {view_.x, view_.rows, view_.columns, Eigen::OuterStride<>(view_.stride)};
  }

 private:
  kernels::View view_;
  kernels::Buffer storage_;
};

/// Rows in CSR with strictly ascending columns, as the sparse kernels want them; some rows are empty.
struct RandomSparse {
  RandomSparse(Index rows, Index columns, double density, std::mt19937_64& engine) : n(rows), d(columns) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    starts.push_back(0);
    for (Index i = 0; i < rows; ++i) {
      const bool empty = i % 7 == 3;
      for (Index j = 0; j < columns && !empty; ++j)
        if (uniform(engine) < density) {
          columns_of.push_back(static_cast<int>(j));
          values.push_back(normal(engine));
        }
      starts.push_back(static_cast<int>(values.size()));
    }
  }

  /// With the implied column of ones.
  Eigen::MatrixXd dense() const {
    Eigen::MatrixXd x = Eigen::MatrixXd::Zero(n, d + 1);
    x.col(d).setOnes();
    for (Index i = 0; i < n; ++i)
      for (int k = starts[static_cast<std::size_t>(i)]; k < starts[static_cast<std::size_t>(i) + 1]; ++k)
        x(i, columns_of[static_cast<std::size_t>(k)]) = values[static_cast<std::size_t>(k)];
    return x;
  }

  Index n, d;
  std::vector<int> starts, columns_of;
  std::vector<double> values;
};

}  // namespace bilevel::problems
