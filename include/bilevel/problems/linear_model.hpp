#pragma once

#include <cstdint>

#include <bilevel/problems/penalised_model.hpp>

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

/// A penalised model of features as they are given, without an intercept, that is measured by φ itself:
///   L_in  = 1/n Σ_i loss(x_i·φ, y_i) + ½ Σ_j exp(θ_j) φ_j²     (or ½ exp(θ)‖φ‖²)
///   L_out = 1/n_v Σ_i loss(x_i·φ, y_i) over the validation part, without penalty.
class LinearModel : public PenalisedModel {
 public:
  /// Any Eigen matrix or expression converts.
  using RowMajor = ModelMatrix::RowMajor;

  /// Useless features run to +∞ and indispensable ones to −∞: without bounds there is no optimum. Penalties
  /// within exp(±10) span nine orders of magnitude, from none that matters to a coefficient of zero in four
  /// digits.
  std::optional<std::pair<double, double>> theta_bounds() const override { return {{-10, 10}}; }

  Penalty penalty() const { return penalty_; }
  ModelMatrix::DenseMap x() const;
  ModelMatrix::DenseMap validation_x() const;
  const Vec& labels() const { return *training().samples().labels; }
  const Vec& validation_labels() const { return *validation().samples().labels; }
  /// The weights behind random data; empty for data of a user.
  const Vec& planted() const { return planted_; }

 protected:
  struct Data {
    RowMajor x;
    Vec y;
    RowMajor validation_x;
    Vec validation_y;
    Vec planted = {};
  };

  /// Throws InvalidInput, the loss's name in front, for what does not fit or is not finite.
  LinearModel(kernels::Loss loss, Data data, Penalty penalty);

  /// Features and x_i·w of both parts, by the options' structure; a family turns the latter into labels.
  static Data draw(const LinearModelOptions& options, std::uint64_t& noise_seed);

 private:
  struct Parts {
    std::unique_ptr<DataLoss> training, validation;
    Standardisation standardisation;
    PenaltyMap penalties;
    Vec planted;
  };
  static Parts parts(kernels::Loss loss, Data data, Penalty penalty);
  LinearModel(Parts parts, Penalty penalty);

  Penalty penalty_;
  Vec planted_;
};

}  // namespace bilevel::problems
