#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/Eigenvalues>

#include <bilevel/problems/quadratic.hpp>

#include "saddle.hpp"

namespace claims {
namespace {
namespace of_neumann_series {

/// What K steps of the library's solver leave, started from 0.
bilevel::LinearSolution<Vec> steps(const Laboratory& lab, bilevel::Curvature<Vec>& curvature, const Vec& g,
                                   double alpha, long count) {
  bilevel::CurvatureOperator<Vec> h(curvature, true, false);
  return lab.adjoint(neumann(alpha, count))->solve(h, g, nullptr);
}

void run(Laboratory& lab, Outcome& outcome) {
  double worst_sum = 0, worst_closed = 0, worst_matrix = 0;
  int below_converged = 0, above_diverged = 0;
  double worst_boundary = 0;
  const int draws = 100;
  std::vector<double> condition = geometric(2, 200, draws);
  for (int draw = 0; draw < draws; ++draw) {
    const auto number = std::uint64_t(10 * draw);
    auto problem = bilevel::problems::Quadratic::random(
        {.phi = 8, .theta = 3, .condition = condition[std::size_t(draw)], .seed = lab.seed(number)});
    const Vec theta = lab.vector(3, number + 1), phi = problem.settled(theta, 0);
    const Mat& h = problem.hessian();
    const Eigen::SelfAdjointEigenSolver<Mat> eigen(h);
    const Vec lambda = eigen.eigenvalues();
    const double largest = lambda.maxCoeff();
    Vec g(8);
    problem.outer(phi, theta, {.phi = &g});
    const Vec pi = h.llt().solve(g), modes = eigen.eigenvectors().transpose() * g;
    const auto curvature = lab.curvature(problem, phi, theta);

    for (const double factor : {0.2, 1.0, 1.9}) {
      const double alpha = factor / largest;
      const Mat step = Mat::Identity(8, 8) - alpha * h;
      Mat power = Mat::Identity(8, 8), sum = Mat::Zero(8, 8);
      long terms = 0;
      for (const long count : {1, 2, 5, 20, 100}) {
        for (; terms < count; ++terms) {
          sum += alpha * power;
          power = power * step;
        }
        const Vec library = steps(lab, *curvature, g, alpha, count).x;
        const Vec closed =
            eigen.eigenvectors() *
            ((1 - (1 - alpha * lambda.array()).pow(double(count))) / lambda.array() * modes.array()).matrix();
        const double size = std::max(closed.norm(), alpha * g.norm());
        keep_worst(worst_sum, (library - sum * g).norm() / size);
        keep_worst(worst_closed, (library - closed).norm() / size);
      }
      // The matrix itself: Σ … − H⁻¹ = −H⁻¹(I − αH)^K, an identity that the sum must meet.
      const Mat inverse = h.llt().solve(Mat::Identity(8, 8));
      keep_worst(worst_matrix, (sum - inverse + inverse * power).norm() / inverse.norm());
    }

    const auto below = steps(lab, *curvature, g, 0.98 * 2 / largest, 4000),
               above = steps(lab, *curvature, g, 1.02 * 2 / largest, 4000);
    below_converged += (below.x - pi).norm() <= 1e-9 * pi.norm();
    above_diverged += above.status == bilevel::Status::diverged && above.x.norm() > 1e3 * pi.norm();
    // On the boundary the component along the largest eigenvalue swings between 0 and 2π* for ever.
    const Vec top = eigen.eigenvectors().col(7);
    for (const long count : {1, 2, 99, 100})
      keep_worst(worst_boundary,
                 std::abs(steps(lab, *curvature, g, 2 / largest, count).x.dot(top) / pi.dot(top) -
                          (count % 2 == 1 ? 2 : 0)));
  }
  outcome.at_most("K steps against α Σ_{i<K} (I − αH)^i g, relative", 1e-12, worst_sum);
  outcome.at_most("K steps against the closed form in the eigenbasis, relative", 1e-12, worst_closed);
  outcome.at_most("the partial sum against H⁻¹ − H⁻¹(I − αH)^K, relative", 1e-12, worst_matrix);
  outcome.all_of("converged to π* at α = 0.98·2/L", below_converged, draws);
  outcome.all_of("diverged at α = 1.02·2/L", above_diverged, draws);
  outcome.at_most("distance from swinging between 0 and 2π* at α = 2/L", 1e-9, worst_boundary);

  int indefinite_diverged = 0;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    Saddle saddle(lab, 6, 3, 1 + Index(draw % 6), 5000 + 10 * draw);
    const Vec theta = lab.vector(3, 5006 + 10 * draw), phi = lab.vector(6, 5007 + 10 * draw);
    Vec g(6);
    saddle.outer(phi, theta, {.phi = &g});
    const auto curvature = lab.curvature(saddle, phi, theta);
    const auto result = steps(lab, *curvature, g, 1 / (3 + Saddle::epsilon), 400);
    indefinite_diverged += result.status == bilevel::Status::diverged && result.x.norm() > 1e3 * g.norm();
  }
  outcome.all_of("diverged where the Hessian is indefinite, at α = 1/L", indefinite_diverged, 20);

