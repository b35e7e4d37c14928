#include <bilevel/adjoint/conjugate_gradient.hpp>

#include <optional>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>
#include <bilevel/adjoint/make_adjoint_solver.hpp>

namespace bilevel::testing {
namespace {

/// Matrices that turn and stretch a little from one to the next, with `few` small eigenvalues.
struct Sequence {
  Sequence(Eigen::Index n, Eigen::Index few, double small, std::uint64_t seed)
      : draw(seed), basis(draw.orthogonal(n)), spectrum(Vec::LinSpaced(n, 0.1, 1)) {
    for (Eigen::Index i = 0; i < few; ++i) spectrum[i] = small * static_cast<double>(1 + i);
    const Mat g = draw.matrix(n, n);
    turn = 0.5 * (g - g.transpose()) / std::sqrt(static_cast<double>(n));
    b = draw.vector(n);
    drift = draw.vector(n);
  }

  /// The step-th matrix, rotated by about 0.001 a step (Cayley, so the rotation is orthogonal).
  Mat matrix(int step) const {
    const Eigen::Index n = spectrum.size();
    const Mat skew = 0.0005 * step * turn, one = Mat::Identity(n, n);
    const Mat rotated = (one - skew).lu().solve((one + skew) * basis);
    const Mat a = rotated * (1 + 0.02 * step) * spectrum.asDiagonal() * rotated.transpose();
    return 0.5 * (a + a.transpose());
  }
  Vec right(int step) const { return b + 0.05 * step * drift; }

  Draw draw;
  Mat basis, turn;
  Vec spectrum, b, drift;
};

ConjugateGradientOptions recycling(long columns) {
  ConjugateGradientOptions options;
  options.recycled = columns;
  return options;
}

std::vector<LinearSolution<Vec>> follow(ConjugateGradient<Vec>& solver, const Sequence& sequence, int steps) {
  std::vector<LinearSolution<Vec>> solutions;
  for (int step = 0; step < steps; ++step) {
    Operator a(sequence.matrix(step));
    const Vec b = sequence.right(step);
    solutions.push_back(solver.solve(a, b, step > 0 ? &solutions.back().x : nullptr));
    const auto& solution = solutions.back();
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_EQ(solution.products, a.products);
    EXPECT_NEAR(solution.residual_norm, (b - a.matrix() * solution.x).norm(), 1e-12 * b.norm());
    EXPECT_LE(solution.residual_norm, 1e-10 * b.norm());
    const Vec exact = a.matrix().llt().solve(b);
    EXPECT_LE((solution.x - exact).norm(), 1e-8 * exact.norm()) << "step " << step;
    // λ_min ≤ smallest Ritz value, largest Ritz value ≤ λ_max, deflated or not.
    const double stretch = 1 + 0.02 * step;
    EXPECT_GE(solution.smallest_ritz, stretch * sequence.spectrum.minCoeff() * (1 - 1e-9));
    EXPECT_LE(solution.largest_ritz, stretch * sequence.spectrum.maxCoeff() * (1 + 1e-9));
  }
  return solutions;
}

long products(const std::vector<LinearSolution<Vec>>& solutions) {
  long sum = 0;
  for (const auto& solution : solutions) sum += solution.products;
  return sum;
}

TEST(RecycledSpace, ASequenceOfSlowlyChangingMatricesTakesFewerProducts) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const Sequence sequence(150, 6, 1e-4, seed);
    ConjugateGradient<Vec> plain, recycled(recycling(8));
    const auto without = follow(plain, sequence, 10), with = follow(recycled, sequence, 10);
    // The products with the recycled vectors are among those counted. Measured: 1.7.
    EXPECT_GE(static_cast<double>(products(without)), 1.5 * static_cast<double>(products(with)))
        << "seed " << seed << ": " << products(without) << " and " << products(with);
    // Once W has settled, what is left of the spectrum begins at 0.1: κ = 10 instead of 10⁴.
    EXPECT_LE(with.back().iterations, 45) << with.back().message;
    EXPECT_GE(without.back().iterations, 80) << without.back().message;
  }
}

