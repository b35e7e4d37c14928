#include <bilevel/gradient/circle.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <bilevel/space/decompositions.hpp>

namespace bilevel {
namespace {

constexpr double unit = 0x1p-53;

std::string text(std::complex<double> b) {
  return fmt::format("{:.4g}{:+.4g}i", b.real(), b.imag());
}

}  // namespace

std::string_view name(ComplexMethod method) {
  switch (method) {
    case ComplexMethod::automatic:
      return "automatic";
    case ComplexMethod::newton:
      return "newton";
    case ComplexMethod::gradient:
      return "gradient";
  }
  return "automatic";
}

Violations HolomorphicOptions::validate() const {
  Violations v("holomorphic");
  v.require(points >= 2 && points <= 64 && points % 2 == 0, "points", points,
            "must be even and from 2 to 64");
  v.not_negative("beta", beta);
  v.at_least("newton_limit", newton_limit, 1);
  v.require(tolerance > 0 && tolerance < 1, "tolerance", tolerance, "must lie between 0 and 1");
  v.at_least("max_iterations", max_iterations, 1);
  v.not_negative("step", step);
  v.not_negative("outer_tolerance", outer_tolerance);
  return v.add(certificate.validate());
}

Circle::Circle(Holomorphic& problem, const HolomorphicOptions& options, Index phis, Index thetas)
    : problem_(problem), options_(options) {
  phi_ = moved_ = residual_ = direction_ = origin_ = tangent_sum_ = Eigen::VectorXcd::Zero(phis);
  origin_theta_ = theta_value_ = Eigen::VectorXcd::Zero(thetas);
  values_ = Eigen::MatrixXcd::Zero(thetas, options.points / 2);
  if (options.method == ComplexMethod::gradient) return;
  if (options.method == ComplexMethod::automatic && phis > options.newton_limit) return;
  // Where the Hessian is asked for does not matter: only whether it is offered.
  newton_ = problem.complex_hessian(phi_, Eigen::VectorXd::Zero(thetas), 0, hessian_);
  if (!newton_ && options.method == ComplexMethod::newton)
    throw InvalidInput(
        "ep-holomorphic: method newton needs complex_hessian(), which this problem does not offer; use "
        "gradient");
  if (!newton_) return;
  real_part_ = Eigen::MatrixXd::Zero(phis, phis);
  lu_ = Eigen::PartialPivLU<Eigen::MatrixXcd>(phis);
  cholesky_.compute(Eigen::MatrixXd::Identity(phis, phis));
}

std::size_t Circle::bytes() const {
  const auto complex = static_cast<std::size_t>(6 * phi_.size() + 2 * origin_theta_.size() + values_.size() +
                                                (newton_ ? 2 * hessian_.size() : 0));
  return sizeof(Complex) * complex +
         sizeof(double) * static_cast<std::size_t>(newton_ ? 2 * real_part_.size() : 0);
}

Disc Circle::measure(const Eigen::VectorXd& phi, const Eigen::VectorXd& theta) {
  Disc disc;
  if (!newton_) return disc;
  moved_ = phi.cast<Complex>();
  problem_.complex_hessian(moved_, theta, 0, hessian_);
  const Eigen::MatrixXd inner = hessian_.real();
  problem_.complex_hessian(moved_, theta, 1, hessian_);
  const Eigen::MatrixXd outer = hessian_.real() - inner;
  if (!inner.allFinite() || !outer.allFinite()) return disc;
  const Eigen::VectorXd spectrum = symmetric_eigenvalues(inner);
  disc.mu = spectrum[0];
  disc.smoothness = spectrum[phi.size() - 1];
  disc.outer_smoothness = outer.norm();
  disc.source = "generalised eigenvalues at the settled state";
  if (!(disc.mu > 0)) {
    disc.radius = 0;
    return disc;
  }
  disc.radius = 1 / generalised_eigenvalues(outer, inner).cwiseAbs().maxCoeff();
  return disc;
}

/// Terms of ∂φ L are as large as ‖H‖‖φ‖ and the outer gradient, and cancel.
double Circle::level_of_rounding() const {
  return 2 * unit * (size_ * origin_.norm() + outer_norm_);
}

Circle::Phase Circle::settle(const Eigen::VectorXd& theta, Complex b) {
  return newton_ ? settle_by_newton(theta, b) : settle_by_gradient(theta, b);
}

Circle::Phase Circle::settle_by_newton(const Eigen::VectorXd& theta, Complex b) {
  problem_.complex_derivatives(phi_, theta, b, {.phi = &residual_});
  double size = residual_.norm();
  for (long k = 0;; ++k) {
    if (!std::isfinite(size)) return {Status::not_finite, size, k};
    if (size <= target_) return {Status::converged, size, k};
    if (k == options_.max_iterations) return {Status::iteration_limit, size, k};
    problem_.complex_hessian(phi_, theta, b, hessian_);
    if (!hessian_.allFinite()) return {Status::not_finite, size, k};
    size_ = hessian_.norm();
    lu_.compute(hessian_);
    direction_ = lu_.solve(residual_);
    if (!direction_.allFinite()) return {Status::singular, size, k};
    // Newton's direction lowers ‖∂φ L‖ for holomorphic derivatives as it does for real ones.
    bool lower = false;
    for (double t = 1; t > 1e-3 && !lower; t /= 2) {
      moved_ = phi_ - t * direction_;
      problem_.complex_derivatives(moved_, theta, b, {.phi = &residual_});
      const double there = residual_.norm();
      lower = there <= (1 - 0.1 * t) * size;
      if (lower) {
        phi_.swap(moved_);
        size = there;
      } else if (size <= 100 * level_of_rounding()) {
        return {Status::converged, size, k};
      }
    }
    if (!lower) return {Status::stalled, size, k};
  }
}

Circle::Phase Circle::settle_by_gradient(const Eigen::VectorXd& theta, Complex b) {
  constexpr long patience = 200;
  double lowest = std::numeric_limits<double>::infinity(), first = 0;
  long idle = 0;
  for (long k = 0;; ++k) {
    problem_.complex_derivatives(phi_, theta, b, {.phi = &residual_});
    const double size = residual_.norm();
    if (!std::isfinite(size)) return {Status::not_finite, size, k};
    if (size <= target_) return {Status::converged, size, k};
    if (k == 0) first = size;
    if (size > 1e6 * (first + outer_norm_)) return {Status::diverged, size, k};
    idle = size < 0.99 * lowest ? 0 : idle + 1;
    if (idle == 0) lowest = size;
    // With κ in the thousands 200 steps gain less than a percent: only rounding ends such a phase early.
    if (idle >= patience && size <= 100 * level_of_rounding()) return {Status::converged, size, k};
    if (k == options_.max_iterations) return {Status::iteration_limit, size, k};
    phi_ -= step_ * residual_;
  }
}

/// Is this phase one that no gradient may be built on?
bool Circle::refuse(CircleFindings& findings, const Eigen::VectorXd& theta, Complex b, const Phase& phase) {
  const auto say = [&](Status status, std::string why) {
    findings.status = status;
    findings.refused = true;
    findings.message = std::move(why);
    return true;
  };
  if (phase.status == Status::not_finite)
    return say(
        Status::not_finite,
        fmt::format("a complex derivative at b = {} is not finite after {} iterations: the circle reaches "
                    "a pole of the losses, or the problem's continuation is wrong",
                    text(b), phase.iterations));
  if (phase.status == Status::diverged || phase.status == Status::singular)
    return say(phase.status,
               fmt::format("the phase at b = {} ended as {} after {} iterations, ‖∂φ L‖ = {:.3g}", text(b),
                           name(phase.status), phase.iterations, phase.residual));
  const double room = problem_.margin(phi_, theta);
  findings.margin = std::min(findings.margin, room);
  if (!(room > 0))
    return say(
        Status::singular,
        fmt::format("the state at b = {} lies beyond the nearest pole of the losses (margin {:.3g}): take "
                    "a smaller beta",
                    text(b), room));
  if (!newton_) return false;
  problem_.complex_hessian(phi_, theta, b, hessian_);
  real_part_ = hessian_.real();
  if (!real_part_.allFinite())
    return say(Status::not_finite, fmt::format("the complex Hessian at b = {} is not finite", text(b)));
  cholesky_.compute(real_part_);
  if (cholesky_.info() == Eigen::Success) return false;
  return say(
      Status::negative_curvature,
      fmt::format("Re(H + bG) has the eigenvalue {:.4g} at b = {}, so the circle may reach round a pole of "
                  "the nudged equilibria, where Newton still converges and the result is wrong: take a "
                  "smaller beta",
                  symmetric_eigenvalues(real_part_)[0], text(b)));
}

CircleFindings Circle::run(const Eigen::VectorXd& phi, const Eigen::VectorXd& theta, double beta,
                           double outer_norm, const Disc& disc) {
  CircleFindings findings;
  const int count = options_.points;
  outer_norm_ = outer_norm;
  size_ = std::isnan(disc.smoothness) ? 0 : disc.smoothness;
  target_ = options_.tolerance * beta * outer_norm;
  step_ = options_.step > 0 ? options_.step : 2 / (3 * (disc.smoothness + beta * disc.outer_smoothness));
  if (!newton_ && !std::isfinite(step_)) {
    findings.status = Status::breakdown;
    findings.refused = true;
    findings.message =
        "no step length: neither constants nor curvature say how large the Hessian is; set options.step";
    return findings;
  }

  phi_ = phi.cast<Complex>();
  origin_ = phi_;
  Phase phase = settle(theta, 0);
  findings.iterations = phase.iterations;
  if (refuse(findings, theta, 0, phase)) return findings;
  findings.status = phase.status;
  origin_ = phi_;
  problem_.complex_derivatives(origin_, theta, 0, {.theta = &origin_theta_});
  tangent_sum_.setZero();
  double largest = phase.residual;
  long most = phase.iterations;
  for (int k = 0; k < count / 2; ++k) {
    // Half a step off the axis: the other half of the points are the conjugates.
    const Complex b = std::polar(beta, 2 * std::numbers::pi * (k + 0.5) / count);
    // To first order the displacement turns with b.
    if (k > 0) phi_ = origin_ + std::polar(1.0, 2 * std::numbers::pi / count) * (phi_ - origin_);
    phase = settle(theta, b);
    findings.iterations += phase.iterations;
    most = std::max(most, phase.iterations);
    if (refuse(findings, theta, b, phase)) return findings;
    if (succeeded(findings.status)) findings.status = phase.status;
    findings.mean_residual += phase.residual / (count / 2);
    largest = std::max(largest, phase.residual);
    moved_ = phi_ - origin_;
    tangent_sum_ += moved_ / b;
    problem_.complex_derivatives(phi_, theta, b, {.theta = &theta_value_});
    values_.col(k) = theta_value_ - origin_theta_;
    if (const double moved = moved_.norm(); moved > 0)
      findings.coupling = std::max(findings.coupling, values_.col(k).norm() / moved);
  }
  if (!values_.allFinite()) {
    findings.status = Status::not_finite;
    findings.refused = true;
    findings.message = fmt::format("∂θ L is not finite on the circle of radius {:.4g}", beta);
    return findings;
  }
  findings.factorizations = newton_ ? findings.iterations + count / 2 + 1 : 0;
  findings.rounding = level_of_rounding();
  transform(beta, findings);
  findings.message = fmt::format(
      "{} points at |b| = {:.4g}, pole expected at {:.4g} ({}), {} phases by {}, at most {} iterations, "
      "largest "
      "residual {:.3g} (asked for {:.3g})",
      count, beta, disc.radius, disc.source, count / 2, newton_ ? "newton" : "gradient", most, largest,
      target_);
  return findings;
}

/// f_m·β^m = 1/N Σ_k f(b_k) e^{−imω_k}, up to aliases f_{m+jN}·β^{m+jN}·(−1)^j: half a step off the axis
/// every turn by N changes the sign. At m = 0 the first alias is f_N, since f(0) itself is known.
void Circle::transform(double beta, CircleFindings& findings) const {
  const int count = options_.points;
  findings.tangent = (2.0 / count) * tangent_sum_.real();
  Eigen::VectorXd coefficient(origin_theta_.size());
  findings.sizes.assign(static_cast<std::size_t>(count) + 1, 0);
  findings.sizes[0] = origin_theta_.norm();
  for (int m = 1; m <= count; ++m) {
    coefficient.setZero();
    for (int k = 0; k < count / 2; ++k) {
      const Complex turn = std::polar(2.0 / count, -2 * std::numbers::pi * m * (k + 0.5) / count);
      coefficient += (turn * values_.col(k)).real();
    }
    findings.sizes[static_cast<std::size_t>(m)] = coefficient.norm();
    if (m == 1) findings.gradient = coefficient / beta;
  }
}

Certificate certify_circle(const CircleFindings& findings, double beta, const Disc& disc,
                           double unit_roundoff) {
  Certificate c;
  const std::vector<double>& size = findings.sizes;
  const std::size_t last = size.size() - 1;  // N
  c.mu = disc.mu * (1 - std::min(disc.used_by(beta), 1.0));
  c.mu_source = disc.source;
  c.smoothness = disc.smoothness;
  c.smoothness_source = disc.source;
  if (!(c.mu > 0)) {
    c.reason = "the smallest curvature on the circle is not known, so residuals say nothing";
    return c;
  }
  const double noise = findings.coupling * (findings.mean_residual + findings.rounding) / c.mu +
                       8 * std::max(unit, unit_roundoff) * (size[0] + size[1]);
  // The ratio of neighbouring coefficients: at least how far the circle reaches towards the pole of the
  // nudged equilibria and towards those of the losses, and what the visible coefficients show.
  double ratio = std::max(disc.used_by(beta), 1 - findings.margin);
  for (std::size_t m = 2; m <= last; ++m)
    if (size[m] > 10 * noise && size[1] > 0)
      ratio = std::max(ratio, std::pow(size[m] / size[1], 1 / static_cast<double>(m - 1)));
  ratio = std::min(ratio, 0.95);
  // The bias is f_{N+1}β^N − …; even or odd coefficients may vanish by symmetry, hence the second term.
  const double next = ratio * (std::max(size[last], ratio * size[last - 1]) + noise);
  constexpr double safety = 4;
  c.bound = (safety * next / (1 - ratio) + 2 * noise) / beta;
  c.kind = Kind::estimated;
  c.delta = findings.mean_residual / c.mu;
  c.reason = fmt::format(
      "estimated: bias from the decay of the Fourier coefficients ({:.2g} each), noise from the phases' "
      "residuals",
      ratio);
  return c;
}

}  // namespace bilevel