  // The picture: one quadratic, steps around 2/L.
  auto problem =
      bilevel::problems::Quadratic::random({.phi = 8, .theta = 3, .condition = 10, .seed = lab.seed(9000)});
  const Vec theta = lab.vector(3, 9001), phi = problem.settled(theta, 0);
  Vec g(8);
  problem.outer(phi, theta, {.phi = &g});
  const Vec pi = problem.hessian().llt().solve(g);
  const double largest = bilevel::dense_spectrum(problem.hessian(), true).largest;
  const auto curvature = lab.curvature(problem, phi, theta);
  Chart chart("Distance from π* after K terms of the series");
  chart.x("terms K").y("‖π_K − π*‖ / ‖π*‖", true).y_range(1e-6, 1e6);
  for (const double factor : {0.5, 1.0, 1.9, 2.0, 2.1}) {
    std::vector<double> x, y;
    for (long count = 1; count <= 100; count += 3) {
      x.push_back(double(count));
      y.push_back((steps(lab, *curvature, g, factor / largest, count).x - pi).norm() / pi.norm());
    }
    chart.line(fmt::format("α = {:g}/L", factor), x, y);
  }
  outcome.show(
      chart.caption("A quadratic with condition number 10: beyond α = 2/L the series has no limit."));
  outcome.measured =
      fmt::format("{:.0e}; {} converge, {} diverge of {}", worst_sum, below_converged, above_diverged, draws);
}

}  // namespace of_neumann_series
}  // namespace

const Claim neumann_series{
    .name = "neumann-series",
    .title = "The Neumann series is recurrent backpropagation",
    .place = "Section 3.1, Equation (Neumann series)",
    .statement =
        "(∂φ²L_in)⁻¹ = α Σ_i (I − α∂φ²L_in)^i whenever all |1 − αλ| < 1. Cut after K terms and applied to "
        "∂φL_out, it is K steps of recurrent backpropagation from π = 0.",
    .protocol =
        "100 random quadratics with |φ| = 8 and condition numbers from 2 to 200. Partial sums of the "
        "series, with the powers of I − αH formed as matrices, for K = 1, 2, 5, 20, 100 and α = 0.2/L, "
        "1/L, 1.9/L, against K steps of the library's solver. Then 4000 steps at α = 0.98·2/L and at "
        "1.02·2/L, and the component along the largest eigenvalue at α = 2/L exactly. 20 indefinite "
        "Hessians at α = 1/L.",
    .truth =
        "The sum spelled out; its closed form (1 − (1 − αλ)^K)/λ in the eigenbasis; H⁻¹ by Cholesky's "
        "factor.",
    .slip =
        "“Which requires α small enough” is not all: no step makes |1 − αλ| < 1 for a negative λ, so the "
        "Hessian must be positive definite too.",
    .expected = "equal to rounding; converges iff α < 2/L",
    .run = of_neumann_series::run};

}  // namespace claims
