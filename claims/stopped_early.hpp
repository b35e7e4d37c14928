#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include "dense_curvature.hpp"

namespace claims {

/// Coupled double wells, L_in = Σ(¼φ_i⁴ − ½φ_i²) + ½φᵀAφ − φᵀ(Jθ + b) and L_out = ½‖φ − y‖²: bounded from
/// below for every β ≥ 0, with an indefinite Hessian between the wells.
class DoubleWells final : public Dense<bilevel::Problem<Vec>> {
 public:
  DoubleWells(const Laboratory& lab, Index size, Index parameters, std::uint64_t number)
      : coupling_(lab.matrix(size, parameters, number) / std::sqrt(double(size))),
        tilt_(0.3 * lab.vector(size, number + 1)),
        target_(lab.vector(size, number + 2)) {
    const Mat m = lab.matrix(size, size, number + 3);
    matrix_ = 0.3 / double(size) * m * m.transpose();
  }

  Vec initial_phi() const override { return Vec::Zero(tilt_.size()); }
  Vec initial_theta() const override { return Vec::Zero(coupling_.cols()); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec force = coupling_ * theta + tilt_, pull = matrix_ * phi;
    if (wanted.phi) *wanted.phi = phi.array().cube().matrix() - phi + pull - force;
    if (wanted.theta) *wanted.theta = -(coupling_.transpose() * phi);
    return (phi.array().square() * (0.25 * phi.array().square() - 0.5)).sum() + 0.5 * phi.dot(pull) -
           phi.dot(force);
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi - target_;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi - target_).squaredNorm();
  }

  Mat hessian(const Vec& phi) const {
    Mat h = matrix_;
    h.diagonal().array() += 3 * phi.array().square() - 1;
    return h;
  }
  /// ∇θ at a stationary point.
  Vec gradient_at(const Vec& phi) const {
    return coupling_.transpose() * hessian(phi).ldlt().solve(phi - target_);
  }

 protected:
  void fill(DenseCurvature& c, const Vec& phi, const Vec&, double beta) override {
    c.hessian = hessian(phi);
    c.hessian.diagonal().array() += beta;
    c.cross = -coupling_;
  }

 private:
  Mat coupling_, matrix_;
  Vec tilt_, target_;
};

/// A problem whose phase 1 gave up after five steps of gradient descent and says that it has converged.
/// Nudged phases are settled by gradient descent from wherever they start, to the end.
struct StoppedEarly {
  static constexpr double step = 0.05;

  StoppedEarly(const Laboratory& lab, std::uint64_t number)
      : problem(lab, 6, 3, number),
        theta(lab.vector(3, number + 4)),
        descent(problem,
                std::make_unique<bilevel::GradientDescent<Vec>>(bilevel::GradientDescentOptions{step}),
                {.gradient_tolerance = 1e-7, .max_iterations = 20000}),
        settling(problem, [this](const Vec& at, double beta, const Vec& start) -> Vec {
          return beta == 0 ? stopped : descent.solve(at, beta, start).phi;
        }) {
    stopped = 0.3 * lab.vector(6, number + 5);
    Vec slope(6);
    for (int k = 0; k < 5; ++k) {
      problem.inner(stopped, theta, {.phi = &slope});
      stopped -= step * slope;
    }
    const Mat h = problem.hessian(stopped);
    eigenvalues = h.selfadjointView<Eigen::Lower>().eigenvalues();
    const auto end = descent.solve(theta, 0, stopped);
    minimum = settler("newton", problem, 1e-13)->solve(theta, 0, end.phi).phi;
    truth = problem.gradient_at(minimum);
    // The minimum must be one, and the one that descent was on its way to.
    usable = eigenvalues[0] < -0.1 && (minimum - end.phi).norm() < 1e-4 &&
             problem.hessian(minimum).selfadjointView<Eigen::Lower>().eigenvalues()[0] > 0.05;
  }
  StoppedEarly(const StoppedEarly&) = delete;

  DoubleWells problem;
  Vec theta, stopped, minimum, truth, eigenvalues;
  bilevel::Minimiser<Vec> descent;
  Settling settling;
  bool usable = false;
};

/// What became of a method on the problems stopped early. Errors are relative to the first-order
/// approximation's, which is ‖π*χ‖ whatever the problem.
struct Behaviour {
  std::vector<double> errors, sizes;
  int trials = 0, finite = 0, flagged = 0, expected_status = 0;

  void add(const bilevel::Estimate<Vec>& e, const StoppedEarly& trial, bool as_expected) {
    ++trials;
    finite += e.gradient.allFinite();
    // A caller who looks at both knows.
    flagged += !succeeded(e.status) || e.certificate.verdict != bilevel::Verdict::trusted;
    expected_status += as_expected;
    const double error = (e.gradient - trial.truth).norm() / trial.truth.norm();
    errors.push_back(std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
  }
  double share(int count) const { return trials > 0 ? double(count) / trials : 0; }
};

/// Where conjugate gradients by the book, blind to the sign of pᵀHp, are after |φ| steps.
struct Textbook {
  Vec end;
  double least_cosine;  ///< of the angles between p and Hp; 0 is a breakdown
};

/// In extended precision: an angle near 90° costs twice its digits. H as `curvature` multiplies by it.
inline Textbook textbook_conjugate_gradients(bilevel::Curvature<Vec>& curvature, const Vec& g) {
  using Real = long double;
  using Long = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
  const Index n = g.size();
  Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic> h(n, n);
  Vec column(n);
  for (Index i = 0; i < n; ++i) {
    curvature.times(Vec::Unit(n, i), column);
    h.col(i) = column.cast<Real>();
  }
  Long x = Long::Zero(n), r = g.cast<Real>(), p = r;
  Real least = 1;
  for (Index k = 0; k < n; ++k) {
    const Long q = h * p;
    const Real squared = r.squaredNorm(), bend = p.dot(q), alpha = squared / bend;
    least = std::min(least, std::abs(bend) / (p.norm() * q.norm()));
    x += alpha * p;
    r -= alpha * q;
    p = r + r.squaredNorm() / squared * p;
  }
  return {x.cast<double>(), static_cast<double>(least)};
}

}  // namespace claims
