#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/implicit.hpp>
#include "laboratory.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "planted.hpp"

namespace claims {

const std::vector<std::pair<std::string_view, Defect>>& defects() {
  static const std::vector<std::pair<std::string_view, Defect>> list{{"cross-sign", Defect::cross_sign},
                                                                     {"hessian-scale", Defect::hessian_scale},
                                                                     {"adjoint-scale", Defect::adjoint_scale},
                                                                     {"nudge-scale", Defect::nudge_scale},
                                                                     {"stencil", Defect::stencil},
                                                                     {"not-a-number", Defect::not_a_number}};
  return list;
}

std::uint64_t Laboratory::seed(std::uint64_t number) const {
  // splitmix64: neighbouring seeds and numbers give unrelated streams.
  std::uint64_t z = seed_ * 0x9e3779b97f4a7c15u + number + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Vec Laboratory::vector(Index size, std::uint64_t number) const {
  Vec x(size);
  bilevel::Space<Vec>::random(seed(number), x);
  return x;
}

Mat Laboratory::matrix(Index rows, Index columns, std::uint64_t number) const {
  return Eigen::Map<const Mat>(vector(rows * columns, number).data(), rows, columns);
}

namespace {

/// The solver of phase 2 of an estimator by implicit differentiation; null for the others.
const bilevel::AdjointChoice* adjoint_of(std::string_view estimator) {
  const auto* implicit = std::get_if<bilevel::ImplicitMethod>(bilevel::find_estimator(estimator));
  return implicit ? &implicit->adjoint : nullptr;
}

}  // namespace

std::unique_ptr<bilevel::AdjointSolver<Vec>> Laboratory::adjoint(
    std::unique_ptr<bilevel::AdjointSolver<Vec>> solver) const {
  if (defect_ == Defect::adjoint_scale) return std::make_unique<planted::ScaledAdjoint>(std::move(solver), 2);
  if (defect_ == Defect::not_a_number)
    return std::make_unique<planted::ScaledAdjoint>(std::move(solver), bilevel::unknown);
  return solver;
}

std::unique_ptr<bilevel::AdjointSolver<Vec>> Laboratory::adjoint(
    std::string_view name, const bilevel::AdjointOptions& options) const {
  return adjoint(bilevel::make_adjoint_solver<Vec>(name, options));
}

std::unique_ptr<bilevel::Estimator<Vec>> Laboratory::implicit(
    bilevel::Equilibrium<Vec>& problem, bilevel::InnerSolver<Vec>& inner,
    std::unique_ptr<bilevel::AdjointSolver<Vec>> solver, const bilevel::ImplicitOptions& options) const {
  if (defect_ == Defect::not_a_number)
    return std::make_unique<planted::ScaledEstimator>(
        std::make_unique<bilevel::Implicit<Vec>>(problem, inner, std::move(solver), options),
        bilevel::unknown);
  solver = adjoint(std::move(solver));
  const auto make = [&](bilevel::Equilibrium<Vec>& p) {
    return std::make_unique<bilevel::Implicit<Vec>>(p, inner, std::move(solver), options);
  };
  if (!curved()) return make(problem);
  return std::make_unique<planted::CurvedEstimator<bilevel::Equilibrium<Vec>>>(problem, defect_, make);
}

std::unique_ptr<bilevel::Estimator<Vec>> Laboratory::estimator(
    std::string_view name, bilevel::Equilibrium<Vec>& problem, bilevel::InnerSolver<Vec>& inner,
    const bilevel::EstimatorOptions& options) const {
  if (defect_ == Defect::not_a_number)
    return std::make_unique<planted::ScaledEstimator>(
        bilevel::make_estimator<Vec>(name, problem, inner, options), bilevel::unknown);
  if (const auto* solver = adjoint_of(name); defect_ != Defect::none && solver)
    return implicit(problem, inner,
                    bilevel::make_adjoint_solver<Vec>(bilevel::name(*solver), options.adjoint),
                    {options.certificate, options.outer_tolerance});
  const auto make = [&](bilevel::Equilibrium<Vec>& p) {
    return bilevel::make_estimator<Vec>(name, p, inner, options);
  };
  if (!curved()) return make(problem);
  return std::make_unique<planted::CurvedEstimator<bilevel::Equilibrium<Vec>>>(problem, defect_, make);
}

std::unique_ptr<bilevel::Estimator<Vec>> Laboratory::estimator(
    std::string_view name, bilevel::Problem<Vec>& problem, bilevel::InnerSolver<Vec>& inner,
    const bilevel::EstimatorOptions& options) const {
  const bilevel::EstimatorChoice choice = bilevel::estimator_named(name);
  if (defect_ == Defect::not_a_number || (defect_ == Defect::nudge_scale && bilevel::nudges(choice)))
    return std::make_unique<planted::ScaledEstimator>(
        bilevel::make_estimator<Vec>(name, problem, inner, options),
        defect_ == Defect::nudge_scale ? 2 : bilevel::unknown);
  const auto* propagation = std::get_if<bilevel::EquilibriumPropagationOptions>(&choice);
  if (defect_ == Defect::stencil && propagation && propagation->nudge == bilevel::Nudge::forward)
    return std::make_unique<planted::WeightedPropagation>(
        problem, inner, forward_stencil(propagation->points), options.beta == 0 ? 1e-3 : options.beta);
  if (adjoint_of(name))
    return estimator(name, static_cast<bilevel::Equilibrium<Vec>&>(problem), inner, options);
  const auto make = [&](bilevel::Problem<Vec>& p) {
    return bilevel::make_estimator<Vec>(name, p, inner, options);
  };
  if (!curved()) return make(problem);
  return std::make_unique<planted::CurvedEstimator<bilevel::Problem<Vec>>>(problem, defect_, make);
}

std::unique_ptr<bilevel::Curvature<Vec>> Laboratory::curvature(bilevel::Equilibrium<Vec>& problem,
                                                               const Vec& phi, const Vec& theta,
                                                               double beta) const {
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  problem.linearise(phi, theta, beta, curvature);
  if (!curved()) return curvature;
  auto wrong = std::make_unique<planted::WrongCurvature>(defect_);
  wrong->honest = std::move(curvature);
  return wrong;
}

namespace {

Weights weights_of(const bilevel::Stencil& stencil, Defect defect) {
  const int shift = defect == Defect::stencil ? 1 : 0;
  const double factor = defect == Defect::nudge_scale    ? 2
                        : defect == Defect::not_a_number ? bilevel::unknown
                                                         : 1;
  Weights w;
  for (std::size_t i = 0; i < stencil.points().size(); ++i) {
    w.points.push_back(stencil.points()[i] + shift);
    w.coefficients.push_back(factor * stencil.coefficient(i));
  }
  return w;
}

}  // namespace

Weights Laboratory::forward_stencil(int points) const {
  return weights_of(bilevel::Stencil::forward(points), defect_);
}

bilevel::Solution<Vec> Settling::solve(const Vec& theta, double beta, const Vec& start) {
  bilevel::Solution<Vec> s;
  s.phi = function_(theta, beta, start);
  Vec residual(s.phi.size()), outer(s.phi.size());
  s.value = problem_.inner(s.phi, theta, {.phi = &residual});
  if (beta != 0) {
    s.value += beta * problem_.outer(s.phi, theta, {.phi = &outer});
    residual += beta * outer;
  }
  s.residual_norm = s.tolerance = residual.norm();
  s.status = bilevel::Status::converged;
  s.message = "settled by a function";
  return s;
}

std::unique_ptr<bilevel::InnerSolver<Vec>> settler(std::string_view name, bilevel::Problem<Vec>& problem,
                                                   double tolerance) {
  bilevel::MinimiserOptions options;
  options.gradient_tolerance = tolerance;
  return bilevel::make_inner_solver<Vec>(name, problem, options);
}

std::unique_ptr<bilevel::AdjointSolver<Vec>> neumann(double alpha, long terms) {
  bilevel::NeumannOptions options;
  options.step = alpha;
  options.terms = terms;
  return std::make_unique<bilevel::Neumann<Vec>>(options);
}

Vec settled(bilevel::Problem<Vec>& problem, const Vec& theta, double beta) {
  Vec phi = problem.initial_phi();
  double best = std::numeric_limits<double>::infinity();
  // As far as rounding lets it go: a few Newton steps beyond the last that made the residual smaller.
  for (const double tolerance : {1e-10, 1e-13, 1e-15}) {
    const auto solution = settler("newton", problem, tolerance)->solve(theta, beta, phi);
    if (!(solution.residual_norm < best)) break;
    best = solution.residual_norm;
    phi = solution.phi;
  }
  if (!(best < 1e-9)) throw std::runtime_error("Newton's method did not settle the problem");
  return phi;
}

double relative(const Mat& a, const Mat& truth) {
  const double error = (a - truth).norm() / truth.norm();
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double median(std::vector<double> values) {
  if (values.empty()) return bilevel::unknown;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double slope(const std::vector<double>& x, const std::vector<double>& y) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!(x[i] >= 0 && y[i] >= 0 && std::isfinite(x[i]) && std::isfinite(y[i]))) return bilevel::unknown;
    if (x[i] == 0 || y[i] == 0) continue;
    const double u = std::log(x[i]), v = std::log(y[i]);
    n += 1, sx += u, sy += v, sxx += u * u, sxy += u * v;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

std::vector<double> geometric(double from, double to, int count) {
  std::vector<double> x;
  for (int i = 0; i < count; ++i) x.push_back(from * std::pow(to / from, double(i) / (count - 1)));
  return x;
}

bilevel::Estimate<Vec> planted::WeightedPropagation::estimate(const Vec& theta,
                                                              const bilevel::Warm<Vec>& warm) {
  bilevel::Estimate<Vec> e;
  Vec phi = warm.phi.value_or(problem_.initial_phi()), inner(theta.size()), outer(theta.size());
  e.gradient = Vec::Zero(theta.size());
  for (std::size_t i = 0; i < weights_.points.size(); ++i) {
    const double t = weights_.points[i] * beta_;
    phi = inner_.solve(theta, t, phi).phi;
    problem_.inner(phi, theta, {.theta = &inner});
    e.outer_value = problem_.outer(phi, theta, {.theta = &outer});
    e.gradient += weights_.coefficients[i] / beta_ * (inner + t * outer);
  }
  e.phi = phi;
  e.status = bilevel::Status::converged;
  return e;
}

}  // namespace claims
