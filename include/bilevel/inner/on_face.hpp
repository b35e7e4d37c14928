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
};

/// A problem under constraints as it is on the face on which its state lies: every derivative with respect to
/// φ is that along the face, v ↦ Pv with P = I − QQᵀ and Q an orthonormal basis of the active normals. As
/// long as the same constraints stay active, φ*(θ) moves along the face, and
///   dφ*/dθ = −(PHP)⁺Pχ
/// is that of an unconstrained problem. Across the face the curvature is a multiple of the identity, so that
/// it stays as well conditioned as it is along the face. The wrapped problem must outlive this object.
template <Vector V>
class OnFace final : public Problem<V> {
 public:
  explicit OnFace(Problem<V>& problem);

  /// From now on the face of this state of L_in + β·L_out at θ.
  void hold(const V& phi, const V& theta, double beta);
  const Face& face() const { return face_; }
  const NamedConstraints& constraints() const { return constraints_; }
  /// What a typical curvature along the face is, once it was linearised.
  double typical_curvature() const { return across_; }

  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override;
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override;
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override;
  Capabilities capabilities() const override { return problem_.capabilities(); }
  Constants constants(const V& theta, const V& center, double radius) override {
    return problem_.constants(theta, center, radius);
  }
  void obey(const StopToken* stop) override { problem_.obey(stop); }
  const StopToken* stop_token() const override { return problem_.stop_token(); }

 private:
  struct AlongFace;
  void project(V& x) const;

  Problem<V>& problem_;
  NamedConstraints constraints_;
  Face face_;
  Eigen::MatrixXd across_basis_;  // Q
  double across_ = 1;
};

extern template class OnFace<Eigen::VectorXd>;
extern template class OnFace<Eigen::VectorXf>;

}  // namespace bilevel
