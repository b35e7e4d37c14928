#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>
#include <Eigen/Cholesky>

#include <bilevel/problems/pitchfork.hpp>

#include "cubic_well.hpp"
#include "offsets.hpp"
#include "ripples.hpp"

namespace claims {
namespace {
namespace of_local_convexity {

/// λ_min of a symmetric matrix: shifted to be positive, singular values are eigenvalues.
double smallest_eigenvalue(const Mat& a) {
  const double shift = a.norm();
  Mat shifted = a;
  shifted.diagonal().array() += shift;
  return singular_values(shifted)[a.rows() - 1] - shift;
}

double smallest_at(const Laboratory& lab, bilevel::Problem<Vec>& problem, const Vec& phi, const Vec& theta) {
  Mat hessian;
  if (!lab.curvature(problem, phi, theta)->dense(hessian)) {
    Vec product(1);
    lab.curvature(problem, phi, theta)->times(Vec::Ones(1), product);
    return product[0];
  }
  return smallest_eigenvalue(hessian);
}

struct Waves {
  double least = bilevel::everywhere, least_secant = bilevel::everywhere, nearest = bilevel::everywhere;
  int draws = 2000, nonconvex = 0;
  std::vector<double> radii, eigenvalues;
};

void look_at(const Laboratory& lab, int draw, Waves& result) {
  std::mt19937_64 engine = lab.engine(draw);
  const auto uniform = [&](double a, double b) { return std::uniform_real_distribution<>(a, b)(engine); };
  const Index n = 1 + static_cast<Index>(engine() % 6), count = 1 + static_cast<Index>(engine() % 4);
  const double mu = std::pow(10, uniform(-1, 1));
  // H(φ*) = Q·diag(μ, …)·Qᵀ, and the first wave along the eigenvector of μ, steepest at φ*: the worst there
  // is.
  const Vec lowest = direction(n, engine), mirror = unit(lowest - Vec::Unit(n, 0));
  Vec values(n);
  for (Index i = 0; i < n; ++i) values[i] = i == 0 ? mu : mu * std::pow(10, uniform(0, 1));
  const Mat reflection = Mat::Identity(n, n) - 2 * mirror * mirror.transpose();
  const Mat at_minimum = reflection * values.asDiagonal() * reflection;
  Mat waves(n, count);
  Vec heights(count), phases(count);
  for (Index k = 0; k < count; ++k) {
    waves.col(k) = uniform(0.5, 2) * (k == 0 ? lowest : direction(n, engine));
    heights[k] = mu * std::pow(10, uniform(0, 1.5));
    phases[k] = k == 0 ? std::acos(0.0) : uniform(-3, 3);
  }
  const Vec minimum = direction(n, engine);
  Ripples problem(at_minimum, minimum, waves, heights, phases, Mat::Ones(n, 1), Mat::Zero(n, 1), minimum);
  const Vec theta = Vec::Zero(1);
  const double rho = problem.hessian_lipschitz(), radius = mu / (2 * rho);

  // Points of the ball; the first two on its rim along the first wave.
  std::vector<Vec> points;
  for (int i = 0; i < 12; ++i)
    points.push_back(minimum + (i < 6 ? radius : radius * uniform(0, 1)) * (i == 0   ? Vec(-lowest)
                                                                            : i == 1 ? lowest
                                                                                     : direction(n, engine)));
  Vec here(n), there(n);
  for (std::size_t i = 0; i < points.size(); ++i) {
    result.least = std::min(result.least, smallest_at(lab, problem, points[i], theta) / (mu / 2));
    const Vec& other = points[(i + 1) % points.size()];
    problem.inner(points[i], theta, {.phi = &here});
    problem.inner(other, theta, {.phi = &there});
    const Vec step = points[i] - other;
    result.least_secant =
        std::min(result.least_secant, (here - there).dot(step) / step.squaredNorm() / (mu / 2));
  }
  // Outwards until the Hessian is indefinite, in units of μ/ρ; one of the radii lies just below 1.
  double first = bilevel::everywhere;
  Mat hessian;
  for (int ray = 0; ray < 3; ++ray) {
    const Vec along = ray == 0 ? Vec(-lowest) : ray == 1 ? lowest : direction(n, engine);
    for (double distance = 0.999999 * std::pow(1.03, -24); distance < std::min(first, 10.0);
         distance *= 1.03) {
      lab.curvature(problem, minimum + distance * mu / rho * along, theta)->dense(hessian);
      if (hessian.llt().info() != Eigen::Success) first = distance;
    }
  }
  result.nonconvex += std::isfinite(first);
  result.nearest = std::min(result.nearest, first);
  if (draw % 10 != 0) return;
  const double distance = uniform(0, 1) * 4 * radius;
  result.radii.push_back(distance * rho / mu);
  result.eigenvalues.push_back(smallest_at(lab, problem, minimum - distance * lowest, theta) / mu);
}

void run(Laboratory& lab, Outcome& outcome) {
  Waves waves;
  for (int draw = 0; draw < waves.draws; ++draw) look_at(lab, draw, waves);
  outcome.at_least("waves: smallest λ_min/(μ/2) on the balls", 1 - 1e-9, waves.least);
  outcome.at_least("waves: smallest (∇L(x)−∇L(z))·(x−z)/‖x−z‖²/(μ/2)", 1 - 1e-9, waves.least_secant);
  outcome.at_least("waves: first indefinite Hessian, radius/(μ/ρ)", 1 - 1e-9, waves.nearest);
  outcome.at_least("waves: problems with an indefinite Hessian on a ray", waves.draws / 2, waves.nonconvex);

  // The pitchfork: ρ = 24(φ* + r) on the ball of radius r = μ/2ρ with μ = 4θ makes r² + φ*r = θ/12.
  bilevel::problems::Pitchfork pitchfork;
  double pitchfork_least = bilevel::everywhere, worst_form = 0;
  for (const double theta : geometric(0.01, 10, 15)) {
    const double minimum = std::sqrt(theta / 2),
                 radius = 0.5 * (std::sqrt(minimum * minimum + theta / 3) - minimum);
    for (int i = -10; i <= 10; ++i) {
      const double phi = minimum + radius * i / 10;
      const double curvature = smallest_at(lab, pitchfork, Vec::Constant(1, phi), Vec::Constant(1, theta));
      pitchfork_least = std::min(pitchfork_least, curvature / (2 * theta));
      keep_worst(worst_form, std::abs(curvature - (12 * phi * phi - 2 * theta)) / theta);
    }
  }
  outcome.at_least("pitchfork: smallest Hessian/(μ/2) on the balls", 1 - 1e-12, pitchfork_least);
  outcome.at_most("pitchfork: Hessian against 12φ² − 2θ, relative", 1e-12, worst_form);

  // The well reaches both radii.
  const double mu = 2, rho = 3;
  CubicWell well(mu, rho, 1, 1);
  const Vec theta = Vec::Zero(1);
  const auto curvature = [&](double radii) {
    return smallest_at(lab, well, Vec::Constant(1, radii * mu / rho), theta);
  };
  outcome.near("well: λ_min at radius μ/2ρ, in units of μ/2", 1, curvature(0.5) / (mu / 2), 1e-12);
  outcome.near("well: λ_min at radius μ/ρ", 0, curvature(1), 1e-12);
  outcome.check("well: λ_min at radius 1.001·μ/ρ", "< 0", fmt::format("{:.3g}", curvature(1.001)),
                curvature(1.001) < 0);
  const Vec outside = Vec::Constant(1, 1.2 * mu / rho);
  Settling stopped(well, [&](const Vec&, double, const Vec&) { return outside; });
  for (const auto& [name, status] : {std::pair{"implicit-cg", bilevel::Status::negative_curvature},
                                     {"implicit-direct", bilevel::Status::negative_curvature},
                                     {"implicit-neumann", bilevel::Status::diverged}}) {
    const auto e = lab.estimator(name, well, stopped)->estimate(theta, {.phi = outside});
    outcome.check(
        fmt::format("well at 1.2·μ/ρ: {}", name), fmt::format("{}, untrusted", bilevel::name(status)),
        fmt::format("{}, {}", bilevel::name(e.adjoint_status), bilevel::name(e.certificate.verdict)),
        e.adjoint_status == status && e.certificate.verdict == bilevel::Verdict::untrusted);
  }
  // ½πHπ − πg with H = −0.2μ: further out, ever lower.
  double lowest = 0, rises = 0;
  for (const double pi : geometric(1, 1e8, 30)) {
    const double value = 0.5 * curvature(1.2) * pi * pi - pi;
    rises += !(value < lowest);
    lowest = value;
  }
  outcome.check("well at 1.2·μ/ρ: ½πHπ − πg along π → ∞", "falls below −1e14",
                fmt::format("{} rises, to {:.2g}", rises, lowest), rises == 0 && lowest < -1e14);

  std::vector<double> radii, values;
  for (int i = 0; i <= 40; ++i) {
    radii.push_back(0.05 * i);
    values.push_back(curvature(0.05 * i) / mu);
  }
  outcome.show(Chart("Smallest eigenvalue of the Hessian away from a minimum")
                   .x("distance from φ* in units of μ/ρ")
                   .y("λ_min/μ")
                   .dots("non-convex problems, worst ray", waves.radii, waves.eigenvalues)
                   .line("well ½μφ² − ρ|φ|³/6", radii, values)
                   .line("μ/2 up to μ/2ρ", {0, 0.5, 0.5}, {0.5, 0.5, 0}, true)
                   .caption("No point may lie below the line of the well: 1 − distance."));
  outcome.note(
      "The Lipschitz constant must hold on the whole ball. For ½μφ² − φ⁴/24 the third derivative vanishes "
      "at φ* = 0, so that ρ taken at the minimum alone would allow any radius, while the Hessian μ − φ²/2 "
      "is "
      "negative beyond √(2μ).");
  outcome.measured =
      fmt::format("λ_min ≥ {:.4f}·μ/2; indefinite from {:.3f}·μ/ρ", waves.least, waves.nearest);
}

}  // namespace of_local_convexity
}  // namespace

const Claim local_convexity{
    .name = "local-convexity",
    .title = "Around a minimum that is not flat the inner loss is strongly convex",
    .place = "Appendix B, extension to local assumptions",
    .statement =
        "If the Hessian of L_in at a local minimum φ* has smallest eigenvalue μ > 0 and is ρ-Lipschitz on "
        "the ball, L_in is μ/2-strongly convex on the ball of radius μ/2ρ around φ*. Outside the ball of "
        "radius μ/ρ around φ* the Hessian need not be positive semi-definite; where it is not, the "
        "quadratic form of phase 2 is unbounded below and its minimisers diverge.",
    .protocol =
        "2000 random non-convex problems (a quadratic with 1 to 4 waves, 1 to 6 variables, ρ known): the "
        "smallest eigenvalue at 12 points of the ball, its rim among them, and the gradient inequality "
        "for 12 pairs; then the first radius with an indefinite Hessian, up to 10·μ/ρ, on three rays. The "
        "pitchfork φ⁴ − θφ² at 15 θ, with ρ = 24(φ* + r) on its ball. The well ½μφ² − ρ|φ|³/6, whose "
        "Hessian is μ − ρ|φ|, inside, at and outside both radii, with phase 2 asked for a gradient beyond "
        "μ/ρ.",
    .truth =
        "μ/2 on the ball, reached by the well; for the pitchfork 12φ² − 2θ; no indefinite Hessian within "
        "μ/ρ; for the well one at every radius beyond.",
    .slip =
        "The text speaks of the ball of radius μ/ρ centred in φ̂; the centre is φ*. A state is always "
        "within a ball around itself.",
    .expected = "≥ μ/2 within μ/2ρ; indefinite beyond μ/ρ",
    .run = of_local_convexity::run};

}  // namespace claims
