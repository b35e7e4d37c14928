#include <bilevel/adjoint/conjugate_gradient.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace nystrom_test {

ConjugateGradientOptions preconditioning(long rank) {
  ConjugateGradientOptions options;
  options.preconditioner = Preconditioner::nystrom;
  options.sketch.rank = rank;
  return options;
}

TEST(Nystrom, AnIndefiniteMatrixIsNoticed) {
  for (const std::uint64_t seed : {8u, 9u, 10u}) {
    Draw draw(seed);
    Vec spectrum = log_spectrum(40, 10);
    for (Eigen::Index i = 0; i < 40; i += 2) spectrum[i] = -spectrum[i];
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(40);
    const auto preconditioned = ConjugateGradient<Vec>(preconditioning(10)).solve(a, b, nullptr);
    EXPECT_EQ(preconditioned.status, Status::negative_curvature) << preconditioned.message;
    EXPECT_EQ(preconditioned.iterations, 0) << "the sketch itself shows it";
    EXPECT_LT(preconditioned.smallest_ritz, 0);
    EXPECT_GE(preconditioned.smallest_ritz, spectrum.minCoeff());
    // One negative eigenvalue that a sketch of five columns cannot see is left to CG.
    Vec hidden = log_spectrum(40, 10);
    hidden[0] = -0.05;
    Operator almost(draw.with_spectrum(hidden));
    const auto found = ConjugateGradient<Vec>(preconditioning(5)).solve(almost, b, nullptr);
    EXPECT_EQ(found.status, Status::negative_curvature) << found.message;
  }
}

TEST(Nystrom, PreconditionsWhatStandsOut) {
  for (const std::uint64_t seed : {11u, 12u, 13u}) {
    Draw draw(seed);
    Vec spectrum = Vec::LinSpaced(200, 1, 2);
    spectrum.head(15) = 1e5 * log_spectrum(15, 1e3);
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(200), exact = a.matrix().llt().solve(b);
    const auto plain = ConjugateGradient<Vec>().solve(a, b, nullptr);
    const auto sketched = ConjugateGradient<Vec>(preconditioning(20)).solve(a, b, nullptr);
    EXPECT_EQ(sketched.status, Status::converged) << sketched.message;
    EXPECT_LE((sketched.x - exact).norm(), 1e-8 * exact.norm());
    EXPECT_GE(plain.iterations, 5 * sketched.iterations) << "seed " << seed << ": " << plain.message << "\n"
                                                         << sketched.message;
    // Even with the 20 columns counted.
    EXPECT_GE(plain.products, 2 * sketched.products);
  }
}

TEST(Nystrom, TheSketchStaysUntilItIsWorn) {
  Draw draw(14);
  Vec spectrum = Vec::LinSpaced(120, 1, 2);
  spectrum.head(10) = 1e4 * log_spectrum(10, 100);
  const Mat q = draw.orthogonal(120);
  const Vec b = draw.vector(120);
  ConjugateGradient<Vec> keeps(preconditioning(15));
  ConjugateGradientOptions anew = preconditioning(15);
  anew.keep_sketch = false;
  ConjugateGradient<Vec> draws(anew);
  for (int step = 0; step < 4; ++step) {
    Operator a(q * (1 + 0.01 * step) * spectrum.asDiagonal() * q.transpose());
    const auto kept = keeps.solve(a, b, nullptr), drawn = draws.solve(a, b, nullptr);
    EXPECT_EQ(drawn.products, drawn.iterations + 16) << drawn.message;
    EXPECT_EQ(kept.products, kept.iterations + (step == 0 ? 16 : 1)) << kept.message;
    EXPECT_LE((kept.x - drawn.x).norm(), 1e-8 * drawn.x.norm());
  }
  // Another matrix altogether: right all the same, and the next solve draws anew.
  Operator other(draw.with_spectrum(spectrum));
  const auto worn = keeps.solve(other, b, nullptr);
  EXPECT_NE(worn.message.find("kept sketch"), std::string::npos) << worn.message;
  EXPECT_LE((b - other.matrix() * worn.x).norm(), 1.01 * worn.target);
  const auto fresh = keeps.solve(other, b, nullptr);
  EXPECT_NE(fresh.message.find("new sketch of rank 15"), std::string::npos) << fresh.message;
  EXPECT_LT(2 * fresh.iterations, worn.iterations);
  // Another size cannot use it.
  Operator smaller(draw.with_spectrum(log_spectrum(30, 10)));
  EXPECT_EQ(keeps.solve(smaller, draw.vector(30), nullptr).status, Status::converged);
}

