// Hessian products and seconds of conjugate gradients and its relatives along a path of outer steps, as
// markdown.
//   bench_adjoints [outer steps]

#include <cstdlib>

#include <fmt/format.h>
#include <Eigen/QR>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using namespace bilevel;

struct Course {
  std::string name;
  problems::ReferenceProblem& problem;
  double start;  ///< added to the problem's initial θ
  double step;   ///< the largest change of an element of θ at one outer step
};

/// L-BFGS with 40 pairs, more than its default: they serve twice here.
std::unique_ptr<InnerSolver<Vec>> inner_lbfgs(Problem<Vec>& problem) {
  MinimiserOptions options;
  options.gradient_tolerance = 1e-9;
  return std::make_unique<Minimiser<Vec>>(problem, std::make_unique<Lbfgs<Vec>>(LbfgsOptions{40}), options);
}

/// Outer gradient descent with steps of a fixed length, warm-started throughout.
void follow(const Course& course, const std::string& solver_name, long steps) {
  problems::ReferenceProblem& problem = course.problem;
  const auto inner = inner_lbfgs(problem);
  const auto solver = make_adjoint_solver<Vec>(solver_name, {.relative_tolerance = 1e-8});
  const auto reference = make_adjoint_solver<Vec>("cg", {.relative_tolerance = 1e-12});
  Sensitivity<Vec> sensitivity(problem);
  sensitivity.inherit(inner->inverse_hessian());
  Vec theta = problem.initial_theta().array() + course.start, phi = problem.initial_phi(), pi, exact;
  Vec outer_phi = phi, outer_theta = theta, gradient = theta, ignored = theta;
  long products = 0, converged = 0;
  double seconds = 0, worst = 0;
  std::size_t bytes = 0;
  for (long k = 0; k < steps; ++k) {
    phi = inner->solve(theta, 0, phi).phi;
    problem.outer(phi, theta, {.phi = &outer_phi, .theta = &outer_theta});
    sensitivity.move_to(phi, theta);
    Stopwatch watch;
    const auto solution = sensitivity.pullback(outer_phi, *solver, ignored, k > 0 ? &pi : nullptr);
    seconds += watch.seconds();
    products += solution.products;
    converged += solution.status == Status::converged;
    bytes = std::max(bytes, solution.bytes);
    pi = solution.x;
    // The path is that of the tight reference, so that every solver sees the same systems.
    exact = sensitivity.pullback(outer_phi, *reference, gradient, k > 0 ? &exact : nullptr).x;
    worst = std::max(worst, (pi - exact).norm() / exact.norm());
    gradient += outer_theta;
    theta -= course.step / gradient.cwiseAbs().maxCoeff() * gradient;
  }
  fmt::print("| {} | {} | {} | {:.3f} | {:.0e} | {} of {} | {:.0f} |\n", course.name, solver_name, products,
             seconds, worst, converged, steps, static_cast<double>(bytes) / 1024);
}

problems::Quadratic with_small_eigenvalues(Index n, Index few) {
  const auto random = [](Index rows, Index columns, std::uint64_t seed) {
    Vec elements = Vec::Zero(rows * columns);
    Space<Vec>::random(seed, elements);
    return Mat(elements.reshaped(rows, columns));
  };
  const Mat q = Eigen::HouseholderQR<Mat>(random(n, n, 1)).householderQ();
  Vec spectrum = Vec::LinSpaced(n, 0.1, 1);
  for (Index i = 0; i < few; ++i) spectrum[i] = 1e-4 * static_cast<double>(1 + i);
  Mat h = q * spectrum.asDiagonal() * q.transpose();
  h = (0.5 * (h + h.transpose())).eval();
  return {h, random(n, 20, 2), random(n, 1, 3), Mat::Identity(n, n), random(n, 1, 4)};
}

}  // namespace

int main(int argc, char** argv) {
  const long steps = argc > 1 ? std::atol(argv[1]) : 20;
  auto logistic = problems::Logistic::random(
      {.rows = 2000, .validation_rows = 1000, .features = 500, .group = 25, .correlation = 0.95});
  auto spread = problems::Quadratic::random({.phi = 500, .theta = 20, .condition = 1e4});
  auto few = with_small_eigenvalues(500, 6);
  fmt::print("| problem | solver | Hessian products | seconds | worst error of π | converged | KiB |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Course& course : {Course{"logistic, 500 features in groups of 25", logistic, -5, 0.3},
                               Course{"quadratic, 500, κ = 10⁴ log-spaced", spread, 0, 0.05},
                               Course{"quadratic, 500, 6 eigenvalues below 10⁻³", few, 0, 0.05}})
    for (const std::string solver : {"cg", "cg-jacobi", "cg-nystrom", "cg-inherited"})
      follow(course, solver, steps);
}
