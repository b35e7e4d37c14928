#pragma once

#include <bit>
#include <cstdint>

#include <bilevel/gradient/differenced_solves.hpp>

namespace bilevel {

/// Where the random directions ε come from; E εεᵀ = 1 for both.
enum class Directions {
  gaussian,    ///< ε ~ N(0, 1): evolution strategies, the gradient of the loss smoothed over N(θ, σ²)
  rademacher,  ///< ε_i = ±1: simultaneous perturbation (SPSA), whose variance is the smaller one
};

/// evolution-strategies or spsa.
inline std::string_view name(Directions directions) {
  return directions == Directions::gaussian ? "evolution-strategies" : "spsa";
}

struct RandomDifferenceOptions {
  /// m, pairs of solves. 0, the default, takes 4(|θ| + 1), 8 at least: the relative standard error
  /// √((|θ| ± 1)/m) is then about one half, enough for a step downhill. Less than 8 pairs say nothing about
  /// their own variance, and the certificate is then "none". Zero or more.
  long pairs = 0;
  /// σ, the length of a step along ε; 0, the default, chooses as finite differences of order 2 do, times
  /// max(1, max|θ_i|). Larger values smooth a rough loss, at the price of a bias. Zero or more.
  double sigma = 0;
  /// The directions depend on the seed and on θ: new ones at every θ, the same ones where a run is repeated.
  std::uint64_t seed = 1;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// What ε is drawn from: evolution strategies or SPSA.
  Directions directions = Directions::gaussian;

  Violations validate() const {
    Violations v("random_difference");
    return v.at_least("pairs", pairs, 0)
        .not_negative("sigma", sigma)
        .not_negative("outer_tolerance", outer_tolerance);
  }
};

/// ∇̂ = 1/m Σ_k D_k ε_k with D_k = (f(θ+σε_k) − f(θ−σε_k))/2σ and f(θ) = L_out(φ*(θ), θ): antithetic evolution
/// strategies, or SPSA averaged over m draws. Unbiased up to O(σ²); where f is nearly linear over σ,
///   E‖∇̂ − ∇‖² = (|θ| + 1)‖∇‖²/m for Gaussian and (|θ| − 1)‖∇‖²/m for Rademacher directions,   E D² = ‖∇‖².
/// The certificate is estimated, and rarely says "trusted": with |θ| affordable solves, finite differences
/// are better in every respect. The problem and the inner solver must outlive the estimator.
template <Vector V>
class RandomDifference final : public Estimator<V> {
 public:
  RandomDifference(Equilibrium<V>& problem, InnerSolver<V>& inner, RandomDifferenceOptions options = {})
      : options_(options), solves_(problem, inner) {
    options_.validate().throw_if_any();
    require_shapes<V>(problem, nullptr, nullptr, name());
  }

  std::string_view name() const override { return bilevel::name(options_.directions); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double /*adjoint*/) override { solves_.set_tolerance(inner); }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return solves_.initial_phi(); }
  V initial_theta() const override { return solves_.initial_theta(); }

 private:
  /// Pairs differenced at 2σ too, for the bias.
  static constexpr long probes = 4;
  static constexpr long least_pairs = 8;
  /// Standard errors that count as certain; above a normal variable's 2.6 at 99 % because the standard error
  /// is itself an estimate, from as few as 8 pairs.
  static constexpr double quantile = 4;

  std::uint64_t seed_at(const V& theta);
  void draw(std::uint64_t seed, V& direction);
  double slope(const V& theta, const V& direction, double sigma);

  RandomDifferenceOptions options_;
  DifferencedSolves<V> solves_;
  std::vector<double> host_;
  V point_;
};

/// Mixes seed and θ by the finaliser of SplitMix64.
template <Vector V>
std::uint64_t RandomDifference<V>::seed_at(const V& theta) {
  host_.resize(static_cast<std::size_t>(Space<V>::size(theta)));
  Space<V>::to_host(theta, host_.data());
  std::uint64_t state = options_.seed;
  const auto stir = [&](std::uint64_t word) {
    state += word + 0x9e3779b97f4a7c15U;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    state ^= state >> 31;
  };
  stir(0);
  for (const double element : host_) stir(std::bit_cast<std::uint64_t>(element));
  return state;
}

