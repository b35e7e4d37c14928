#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <bilevel/adjoint/impl/dense_factor.hpp>
#include <bilevel/adjoint/impl/gmres.hpp>
#include <bilevel/gradient/certificate.hpp>
#include <bilevel/gradient/impl/product_look.hpp>
#include <bilevel/gradient/impl/spectrum.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/problem/gamma.hpp>

namespace bilevel {
namespace detail {

/// Beyond, the forty vectors that Lanczos keeps are more than the data, as a rule, and it does not converge.
constexpr Index second_opinion_limit = 20000;
/// Of Lanczos' method without restarts: enough for a condition number of 10⁴.
constexpr long most_crowded_products = 3000;

/// In response.hpp, which whoever solves for adjoints includes.
template <Vector V>
double response(Equilibrium<V>& problem, Curvature<V>& curvature, const Phases<V>& phases,
                const Rounding& rounding, std::uint64_t seed);

/// One certificate in the making. With r = ∂φL_in(φ̂), s = ĝ − π̂Ĥ (both with their rounding errors):
///
///   δ = ‖r‖/μ  where L_in is μ-strongly convex, else Newton–Kantorovich around φ̂
///   ‖∇ − ∇̂‖ ≤ M_out δ + ‖π̂‖ρ_χ δ + (‖χ̂‖ + ρ_χ δ)·(‖s‖ + (L_out + ‖π̂‖ρ_H) δ)/μ + rounding
template <Vector V>
class Certifier {
 public:
  Certifier(Equilibrium<V>& problem, Curvature<V>* curvature, const Phases<V>& phases,
            const CertificateOptions& options)
      : problem_(problem), curvature_(curvature), phases_(phases), options_(options) {}

  Certificate run() {
    bound();
    look_at_products();
    return result_;
  }

 private:
  void bound();
  void measure_residuals();
  bool bound_globally();
  bool bound_locally();
  void sharpen();
  Spectrum spectrum_here();
  double matrix_error(Index size, double frobenius);
  double matrix_error(const Eigen::MatrixXd& matrix);
  Spectrum sparse_spectrum_here();
  Spectrum from_factor(const DenseFactor& factor, std::string source);
  Spectrum jacobian_spectrum();
  void estimate_missing_constants(double distance);
  double cross_norm_here();
  void assemble();
  double energy_error() const;
  void compare_outer();
  void measure_response();
  void look_at_products();

  /// What is only estimated, and therefore keeps the certificate from being rigorous.
  void doubt(std::string what) {
    if (std::find(doubts_.begin(), doubts_.end(), what) == doubts_.end()) doubts_.push_back(std::move(what));
  }
  bool refuse(std::string why) {
    result_.reason = std::move(why);
    return false;
  }

