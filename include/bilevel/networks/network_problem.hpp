#pragma once

#include <memory>
#include <vector>

#include <bilevel/networks/architecture.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::networks {

/// One sample a column.
struct Samples {
  Eigen::MatrixXd inputs;   ///< n_0 × B
  Eigen::MatrixXd targets;  ///< n_K × B; cross-entropy: columns that sum to 1
};

/// Targets of classification: the unit vector of each label. Complains about labels outside 0 … classes−1.
Eigen::MatrixXd one_hot(const std::vector<int>& labels, Index classes);

/// A layered network on a batch, in double, with all its derivatives:
///   L_in = (1/B) Σ_n E(φ_n, θ; x_n),   L_out = (1/B) Σ_n cost(u_K,n, y_n)
/// so that β is the strength of the nudge on every sample and ∇θ is that of the mean cost. φ holds layer
/// after layer, each n_k × B column by column. Every estimator of the library runs on it; training has a
/// faster way to the equilibrium propagation among them (networks/propagation.hpp).
///
/// Units with bounds (clip, diodes): φ is taken to its bounds first, with ½‖φ − Πφ‖² added to L_in, and
/// ∂φ L_in is the subgradient of least norm: zero for a unit that its bound holds. The curvature is that of
/// the free units; held ones are fixed, with the identity in their place, and ∂φ L_out is zero for them too.
/// At a state in which a unit sits on its bound without force the two sides differ, and derivatives are those
/// of the unit held.
class NetworkProblem final : public Problem<Eigen::VectorXd>, public Holomorphic {
 public:
  using Vector = Eigen::VectorXd;

  /// Throws InvalidInput where the samples do not fit the layers or are not finite.
  NetworkProblem(Architecture architecture, Samples samples, Vector initial_theta);
  ~NetworkProblem() override;

  /// At rest; for predictive coding the feed-forward pass at the initial θ, where its energy is zero.
  Vector initial_phi() const override { return initial_phi_; }
  Vector initial_theta() const override { return initial_theta_; }
  double inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  double outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) override;
  /// The curvature solves with itself (Curvature::precondition), sample by sample, by dense factors, where a
  /// sample has at most `factor_limit` states.
  void linearise(const Vector& phi, const Vector& theta, double beta,
                 std::unique_ptr<Curvature<Vector>>& reuse) override;
  static constexpr Index factor_limit = 2500;
  /// Networks whose units have bounds are quadratic as long as none reaches or leaves its own: known for
  /// balls that are smaller than the distance to the next kink.
  Constants constants(const Vector& theta, const Vector& center, double radius) override;

  /// Sigmoid and tanh networks; null for the others, whose units are not analytic.
  Holomorphic* holomorphic() override;
  void complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                           ComplexWanted wanted) override;
  bool complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta, std::complex<double> beta,
                       Eigen::MatrixXcd& out) override;
  double margin(const Eigen::VectorXcd& phi, const Vector& theta) override;

  const Architecture& architecture() const { return architecture_; }
  const Samples& samples() const { return samples_; }
  Index batch() const { return samples_.inputs.cols(); }
  /// Samples whose largest output is not where the target's is.
  Index wrong(const Vector& phi) const;
  /// E of each sample, without the cost.
  Vector energies(const Vector& phi, const Vector& theta);
  /// ‖∂φ(L_in + β·L_out)‖ with the bounds' forces taken from the sum. Where outputs are clipped, the sum of
  /// the two derivatives above can only say of a nudged state that it has not settled although it has.
  double nudged_residual(const Vector& phi, const Vector& theta, double beta);
  /// The smallest distance of a unit of φ from where its derivatives change; infinite where there are no
  /// bounds.
  double distance_to_kink(const Vector& phi, const Vector& theta);

 private:
  struct Scratch;

  Architecture architecture_;
  Samples samples_;
  Vector initial_theta_, initial_phi_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace bilevel::networks
