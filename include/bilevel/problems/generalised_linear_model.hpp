#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problems/design_matrix.hpp>
#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// θ holds logarithms of penalties: one for each feature, or one for all.
enum class Penalty { per_feature, global };

/// A random data set of known structure. Features come in groups that share `correlation`; the first
/// feature of each of the first `strong` groups carries weight ±1, everything else is useless, and
/// only a penalty for each feature can tell a strong one from its correlated neighbours.
struct LinearModelOptions {
  Index rows = 400;
  Index validation_rows = 200;
  Index features = 20;
  Index strong = 4;
  Index group = 5;           ///< features in a correlated group
  double correlation = 0.5;  ///< between two features of a group, in [0, 1)
  double noise = 1;  ///< standard deviation (ridge) or scale (logistic) of what the features do not explain
  Penalty penalty = Penalty::per_feature;
  std::uint64_t seed = 1;

  Violations validate() const;
};

/// A generalised linear model with penalties to learn,
///   L_in  = 1/n Σ_i loss(x_i·φ, y_i) + ½ Σ_j exp(θ_j) φ_j²     (or ½ exp(θ)‖φ‖²)
///   L_out = 1/n_v Σ_i loss(x_i·φ, y_i) over the validation part, without penalty.
/// A family adds its loss to the kernels, its bounds to `LossBounds`, and what it demands of labels.
class GeneralisedLinearModel : public ReferenceProblem, public Holomorphic {
 public:
  using Vector = Eigen::VectorXd;
  using Matrix = Eigen::MatrixXd;

  /// What holds for the loss as a function of the margin, whatever the margin and the label.
  struct LossBounds {
    double least_curvature;      ///< inf loss″
    double largest_curvature;    ///< sup loss″
    double curvature_lipschitz;  ///< sup |loss‴|
    double largest_slope;        ///< sup |loss′|; infinite for the squared loss
  };

  Vector initial_phi() const override { return Vector::Zero(training_.x.columns()); }
  Vector initial_theta() const override;
  /// Useless features run to +∞ and indispensable ones to −∞: without bounds there is no optimum. Penalties
  /// within exp(±10) span nine orders of magnitude, from none that matters to a coefficient of zero in four
  /// digits.
  std::optional<std::pair<double, double>> theta_bounds() const override { return {{-10, 10}}; }
  double inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  double outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  void linearise(const Vector& phi, const Vector& theta, double beta,
                 std::unique_ptr<Curvature<Vector>>& reuse) override;
  Constants constants(const Vector& theta, const Vector& center, double radius) override;
  Rounding rounding(const Vector& phi, const Vector& theta, const Vector& pi) override;

  // Continued to complex φ and β.
  Holomorphic* holomorphic() override { return this; }
  void complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                           ComplexWanted wanted) override;
  bool complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                       Eigen::MatrixXcd& out) override;
  double margin(const Eigen::VectorXcd& phi, const Vector& theta) override;

  Penalty penalty() const { return penalty_; }
  const DesignMatrix& features() const { return training_.x; }
  const Vector& labels() const { return training_.y; }
  const DesignMatrix& validation_features() const { return validation_.x; }
  const Vector& validation_labels() const { return validation_.y; }
  /// The weights behind random data; empty for data of a user.
  const Vector& planted() const { return planted_; }

 protected:
  /// One of the two data sets.
  struct Part {
    Part(DesignMatrix features, Vector labels);

    DesignMatrix x;
    Vector y;
    kernels::Workspace workspace;
    double inverse_rows;
    double label_moment = 0;                         ///< ≥ 1/n Σ|y_i|‖x_i‖
    Matrix gram;                                     ///< XᵀX/n where it is kept, see keep_gram()
    Vector correlation;                              ///< Xᵀy/n, with gram
    Eigen::VectorXcd complex_slopes, complex_bends;  ///< loss′ and loss″ at complex margins, when asked for

    /// Bounds of the eigenvalues of XᵀX/n, found when first asked for.
    double least_eigenvalue(), largest_eigenvalue();
    void keep_gram();
    Matrix compute_gram();

   private:
    void find_eigenvalues();
    double least_ = unknown, largest_ = unknown;
  };

  struct Data {
    DesignMatrix x;
    Vector y;
    DesignMatrix validation_x;
    Vector validation_y;
    Vector planted;
  };

  /// Throws InvalidInput, `name` in front, for what does not fit or is not finite.
  GeneralisedLinearModel(std::string_view name, kernels::Loss loss, Data data, Penalty penalty);

  /// Features and x_i·w of both parts, by the options' structure; a family turns the latter into labels.
  static Data draw(const LinearModelOptions& options, std::uint64_t& noise_seed);

  /// Up to here XᵀX is formed for eigenvalues and kept where the loss is quadratic.
  static constexpr Index small_enough_for_gram = 256;

  double penalty_at(const Vector& theta, Index j) const { return theta[penalty_ == Penalty::global ? 0 : j]; }
  void set_penalties(const Vector& theta);

  Part training_, validation_;

 private:
  friend struct LinearModelCurvature;
  void bend_at(Part& part, const Eigen::VectorXcd& phi);
  double residual_rounding(const Part& part, double norm_phi) const;

  kernels::Loss loss_;
  LossBounds bounds_;
  Penalty penalty_;
  Vector planted_;
  Vector penalties_;  // exp θ_j, one for each feature
  Vector scratch_;
  Eigen::VectorXcd complex_scratch_;
  // loss″ at the last φ whose gradient was asked for: Newton's method linearises there next.
  Vector bend_, bend_point_;
  bool bend_valid_ = false;
};

}  // namespace bilevel::problems
