#pragma once

#include <vector>

#include <Eigen/Core>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel::problems {

/// Which θ each coefficient obeys. Coefficient k = j·outputs + c, of feature j and output c, has the penalty
///   log λ_k = offset_k + θ[of_k] + θ[count]·slope_k
/// With one θ for all and a slope this is a family of two: θ₀ lifts all penalties, θ₁ spreads them out.
struct PenaltyMap {
  std::vector<Index> of;
  Index count = 0;                ///< |θ| without the factor of the slopes
  Eigen::VectorXd offset, slope;  ///< one element for each coefficient; empty: zeros, and no θ[count]

  static PenaltyMap global(Index features, Index outputs);
  static PenaltyMap per_feature(Index features, Index outputs);
  static PenaltyMap per_class(Index features, Index outputs);
  /// `group[j]` in 0 … groups − 1.
  static PenaltyMap per_group(const std::vector<Index>& group, Index groups, Index outputs);

  Index thetas() const { return count + (slope.size() > 0 ? 1 : 0); }
  double log_lambda(Index k, const Eigen::VectorXd& theta) const {
    const double own = theta[of[static_cast<std::size_t>(k)]] + (offset.size() > 0 ? offset[k] : 0);
    return slope.size() > 0 ? own + theta[count] * slope[k] : own;
  }
  /// out += value·∂(log λ_k)/∂θ
  void add(Index k, double value, Eigen::VectorXd& out) const {
    out[of[static_cast<std::size_t>(k)]] += value;
    if (slope.size() > 0) out[count] += value * slope[k];
  }
  /// ∂(log λ_k)/∂θ·u
  double along(Index k, const Eigen::VectorXd& u) const {
    const double own = u[of[static_cast<std::size_t>(k)]];
    return slope.size() > 0 ? own + slope[k] * u[count] : own;
  }

  /// The length of the longest row of ∂(log λ)/∂θ: ‖diag(x)·∂(log λ)/∂θ‖ ≤ ‖x‖·spread().
  double spread() const;

  /// Throws InvalidInput, named after `owner`, unless every one of the coefficients has a θ.
  void require_fits(Index coefficients, std::string_view owner) const;
};

/// An upper bound of the norm of diag(x)·∂(log λ)/∂θ, in exact arithmetic: the columns of the groups have
/// disjoint supports, so the largest of them is their norm, and the column of the slopes adds to it.
class PenaltyNorm {
 public:
  explicit PenaltyNorm(const PenaltyMap& map) : map_(map), squares_(Eigen::VectorXd::Zero(map.count)) {}
  void add(Index k, double square) {
    squares_[map_.of[static_cast<std::size_t>(k)]] += square;
    if (map_.slope.size() > 0) spread_ += square * map_.slope[k] * map_.slope[k];
  }
  double square() const { return squares_.maxCoeff() + spread_; }

 private:
  const PenaltyMap& map_;
  Eigen::VectorXd squares_;
  double spread_ = 0;
};

}  // namespace bilevel::problems
