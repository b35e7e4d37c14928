#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bilevel/inner/constrained.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What a state does to its constraints.
struct Face {
  std::vector<Index> active;     ///< those that hold it, equalities among them
  Eigen::VectorXd multipliers;   ///< of every constraint; ≥ 0 for inequalities
  Eigen::VectorXd slacks;        ///< of every constraint
  std::vector<Index> undecided;  ///< touched by the state, which they do not hold
  std::string fault;             ///< why nothing is known of all this; empty where it is
};

/// Why derivatives of the state are one-sided at best, where it may lie `distance` from the settled one;
/// empty where they are not.
std::string one_sided(const NamedConstraints& constraints, const Face& face, double state_size,
                      double curvature, double distance);

/// A problem under constraints as it is on the face on which its state lies: every derivative with respect to
/// φ is that along the face, v ↦ Pv with P = I − QQᵀ and Q an orthonormal basis of the active normals. As
/// long as the same constraints stay active, φ*(θ) moves along the face, and
///   dφ*/dθ = −(PHP)⁺Pχ
/// is that of an unconstrained problem. With φ₀ the state that is held, each loss is
///   L(φ₀ + P(φ − φ₀)) + ½c·‖(I − P)(φ − φ₀)‖²,
/// whose gradient and Hessian PHP + c·QQᵀ belong together at every φ; c is a typical curvature of that loss
/// along the face, so that the Hessian stays as well conditioned as it is there. Sparse Hessians, their
/// diagonals, preconditioners and bounds of rounding are not those of the wrapped problem, so none is
/// offered. A kink is one even where it lies across the face: only the wrapped problem could tell. It must
/// outlive this object.
template <Vector V>
class OnFace final : public Problem<V> {
 public:
  explicit OnFace(Problem<V>& problem);

  /// From now on the face of this state of L_in + β·L_out at θ.
  void hold(const V& phi, const V& theta, double beta);
  const Face& face() const { return face_; }
  const NamedConstraints& constraints() const { return constraints_; }
  /// What a typical curvature along the face is.
  double typical_curvature() const { return across_; }
  /// The same of the outer loss. At a vertex no nudge moves the state, and a stiff outer loss keeps nudges
  /// too small to lead elsewhere.
  double typical_outer_curvature() const {
    return across_basis_.cols() == across_basis_.rows() ? 1e6 * across_ : outer_across_;
  }

  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override;
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override;
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override;
  Capabilities capabilities() const override {
    Capabilities offered = problem_.capabilities();
    offered.sparse = false;
    return offered;
  }
  std::string kink(const V& phi, const V& theta) override { return problem_.kink(onto(phi), theta); }
  Constants constants(const V& theta, const V& center, double radius) override {
    return problem_.constants(theta, center, radius);
  }
  void obey(const StopToken* stop) override { problem_.obey(stop); }
  const StopToken* stop_token() const override { return problem_.stop_token(); }

 private:
  struct AlongFace;
  void project(V& x) const;
  /// φ₀ + P(φ − φ₀); leaves (I − P)(φ − φ₀) in away_.
  const V& onto(const V& phi);
  /// The value at onto(φ), and its gradient, with ½c‖·‖² of what was left in away_.
  double with_across(double value, double curvature, Wanted<V> wanted) const;
  void measure(const V& theta);
  void point_inwards(V& out) const;

  Problem<V>& problem_;
  NamedConstraints constraints_;
  Face face_;
  Eigen::MatrixXd across_basis_;  // Q
  double across_ = 1;             // c
  double outer_across_ = 0;       // that of the outer loss
  bool measured_ = false, measured_inwards_ = false;
  V held_, at_, away_;
};

extern template class OnFace<Eigen::VectorXd>;
extern template class OnFace<Eigen::VectorXf>;

}  // namespace bilevel