TEST(Nystrom, ARankAsLargeAsTheMatrixIsItsInverse) {
  for (const std::uint64_t seed : {5u, 6u}) {
    Draw draw(seed);
    Operator a(draw.with_spectrum(log_spectrum(15, 100)));
    const Vec b = draw.vector(15);
    const auto solution = ConjugateGradient<Vec>(preconditioning(50)).solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_LE(solution.iterations, 2) << solution.message;
    EXPECT_LE((solution.x - a.matrix().llt().solve(b)).norm(), 1e-9 * solution.x.norm()) << solution.message;
  }
}

TEST(Nystrom, ADampedMatrixOfItsRankTakesTwoSteps) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const double rho : {1.0, 1e-2}) {
      Draw draw(seed);
      Vec spectrum = Vec::Constant(80, rho);
      spectrum.head(12) += 10 * log_spectrum(12, 1e3);
      Operator a(draw.with_spectrum(spectrum));
      const Vec b = draw.vector(80), exact = a.matrix().llt().solve(b);
      // One column more than the rank finds ρ; a damping above the spectrum is lowered to it.
      for (const auto& [rank, damping] :
           {std::pair{13L, rho}, {20L, rho}, {13L, 0.0}, {20L, 0.0}, {20L, 5 * rho}}) {
        ConjugateGradientOptions options = preconditioning(rank);
        options.sketch.damping = damping;
        const auto solution = ConjugateGradient<Vec>(options).solve(a, b, nullptr);
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", rank " << rank << ", damping " << damping
                                          << ": " << solution.message);
        EXPECT_LE((solution.x - exact).norm(), 1e-8 * exact.norm());
        EXPECT_LE(solution.iterations, 2);
        EXPECT_GE(solution.bytes, static_cast<std::size_t>(rank) * 80 * sizeof(double));
      }
    }
}

TEST(Nystrom, SeedsAreExplicit) {
  Draw draw(15);
  Operator a(draw.with_spectrum(log_spectrum(50, 1e3)));
  const Vec b = draw.vector(50);
  ConjugateGradientOptions options = preconditioning(10);
  const Vec one = ConjugateGradient<Vec>(options).solve(a, b, nullptr).x,
            again = ConjugateGradient<Vec>(options).solve(a, b, nullptr).x;
  options.sketch.seed = 77;
  EXPECT_EQ(one, again);
  EXPECT_NE(one, ConjugateGradient<Vec>(options).solve(a, b, nullptr).x);
}

TEST(Nystrom, NanInTheSketchIsNamed) {
  Draw draw(16);
  Operator a(draw.with_spectrum(log_spectrum(50, 1e3)));
  a.poisoned_product = 3;
  const auto solution = ConjugateGradient<Vec>(preconditioning(10)).solve(a, draw.vector(50), nullptr);
  EXPECT_EQ(solution.status, Status::not_finite);
  EXPECT_NE(solution.message.find("column 2 of the sketch"), std::string::npos) << solution.message;
}

TEST(Nystrom, TheZeroMatrixIsSingular) {
  Operator a(Mat::Zero(5, 5));
  EXPECT_EQ(ConjugateGradient<Vec>(preconditioning(3)).solve(a, Vec::Ones(5), nullptr).status,
            Status::singular);
}

}  // namespace nystrom_test
}  // namespace bilevel::testing
