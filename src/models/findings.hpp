#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/models/diagnosis.hpp>

namespace bilevel::models {

// What the findings of diagnosis.cpp and separation.cpp share.

/// 'a', 'b' and 3 more.
std::string listed(const std::vector<std::string>& names);

DataFinding not_looked_at(std::string name, std::string_view why);
/// Why a finding that takes so many operations is not looked at, where these are more than it may.
std::optional<std::string> too_much(double operations, const DiagnosisOptions& options);

/// Numbers that a pass over so many rows reads, and the operations of one fit without a hint where to begin:
/// some 30 steps of Newton's method, by a Hessian that is formed or by 100 products each.
double elements(const Prepared& prepared, Index rows);
double work_of_fit(const Prepared& prepared, Index rows);

/// Whether row i of the matrix has a weight other than 0.
bool counts(const Prepared& prepared, Index i);

/// The least and the largest stored value of each feature in each group of the training rows.
struct Ranges {
  Eigen::MatrixXd least, most;  ///< features × groups
  std::vector<Index> rows;      ///< of each group
};
Ranges ranges_of(const Prepared& prepared, Index groups, const std::function<Index(Index row)>& group);

DataFinding separable_classes(const Prepared& prepared, const DiagnosisOptions& options);

}  // namespace bilevel::models
