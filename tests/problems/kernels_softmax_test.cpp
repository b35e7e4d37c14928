// The softmax model's passes over dense and sparse rows, against naive sums in long double.

#include <bilevel/problems/softmax_kernels.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <bilevel/outcome/violations.hpp>

#include "kernels_on.hpp"

namespace bilevel::problems {
namespace kernels_softmax_test {

using kernels::SoftmaxWorkspace;
using kernels::SparseView;
using Long = long double;
using Vec = Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using LongMat = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;

constexpr std::uint64_t seed = 20250709;

struct Shape {
  Index rows, columns, classes;
};
const Shape shapes[] = {{1, 1, 2},   {1, 9, 3},    {2, 3, 2},    {7, 8, 4},   {33, 17, 10}, {65, 64, 5},
                        {100, 1, 3}, {301, 40, 7}, {40, 260, 3}, {50, 12, 9}, {97, 30, 65}, {300, 530, 10}};

/// One data set in both forms: the dense one holds the ones that the sparse one implies.
struct Case {
  Case(const Shape& shape, std::mt19937_64& engine)
      : sparse(shape.rows, shape.columns, shape.columns > 1 ? 0.4 : 1.0, engine),
        values(sparse.dense()),
        dense(values),
        weights(gaussian(shape.rows, 1, engine).cwiseAbs()),
        u(gaussian(shape.columns + 1, shape.classes, engine) /
          std::sqrt(1 + 0.2 * static_cast<double>(shape.columns))),
        v(gaussian(shape.columns + 1, shape.classes, engine)),
        classes(shape.classes) {
    std::uniform_int_distribution<int> label(0, static_cast<int>(shape.classes) - 1);
    for (Index i = 0; i < shape.rows; ++i) {
      labels.push_back(label(engine));
      if (i % 6 == 5) weights[i] = 0;
    }
  }

  SparseView view() const {
    return {sparse.starts.data(), sparse.columns_of.data(), sparse.values.data(), sparse.n, sparse.d};
  }