  Equilibrium<V>& problem_;
  Curvature<V>* curvature_;
  const Phases<V>& phases_;
  CertificateOptions options_;
  Certificate result_;
  Constants constants_;
  Rounding rounding_;
  double pi_norm_ = 0, outer_norm_ = 0, cross_norm_ = unknown;
  double relative_outer_ = unknown;                   // ω of compare_outer
  bool trust_problem_ = true, from_problem_ = false;  // Curvature::least_eigenvalue
  bool formed_ = false;                               // the Hessian was, and has said what it can
  bool rounding_known_ = true;
  std::vector<std::string> doubts_;
};

template <Vector V>
void Certifier<V>::bound() {
  result_.trust = options_.trust;
  if (!options_.enabled) {
    result_.reason = "certificates are switched off";
    return;
  }
  pi_norm_ = norm(phases_.pi);
  outer_norm_ = norm(phases_.outer_phi);
  result_.inner_residual = norm(phases_.inner_residual);
  result_.adjoint_residual = phases_.adjoint_residual;
  if (!std::isfinite(result_.inner_residual + result_.adjoint_residual + pi_norm_ + outer_norm_ +
                     norm(phases_.gradient))) {
    result_.reason = "a residual or the gradient is not finite";
    return;
  }
  if (const std::string kink = problem_.kink(phases_.phi, phases_.theta); !kink.empty()) {
    result_.reason = fmt::format("at the settled state {}: derivatives there are one-sided", kink);
    return;
  }
  const auto asked_to_stop = [&] { return stop_wanted(problem_.stop_token()).has_value(); };
  if (asked_to_stop()) {
    result_.reason = "the run was to end before its errors were looked at";
    return;
  }
  constants_ = problem_.constants(phases_.theta, phases_.phi, everywhere);
  measure_residuals();
  const bool global = constants_.mu > 0;
  if (global ? bound_globally() : bound_locally()) assemble();
  if (global && result_.bound > phases_.good_enough && !asked_to_stop()) sharpen();
  if (result_.bound > phases_.good_enough && !asked_to_stop()) compare_outer();
  if ((global || from_problem_) && result_.bound > phases_.good_enough && !asked_to_stop())
    measure_response();
  if (from_problem_ && !asked_to_stop() && result_.bound > phases_.good_enough &&
      Space<V>::size(phases_.phi) <= second_opinion_limit) {
    // The problem's own lower bound of λ_min is safe and may be useless: an estimate says more then.
    const Certificate before = result_;
    trust_problem_ = false;
    if (bound_locally()) assemble();
    if (!(result_.bound <= phases_.good_enough)) result_ = before;
  }
}

/// A global μ is often the penalty alone. φ* lies within δ, where H ⪰ λ_min(Ĥ) − ρ_H δ: with small |φ| and a
/// bound that would not do, the eigenvalues at φ̂ are worth their price.
template <Vector V>
void Certifier<V>::sharpen() {
  if (!curvature_ || Space<V>::size(phases_.phi) > std::max(options_.dense_limit, options_.factor_limit) ||
      !problem_.capabilities().symmetric)
    return;
  const Certificate before = result_;
  const Spectrum spectrum = spectrum_here();
  // With h ≤ ½ Newton–Kantorovich places a stationary point within 2η, and there is only one.
  const double eta = result_.inner_residual / spectrum.smallest;
  if (spectrum.smallest > 0 && constants_.hessian_lipschitz * eta / spectrum.smallest <= 0.5)
    result_.delta = std::min(result_.delta, 2 * eta);
  const double mu = spectrum.smallest - constants_.hessian_lipschitz * result_.delta;
  if (!(mu > before.mu)) {
    result_ = before;
    return;
  }
  result_.smoothness = before.smoothness;
  result_.smoothness_source = before.smoothness_source;
  result_.delta = std::min(result_.delta, result_.inner_residual / mu);
  // Within the smaller ball the curvature has lost less.
  result_.mu = std::max(mu, spectrum.smallest - constants_.hessian_lipschitz * result_.delta);
  result_.delta = std::min(result_.delta, result_.inner_residual / result_.mu);
  result_.delta_prime = result_.adjoint_residual / result_.mu;
  assemble();
}

template <Vector V>
void Certifier<V>::measure_residuals() {
  rounding_ = problem_.rounding(phases_.phi, phases_.theta, phases_.pi);
  if (std::isnan(rounding_.residual + rounding_.adjoint + rounding_.gradient)) {
    // Nothing is known about the oracles' summation; a few roundings of the quantities' own size is the
    // least.
    doubt("rounding errors");
    rounding_known_ = false;
    const double scale = 8 * unit_roundoff<V>();
    const double smoothness = std::isfinite(constants_.smoothness) ? constants_.smoothness : 1;
    rounding_.residual = scale * (result_.inner_residual + smoothness * norm(phases_.phi));
    rounding_.adjoint = scale * (outer_norm_ + smoothness * pi_norm_);
    rounding_.gradient = scale * (norm(phases_.gradient) + norm(phases_.outer_theta));
  }
  if (curvature_) {
    // What finite differences leave in the two products that phase 2 and its gradient are made of.
    const double of_adjoint = curvature_->times_error(phases_.pi);
    const double of_gradient = curvature_->cross_times_error(phases_.pi);
    if (of_adjoint != 0 || of_gradient != 0) doubt("the errors of differenced products");
    rounding_.adjoint += of_adjoint;
    rounding_.gradient += of_gradient;
  }
  result_.inner_residual += rounding_.residual;
  result_.adjoint_residual += rounding_.adjoint;
}

inline void prefer(double& value, double other) {
  if (!std::isnan(other)) value = other;
}

/// Strong convexity everywhere: φ* lies within ‖r‖/μ, and constants need only hold on that ball.
template <Vector V>
bool Certifier<V>::bound_globally() {
  result_.mu = constants_.mu;
  result_.mu_source = "the problem's constants";
  const Constants ball =
      problem_.constants(phases_.theta, phases_.phi, result_.inner_residual / constants_.mu);
  if (ball.mu > result_.mu) result_.mu = ball.mu;
  result_.delta = result_.inner_residual / result_.mu;
  prefer(constants_.smoothness, ball.smoothness);
  prefer(constants_.hessian_lipschitz, ball.hessian_lipschitz);
  prefer(constants_.cross_lipschitz, ball.cross_lipschitz);
  prefer(constants_.cross_norm, ball.cross_norm);
  prefer(constants_.outer_lipschitz, ball.outer_lipschitz);
  prefer(constants_.outer_smoothness, ball.outer_smoothness);
  prefer(constants_.outer_cross_lipschitz, ball.outer_cross_lipschitz);
  prefer(constants_.cross_energy, ball.cross_energy);
  result_.delta_prime = result_.adjoint_residual / result_.mu;
  result_.smoothness = constants_.smoothness;
  if (!std::isnan(constants_.smoothness)) result_.smoothness_source = "the problem's constants";
  estimate_missing_constants(result_.delta);
  return true;
}

/// No global μ: with μ̂ = λ_min(Ĥ) (σ_min for a Jacobian) and h = ρ_H‖r‖/μ̂² ≤ ½ a stationary point lies
/// within δ = (1 − √(1−2h))·μ̂/ρ_H of φ̂ (Newton–Kantorovich), and μ = μ̂ − ρ_H δ serves on that ball.
template <Vector V>
bool Certifier<V>::bound_locally() {
  if (!curvature_) return refuse("μ is not known and a first-order problem cannot show its curvature");
  const bool symmetric = problem_.capabilities().symmetric;
  // A Ritz value lies above λ_min: one that is negative beyond rounding says enough.
  if (symmetric && phases_.smallest_ritz < -1e-8 * std::abs(phases_.largest_ritz))
    return refuse(fmt::format(
        "the Hessian at the settled state is not positive definite: phase 2 met the Ritz value {:.4g}",
        phases_.smallest_ritz));
  const Spectrum spectrum = spectrum_here();
  if (std::isnan(spectrum.smallest))
    return refuse(
        "the smallest eigenvalue could not be estimated: Lanczos did not converge, so the problem is large "
        "and "
        "ill-conditioned; constants() with a μ would help");
  result_.mu = spectrum.smallest;
  result_.smoothness = spectrum.largest;
  if (spectrum.smallest <= 0)
    return refuse(
        symmetric
            ? fmt::format(
                  "the Hessian at the settled state is not positive definite: smallest eigenvalue {:.4g}",
                  spectrum.smallest)
            : "the Jacobian at the settled state is singular to working precision");

  const double eta = result_.inner_residual / spectrum.smallest;
  constants_ = problem_.constants(phases_.theta, phases_.phi, 2 * eta);  // δ ≤ 2η whenever h ≤ ½
  estimate_missing_constants(2 * eta);
  // Where the curvature decays at a known rate, δ solves ‖r‖ = μ̂(1 − exp(−Rδ))/R: on the sphere of that
  // radius no slope points outwards any more, and within it H ⪰ exp(−Rδ)Ĥ. Half of 1/R keeps δ below 2η.
  const double decayed = constants_.curvature_decay * eta;
  if (decayed <= 0.5) {
    result_.delta = decayed > 0 ? -std::log1p(-decayed) / constants_.curvature_decay * (1 + 1e-12) : eta;
    result_.mu = spectrum.smallest * std::exp(-constants_.curvature_decay * result_.delta) * (1 - 1e-12);
    result_.delta_prime = result_.adjoint_residual / spectrum.smallest;
    return true;
  }
  const double h = constants_.hessian_lipschitz * eta / spectrum.smallest;
  if (!(h <= 0.5))
    return refuse(
        fmt::format("the state is too far from a stationary point to say which one it approaches: "
                    "h = ρ‖r‖/μ² = {:.3g} exceeds 1/2 (‖r‖ = {:.3g}, μ = {:.3g})",
                    h, result_.inner_residual, spectrum.smallest));
  result_.delta = 2 * eta / (1 + std::sqrt(1 - 2 * h));
  result_.mu = spectrum.smallest - constants_.hessian_lipschitz * result_.delta;
  if (!(result_.mu > 0)) return refuse("curvature may vanish before a stationary point is reached");
  result_.delta_prime = result_.adjoint_residual / spectrum.smallest;
  return true;
}

/// How far the matrix may be from the Hessian that is meant, in the 2-norm.
template <Vector V>
double Certifier<V>::matrix_error(Index size, double frobenius) {
  if (!std::isnan(rounding_.curvature)) return rounding_.curvature;
  doubt("rounding errors of the Hessian");
  return 20 * static_cast<double>(size) * unit_roundoff<V>() * frobenius;
}

template <Vector V>
double Certifier<V>::matrix_error(const Eigen::MatrixXd& matrix) {
  const double rounded = matrix_error(matrix.rows(), matrix.norm());
  if (!std::isnan(rounding_.curvature) || !problem_.capabilities().differenced) return rounded;
  // Half of what each pair of mirrored elements disagrees by is error, and what bends shows along a line.
  V direction = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, direction);
  Space<V>::scale(std::sqrt(static_cast<double>(matrix.rows())) / norm(direction), direction);
  return rounded + std::max(curvature_->times_error(direction), (matrix - matrix.transpose()).norm());
}

/// Beyond `dense_limit` and to any size: λ_min of a Hessian with few entries, by its sparse factor.
template <Vector V>
Spectrum Certifier<V>::sparse_spectrum_here() {
  SparseMatrix matrix;
  if (!problem_.capabilities().sparse || curvature_->sparse(matrix) == 0) return {};
  formed_ = true;
  const Eigen::Map<const Eigen::VectorXd> values(matrix.values.data(),
                                                 static_cast<Index>(matrix.values.size()));
  if (!values.allFinite()) return {};
  return factored_spectrum(matrix, matrix_error(1, values.norm()));
}

template <Vector V>
Spectrum Certifier<V>::spectrum_here() {
  const bool symmetric = problem_.capabilities().symmetric;
  const Index n = Space<V>::size(phases_.phi);
  if (n <= options_.dense_limit) {
    result_.mu_source = result_.smoothness_source =
        symmetric ? "eigenvalues at the settled state" : "singular values at the settled state";
    const Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    formed_ = true;
    return dense_spectrum(matrix, symmetric, matrix_error(matrix));
  }
  if (!symmetric) return jacobian_spectrum();
  if (const Spectrum proven = sparse_spectrum_here(); proven.smallest > 0) {
    result_.mu_source = result_.smoothness_source = "a sparse factor of the shifted Hessian";
    return proven;
  }
  if (n <= options_.factor_limit) {
    Eigen::MatrixXd matrix;
    if (curvature_->dense(matrix)) {
      formed_ = true;
      const Spectrum proven = factored_spectrum(matrix, matrix_error(matrix));
      if (proven.smallest > 0) {
        result_.mu_source = result_.smoothness_source = "a Cholesky factor of the shifted Hessian";
        return proven;
      }
    }
  }
  from_problem_ = false;
  if (trust_problem_) {
    const double least = curvature_->least_eigenvalue();
    if (least > rounding_.curvature) {
      from_problem_ = true;
      result_.mu_source = "the problem's lower bound of the curvature";
      result_.smoothness_source = "unknown";
      return {least, unknown};
    }
  }
  // Nearer to what is asked for than any Ritz value, at the price of a few triangular solves.
  if (phases_.factor && !phases_.factor->indefinite())
    return from_factor(*phases_.factor, "the factor of phase 2");
  // As a second opinion it must not cost many times what the gradient did; and what has not converged soon
  // has a small end so crowded that other means are cheaper.
  const bool large = n > options_.factor_limit;
  Spectrum spectrum = lanczos_spectrum(*curvature_, phases_.phi, options_.seed,
                                       trust_problem_ && !large ? 30 : 3, problem_.stop_token());
  result_.mu_source = result_.smoothness_source = "Lanczos";
  if (std::isnan(spectrum.smallest) && large && trust_problem_) {
    spectrum = crowded_spectrum(*curvature_, phases_.phi, options_.seed, most_crowded_products,
                                problem_.stop_token());
    result_.mu_source = result_.smoothness_source = "Lanczos without restarts";
  }
  // Lanczos that did not converge has not seen the small end, and neither has phase 2: nothing can be said.
  if (std::isnan(spectrum.smallest)) {
    if (n > options_.factor_limit || stop_wanted(problem_.stop_token())) return spectrum;
    // It made more products than the matrix has columns.
    const Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    formed_ = true;
    result_.mu_source = result_.smoothness_source = "a Cholesky factor of the shifted Hessian";
    return factored_spectrum(0.5 * (matrix + matrix.transpose()),
                             matrix_error(matrix) + 0.5 * (matrix - matrix.transpose()).norm());
  }
  // A Ritz value of phase 2 is another upper bound of λ_min, and a lower one of λ_max, that costs nothing.
  if (phases_.smallest_ritz < spectrum.smallest) {
    spectrum.smallest = phases_.smallest_ritz;
    result_.mu_source = "Ritz value of phase 2";
  }
  if (phases_.largest_ritz > spectrum.largest) {
    spectrum.largest = phases_.largest_ritz;
    result_.smoothness_source = "Ritz value of phase 2";
  }
  doubt("the smallest eigenvalue");
  return spectrum;
}

template <Vector V>
Spectrum Certifier<V>::from_factor(const DenseFactor& factor, std::string source) {
  doubt(problem_.capabilities().symmetric ? "the smallest eigenvalue" : "the smallest singular value");
  result_.mu_source = std::move(source);
  result_.smoothness_source = "unknown";
  return {factor.smallest_singular_value(), unknown};
}

/// σ_min of a Jacobian too large for all its singular values: by a factor, phase 2's where it has one; beyond
/// what is factored by Lanczos on JᵀJ, and where that does not converge on (JᵀJ)⁻¹, solved for by GMRES.
template <Vector V>
Spectrum Certifier<V>::jacobian_spectrum() {
  const Index n = Space<V>::size(phases_.phi);
  if (phases_.factor) return from_factor(*phases_.factor, "the factor of phase 2");
  if (n <= options_.factor_limit) {
    Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    if (!matrix.allFinite()) return {};
    return from_factor(DenseFactor(std::move(matrix), false, unit_roundoff<V>()), "a factor of the Jacobian");
  }
  V between = Space<V>::zeros_like(phases_.phi);
  const auto root = [](double square) { return std::sqrt(std::max(square, 0.0)); };
  doubt("the smallest singular value");
  result_.mu_source = result_.smoothness_source = "Lanczos on JᵀJ";
  const Spectrum squares = lanczos_spectrum<V>(
      [&](const V& x, V& out) {
        if (stop_wanted(problem_.stop_token())) return Space<V>::fill(unknown, out);
        curvature_->times(x, between);
        curvature_->transpose_times(between, out);
      },
      phases_.phi, options_.seed, 3);
  if (!std::isnan(squares.smallest)) return {root(squares.smallest), root(squares.largest)};

  result_.mu_source = "Lanczos on the inverse of JᵀJ";
  result_.smoothness_source = "unknown";
  Gmres<V> solver({{.relative_tolerance = 1e-6, .max_iterations = 500}});
  CurvatureOperator<V> forth(*curvature_, false, false, nullptr, problem_.stop_token());
  CurvatureOperator<V> back(*curvature_, false, true, nullptr, problem_.stop_token());
  V start = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, start);
  const RitzEnds inverse = Lanczos<V>(
                               [&](const V& x, V& out) {
                                 const auto fail = [&] { Space<V>::fill(unknown, out); };
                                 const LinearSolution<V> first = solver.solve(back, x, nullptr);
                                 if (!succeeded(first.status)) return fail();
                                 const LinearSolution<V> second = solver.solve(forth, first.x, nullptr);
                                 if (!succeeded(second.status)) return fail();
                                 Space<V>::copy(second.x, out);
                               },
                               start, {.basis = 12, .sweeps = 1})
                               .run();
  return {1 / root(inverse.largest), unknown};
}

