#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "family.hpp"
#include "fold_model.hpp"
#include "judged.hpp"

namespace bilevel::models {

/// The models of all folds, and the one that is kept.
class Folds {
 public:
  using All = std::vector<FoldModel::Settled>;  ///< of each fold, then, where asked for, of the kept model

  explicit Folds(const Prepared& prepared);

  std::size_t count() const { return folds_.size(); }
  std::string solvers() const { return folds_[0]->solvers(); }
  /// Everything below is in the penalties of this family from now on.
  void use(const Family& family);
  /// Everything that settles ends early where this says so; null: never.
  void obey(const bilevel::StopToken* stop);
  /// Whether a fit ended because it was told to.
  static bool cut_short(const All& settled);
  /// φ of each, as other fits begin from.
  static std::vector<Vec> states(const All& settled);

  /// All folds side by side, each from its own `warm` state where there is one. The kept model is the last;
  /// with a hold-out that is not refitted it is the only fold.
  All settle(const Vec& theta, const std::vector<Vec>& warm, double tolerance, bool with_kept);
  /// Models settled so far, one for each fold and one for what is kept.
  long fits() const { return fits_; }
  /// The mean validation loss, NaN where a fold did not settle; in the units that are worked in.
  double value(const All& settled) const;
  /// In units of the target, row by row.
  Judged judged(const All& settled);
  /// The coefficients of the standardised features of each fold, then of the kept model.
  std::vector<Vec> coefficients(const All& settled) const;
  Fitted fit(const Family& family, const Vec& theta, const std::vector<Vec>& warm, double tolerance);

  /// The gradient of the mean validation loss plus the family's prior; refers to these models.
  std::unique_ptr<bilevel::Estimator<Vec>> estimator(const Family& family);
  /// φ of every fold, put one after another as an estimate has them, taken apart.
  std::vector<Vec> apart(const Vec& phi) const;

  std::vector<std::unique_ptr<RowHypergradients>> row_hypergradients(const Vec& theta, const All& settled);
  /// Of the validation rows of each fold.
  std::vector<std::vector<double>> row_weights() const;
  /// How many rows judge, were they all of the same weight.
  double judges() const;
  /// What the validation loss has to be divided by to count as minus a log likelihood: mean loss′² / mean
  /// loss″ over the rows that judge, which is one for a likelihood (the information identity) and the
  /// variance of the noise for squared errors.
  double likelihood_scale(const All& settled);

 private:
  FoldModel& kept() { return kept_ ? *kept_ : *folds_[0]; }

  const Prepared& prepared_;
  std::vector<std::unique_ptr<FoldModel>> folds_;
  long fits_ = 0;
  std::unique_ptr<FoldModel> kept_;  // null where it is the only fold
};

}  // namespace bilevel::models
