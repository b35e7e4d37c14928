#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/models/prepared.hpp>
#include <bilevel/outcome/stop_token.hpp>

namespace bilevel::models {

/// One thing that a statistician would say of data.
struct DataFinding {
  std::string name;      ///< what was looked at: "condition-number", "collinear-columns", …
  bool good = true;      ///< nothing to worry about
  std::string sentence;  ///< with the numbers in it
  std::vector<std::string> columns = {};                     ///< features or penalties that it is about
  std::vector<std::pair<std::string, double>> numbers = {};  ///< by name; NaN where one is not known
  bool looked_at = true;  ///< else the sentence says why not, and `good` is false: nothing is known
};

struct DiagnosisOptions {
  std::uint64_t seed = 1;  ///< of the validation rows that are asked about penalties
  /// Floating-point operations that one finding may take, by an estimate made beforehand; > 0. The default is
  /// a minute or so of one core.
  double affordable = 2e11;
  const bilevel::StopToken* stop = nullptr;  ///< what is left is not looked at where it says so
};

/// Looks at the training rows of the final model, by their weights, and at what the validation rows say of
/// the penalties at θ (log λ, one for each penalty of `prepared`, log λ₂ of the elastic net last):
/// - rows-per-coefficient: training rows, of classes those of the rarest; 10 are enough without a penalty
/// - constant-columns: features that never change
/// - condition-number: √(largest/least eigenvalue) of the correlations of those that do
/// - collinear-columns: each feature that the ones before it predict with R² > 0.99, and from which
/// - separable-classes: a feature that alone tells classes apart without a mistake, looked for in full
///   (quasi-complete separation too), or the direction in which a weakly penalised fit does
/// - penalties-told-apart: penalties that move no validation loss, and those that act alike
///
/// What has more than 2,000 columns or penalties, or takes more than is affordable, is not looked at, and the
/// finding says so. Throws InvalidInput for a θ of another size.
std::vector<DataFinding> diagnose(const Prepared& prepared, const Vec& theta,
                                  const DiagnosisOptions& options = {});

}  // namespace bilevel::models
