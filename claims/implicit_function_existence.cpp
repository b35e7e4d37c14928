#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

#include <bilevel/problems/pitchfork.hpp>

namespace claims {
namespace {
namespace of_implicit_function_existence {

/// f = ∂φ[½φᵀSφ − 2Σ cos(Bφ + Cθ)_i − eᵀφ].
struct Equation {
  static constexpr double weight = 2;
  Mat s, b, c;
  Vec e;

  Vec value(const Vec& phi, const Vec& theta) const {
    return s * phi + weight * (b.transpose() * (b * phi + c * theta).array().sin().matrix()) - e;
  }
  Mat jacobian(const Vec& phi, const Vec& theta) const {
    return s + weight * b.transpose() * (b * phi + c * theta).array().cos().matrix().asDiagonal() * b;
  }
  Mat by_theta(const Vec& phi, const Vec& theta) const {
    return weight * b.transpose() * (b * phi + c * theta).array().cos().matrix().asDiagonal() * c;
  }
  /// Where Newton's method ends; not finite where it does not.
  Vec root(Vec phi, const Vec& theta) const {
    for (int k = 0; k < 60; ++k) {
      const Vec step = jacobian(phi, theta).partialPivLu().solve(value(phi, theta));
      phi -= step;
      if (step.norm() <= 1e-15 * (1 + phi.norm())) break;
    }
    return value(phi, theta).norm() <= 1e-11 * (1 + e.norm()) ? phi : Vec(phi * bilevel::unknown);
  }
};

double norm_of(const Mat& m) {
  return Eigen::JacobiSVD<Mat>(m).singularValues()[0];
}
double least_eigenvalue(const Mat& m) {
  return Eigen::SelfAdjointEigenSolver<Mat>(m, Eigen::EigenvaluesOnly).eigenvalues()[0];
}
/// A point of the unit ball, of the sphere with probability zero.
Vec in_ball(const Laboratory& lab, Index size, std::uint64_t number) {
  const Vec direction = lab.vector(size + 1, number);
  return direction.head(size).normalized() *
         std::pow(0.5 * std::erfc(direction[size] / std::sqrt(2)), 1.0 / double(size));
}

/// Draw number `draw`: f with the root φ̄ at θ̄, where J̄ = ∂φf is invertible, and the two balls.
struct Neighbourhood {
  Neighbourhood(const Laboratory& lab, int draw)
      : number(std::uint64_t(1000 * draw)),
        minimum(draw % 2 == 0),
        f{lab.matrix(4, 4, number), 0.7 * lab.matrix(4, 4, number + 1), lab.matrix(4, 2, number + 2),
          Vec::Zero(4)},
        phi(lab.vector(4, number + 3)),
        theta(lab.vector(2, number + 4)) {
    f.s = (f.s + f.s.transpose()).eval() / 2;
    keep_invertible();
    f.e = f.value(phi, theta);
    jacobian = f.jacobian(phi, theta);
    inverse = jacobian.fullPivLu().inverse();
    k = norm_of(inverse), nb = norm_of(f.b), nc = norm_of(f.c);
    // ‖∂φf − J̄‖ ≤ w‖B‖²(‖B‖r + ‖C‖s) ≤ 1/(2k) and ‖J̄⁻¹f(φ̄, θ)‖ ≤ k·w‖B‖‖C‖s ≤ r/2.
    r = 1 / (4 * k * w * nb * nb * nb);
    s = std::min(1 / (4 * k * w * nb * nb * nc), r / (2 * k * w * nb * nc));
  }

  static constexpr double w = Equation::weight;
  std::uint64_t number;
  bool minimum;
  Equation f;
  Vec phi, theta;
  Mat jacobian, inverse;
  double k, nb, nc;  ///< ‖J̄⁻¹‖, ‖B‖, ‖C‖
  double r, s;       ///< radii around φ̄ and θ̄

 private:
  /// S is changed such that no eigenvalue of J̄ is within 0.3 of zero, and none below where φ̄ is a minimum.
  void keep_invertible() {
    const Eigen::SelfAdjointEigenSolver<Mat> eigen(f.jacobian(phi, theta));
    Vec lambda = eigen.eigenvalues();
    for (double& each : lambda)
      if (minimum || std::abs(each) < 0.3)
        each = std::copysign(std::max(std::abs(each), 0.3), minimum ? 1 : each);
    const Mat change = eigen.eigenvectors() * Vec(lambda - eigen.eigenvalues()).asDiagonal() *
                       eigen.eigenvectors().transpose();
    f.s += (change + change.transpose()) / 2;
  }
};

/// What 200 neighbourhoods show.
struct Tally {
  explicit Tally(const Laboratory& lab) {
    for (int draw = 0; draw < 200; ++draw) {
      const Neighbourhood at(lab, draw);
      minima += at.minimum;
      invertible_negative += !at.minimum && least_eigenvalue(at.jacobian) < 0;
      count_roots(lab, at);
      measure_sensitivity(at);
      follow_path(lab, at, draw == 0);
    }
  }
  void check(Outcome& outcome) const {
    outcome.none_of("θ within s without a root within r", without_root, values);
    outcome.none_of("θ within s with more than one root within r", several, values);
    outcome.at_most("largest ‖f‖ at the roots", 1e-10, worst_residual);
    outcome.at_most("change of the root over 2k·sup‖∂θf‖ times that of θ", 1, worst_lipschitz);
    outcome.at_most("Lipschitz constant at θ̄ over ‖J̄⁻¹∂θf‖, distance from 1", 1e-5, worst_local);
    outcome.at_most("change of the smallest eigenvalue, in units of 1/(2k)", 1, worst_change);
    outcome.none_of("minimisers that stop being minimisers on the path", lost, 20 * minima);
    outcome.at_least("θ with roots elsewhere too: uniqueness is local", 1, elsewhere);
    outcome.at_least("invertible Hessians with a negative smallest eigenvalue", 1, invertible_negative);
  }

