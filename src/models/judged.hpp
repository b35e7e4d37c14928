#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <bilevel/models/prepared.hpp>
#include <bilevel/models/quality.hpp>

namespace bilevel::models {

/// Margins and losses of rows, gathered from one or several parts.
class Judged {
 public:
  explicit Judged(const Prepared& prepared) : prepared_(prepared) {}
  /// The rows of a loss at the stored coefficients u.
  void add(bilevel::problems::RowLosses& loss, const Vec& u);
  Quality quality() const;
  /// Row by row, in units of the target.
  std::vector<double> losses() const;
  const std::vector<double>& weights() const { return weights_; }

 private:
  const Prepared& prepared_;
  std::vector<double> losses_, weights_, margins_, labels_;
  std::vector<int> classes_;
};

/// The mean by weight, and its standard error.
std::pair<double, double> weighted_mean(const std::vector<double>& values,
                                        const std::vector<double>& weights);

/// The same of above less below, row by row: both face the same rows, and their differences tell.
std::pair<double, double> mean_difference(std::vector<double> above, const std::vector<double>& below,
                                          const std::vector<double>& weights);

/// (Σ w|ℓ|)²/Σ (wℓ)²: how many rows make up a loss, were all of theirs the same.
double rows_that_count(const std::vector<double>& losses, const std::vector<double>& weights);

/// Area under the receiver operating characteristic, ties counted half; empty with one class only.
std::optional<double> area_under_curve(const std::vector<double>& scores, const std::vector<double>& labels,
                                       const std::vector<double>& weights);

}  // namespace bilevel::models
