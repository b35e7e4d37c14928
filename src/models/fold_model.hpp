#pragma once

#include <memory>
#include <string>

#include <bilevel/gradient/estimator.hpp>

#include <bilevel/models/prepared.hpp>
#include "row_hypergradients.hpp"

namespace bilevel::models {

/// A model on one part of the data, with the solvers that suit its size.
class FoldModel {
 public:
  struct Settled {
    Vec phi;
    double outer_value = bilevel::unknown;
    bilevel::Status status = bilevel::Status::not_run;
    std::string message;
    std::string warning;  ///< what makes its derivative doubtful, as a sentence; empty if nothing
  };

  virtual ~FoldModel() = default;
  /// Other penalties from now on, λ in units of the target; θ may have another size then.
  virtual void use(bilevel::problems::PenaltyMap penalties) = 0;
  /// φ*(θ) to a residual of `tolerance`, from `warm` where that fits.
  virtual Settled settle(const Vec& theta, const Vec* warm, double tolerance) = 0;
  /// An estimator of the outer gradient, which refers to this model.
  virtual std::unique_ptr<bilevel::Estimator<Vec>> estimator() = 0;
  /// What the rows that judge say of θ at φ, which is settled there; refers to this model.
  virtual std::unique_ptr<RowHypergradients> row_hypergradients(const Vec& theta, const Vec& phi) = 0;
  virtual std::string solvers() const = 0;

  /// Coefficients of the features as stored, and of the standardised ones: see PenalisedModel, and of
  /// networks Perceptron.
  virtual Vec stored_coefficients(const Vec& phi) const = 0;
  virtual Vec standardised_coefficients(const Vec& phi) const = 0;
  /// Everything that it settles ends early where this says so; null: never.
  virtual void obey(const bilevel::StopToken* stop) = 0;
  virtual Index parameters() const = 0;  ///< |φ|
  virtual bilevel::problems::RowLosses& training() = 0;
  virtual bilevel::problems::RowLosses& validation() = 0;
};

/// Whether something ended because it was told to.
inline bool cut_short(bilevel::Status status) {
  return status == bilevel::Status::interrupted || status == bilevel::Status::time_limit;
}

/// It begins with the penalties of `prepared`.
std::unique_ptr<FoldModel> make_fold_model(const Prepared& prepared, const Split& part);

/// The smooth models of a part, with the penalties of `prepared`.
std::unique_ptr<bilevel::problems::PenalisedModel> make_linear(const Prepared& prepared, const Split& part);
std::unique_ptr<bilevel::problems::Perceptron> make_perceptron(const Prepared& prepared, const Split& part);

/// The loss of the prepared model on some rows, and of one that is linear.
std::unique_ptr<bilevel::problems::RowLosses> make_row_losses(const Prepared& prepared,
                                                              std::vector<RowRange> ranges);
std::unique_ptr<bilevel::problems::DataLoss> make_loss(const Prepared& prepared,
                                                       std::vector<RowRange> ranges);

}  // namespace bilevel::models