/// Secants over the distance that matters stand in for Lipschitz constants the problem does not know:
/// along the inner residual and along a random direction, near and far.
template <Vector V>
void Certifier<V>::estimate_missing_constants(double distance) {
  Constants& c = constants_;
  const bool outer_missing = std::isnan(c.outer_smoothness + c.outer_cross_lipschitz);
  const bool inner_missing = std::isnan(c.hessian_lipschitz + c.cross_lipschitz);
  if (!outer_missing && !inner_missing) return;
  doubt("Lipschitz constants");
  // Over the distance itself, and over a short one: curvature that lives on a smaller scale than the distance
  // is averaged away by the first. The short one is relative to φ, so that its units do not matter.
  const double cube_root = std::cbrt(unit_roundoff<V>()), length_of_phi = norm(phases_.phi);
  const double short_step = cube_root * (length_of_phi > 0 ? length_of_phi : distance > 0 ? distance : 1.0);
  double rho_hessian = 0, rho_cross = 0, outer_smoothness = 0, outer_cross = 0;
  const auto fresh = [](const V& like) { return Space<V>::zeros_like(like); };
  V direction = fresh(phases_.phi), moved = fresh(phases_.phi), here = fresh(phases_.phi),
    there = fresh(phases_.phi);
  V theta_here = fresh(phases_.theta), theta_there = fresh(phases_.theta);
  std::unique_ptr<Curvature<V>> curvature_there;
  const auto secant = [](V& a, const V& b, double length) {
    Space<V>::axpy(-1, b, a);
    return length > 0 ? norm(a) / length : 0.0;
  };
  for (int which = 0; which < 4; ++which) {
    const double step = which < 2 ? short_step : distance;
    if (!(step > 0)) continue;
    if (which % 2 == 0)
      Space<V>::copy(phases_.inner_residual, direction);
    else
      Space<V>::random(options_.seed, direction);
    const double length = norm(direction);
    if (length == 0) continue;
    Space<V>::scale(-1 / length, direction);  // against the residual: that is where φ* lies
    Space<V>::copy(phases_.phi, moved);
    Space<V>::axpy(step, direction, moved);

    problem_.outer(moved, phases_.theta, {.phi = &there, .theta = &theta_there});
    outer_smoothness = std::max(outer_smoothness, secant(there, phases_.outer_phi, step));
    outer_cross = std::max(outer_cross, secant(theta_there, phases_.outer_theta, step));
    if (!inner_missing || !curvature_) continue;
    problem_.linearise(moved, phases_.theta, 0, curvature_there);
    for (const V* probe : {&phases_.pi, static_cast<const V*>(&direction)}) {
      const double probe_length = step * norm(*probe);
      curvature_->transpose_times(*probe, here);
      curvature_there->transpose_times(*probe, there);
      rho_hessian = std::max(rho_hessian, secant(there, here, probe_length));
      curvature_->cross_times(*probe, theta_here);
      curvature_there->cross_times(*probe, theta_there);
      rho_cross = std::max(rho_cross, secant(theta_there, theta_here, probe_length));
    }
  }
  const auto fill = [&](double& value, double estimate) {
    if (std::isnan(value)) value = options_.secant_safety * estimate;
  };
  fill(c.outer_smoothness, outer_smoothness);
  fill(c.outer_cross_lipschitz, outer_cross);
  if (curvature_) {
    fill(c.hessian_lipschitz, rho_hessian);
    fill(c.cross_lipschitz, rho_cross);
  }
}

