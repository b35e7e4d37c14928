#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <bilevel/data/read.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::models {

using Index = bilevel::data::Index;

/// What is cleaned: a table of which some labels may be wrong, and where they are at hand further ones of the
/// same columns: rows whose labels are right, and rows that only measure accuracy.
struct CleaningData {
  bilevel::data::Dataset data;
  std::optional<bilevel::data::Dataset> trusted = {}, test = {};

  CleaningData(bilevel::data::Dataset table) : data(std::move(table)) {}
};

/// Curvature is of the size of ‖x_i‖², so λ is measured by it. On MNIST with half the labels at random,
/// accuracy and F1 change by 0.01 between a third of this and three times it, and fall beyond.
inline constexpr double typical_lambda = 3e-5;

/// How wrong labels are looked for.
struct CleanOptions {
  /// Rows of the data whose labels are right, drawn at random: their share, below 1, or how many. Of no
  /// account where the data bring some of their own.
  double trusted = 0;
  double test = 0;     ///< the same for rows that only measure accuracy; 0 for none
  Index rows = 0;      ///< of the others, look at this many, drawn at random; 0: all
  double corrupt = 0;  ///< for a trial: this share of the training rows gets a label at random
  /// λ of ½λ‖φ‖²; 0: `typical_lambda` times the mean of ‖x_i‖² over the training rows.
  double lambda = 0;
  double threshold = 0.5;  ///< rows with less weight are suspicious
  double decrease = 5e-4;  ///< stop when a step lowers the trusted loss by less, relative to it
  long iterations = 100;   ///< most steps
  double seconds = 0;      ///< most seconds; 0: as many as it takes
  std::uint64_t seed = 1;  ///< of all draws
  /// Missing cells (NaN) are refused, or the mean of the training rows stands in for them.
  bilevel::data::Missing missing = bilevel::data::Missing::refuse;

  Violations validate() const;
};

}  // namespace bilevel::models
