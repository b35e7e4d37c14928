#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problems/data_loss.hpp>
#include <bilevel/problems/penalty_map.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::problems {

/// Lasso and elastic net with penalties to learn, on data that are standardised as they are read:
///   L_in  = f + Σ_j exp(θ¹_j)|φ_j| + ½ exp(θ²) Σ_j φ_j²,   f = Σ_i w_i·½(x̃_i·φ + b − y_i)² / Σ_i w_i
///   L_out = the same mean of ½r² over the validation rows, no penalty
/// φ holds the coefficients of the standardised features, then the intercept b, which is free. θ holds log
/// λ₁, as many as the penalty map has, and for the elastic net log λ₂ after them; the lasso has λ₂ = 0.
///
/// What settles is the fixed point of the proximal step of length 1/c, c = max_j ∂²f/∂φ_j² + λ₂: with
/// y_j = c·φ_j − ∂_j f − λ₂φ_j coordinate j is active where |y_j| > λ₁ⱼ, and
///   F_j = ∂_j f + λ₁ⱼ sign(y_j) + λ₂φ_j  (active),   F_j = c·φ_j  (inactive),   F_b = ∂f/∂b.
/// Near a solution where no inactive |∂_j f| reaches λ₁ⱼ the active set stays as it is and F is smooth.
class Lasso final : public Equilibrium<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  /// Training and validation are rows of the same samples, or of two sets with the same features.
  Lasso(Samples samples, std::vector<RowRange> training, std::vector<RowRange> validation,
        Standardisation standardisation, PenaltyMap penalties, bool elastic, bool intercept = true);
  Lasso(Samples training, std::vector<RowRange> training_rows, Samples validation,
        std::vector<RowRange> validation_rows, Standardisation standardisation, PenaltyMap penalties,
        bool elastic, bool intercept = true);
  ~Lasso() override;

  Vec initial_phi() const override { return Vec::Zero(size_); }
  /// λ₁ = λ_max/10 everywhere, λ₂ = exp(−2).
  Vec initial_theta() const override;
  void residual(const Vec& phi, const Vec& theta, Vec& out) override;
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;
  Rounding rounding(const Vec& phi, const Vec& theta, const Vec& pi) override;

  struct Settled {
    Vec phi;
    double value = unknown;        ///< L_in
    double duality_gap = unknown;  ///< L_in − L_in* is at most this, up to rounding
    double kkt = unknown;          ///< ‖F(phi)‖₂
    long sweeps = 0;               ///< of coordinate descent
    long passes = 0;               ///< over the training rows, or over their Gram matrix where it is kept
    bool converged = false;
    std::string message;
  };
  /// Coordinate descent with Newton steps on the support, until ‖F‖₂ ≤ tolerance; coefficients that are zero
  /// are exactly zero. `start` may be any finite state.
  Settled settle(const Vec& theta, const Vec& start, double tolerance);

  /// How firmly φ sits on its support: the outer loss has no gradient where a coordinate is about to enter or
  /// leave, and none is unique where active columns depend on each other.
  struct Support {
    Index active = 0;
    double least_active = everywhere;  ///< min |φ_j|·√H_jj over active j, relative to the largest such
    double least_slack = everywhere;   ///< min (λ₁ⱼ − |∂_j f|)/λ₁ⱼ over inactive j
    Index weakest_active = -1;         ///< the features that these belong to; −1 where there is none
    Index weakest_inactive = -1;
    bool degenerate = false;
    std::string warning;  ///< empty unless degenerate
  };
  Support support(const Vec& phi, const Vec& theta);

  /// Other penalties from now on; θ may have another size then.
  void set_penalty_map(PenaltyMap penalties);
  /// The gradient by φ of a function whose gradient by the stored coefficients is `raw`.
  void pull_back(const Vec& raw, Vec& out) const;

  /// The smallest λ₁, the same for all features, at which every coefficient is zero.
  double lambda_max() const { return lambda_max_; }
  /// The coefficients of the features as they are stored and the intercept that goes with them.
  Vec stored_coefficients(const Vec& phi) const;

  Index features() const { return features_; }
  bool elastic() const { return elastic_; }
  bool intercept() const { return intercept_; }
  const PenaltyMap& penalties() const { return penalties_; }
  DataLoss& training() { return *training_; }
  DataLoss& validation() { return *validation_; }

  /// Relative to λ₁, or to the largest coefficient: closer than this is degenerate.
  static constexpr double degenerate_below = 1e-6;

 private:
  friend struct LassoCurvature;
  friend struct LassoDescent;
  friend struct LassoSettling;
  class Gram;  // of the features met so far
  struct RoundingSizes;

  void set_penalties(const Vec& theta);
  void to_stored(const Vec& phi, Vec& u) const;
  double exponent_depth() const;
  void evaluate(const Vec& phi);
  int side(Index j, double phi_j, double gradient_j) const;
  double residual_norm(const Vec& phi) const;
  double penalised_value(const Vec& phi) const;
  Vec gradient_rounding(DataLoss& loss, const RoundingSizes& sizes, const Extent& extent, const Vec& phi,
                        const std::vector<Index>& wanted) const;
  double product_depth(Index active) const;
  std::vector<Index> active_set(const Vec& phi) const;

  std::unique_ptr<DataLoss> training_, validation_;
  Standardisation standardisation_;
  PenaltyMap penalties_;
  bool elastic_, intercept_;
  Index features_, size_;
  Extent training_extent_, validation_extent_;
  std::unique_ptr<RoundingSizes> training_sizes_, validation_sizes_;
  std::unique_ptr<Gram> gram_;
  double largest_diagonal_ = 1;                                 // max_j ∂²f/∂φ_j²
  double lambda_max_ = 0, null_loss_ = 0, null_intercept_ = 0;  // without features, at the best intercept
  Vec lambda_;                                                  // λ₁ of each feature
  double lambda2_ = 0, c_ = 1;
  // f and its gradient in standardised coordinates at the point last evaluated.
  Vec point_, gradient_;
  double loss_ = unknown;
  Vec u_, raw_, outer_;
};

}  // namespace bilevel::problems