/// ‖χ̂‖: the problem's own bound, or the Frobenius norm where χ is small, or a few power iterations.
template <Vector V>
double Certifier<V>::cross_norm_here() {
  if (curvature_) {
    const double known = curvature_->cross_norm();
    if (!std::isnan(known)) return known;
  }
  if (!std::isnan(constants_.cross_norm)) return constants_.cross_norm;
  if (!curvature_) return unknown;
  const Index n = Space<V>::size(phases_.phi), m = Space<V>::size(phases_.theta);
  if (std::min(n, m) <= 32) {
    const double slack = 1 + gamma(static_cast<double>(n + m) + 10);
    return slack * frobenius_cross(*curvature_, phases_.phi, phases_.theta);
  }
  doubt("the norm of the cross derivative");
  V u = Space<V>::zeros_like(phases_.theta), chi_u = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, u);
  double estimate = 0;
  for (int k = 0; k < 10; ++k) {
    const double length = norm(u);
    if (!(length > 0)) break;
    Space<V>::scale(1 / length, u);
    curvature_->cross_apply(u, chi_u);
    estimate = std::max(estimate, norm(chi_u));
    curvature_->cross_times(chi_u, u);
  }
  return 1.5 * estimate;  // ten iterations reach the norm within a third for any gap seen in practice
}

