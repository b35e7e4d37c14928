#pragma once

#include <bit>
#include <cstdint>

#include <bilevel/gradient/differenced_solves.hpp>
#include <bilevel/space/eigen.hpp>

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
  /// The share of the gradient that the bound may be of (CertificateOptions::trust); in (0, 1].
  double trust = Certificate::usual_trust;
  /// What ε is drawn from: evolution strategies or SPSA.
  Directions directions = Directions::gaussian;

  Violations validate() const {
    Violations v("random_difference");
    v.at_least("pairs", pairs, 0)
        .not_negative("sigma", sigma)
        .not_negative("outer_tolerance", outer_tolerance);
    require_trust(v, trust);
    return v;
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
  /// Slope and bend along a direction, as of FiveValues.
  struct Pair {
    double slope, bend;
  };
  Pair pair(const V& theta, const V& direction, double sigma, double between);

  RandomDifferenceOptions options_;
  DifferencedSolves<V> solves_;
  std::vector<double> host_;
  V point_;
};

extern template class RandomDifference<Eigen::VectorXd>;
extern template class RandomDifference<Eigen::VectorXf>;

}  // namespace bilevel