template <Vector V>
void RandomDifference<V>::draw(std::uint64_t seed, V& direction) {
  Space<V>::random(seed, direction);
  if (options_.directions == Directions::gaussian) return;
  Space<V>::to_host(direction, host_.data());
  for (double& element : host_) element = element < 0 ? -1 : 1;
  Space<V>::from_host(host_.data(), direction);
}

template <Vector V>
double RandomDifference<V>::slope(const V& theta, const V& direction, double sigma) {
  const auto value = [&](double step) {
    Space<V>::copy(theta, point_);
    Space<V>::axpy(step, direction, point_);
    return solves_.value(point_);
  };
  const double plus = value(sigma), minus = value(-sigma);
  return (plus - minus) / (2 * sigma);
}

template <Vector V>
Estimate<V> RandomDifference<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  if (!solves_.begin(theta, warm, e)) return e;
  const Index n = Space<V>::size(theta);
  const long pairs = options_.pairs > 0 ? options_.pairs : std::max<long>(least_pairs, 4 * (n + 1));
  const double sigma = options_.sigma > 0
                           ? options_.sigma
                           : solves_.relative_step(2) * std::max(1.0, Space<V>::max_abs(theta));
  const std::uint64_t seed = seed_at(theta);
  point_ = Space<V>::zeros_like(theta);
  V direction = Space<V>::zeros_like(theta);

  // Σ D ε, and what its variance needs: Σ D² and Σ ‖Dε‖².
  Space<V>::scale(0, e.gradient);
  double squares = 0, lengths = 0, bias = 0;
  for (long k = 0; k < pairs; ++k) {
    draw(seed + static_cast<std::uint64_t>(k), direction);
    const double d = slope(theta, direction, sigma);
    Space<V>::axpy(d, direction, e.gradient);
    squares += d * d;
    lengths += d * d * Space<V>::dot(direction, direction);
    // D(2σ) − D(σ) = 3·(σ²/6) f‴[ε, ε, ε]; the bias E[(σ²/6) f‴[ε, ε, ε]·ε] is at most its root mean square.
    if (k < probes) {
      const double seen = std::abs(slope(theta, direction, 2 * sigma) - d) / 3;
      bias = std::isnan(seen) ? seen : std::max(bias, seen);
    }
  }
  const double m = static_cast<double>(pairs);
  Space<V>::scale(1 / m, e.gradient);

  // From the sample where it is larger: it sees what is not linear. From the formula where the draws happen
  // to agree: two equal directions have no variance, and say nothing.
  const double formula =
      (static_cast<double>(n) + (options_.directions == Directions::gaussian ? 1 : -1)) * (squares / m) / m;
  const double sample =
      pairs > 1 ? std::max(0.0, (lengths - m * Space<V>::dot(e.gradient, e.gradient)) / (m * (m - 1))) : 0;
  const double standard_error = std::sqrt(std::max(formula, sample));
  const double noise = solves_.noise() / sigma;
  Certificate& c = e.certificate;
  if (pairs >= least_pairs) {
    c.kind = Kind::estimated;
    c.bound = quantile * standard_error + 2 * bias + noise;
    c.reason = fmt::format(
        "{} random directions: {} standard errors of {:.3g}, bias {:.3g} from σ = {:.3g}, {:.3g} from "
        "values accurate to {:.3g}",
        pairs, quantile, standard_error, 2 * bias, sigma, noise, solves_.noise());
  } else {
    c.reason =
        fmt::format("{} random directions say nothing about their variance; {} would", pairs, least_pairs);
  }
  solves_.conclude(fmt::format("; {} solves for {} parameters in {} random directions, σ = {:.3g}",
                               2 * (pairs + std::min(pairs, probes)), n, pairs, sigma),
                   options_.outer_tolerance, e);
  return e;
}

extern template class RandomDifference<Eigen::VectorXd>;
extern template class RandomDifference<Eigen::VectorXf>;

}  // namespace bilevel