TEST(RecycledSpace, TheFirstSolveIsThatOfConjugateGradients) {
  const Sequence sequence(60, 3, 1e-3, 4);
  Operator a(sequence.matrix(0));
  const auto plain = ConjugateGradient<Vec>().solve(a, sequence.b, nullptr);
  const auto recycled = ConjugateGradient<Vec>(recycling(8)).solve(a, sequence.b, nullptr);
  EXPECT_EQ(plain.x, recycled.x);
  EXPECT_EQ(plain.products, recycled.products);
  EXPECT_EQ(plain.smallest_ritz, recycled.smallest_ritz);
  EXPECT_GT(recycled.bytes, plain.bytes + 50 * 60 * sizeof(double));
}

TEST(RecycledSpace, IsDeterministic) {
  const Sequence sequence(60, 3, 1e-3, 5);
  ConjugateGradient<Vec> one(recycling(5)), other(recycling(5));
  const auto first = follow(one, sequence, 4), second = follow(other, sequence, 4);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].x, second[i].x);
    EXPECT_EQ(first[i].message, second[i].message);
  }
}

TEST(RecycledSpace, WhateverItHoldsTheAnswerIsRight) {
  for (const std::uint64_t seed : {6u, 7u}) {
    Draw draw(seed);
    ConjugateGradient<Vec> solver(recycling(8));
    // Matrices that have nothing to do with each other, of two sizes, badly scaled against each other.
    for (const auto& [n, scale] : {std::pair{40, 1.0}, {40, 1e6}, {40, 1e-6}, {25, 1.0}, {40, 1.0}}) {
      Operator a(scale * draw.with_spectrum(log_spectrum(n, 100)));
      const Vec b = draw.vector(n);
      const auto solution = solver.solve(a, b, nullptr);
      EXPECT_EQ(solution.status, Status::converged) << solution.message;
      const Vec exact = a.matrix().llt().solve(b);
      EXPECT_LE((solution.x - exact).norm(), 1e-7 * exact.norm()) << "seed " << seed;
    }
    // As many vectors as there are dimensions: all is known after the first solve.
    ConjugateGradient<Vec> all(recycling(6));
    Operator small(draw.with_spectrum(log_spectrum(6, 100)));
    all.solve(small, draw.vector(6), nullptr);
    const auto again = all.solve(small, draw.vector(6), nullptr);
    EXPECT_EQ(again.status, Status::converged) << again.message;
    EXPECT_LE(again.iterations, 1) << again.message;
  }
}

TEST(RecycledSpace, AMatrixThatHasBecomeIndefiniteIsNoticed) {
  for (const std::uint64_t seed : {8u, 9u}) {
    Draw draw(seed);
    const Mat q = draw.orthogonal(40);
    Vec spectrum = Vec::LinSpaced(40, 0.1, 1);
    spectrum.head(3) << 1e-3, 2e-3, 3e-3;
    ConjugateGradient<Vec> solver(recycling(6));
    const Vec b = draw.vector(40);
    for (int step = 0; step < 3; ++step) {
      Operator definite(q * spectrum.asDiagonal() * q.transpose());
      EXPECT_EQ(solver.solve(definite, b, nullptr).status, Status::converged);
    }
    spectrum[0] = -1e-3;
    Operator indefinite(q * spectrum.asDiagonal() * q.transpose());
    const auto solution = solver.solve(indefinite, b, nullptr);
    EXPECT_EQ(solution.status, Status::negative_curvature) << solution.message;
    EXPECT_NE(solution.message.find("recycled vector"), std::string::npos) << solution.message;
    EXPECT_EQ(solution.iterations, 0);
  }
}

TEST(RecycledSpace, NanFromAProductWithItIsNamedAndForgotten) {
  const Sequence sequence(60, 3, 1e-3, 10);
  ConjugateGradient<Vec> solver(recycling(5));
  Operator a(sequence.matrix(0));
  solver.solve(a, sequence.b, nullptr);
  a.products = 0;
  a.poisoned_product = 2;
  const auto poisoned = solver.solve(a, sequence.b, nullptr);
  EXPECT_EQ(poisoned.status, Status::not_finite) << poisoned.message;
  EXPECT_NE(poisoned.message.find("recycled vector 1"), std::string::npos) << poisoned.message;
  a.poisoned_product = -1;
  EXPECT_EQ(solver.solve(a, sequence.b, nullptr).status, Status::converged);
}

}  // namespace
}  // namespace bilevel::testing