/// ‖(π* − π̂)χ*‖ in the norm of the Hessian, where the problem knows how fast its curvature decays (R) and
/// ‖H^(−1/2)χ‖: with e = g* − π̂H* = (g* − ĝ) + s + π̂(Ĥ − H*) and |H* − Ĥ| ⪯ (exp(Rδ) − 1)Ĥ,
///   ‖e·H*⁻¹χ*‖ ≤ ‖H*^(−1/2)χ*‖ · ( (‖s‖ + L_out δ)/√μ + exp(Rδ/2)(exp(Rδ) − 1)·√(π̂Ĥπ̂) ).
/// With ω, ∂φ²L_out ⪯ ω·Ĥ at φ̂, L_out δ/√μ can give way to ω‖r‖/√μ̂ times factors near one: what is soft for
/// the inner loss is soft for the outer one too, as a rule. NaN where something is not known.
template <Vector V>
double Certifier<V>::energy_error() const {
  const Constants& c = constants_;
  const double rate = c.curvature_decay * result_.delta, root = std::sqrt(result_.mu);
  const double pi_energy = std::sqrt(std::abs(Space<V>::dot(phases_.pi, phases_.outer_phi)) +
                                     pi_norm_ * (result_.adjoint_residual + 1e-13 * outer_norm_));
  double moved = c.outer_smoothness * result_.delta / root;
  const double compared = std::exp(1.5 * rate + c.outer_decay * result_.delta) * relative_outer_ *
                          result_.inner_residual / std::sqrt(result_.mu * std::exp(rate));
  if (compared < moved) moved = compared;
  return c.cross_energy *
         (result_.adjoint_residual / root + moved + std::exp(0.5 * rate) * std::expm1(rate) * pi_energy);
}

