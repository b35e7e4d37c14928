#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <bilevel/bilevel.hpp>
#include <bilevel/models/prepared.hpp>

namespace app {

/// An estimator with the inner solvers that it uses.
struct Estimation {
  std::vector<std::unique_ptr<bilevel::InnerSolver<Eigen::VectorXd>>> inner;
  std::unique_ptr<bilevel::Estimator<Eigen::VectorXd>> estimator;
};

/// What solve, compare and doctor work on: a ready-made problem, or the model of a person's data, with K
/// folds a problem for each. Several share θ, and the mean of their outer losses is what counts.
class PosedProblem {
 public:
  using Vec = Eigen::VectorXd;

  explicit PosedProblem(std::unique_ptr<bilevel::problems::ReferenceProblem> ready_made);
  explicit PosedProblem(bilevel::models::Prepared prepared);

  std::size_t parts() const { return parts_.size(); }
  bilevel::Problem<Vec>& part(std::size_t k = 0) { return *parts_[k]; }
  /// Null for ready-made problems.
  const bilevel::models::Prepared* data() const { return prepared_ ? &*prepared_ : nullptr; }

  Vec initial_theta() const { return parts_.front()->initial_theta(); }
  /// Of a part, which is what solvers work on; and of all.
  bilevel::Index phi_size() const { return parts_.front()->initial_phi().size(); }
  bilevel::Index whole_phi_size() const;
  std::optional<Vec> outer_gradient(const Vec& theta) const;
  std::optional<Vec> best_theta() const;
  /// Where every θ is kept unless told otherwise; -10:10 for log penalties.
  std::optional<std::pair<double, double>> theta_bounds() const;
  void obey(const bilevel::StopToken* stop);

  Estimation estimation(std::string_view method, std::string_view inner,
                        const bilevel::EstimatorOptions& options,
                        const bilevel::MinimiserOptions& inner_options = {});

 private:
  std::vector<std::unique_ptr<bilevel::Problem<Vec>>> parts_;
  const bilevel::problems::ReferenceProblem* reference_ =
      nullptr;  // the only part, where it knows its answers
  std::optional<bilevel::models::Prepared> prepared_;
};

}  // namespace app