  RandomSparse sparse;
  Eigen::MatrixXd values;
  PaddedMatrix dense;
  Vec weights;
  RowMajor u, v;
  Index classes;
  std::vector<int> labels;
};

struct Results {
  double value;
  RowMajor gradient, probabilities, margins, product, diagonal;
  Vec dots;
};

template <class View>
Results all_of_it(const View& view, const Case& c, const double* weights, SoftmaxWorkspace& workspace) {
  const Index n = c.values.rows(), length = c.values.cols(), k = c.classes;
  const RowMajor rows = RowMajor::Constant(n, k, std::nan("")),
                 coefficients = RowMajor::Constant(length, k, std::nan(""));
  Results r{0, coefficients, rows, rows, coefficients, coefficients, Vec::Constant(n, std::nan(""))};
  r.value = kernels::softmax_value_with_gradient(view, k, c.u.data(), c.labels.data(), weights,
                                                 r.gradient.data(), r.probabilities.data(), workspace);
  EXPECT_EQ(r.value, kernels::softmax_value_with_gradient(view, k, c.u.data(), c.labels.data(), weights,
                                                          nullptr, nullptr, workspace));
  kernels::softmax_margins(view, k, c.u.data(), r.margins.data(), workspace);
  kernels::softmax_product(view, k, r.probabilities.data(), weights, c.v.data(), r.product.data(), workspace);
  kernels::softmax_diagonal(view, k, r.probabilities.data(), weights, r.diagonal.data(), workspace);
  kernels::softmax_row_dots(view, k, c.v.data(), r.probabilities.data(), c.labels.data(), r.dots.data(),
                            workspace);
  return r;
}

/// |got − expected| ≤ 1e-14·size, element by element; size is what the terms add up to without signs, and
/// what the rounding of the margins may move.
template <class Got>
void expect_close(const Got& got, const LongMat& expected, const LongMat& size, const char* what) {
  ASSERT_EQ(got.rows(), expected.rows());
  for (Index i = 0; i < got.rows(); ++i)
    for (Index j = 0; j < got.cols(); ++j)
      ASSERT_LE(std::abs(got(i, j) - expected(i, j)), 1e-14L * size(i, j)) << what << " " << i << ", " << j;
}

void compare(const Case& c, const double* weights, const Results& r) {
  const Index n = c.values.rows(), k = c.classes;
  const LongMat x = c.values.cast<Long>(), margins = x * c.u.cast<Long>(), z = x * c.v.cast<Long>();
  const LongMat reach = x.cwiseAbs() * c.u.cast<Long>().cwiseAbs();
  const LongMat z_reach = x.cwiseAbs() * c.v.cast<Long>().cwiseAbs();
  LongMat p(n, k), slopes(n, k), slope_size(n, k), curved(n, k), curved_size(n, k), variances(n, k);
  LongMat dots(n, 1), dots_size(n, 1);
  Long value = 0, value_size = 0;
  for (Index i = 0; i < n; ++i) {
    const Long top = margins.row(i).maxCoeff(), w = weights ? weights[i] : 1;
    Long total = 0;
    for (Index a = 0; a < k; ++a) total += p(i, a) = std::exp(margins(i, a) - top);
    p.row(i) /= total;
    const int y = c.labels[static_cast<std::size_t>(i)];
    value += w * (std::log(total) + top - margins(i, y));
    value_size += w * (std::log(total) + top - margins(i, y) + reach.row(i).maxCoeff());
    Long mean = 0, mean_size = 0;
    for (Index a = 0; a < k; ++a) {
      mean += p(i, a) * z(i, a);
      mean_size += p(i, a) * z_reach(i, a);
    }
    const Long shaky = 1 + reach.row(i).maxCoeff();
    for (Index a = 0; a < k; ++a) {
      slopes(i, a) = w * (p(i, a) - (a == y ? 1 : 0));
      slope_size(i, a) = w * (p(i, a) * shaky + std::abs(slopes(i, a)));
      curved(i, a) = w * p(i, a) * (z(i, a) - mean);
      curved_size(i, a) = w * p(i, a) * (z_reach(i, a) + mean_size) * shaky;
      variances(i, a) = w * p(i, a) * (1 - p(i, a));
    }
    dots(i, 0) = mean - z(i, y);
    dots_size(i, 0) = (mean_size + z_reach(i, y)) * shaky;
  }
  const LongMat shaky = LongMat::Ones(n, k) + reach;
  const LongMat p_size = p.cwiseProduct(shaky.rowwise().maxCoeff().replicate(1, k));
  const LongMat absolute = x.cwiseAbs().transpose(), squares = x.cwiseAbs2().transpose();
  EXPECT_LE(std::abs(r.value - value), 1e-14L * value_size);
  expect_close(r.margins, margins, reach, "margin");
  expect_close(r.probabilities, p, p_size, "probability");
  expect_close(r.gradient, x.transpose() * slopes, absolute * slope_size, "gradient");
  expect_close(r.product, x.transpose() * curved, absolute * curved_size, "product");
  LongMat heavy = p_size;
  if (weights)
    for (Index i = 0; i < n; ++i) heavy.row(i) *= static_cast<Long>(weights[i]);
  expect_close(r.diagonal, squares * variances, squares * heavy, "diagonal");
  expect_close(r.dots, dots, dots_size, "row's dot");
}

class SoftmaxOn : public KernelsOn {};

TEST_P(SoftmaxOn, DenseAndSparsePassesAgreeWithNaiveLoops) {
  std::mt19937_64 engine(seed);
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", " << shape.classes
                                    << " classes, seed " << seed);
    const Case c(shape, engine);
    SoftmaxWorkspace dense(c.dense.view(), c.classes), sparse(c.view(), c.classes);
    for (const double* weights : {static_cast<const double*>(nullptr), c.weights.data()}) {
      compare(c, weights, all_of_it(c.dense.view(), c, weights, dense));
      compare(c, weights, all_of_it(c.view(), c, weights, sparse));
    }
  }
}

TEST_P(SoftmaxOn, TheNumberOfThreadsChangesNoBit) {
  std::mt19937_64 engine(seed + 1);
  for (const Shape& shape : {Shape{3000, 40, 10}, {700, 300, 20}, {500, 5, 130}}) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", seed " << seed + 1);
    const Case c(shape, engine);
    SoftmaxWorkspace dense(c.dense.view(), c.classes), sparse(c.view(), c.classes);
    const auto run = [&](int threads, bool of_dense) {
      kernels::set_threads(threads);
      return of_dense ? all_of_it(c.dense.view(), c, c.weights.data(), dense)
                      : all_of_it(c.view(), c, c.weights.data(), sparse);
    };
    for (bool of_dense : {true, false}) {
      const Results one = run(1, of_dense);
      for (int threads : {2, 3, 1}) {
        const Results other = run(threads, of_dense);
        EXPECT_EQ(one.value, other.value);
        EXPECT_EQ(one.gradient, other.gradient);
        EXPECT_EQ(one.probabilities, other.probabilities);
        EXPECT_EQ(one.margins, other.margins);
        EXPECT_EQ(one.product, other.product);
        EXPECT_EQ(one.diagonal, other.diagonal);
        EXPECT_EQ(one.dots, other.dots);
      }
    }
  }
}

