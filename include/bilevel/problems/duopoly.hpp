#pragma once

#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

/// A market with linear demand.
struct DuopolyOptions {
  double demand = 10;        ///< a: the price at which nothing is sold
  double slope = 1;          ///< b > 0: what each unit sold takes off the price
  double leader_cost = 1;    ///< c_l of one unit
  double follower_cost = 2;  ///< c_f of one unit

  Violations validate() const;
};

/// Stackelberg's duopoly: the leader chooses its quantity θ, knowing that the follower will answer with the
/// quantity φ* that is best for the follower. At the price a − b(θ + φ) each loss is a negative profit:
///   L_in = −φ(a − b(θ+φ) − c_f),   L_out = −θ(a − b(θ+φ) − c_l)
///   φ* = (a − bθ − c_f)/(2b),   ∇θ = bθ + c_l − (a + c_f)/2,   best θ = (a − 2c_l + c_f)/(2b)
/// Quantities may be negative: the formulas are those of the unconstrained game.
class Duopoly final : public ReferenceProblem {
 public:
  using Vector = Eigen::VectorXd;

  explicit Duopoly(const DuopolyOptions& options = {});

  std::string_view name() const override { return "duopoly"; }
  Vector initial_phi() const override { return Vector::Zero(1); }
  Vector initial_theta() const override { return Vector::Zero(1); }
  double inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  double outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  void linearise(const Vector& phi, const Vector& theta, double beta,
                 std::unique_ptr<Curvature<Vector>>& reuse) override;
  Constants constants(const Vector& theta, const Vector& center, double radius) override;
  Rounding rounding(const Vector& phi, const Vector& theta, const Vector& pi) override;

  std::optional<Vector> settled(const Vector& theta) const override;
  std::optional<Vector> outer_gradient(const Vector& theta) const override;
  std::optional<Vector> best_theta() const override;

 private:
  DuopolyOptions market_;
};

}  // namespace bilevel::problems
