#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <bilevel/bilevel.hpp>
#include <bilevel/models/problem.hpp>

namespace app {

/// An estimator with the inner solvers that it uses.
struct Estimation {
  std::vector<std::unique_ptr<bilevel::InnerSolver<Eigen::VectorXd>>> inner;
  std::unique_ptr<bilevel::Estimator<Eigen::VectorXd>> estimator;
};

/// The mean outer loss with what settles it, for searches by values alone.
struct Valuation {
  std::unique_ptr<bilevel::Equilibrium<Eigen::VectorXd>> equilibrium;
  std::unique_ptr<bilevel::InnerSolver<Eigen::VectorXd>> inner;
};

/// What solve, compare and doctor work on: a ready-made problem, or the model of a person's data, with K
/// folds a problem for each. Several share θ, and the mean of their outer losses is what counts.
class PosedProblem {
 public:
  using Vec = Eigen::VectorXd;

  explicit PosedProblem(std::unique_ptr<bilevel::problems::ReferenceProblem> ready_made);
  PosedProblem(bilevel::models::Prepared prepared, bilevel::models::Posed posed);

  std::size_t parts() const { return posed_.folds.size(); }
  bilevel::Equilibrium<Vec>& part(std::size_t k = 0) { return *posed_.folds[k].equilibrium; }
  /// Null for ready-made problems.
  const bilevel::models::Prepared* data() const { return prepared_ ? &*prepared_ : nullptr; }
  const bilevel::models::LogPrior& prior() const { return posed_.prior; }
  /// That finding the prior took.
  double seconds() const { return posed_.seconds; }

  const Vec& initial_theta() const { return posed_.initial; }
  /// Where a descent begins: for data where tune begins.
  const Vec& start() const { return posed_.start; }
  /// Of a part, which is what solvers work on; and of all.
  bilevel::Index phi_size() const { return posed_.folds.front().equilibrium->initial_phi().size(); }
  bilevel::Index whole_phi_size() const;
  /// The state of the first part, which an estimate has in true units, as the part itself has it.
  Vec state_of_part(const Vec& phi) const;
  /// Null unless nothing else can settle it.
  const bilevel::InnerSolver<Vec>* own_inner() const { return posed_.folds.front().inner.get(); }
  std::optional<Vec> outer_gradient(const Vec& theta) const;
  std::optional<Vec> best_theta() const;
  /// Where every θ is kept unless told otherwise; -10:10 for log penalties.
  std::optional<std::pair<double, double>> theta_bounds() const;
  void obey(const bilevel::StopToken* stop);

  Estimation estimation(std::string_view method, std::string_view inner,
                        const bilevel::EstimatorOptions& options,
                        const bilevel::MinimiserOptions& inner_options = {});
  /// Refers to this. `tolerance` 0: the solver's own.
  Valuation valuation(std::string_view inner, double tolerance);

 private:
  bilevel::models::Posed posed_;
  const bilevel::problems::ReferenceProblem* reference_ =
      nullptr;  // the only part, where it knows its answers
  std::optional<bilevel::models::Prepared> prepared_;
};

}  // namespace app
