// The passes over sparse rows, against naive sums over the same matrix written out.

#include <bilevel/problems/sparse_kernels.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

#include "kernels_on.hpp"
#include "loss_reference.hpp"

namespace bilevel::problems {
namespace kernels_sparse_test {

using kernels::Loss;
using kernels::SparseView;
using kernels::SparseWorkspace;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr std::uint64_t seed = 20250708;
constexpr Loss every_loss[] = {Loss::squared,       Loss::logistic, Loss::poisson,          Loss::huber,
                               Loss::squared_hinge, Loss::gamma,    Loss::negative_binomial};
static_assert(std::size(every_loss) == kernels::losses);

SparseView view_of(const RandomSparse& x) {
  return {x.starts.data(), x.columns_of.data(), x.values.data(), x.n, x.d};
}

class SparseKernelsOn : public KernelsOn {};

struct Shape {
  Index rows, columns;
  double density;
};
const Shape shapes[] = {{0, 4, 0.5},  {1, 1, 1},      {1, 30, 0.5},   {2, 5, 0},        {9, 17, 0.4},
                        {65, 3, 0.8}, {130, 64, 0.1}, {700, 90, 0.2}, {200, 400, 0.03}, {3001, 12, 0.5}};

TEST_P(SparseKernelsOn, SumsAgreeWithNaiveLoops) {
  std::mt19937_64 engine(seed);
  for (const Shape& shape : shapes)
    for (Loss loss : every_loss)
      for (int given = 0; given < 4; ++given) {
        SCOPED_TRACE(testing::Message()
                     << shape.rows << " x " << shape.columns << ", loss " << static_cast<int>(loss)
                     << ", given " << given << ", seed " << seed);
        const RandomSparse x(shape.rows, shape.columns, shape.density, engine);
        const Index n = x.n, length = x.d + 1;
        const RandomRows data(loss, n, engine);
        const Vec u = gaussian(length, 1, engine) / std::sqrt(shape.density * static_cast<double>(x.d) + 1);
        const kernels::Rows rows{data.y.data(), given & 1 ? data.w.data() : nullptr,
                                 given & 2 ? data.o.data() : nullptr, 0.7, std::log(0.7)};
        SparseWorkspace workspace(view_of(x));
        Vec gradient = Vec::Constant(length, std::nan("")), curvature = Vec::Constant(n, std::nan("")),
            alone = curvature, margins = curvature;
        const double value = kernels::value_with_gradient(loss, view_of(x), u.data(), rows, gradient.data(),
                                                          curvature.data(), workspace);
        EXPECT_EQ(value, kernels::value_with_gradient(loss, view_of(x), u.data(), rows, nullptr, nullptr,
                                                      workspace));
        kernels::curvature(loss, view_of(x), u.data(), rows, alone.data(), workspace);
        EXPECT_EQ(curvature, alone);
        ExpectedSums(loss, x.dense(), u, rows).compare(value, gradient, curvature);
        kernels::margins(view_of(x), u.data(), rows.offsets, margins.data(), workspace);
        Vec expected = x.dense() * u;
        if (rows.offsets) expected += data.o;
        for (Index i = 0; i < n; ++i) EXPECT_NEAR(margins[i], expected[i], 1e-13);
      }
}

TEST_P(SparseKernelsOn, HessianProductsAgreeWithTheMatrixWrittenOut) {
  std::mt19937_64 engine(seed + 1);
  for (const Shape& shape : shapes)
    for (bool weighted : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", seed " << seed + 1);
      const RandomSparse x(shape.rows, shape.columns, shape.density, engine);
      const Index length = x.d + 1;
      const Vec w = gaussian(x.n, 1, engine).cwiseAbs(), v = gaussian(length, 1, engine);
      const double* weights = weighted ? w.data() : nullptr;
      SparseWorkspace workspace(view_of(x));
      Vec out = Vec::Constant(length, std::nan("")), diagonal = out;
      Mat gram = Mat::Constant(length, length, std::nan(""));
      kernels::product(view_of(x), weights, v.data(), out.data(), workspace);
      kernels::gram_diagonal(view_of(x), weights, diagonal.data(), workspace);
      kernels::gram(view_of(x), weights, gram.data(), workspace);
      const auto dense = x.dense().cast<Long>().eval();
      using LongVec = Eigen::Matrix<Long, Eigen::Dynamic, 1>;
      const LongVec d = weighted ? w.cast<Long>().eval() : LongVec::Ones(x.n).eval();
      const auto expected = (dense.transpose() * d.asDiagonal() * dense).eval();
      const auto sizes = (dense.cwiseAbs().transpose() * d.asDiagonal() * dense.cwiseAbs()).eval();
      const auto product = (expected * v.cast<Long>()).eval();
      const auto reach = (sizes * v.cast<Long>().cwiseAbs()).eval();
      for (Index j = 0; j < length; ++j) {
        ASSERT_LE(std::abs(out[j] - product[j]), 1e-14L * reach[j]) << j;
        ASSERT_LE(std::abs(diagonal[j] - expected(j, j)), 1e-14L * sizes(j, j)) << j;
        for (Index k = 0; k < length; ++k)
          ASSERT_LE(std::abs(gram(j, k) - expected(j, k)), 1e-14L * sizes(j, k)) << j << ", " << k;
      }
    }
}

TEST_P(SparseKernelsOn, ARangeOfRowsIsAViewOfItsOwn) {
  std::mt19937_64 engine(seed + 2);
  const RandomSparse x(40, 20, 0.3, engine);
  const SparseView part{x.starts.data() + 10, x.columns_of.data(), x.values.data(), 25, x.d};
  const Vec y = Vec::Ones(25), u = gaussian(21, 1, engine);
  SparseWorkspace workspace(part);
  Vec gradient(21), curvature(25);
  const double value = kernels::value_with_gradient(Loss::logistic, part, u.data(), {y.data()},
                                                    gradient.data(), curvature.data(), workspace);
  ExpectedSums(Loss::logistic, x.dense().middleRows(10, 25), u, {y.data()}).compare(value, gradient, curvature);
}

TEST_P(SparseKernelsOn, TheNumberOfThreadsChangesNoBit) {
  std::mt19937_64 engine(seed + 3);
  for (const Shape& shape : {Shape{20000, 60, 0.3}, {1500, 2000, 0.03}, {1500, 700, 0.3}}) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", seed " << seed + 3);
    const RandomSparse x(shape.rows, shape.columns, shape.density, engine);
    const Index length = x.d + 1;
    const Vec y = Vec::Ones(x.n), w = gaussian(x.n, 1, engine).cwiseAbs(), u = gaussian(length, 1, engine);
    SparseWorkspace workspace(view_of(x));
    EXPECT_GE(workspace.chunking.chunks, 2);
    struct Result {
      double value;
      Vec gradient, curvature, product, diagonal, margins;
      Mat gram;
    };
    const auto all_of_it = [&](int threads) {
      kernels::set_threads(threads);
      Result r{0, Vec(length), Vec(x.n), Vec(length), Vec(length), Vec(x.n), Mat()};
      r.value = kernels::value_with_gradient(Loss::logistic, view_of(x), u.data(), {y.data(), w.data()},
                                             r.gradient.data(), r.curvature.data(), workspace);
      kernels::product(view_of(x), w.data(), u.data(), r.product.data(), workspace);
      kernels::gram_diagonal(view_of(x), w.data(), r.diagonal.data(), workspace);
      kernels::margins(view_of(x), u.data(), nullptr, r.margins.data(), workspace);
      if (length < 1000) {
        r.gram.resize(length, length);
        kernels::gram(view_of(x), w.data(), r.gram.data(), workspace);
      }
      return r;
    };
    const Result one = all_of_it(1);
    for (int threads : {2, 3, 1}) {
      const Result other = all_of_it(threads);
      EXPECT_EQ(one.value, other.value);
      EXPECT_EQ(one.gradient, other.gradient);
      EXPECT_EQ(one.curvature, other.curvature);
      EXPECT_EQ(one.product, other.product);
      EXPECT_EQ(one.diagonal, other.diagonal);
      EXPECT_EQ(one.margins, other.margins);
      EXPECT_EQ(one.gram, other.gram);
    }
  }
}

TEST(SparseKernels, PartialSumsStayBelowHalfOfTheMatrix) {
  std::mt19937_64 engine(seed + 4);
  for (const Shape& shape : {Shape{2000, 50, 0.2}, {500, 2000, 0.05}, {1000, 300, 0.1}}) {
    const RandomSparse x(shape.rows, shape.columns, shape.density, engine);
    const SparseWorkspace workspace(view_of(x));
    EXPECT_LE(static_cast<double>(workspace.bytes()), 0.5 * 12.5 * static_cast<double>(x.values.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SparseKernelsOn, every_target(), name_of_target);

}  // namespace kernels_sparse_test
}  // namespace bilevel::problems
