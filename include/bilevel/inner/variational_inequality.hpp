#pragma once

#include <memory>
#include <string>

#include <bilevel/inner/constrained.hpp>
#include <bilevel/inner/make_inner_solver.hpp>

namespace bilevel {

/// An equilibrium that minimises nothing, under its phi_constraints(): the φ in C with
///   F(φ)·(ψ − φ) ≥ 0 for every ψ in C,
/// F its residual. That is what Nash's equilibrium is where players have limits, and what the conditions of
/// optimality are where a constraint moves with θ: the state is then (φ, λ), F = (∂φ L_in + λ·∂φ g, −g), and
/// λ ≥ 0. It is an equilibrium without constraints here, settled where the natural residual
///   F_C(φ) = (φ − P(φ − s·F(φ)))/s
/// is zero, P the nearest point in C. Away from constraints F_C is F; along the face on which P lies its
/// Jacobian is (I − Π(I − s·J))/s with Π the projection onto that face, so that newton-krylov settles it and
/// implicit methods differentiate it. On its way F is evaluated outside of C. Where a constraint is about to
/// hold or to let go the derivatives are one-sided, and kink() says which constraint it is.
class VariationalInequality final : public Equilibrium<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;

  /// Throws InvalidInput where the constraints are wrong or nothing satisfies them. The equilibrium must
  /// outlive this object. s is one over a typical curvature at its start.
  explicit VariationalInequality(Equilibrium<Vec>& free);

  Vec initial_phi() const override { return start_; }  ///< the nearest point in C
  Vec initial_theta() const override { return free_.initial_theta(); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override;
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return free_.outer(phi, theta, wanted);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Capabilities capabilities() const override {
    return {.curvature = free_.capabilities().curvature,
            .symmetric = false,
            .differenced = free_.capabilities().differenced};
  }
  std::string kink(const Vec& phi, const Vec& theta) override;
  void obey(const StopToken* stop) override { free_.obey(stop); }
  const StopToken* stop_token() const override { return free_.stop_token(); }

  const NamedConstraints& constraints() const { return constraints_; }

  /// From now on P is the nearest point in the affine hull of the face that this state is on, so that what
  /// looks around the state, as certificates do, meets no other face.
  void hold(const Vec& phi, const Vec& theta);
  void release() { held_ = false, pull_ = 0; }
  /// newton-krylov, or another solver of residuals, that holds the face of every state that it settles in.
  /// Where it stalls it is led by proximal points, which converge for every monotone F: each settles
  /// F + κ(φ − the last one) and is where the solver starts anew. This object must outlive it.
  std::unique_ptr<InnerSolver<Vec>> solver(const InnerChoice& choice = NewtonKrylovOptions{},
                                           const MinimiserOptions& options = {});

 private:
  class Following;
  struct Here;
  /// P(φ − s·F(φ)) − φ, and what holds it; leaves F in force_.
  QuadraticProgramSolution natural_step(const Vec& phi, const Vec& theta);
  Eigen::MatrixXd normals_of(const std::vector<Index>& active) const;

  Equilibrium<Vec>& free_;
  NamedConstraints constraints_;
  Vec start_, force_;
  double step_ = 1;
  double pull_ = 0;  // κ, towards anchor_
  Vec anchor_;
  bool held_ = false;
  Vec on_face_;             // a point of the face that is held
  Eigen::MatrixXd across_;  // an orthonormal basis of its normals
};

}  // namespace bilevel