  int values = 0, without_root = 0, several = 0, elsewhere = 0;  ///< of θ
  int minima = 0, lost = 0, invertible_negative = 0;
  double worst_residual = 0, worst_lipschitz = 0, worst_local = 0, worst_change = 0;
  std::vector<double> path_x, path_least, path_bound;  ///< of the first draw

 private:
  /// The roots within r for some θ within s, and whether there are others.
  void count_roots(const Laboratory& lab, const Neighbourhood& at) {
    const Equation& f = at.f;
    const Vec& phi = at.phi;
    Vec previous_theta = at.theta, previous = phi;
    for (std::uint64_t point = 0; point < 5; ++point) {
      const Vec theta = at.theta + at.s * in_ball(lab, 2, at.number + 10 + point);
      std::vector<Vec> found;
      for (std::uint64_t start = 0; start < 20; ++start) {
        const Vec end = f.root(phi + at.r * in_ball(lab, 4, at.number + 50 * point + 100 + start), theta);
        if (!((end - phi).norm() <= at.r)) continue;
        keep_worst(worst_residual, f.value(end, theta).norm());
        if (std::none_of(found.begin(), found.end(),
                         [&](const Vec& root) { return (root - end).norm() <= 1e-9 * at.r; }))
          found.push_back(end);
      }
      bool other = false;
      for (std::uint64_t start = 0; start < 5; ++start) {
        const Vec end = f.root(phi + 3 * lab.vector(4, at.number + 500 + 10 * point + start), theta);
        other = other || (end - phi).norm() > 1.01 * at.r;
      }
      ++values;
      without_root += found.empty();
      several += found.size() > 1;
      elsewhere += other;
      if (found.size() != 1) continue;
      keep_worst(worst_lipschitz, (found[0] - previous).norm() /
                                      (2 * at.k * at.w * at.nb * at.nc * (theta - previous_theta).norm()));
      previous_theta = theta;
      previous = found[0];
    }
  }
  /// The Lipschitz constant at θ̄ itself is ‖J̄⁻¹∂θf‖.
  void measure_sensitivity(const Neighbourhood& at) {
    const Eigen::JacobiSVD<Mat> svd(Mat(at.inverse * at.f.by_theta(at.phi, at.theta)), Eigen::ComputeThinV);
    const Vec u = svd.matrixV().col(0);
    const Vec up = at.f.root(at.phi, at.theta + 1e-3 * at.s * u),
              down = at.f.root(at.phi, at.theta - 1e-3 * at.s * u);
    keep_worst(worst_local, std::abs((up - down).norm() / (2e-3 * at.s * svd.singularValues()[0]) - 1));
  }
  /// Minimisers stay minimisers on the way to the boundary.
  void follow_path(const Laboratory& lab, const Neighbourhood& at, bool shown) {
    const double least = least_eigenvalue(at.jacobian);
    const Vec direction = lab.vector(2, at.number + 900).normalized();
    for (int i = 1; i <= 20; ++i) {
      const Vec theta = at.theta + at.s * i / 20 * direction;
      const double now = least_eigenvalue(at.f.jacobian(at.f.root(at.phi, theta), theta));
      keep_worst(worst_change, std::abs(now - least) * 2 * at.k);
      lost += at.minimum && !(now > 0);
      if (!shown) continue;
      path_x.push_back(i / 20.0);
      path_least.push_back(now);
      path_bound.push_back(least - 1 / (2 * at.k));
    }
  }
};

/// The converse: in every neighbourhood of the pitchfork's singular point there are three.
struct Branches {
  explicit Branches(const Laboratory& lab) {
    for (const double theta : geometric(1e-12, 1e-2, 11)) {
      ++tried;
      wrong += roots(lab, theta).size() != 3;
    }
  }

  int tried = 0, wrong = 0;
  double worst_place = 0;

