// No oracle of a linear model allocates once it is warm, and no kernel once its workspace is
// made.

#include <functional>

#include <gtest/gtest.h>

#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/perceptron.hpp>
#include <bilevel/problems/ridge.hpp>
#include <bilevel/problems/softmax_kernels.hpp>
#include <conformance/allocation_counter.hpp>

#include "kernels_on.hpp"
#include "random_matrix.hpp"

namespace bilevel::problems {
namespace kernels_allocation_test {

using Vec = Eigen::VectorXd;
using conformance::allocations;

long allocations_of(const std::function<void()>& work) {
  const long before = allocations;
  work();
  return allocations - before;
}

void expect_no_allocation(Problem<Vec>& problem) {
  if (!BILEVEL_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitiser owns the allocator";
  ASSERT_GT(allocations_of([] { Vec::Zero(100).eval(); }), 0) << "the counter counts";
  const Vec phi = Vec::Constant(problem.initial_phi().size(), 0.1), theta = problem.initial_theta();
  Vec dphi = phi, dtheta = theta, out = phi;
  Eigen::MatrixXd dense(phi.size(), phi.size());
  std::unique_ptr<Curvature<Vec>> curvature;
  const auto everything = [&] {
    problem.inner(phi, theta, {.phi = &dphi, .theta = &dtheta});
    problem.inner(phi, theta, {});
    problem.outer(phi, theta, {.phi = &dphi, .theta = &dtheta});
    for (double beta : {0.0, 0.1}) {
      problem.linearise(phi, theta, beta, curvature);
      curvature->times(phi, out);
      curvature->diagonal(out);
      curvature->dense(dense);
      curvature->times(phi, out);
      curvature->cross_times(phi, dtheta);
      curvature->cross_apply(dtheta, out);
      problem.linearise(out, theta, beta, curvature);
      curvature->times(phi, out);
    }
    problem.rounding(phi, theta, out);
  };
  everything();
  everything();
  EXPECT_EQ(allocations_of(everything), 0);
}

TEST(Allocation, OraclesOfLogisticAllocateNothingOnceWarm) {
  Logistic problem = Logistic::random({.rows = 3000, .validation_rows = 900, .features = 40});
  expect_no_allocation(problem);
}
TEST(Allocation, OraclesOfRidgeAllocateNothingOnceWarm) {
  Ridge problem = Ridge::random({.rows = 3000, .validation_rows = 900, .features = 40});
  expect_no_allocation(problem);
}
TEST(Allocation, OraclesOfWideRidgeAllocateNothingOnceWarm) {
  Ridge problem = Ridge::random({.rows = 300, .validation_rows = 90, .features = 300});
  expect_no_allocation(problem);
}

TEST(Allocation, OraclesOfPerceptronsAllocateNothingOnceWarm) {
  const ModelMatrix::RowMajor x = random_matrix(1, 900, 30);
  std::vector<int> classes;
  for (Index i = 0; i < 900; ++i) classes.push_back(static_cast<int>(i % 3));
  for (const bool sparse : {false, true}) {
    Samples samples;
    samples.matrix = sparse ? std::make_shared<const ModelMatrix>(ModelMatrix::Sparse(x.sparseView()))
                            : std::make_shared<const ModelMatrix>(x);
    samples.classes = std::make_shared<const std::vector<int>>(classes);
    const PerceptronShape shape{30, {20, 7}, 3};
    Perceptron problem(shape, kernels::Loss::squared, samples, {{0, 700}}, {{700, 900}},
                       Standardisation::none(30), PenaltyMap::global(shape.penalised(), 1));
    expect_no_allocation(problem);
  }
}

/// The first call of each pass may start the threads; the workspaces themselves are used for the first time
/// when it counts.
TEST(Allocation, SparseAndSoftmaxPassesAllocateNothingOnceTheWorkspaceIsMade) {
  if (!BILEVEL_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitiser owns the allocator";
  std::mt19937_64 engine(20250710);
  const RandomSparse x(2000, 300, 0.3, engine);
  const kernels::SparseView sparse{x.starts.data(), x.columns_of.data(), x.values.data(), x.n, x.d};
  const PaddedMatrix matrix(x.dense());
  const kernels::View dense = matrix.view();
  const Index classes = 11;
  const Vec u = gaussian(301 * classes, 1, engine) / 10, weights = Vec::Ones(2000), y = Vec::Ones(2000);
  const std::vector<int> labels(2000, 3);
  Vec out(301 * classes), rows(2000), matrix_of_rows(2000 * classes), gradient(301), square(301 * 301);
  const kernels::Rows data{y.data(), weights.data()};
  const auto scalar = [&](const auto& view, auto& workspace) {
    for (kernels::Loss loss : {kernels::Loss::logistic, kernels::Loss::poisson, kernels::Loss::huber}) {
      kernels::value_with_gradient(loss, view, u.data(), data, gradient.data(), rows.data(), workspace);
      kernels::curvature(loss, view, u.data(), data, rows.data(), workspace);
    }
    kernels::margins(view, u.data(), nullptr, rows.data(), workspace);
    kernels::product(view, weights.data(), u.data(), gradient.data(), workspace);
    kernels::gram_diagonal(view, weights.data(), gradient.data(), workspace);
  };
  const auto softmax = [&](const auto& view, kernels::SoftmaxWorkspace& workspace) {
    double* p = matrix_of_rows.data();
    kernels::softmax_margins(view, classes, u.data(), p, workspace);
    kernels::softmax_value_with_gradient(view, classes, u.data(), labels.data(), nullptr, out.data(), p,
                                         workspace);
    kernels::softmax_product(view, classes, p, weights.data(), u.data(), out.data(), workspace);
    kernels::softmax_diagonal(view, classes, p, nullptr, out.data(), workspace);
    kernels::softmax_row_dots(view, classes, u.data(), p, labels.data(), rows.data(), workspace);
  };
  for (bool counted : {false, true}) {
    kernels::SparseWorkspace of_sparse(sparse);
    kernels::Workspace of_dense(dense);
    kernels::SoftmaxWorkspace softmax_sparse(sparse, classes), softmax_dense(dense, classes);
    const long count = allocations_of([&] {
      scalar(sparse, of_sparse);
      scalar(dense, of_dense);
      softmax(sparse, softmax_sparse);
      softmax(dense, softmax_dense);
    });
    if (counted) {
      EXPECT_EQ(count, 0);
    }
    kernels::gram(sparse, weights.data(), square.data(), of_sparse);
    if (counted) {
      EXPECT_EQ(allocations_of([&] { kernels::gram(sparse, weights.data(), square.data(), of_sparse); }), 0);
    }
  }
}

}  // namespace kernels_allocation_test
}  // namespace bilevel::problems
