#pragma once

#include <bilevel/problems/reference_problem.hpp>

namespace bilevel::problems {

struct PitchforkOptions {
  double target = 1;  ///< y > 0: what φ* should become, on the branch of positive φ

  Violations validate() const;
};

/// The branching problem of the paper's first figure:
///   L_in = φ⁴ − θφ²,   L_out = ½(φ − y)²
/// φ* = 0 for θ ≤ 0; for θ > 0 there are two minima ±√(θ/2), of which the answers describe the positive one,
/// where the start lies. dφ*/dθ = 1/(4φ*), so ∇θ = (φ* − y)/(4φ*) and the best θ is 2y². At θ = 0 the Hessian
/// 12φ² − 2θ is singular and there is no gradient.
class Pitchfork final : public ReferenceProblem {
 public:
  using Vector = Eigen::VectorXd;

  explicit Pitchfork(const PitchforkOptions& options = {});

  std::string_view name() const override { return "pitchfork"; }
  Vector initial_phi() const override { return Vector::Ones(1); }
  Vector initial_theta() const override { return Vector::Ones(1); }
  double inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  double outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  void linearise(const Vector& phi, const Vector& theta, double beta,
                 std::unique_ptr<Curvature<Vector>>& reuse) override;
  /// μ is known only where 12φ² − 2θ is positive on the whole ball.
  Constants constants(const Vector& theta, const Vector& center, double radius) override;
  Rounding rounding(const Vector& phi, const Vector& theta, const Vector& pi) override;

  std::optional<Vector> settled(const Vector& theta) const override;
  std::optional<Vector> outer_gradient(const Vector& theta) const override;
  std::optional<Vector> best_theta() const override;

 private:
  double y_;
};

}  // namespace bilevel::problems