 private:
  /// The distinct limits of Newton's method within |φ| ≤ √θ.
  std::vector<double> roots(const Laboratory& lab, double theta) {
    bilevel::problems::Pitchfork pitchfork;
    const double width = std::sqrt(theta);
    const Vec at = Vec::Constant(1, theta);
    std::vector<double> found;
    for (int start = -20; start <= 20; ++start) {
      Vec phi = Vec::Constant(1, width * start / 20), residual(1), slope_here(1);
      for (int step = 0; step < 100; ++step) {
        pitchfork.residual(phi, at, residual);
        lab.curvature(pitchfork, phi, at)->times(Vec::Ones(1), slope_here);
        if (slope_here[0] == 0) break;
        phi -= residual / slope_here[0];
      }
      pitchfork.residual(phi, at, residual);
      if (!(std::abs(phi[0]) <= width) || !(std::abs(residual[0]) <= 1e-12 * theta * width)) continue;
      if (std::none_of(found.begin(), found.end(),
                       [&](double other) { return std::abs(other - phi[0]) < 0.01 * width; }))
        found.push_back(phi[0]);
      const double size = std::abs(phi[0]) / std::sqrt(theta / 2);
      keep_worst(worst_place, std::min(size, std::abs(size - 1)));
    }
    return found;
  }
};

void run(Laboratory& lab, Outcome& outcome) {
  const Tally tally(lab);
  tally.check(outcome);
  const Branches pitchfork(lab);
  outcome.none_of("pitchfork: θ > 0 without exactly 3 roots within |φ| ≤ √θ", pitchfork.wrong,
                  pitchfork.tried);
  outcome.at_most("pitchfork: distance of the roots from {0, ±√(θ/2)}, relative", 1e-8,
                  pitchfork.worst_place);

  outcome.show(Chart("Smallest eigenvalue of the Hessian along a path of minimisers")
                   .x("‖θ − θ̄‖ / s")
                   .y("λ_min")
                   .dots("at φ*(θ)", tally.path_x, tally.path_least)
                   .line("λ_min(θ̄) − 1/(2k)", tally.path_x, tally.path_bound, true)
                   .caption("One of 100 problems; the bound is Weyl's."));
  outcome.note(
      fmt::format("Of {} values of θ, {} have further roots outside the ball. Strict positivity of λ_min "
                  "needs a neighbourhood on which the Hessian stays invertible: L_in = φ⁴/4 − θφ has one "
                  "continuous φ* = θ^(1/3) on all of ℝ, and λ_min = 0 at θ = 0.",
                  tally.values, tally.elsewhere));
  outcome.measured =
      fmt::format("{} of {} wrong; pitchfork {} of {} wrong", tally.without_root + tally.several,
                  tally.values, pitchfork.wrong, pitchfork.tried);
}

}  // namespace of_implicit_function_existence
}  // namespace

const Claim implicit_function_existence{
    .name = "implicit-function-existence",
    .title = "Where the Hessian is invertible an implicit function exists",
    .place = "Section 2.1, Theorem (existence of implicit functions) and its footnote",
    .statement =
        "If f(φ̄, θ̄) = 0 and ∂φ f(φ̄, θ̄) is invertible, there is exactly one continuous θ ↦ φ*(θ) near "
        "θ̄ with φ*(θ̄) = φ̄ and f(φ*(θ), θ) = 0. If φ̄ is a minimiser, φ*(θ) stays one. Without "
        "invertibility there may be several.",
    .protocol =
        "200 gradients f = Sφ + 2Bᵀ sin(Bφ + Cθ) − e of non-convex losses, |φ| = 4, |θ| = 2, e such that "
        "a random φ̄ is a root; S such that |λ(∂φf)| ≥ 0.3 there and, in half of them, φ̄ is a minimum. "
        "Radii r and s from ‖(∂φf)⁻¹‖ and the Lipschitz constants. For 5 random θ within s, Newton's "
        "method from 20 random starts within r. Smallest eigenvalue at 20 points of a path to the "
        "boundary. Shortest steps along the most sensitive direction of θ. The roots of 4φ³ − 2θφ within "
        "|φ| ≤ √θ for θ = 1e-2 … 1e-12.",
    .truth =
        "Banach's fixed-point theorem for φ ↦ φ − J̄⁻¹f(φ, θ): with k = ‖J̄⁻¹‖ and ‖∂φf − J̄‖ ≤ 1/(2k) on "
        "the two balls there is one root within r for each θ within s, Lipschitz with 2k·sup‖∂θf‖; and by "
        "Weyl's inequality |λ_min| changes by at most 1/(2k).",
    .slip =
        "The footnote's “the smallest eigenvalue of an invertible Hessian is strictly positive” holds "
        "only at a minimiser, where it is not negative; at φ = 0, θ = 1 the pitchfork's Hessian is "
        "invertible and −2.",
    .expected = "1 root where invertible, 3 at the pitchfork",
    .run = of_implicit_function_existence::run};

}  // namespace claims
