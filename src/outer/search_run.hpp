#pragma once

#include <bilevel/outer/impl/search.hpp>

namespace bilevel::detail {

/// The bookkeeping that all searches share: budget, history, the best point, and why it stopped.
class SearchRun {
 public:
  SearchRun(std::string_view name, const Evaluate& evaluate, const Eigen::VectorXd& start,
            const SearchOptions& options);

  const SearchOptions& options() const { return options_; }
  const Eigen::VectorXd& start() const { return start_; }
  Index size() const { return start_.size(); }

  /// The value at θ; infinite where it is not finite or the solve diverged. Only while not `over`.
  double evaluate(const Eigen::VectorXd& theta);
  /// The budget is spent, or the callback wants no more.
  bool over() const { return summary_.status != Status::not_run; }
  /// Evaluations that the budget still allows, by what they have cost so far.
  double evaluations_left() const;
  void stop(Status status, std::string message);
  std::string best() const;
  Summary finish();

 private:
  const Evaluate& evaluate_;
  SearchOptions options_;
  Eigen::VectorXd start_;
  Summary summary_;
  std::string best_message_, trouble_;
  Stopwatch watch_;
};

/// The algorithms of NLopt.
void nlopt_search(std::string_view name, SearchRun& run);

}  // namespace bilevel::detail