TEST_P(SoftmaxOn, GradientAndProductAreDifferencesOfWhatTheyDifferentiate) {
  std::mt19937_64 engine(seed + 2);
  Case c({60, 7, 4}, engine);
  SoftmaxWorkspace workspace(c.view(), 4);
  const Results here = all_of_it(c.view(), c, c.weights.data(), workspace);
  const double h = 1e-4;
  const RowMajor start = c.u;
  const auto beside = [&](double step) {
    c.u = start + step * c.v;
    return all_of_it(c.view(), c, c.weights.data(), workspace);
  };
  const Results up = beside(h), down = beside(-h), up2 = beside(2 * h), down2 = beside(-2 * h);
  const double slope = (8 * (up.value - down.value) - (up2.value - down2.value)) / (12 * h);
  EXPECT_NEAR(slope, here.gradient.cwiseProduct(c.v).sum(), 1e-9 * std::abs(slope) + 1e-9);
  const RowMajor curvature = (8 * (up.gradient - down.gradient) - (up2.gradient - down2.gradient)) / (12 * h);
  EXPECT_LE((curvature - here.product).norm(), 1e-10 * here.product.norm());
  // Unit vectors times the Hessian: its diagonal.
  for (Index e = 0; e < c.v.size(); ++e) {
    RowMajor unit = RowMajor::Zero(8, 4), out(8, 4);
    unit.data()[e] = 1;
    kernels::softmax_product(c.view(), 4, here.probabilities.data(), c.weights.data(), unit.data(),
                             out.data(), workspace);
    EXPECT_NEAR(out.data()[e], here.diagonal.data()[e], 1e-13 * (1 + here.diagonal.data()[e]));
  }
  // Rows' dots with the weights are the gradient's dot.
  EXPECT_NEAR(here.dots.dot(c.weights), here.gradient.cwiseProduct(c.v).sum(), 1e-12);
}

TEST_P(SoftmaxOn, ExtremeMarginsGiveNoNaN) {
  const Eigen::MatrixXd one = Eigen::MatrixXd::Ones(1, 1);
  const PaddedMatrix x(one);
  SoftmaxWorkspace workspace(x.view(), 3);
  for (double top : {0.0, 50.0, 745.0, 1e10, 1e300})
    for (double bottom : {0.0, -30.0, -745.0, -1e300})
      for (int label : {0, 1, 2}) {
        const double u[] = {top, bottom, 0};
        double gradient[3], p[3];
        const double value =
            kernels::softmax_value_with_gradient(x.view(), 3, u, &label, nullptr, gradient, p, workspace);
        const Long a = 1, b = std::exp(static_cast<Long>(bottom) - top),
                   d = std::exp(-static_cast<Long>(top));
        const Long expected[] = {a / (a + b + d), b / (a + b + d), d / (a + b + d)};
        const Long loss = std::log1p(b + d) + (label == 0 ? 0 : label == 1 ? Long{top} - bottom : Long{top});
        EXPECT_LE(std::abs(value - loss), 4 * 0x1p-52L * loss + 1e-307L) << top << " " << bottom;
        for (int k : {0, 1, 2}) {
          // 1 − p_y is what the others add up to, however small.
          const Long slope = k != label ? expected[k]
                                        : -(label == 0   ? b + d
                                            : label == 1 ? a + d
                                                         : a + b) /
                                              (a + b + d);
          EXPECT_LE(std::abs(gradient[k] - slope), 8 * 0x1p-52L * std::abs(slope) + 1e-307L);
          EXPECT_LE(std::abs(p[k] - expected[k]), 8 * 0x1p-52L * expected[k] + 1e-307L);
        }
      }
}

TEST_P(SoftmaxOn, TwoClassesAreTheLogisticLoss) {
  std::mt19937_64 engine(seed + 3);
  Case c({200, 11, 2}, engine);
  c.u.col(0).setZero();
  const Vec phi = c.u.col(1);
  Vec y(200), gradient(12);
  for (Index i = 0; i < 200; ++i) y[i] = c.labels[static_cast<std::size_t>(i)] == 1 ? 1 : -1;
  kernels::Workspace plain(c.dense.view());
  const double expected = kernels::value_with_gradient(kernels::Loss::logistic, c.dense.view(), phi.data(),
                                                       {y.data()}, gradient.data(), nullptr, plain);
  SoftmaxWorkspace workspace(c.dense.view(), 2);
  const Results r = all_of_it(c.dense.view(), c, nullptr, workspace);
  EXPECT_NEAR(r.value, expected, 1e-14 * 200 * expected);
  EXPECT_LE((r.gradient.col(1) - gradient).lpNorm<Eigen::Infinity>(), 1e-13 * gradient.norm());
  EXPECT_LE((r.gradient.col(0) + gradient).lpNorm<Eigen::Infinity>(), 1e-13 * gradient.norm());
}

TEST(Softmax, RefusesAWorkspaceOfAnotherNumberOfClasses) {
  const Eigen::MatrixXd one = Eigen::MatrixXd::Ones(1, 1);
  const PaddedMatrix x(one);
  SoftmaxWorkspace workspace(x.view(), 3);
  const double u[4] = {};
  double margins[4];
  EXPECT_THROW(kernels::softmax_margins(x.view(), 4, u, margins, workspace), InvalidInput);
  EXPECT_NO_THROW(kernels::softmax_margins(x.view(), 3, u, margins, workspace));
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxOn, every_target(), name_of_target);

}  // namespace kernels_softmax_test
}  // namespace bilevel::problems
