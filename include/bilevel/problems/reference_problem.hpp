#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::problems {

/// A ready-made problem that knows its own answers where these exist in closed form.
class ReferenceProblem : public Problem<Eigen::VectorXd> {
 public:
  virtual std::string_view name() const = 0;
  /// φ*(θ).
  virtual std::optional<Eigen::VectorXd> settled(const Eigen::VectorXd& /*theta*/) const { return {}; }
  /// ∇θ L_out(φ*(θ), θ).
  virtual std::optional<Eigen::VectorXd> outer_gradient(const Eigen::VectorXd& /*theta*/) const { return {}; }
  /// Where θ is kept unless told otherwise: [first, second] for every element; empty for no bounds.
  virtual std::optional<std::pair<double, double>> theta_bounds() const { return {}; }
  /// argmin over θ of L_out(φ*(θ), θ).
  virtual std::optional<Eigen::VectorXd> best_theta() const { return {}; }
};

}  // namespace bilevel::problems