/// ω by Cholesky factors: worth their price where the bound would not do otherwise.
template <Vector V>
void Certifier<V>::compare_outer() {
  const Index n = Space<V>::size(phases_.phi);
  if (!curvature_ || n > options_.factor_limit || !problem_.capabilities().symmetric ||
      !(result_.bound < everywhere) || std::isnan(constants_.curvature_decay + constants_.outer_decay))
    return;
  Eigen::MatrixXd inner, both;
  std::unique_ptr<Curvature<V>> nudged;
  if (!curvature_->dense(inner)) return;
  problem_.linearise(phases_.phi, phases_.theta, 1, nudged);
  if (!nudged->dense(both)) return;
  relative_outer_ = largest_relative(inner, both - inner, 2 * rounding_.curvature, result_.mu);
  assemble();
}

/// Where the Hessian cannot be factored the norms of a proven bound meet the worst of all directions at
/// every step, which together no residual has. H is known to be positive definite by now: so the gradient is
/// asked how it answers to the residuals themselves, each with a rounding error of the size that is proven in
/// a random direction.
template <Vector V>
void Certifier<V>::measure_response() {
  if (!curvature_ || options_.factor_limit == 0 || formed_ || !problem_.capabilities().symmetric ||
      !problem_.capabilities().curvature)
    return;
  const double measured = response(problem_, *curvature_, phases_, rounding_, options_.seed);
  if (!(measured < everywhere)) return;
  const double bound = options_.secant_safety * measured + rounding_.gradient;
  if (!(bound <= phases_.good_enough)) return;  // one that is proven says more, then
  doubt("the answer of the gradient to what the phases left");
  result_.bound = bound;
  result_.kind = Kind::estimated;
  result_.reason = fmt::format("estimated: {}", fmt::join(doubts_, ", "));
}

