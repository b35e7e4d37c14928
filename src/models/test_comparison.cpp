#include "test_comparison.hpp"

#include <algorithm>
#include <cmath>

#include "judged.hpp"

namespace bilevel::models {
namespace {

std::pair<double, double> rise(const Fitted& above, const Fitted& below) {
  return mean_difference(above.test_losses, below.test_losses, above.test_weights);
}

std::string remedy_of(const TuneOptions& options, const Prepared& prepared) {
  const std::string share =
      options.penalty == Penalty::automatic   ? "keep one λ (TuneOptions.penalty = global)"
      : options.penalty == Penalty::per_group ? "share penalties (TuneOptions.penalty = global)"
      : options.penalty == Penalty::per_feature || options.penalty == Penalty::per_class
          ? "let the data choose (TuneOptions.penalty = auto)"
          : "";
  if (!prepared.held_out) return share.empty() ? "more rows would tell" : share;
  return share.empty() ? "judge by K folds (TuneOptions.folds = 5)"
                       : "judge by K folds (TuneOptions.folds = 5) or " + share;
}

}  // namespace

void compare_on_test(const TuneOptions& options, const Prepared& prepared, Tuned& result) {
  const auto thetas = result.chosen.theta.size();
  const Index judges = prepared.held_out ? prepared.validation_rows : prepared.training_rows;
  const std::string remedy = remedy_of(options, prepared);
  const auto& tuned = result.chosen.test;
  const auto& grid = result.grid.test;
  if (!tuned || !grid) {
    if (thetas * 10 > judges && !result.choice.precision)
      result.warnings.push_back(fmt::format(
          "{} judged by {} rows and there is no test: the validation loss may flatter; "
          "keep rows for a test (TuneOptions.test = 0.2), or {}",
          thetas == 1 ? "1 penalty is" : fmt::format("{} penalties are", thetas), judges, remedy));
    return;
  }
  if (tuned->r2 && *tuned->r2 < 0)
    result.warnings.push_back(fmt::format(
        "on the test rows the model is worse than their mean (R² {:.3g}): penalties that are right "
        "do not make it useful; look for rows far from the others, or for another model",
        *tuned->r2));
  const auto [above, error] = rise(result.chosen, result.grid);
  result.test_difference_error = error;
  result.standard_difference_error = rise(result.standard, result.grid).second;
  const auto [worse, its_error] = rise(result.chosen, result.standard);
  if (worse > 2 * its_error && tuned->rows >= 10)
    result.warnings.push_back(
        fmt::format("λ = 1/n, the default, does better on the test rows: {:.6g} against {:.6g}, a difference "
                    "of {:.2g} ± {:.2g}",
                    result.standard.test->loss, tuned->loss, worse, its_error));
  const double fall = result.grid.validation_loss - result.chosen.validation_loss;
  const double noise = std::max(tuned->standard_error, grid->standard_error);
  // The error of a mean over a handful of rows is itself a guess.
  if (fall > 0 && above > 2 * error && tuned->rows >= 10)
    result.warnings.push_back(fmt::format(
        "{} the {} rows that judge: the validation loss fell from "
        "{:.6g} to {:.6g}, but the test loss rose from {:.6g} to {:.6g}; {}",
        thetas == 1 ? "1 penalty overfits" : fmt::format("{} penalties overfit", thetas), judges,
        result.grid.validation_loss, result.chosen.validation_loss, grid->loss, tuned->loss, remedy));
  else if (fall > 0 && above > 0.5 * error && result.choice.kind != "single")  // which is one λ already
    result.warnings.push_back(
        fmt::format("the test does not confirm the choice: its loss rose from {:.6g} to {:.6g}, though {} "
                    "rows are too few to be sure (the rise is {:.2g} ± {:.2g}); {}",
                    grid->loss, tuned->loss, tuned->rows, above, error, remedy));
  else if (grid->loss - result.grid.validation_loss > 2 * noise)
    result.warnings.push_back(fmt::format(
        "the test loss {:.6g} is above the validation loss {:.6g} by more than two standard errors "
        "({:.2g}), and so it is with one λ for all: few rows make up the loss, or the test rows differ from "
        "the others",
        tuned->loss, result.chosen.validation_loss, noise));
  else if (tuned->loss - result.chosen.validation_loss > 2 * noise + std::max(0.0, fall))
    result.warnings.push_back(fmt::format(
        "the test loss {:.6g} is above the validation loss {:.6g} by more than two standard errors "
        "({:.2g}): the {} rows that judge are few for {}, or the test rows differ; {}",
        tuned->loss, result.chosen.validation_loss, noise, judges,
        thetas == 1 ? "1 penalty" : fmt::format("{} penalties", thetas), remedy));
}

}  // namespace bilevel::models
