#pragma once

#include <memory>

#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problem/units.hpp>
#include <bilevel/problems/data_loss.hpp>
#include <bilevel/problems/penalty_map.hpp>
#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// A linear model with penalties to learn, on data that are standardised as they are read:
///   L_in  = mean training loss + ½ Σ_k λ_k(θ) φ_k²,      L_out = mean validation loss, no penalty
/// φ holds the coefficients of the standardised features, the outputs of a feature next to each other, then
/// the intercept, which is free. The C intercepts of softmax are C − 1 coordinates of those that sum to zero,
/// in an orthonormal basis (otherwise the Hessian is singular). See Units for what the problem's own variable
/// is.
class PenalisedModel : public ReferenceProblem, public Units<Eigen::VectorXd>, public Holomorphic {
 public:
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  PenalisedModel(std::unique_ptr<DataLoss> training, std::unique_ptr<DataLoss> validation,
                 Standardisation standardisation, PenaltyMap penalties, bool intercept = true);
  PenalisedModel(PenalisedModel&&) = default;
  ~PenalisedModel() override;

  /// As the loss is called in `bilevel tune`: "ridge", "logistic", …
  std::string_view name() const override;
  Vec initial_phi() const override { return Vec::Zero(size_); }
  Vec initial_theta() const override;
  double inner(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) override;
  double outer(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& psi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;
  Rounding rounding(const Vec& psi, const Vec& theta, const Vec& pi) override;

  using Units::adopt_units;
  void adopt_units(const Vec& theta) override;
  const Vec& units() const { return units_; }
  void to_own(Vec& x) const override { x.array() /= units_.array(); }
  void to_true(Vec& x) const override { x.array() *= units_.array(); }
  /// From now on ψ = φ, whatever θ: for those who know nothing of units. Since the norms of the rows are then
  /// found once, eigenvalues serve for them, and the Hessian is formed at any size.
  void keep_units_of_one();

  // Continued to complex ψ and β, where the loss is.
  Holomorphic* holomorphic() override;
  void complex_derivatives(const Eigen::VectorXcd& psi, const Vec& theta, std::complex<double> beta,
                           ComplexWanted wanted) override;
  bool complex_hessian(const Eigen::VectorXcd& psi, const Vec& theta, std::complex<double> beta,
                       Eigen::MatrixXcd& out) override;
  double margin(const Eigen::VectorXcd& psi, const Vec& theta) override;

  /// The coefficients of the features as they are stored, (features + 1)·outputs numbers, for φ in its true
  /// units; and those of the standardised features with the intercepts, in the same layout.
  Vec stored_coefficients(const Vec& phi) const;
  Vec standardised_coefficients(const Vec& phi) const;
  /// The gradient by ψ of a function whose gradient by the stored coefficients is g.
  void pull_back(const double* g, double* out) const;

  /// Other penalties from now on; θ may have another size then. Units are those of the new initial θ.
  void set_penalty_map(PenaltyMap penalties);

  Index features() const { return features_; }
  Index outputs() const { return outputs_; }
  const PenaltyMap& penalties() const { return penalties_; }
  DataLoss& training() { return *training_; }
  DataLoss& validation() { return *validation_; }
  const DataLoss& training() const { return *training_; }
  const DataLoss& validation() const { return *validation_; }
  /// Whether the Hessian is formed as a whole: then Newton's method and a direct adjoint suit it.
  bool forms_hessian() const { return size_ <= formed_hessian || units_of_one_; }

  static constexpr Index formed_hessian = 700;

 private:
  friend struct PenalisedCurvature;
  /// Of the standardised rows z_i of a part, in the present units.
  struct Sizes {
    double mean_square = 0;    ///< ≥ mean ‖z_i‖²
    double second_moment = 0;  ///< ≥ ‖mean z_i z_iᵀ‖
    double least_moment = 0;   ///< ≤ its smallest eigenvalue
    double largest = 0;        ///< ≥ max ‖z_i‖
    double stored_square = 0;  ///< of |x_ij| without their shifts, what rounding errors of sums come from
    double stored_largest = 0;
    double shift_norm = 0;  ///< of the shifts
    double offset = 0;      ///< ≥ max |offset_i|
  };

  void to_stored(const Vec& psi, Vec& u) const;
  Eigen::VectorXcd to_stored(const Eigen::VectorXcd& psi) const;
  void congruent(Mat& stored, Mat& half, Mat& out) const;
  void set_penalties(const Vec& theta);
  /// Value of the training loss at u_, and its gradient into g_ where asked for.
  double training_value(bool with_gradient);
  void measure_sizes();
  Sizes sizes(DataLoss& loss, const Extent& extent, const Mat& moments) const;
  double margin_rounding(const DataLoss& loss, double row, const Sizes& sizes) const;
  double margin_error(const DataLoss& loss, double row, const Sizes& sizes, double norm_psi) const;
  double residual_rounding(DataLoss& loss, const Sizes& sizes, double slope, double curvature,
                           double norm_psi) const;

  std::unique_ptr<DataLoss> training_, validation_;
  Standardisation standardisation_;
  PenaltyMap penalties_;
  bool intercept_;
  Index features_, outputs_, coefficients_, intercepts_, size_;
  Mat basis_;  // outputs × intercepts, orthonormal
  Extent training_extent_, validation_extent_;
  Mat training_moments_, validation_moments_;  // mean x̃x̃ᵀ, where there are few features
  Sizes training_sizes_, validation_sizes_;    // measured when first asked for in these units
  bool measured_ = false, units_of_one_ = false;
  Vec units_;
  Vec stored_scale_;           // inverse_scale·units of each coefficient
  Vec lambda_;                 // λ·units², one for each element of ψ, 0 for intercepts
  double exponent_depth_ = 0;  // roundings that λ has on top of those of exp
  Vec u_, g_, h_;              // scratch in stored coordinates
  RowCurvature rows_;          // and of the rows
  // What was computed last and will be asked for again: a solve begins where the last one was judged, and its
  // adjoint where it ended. Nothing depends on whether it is there; before that the places are NaN, which
  // no place equals.
  struct Seen {
    Vec u, gradient;
    double value = 0;
  };
  Seen seen_, seen_at_zero_;
  Vec gram_at_;
  Mat gram_;
};

}  // namespace bilevel::problems