/// Everything so far has believed the products. Problems that know their rounding errors are believed; of the
/// others, products that are about to be trusted are held against first derivatives.
template <Vector V>
void Certifier<V>::look_at_products() {
  if (!curvature_ || result_.kind != Kind::estimated || rounding_known_ ||
      problem_.capabilities().differenced ||
      !(result_.bound <= std::max(phases_.good_enough, options_.trust * norm(phases_.gradient))) ||
      stop_wanted(problem_.stop_token()))
    return;
  const ProductLook seen = ProductLooker<V>(problem_, *curvature_, phases_, options_.seed).run();
  if (!seen.disagrees) return;
  result_.bound +=
      (cross_norm_ + constants_.cross_lipschitz * result_.delta) / result_.mu * seen.adjoint + seen.cross;
  result_.doubt = fmt::format(
      "second derivatives are not the differences of the first: the Hessian by {:.3g}, the cross derivative "
      "by {:.3g} along the adjoint. A product is wrong, a loss has changed, or the state stands at a kink",
      seen.adjoint, seen.cross);
  result_.reason += "; doubtful: " + result_.doubt;
}

template <Vector V>
void Certifier<V>::assemble() {
  const Constants& c = constants_;
  const double delta = result_.delta, mu = result_.mu;
  if (std::isnan(cross_norm_)) cross_norm_ = cross_norm_here();  // once, though sharpening assembles again
  const double chi = cross_norm_;
  double error = (chi + c.cross_lipschitz * delta) / mu *
                 (result_.adjoint_residual + (c.outer_smoothness + pi_norm_ * c.hessian_lipschitz) * delta);
  const double by_energy = energy_error();
  if (by_energy < error) error = by_energy;
  const double bound =
      c.outer_cross_lipschitz * delta + pi_norm_ * c.cross_lipschitz * delta + error + rounding_.gradient;
  if (!std::isfinite(bound)) {
    result_.reason = "a constant that the bound needs is neither known nor could be estimated";
    return;
  }
  // The norms and the sum above were themselves rounded.
  const double sizes = static_cast<double>(Space<V>::size(phases_.phi) + Space<V>::size(phases_.theta));
  result_.bound = bound * (1 + gamma(sizes + 64));
  result_.kind = doubts_.empty() ? Kind::rigorous : Kind::estimated;
  result_.reason = doubts_.empty() ? fmt::format("bound from {}", result_.mu_source)
                                   : fmt::format("estimated: {}", fmt::join(doubts_, ", "));

  // The theorem's own bound, with its M the larger of the two (the proof needs both) and B on the ball.
  const double rho = std::max(c.hessian_lipschitz, c.cross_lipschitz);
  if (doubts_.empty() && delta < mu / (2 * rho)) {
    const double b =
        std::isnan(c.outer_lipschitz) ? outer_norm_ + c.outer_smoothness * delta : c.outer_lipschitz;
    const double m = std::max(c.outer_cross_lipschitz,
                              std::isnan(c.cross_norm) ? chi + c.cross_lipschitz * delta : c.cross_norm);
    const double constant = m + (b * rho + 2 * m * c.outer_smoothness) / mu + 2 * m * b * rho / (mu * mu);
    result_.theorem_bound = constant * (delta + result_.delta_prime) + rounding_.gradient;
  }
}

}  // namespace detail

template <Vector V>
Certificate certify(Equilibrium<V>& problem, Curvature<V>* curvature, const Phases<V>& phases,
                    const CertificateOptions& options) {
  return detail::Certifier<V>(problem, curvature, phases, options).run();
}

}  // namespace bilevel
