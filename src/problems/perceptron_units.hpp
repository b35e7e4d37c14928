#pragma once

#include <vector>

#include <Eigen/Cholesky>

#include <bilevel/problems/perceptron.hpp>

namespace bilevel::problems {

/// What rows say of the curvature of a layer's weights, whose Gauss–Newton block is nearly inputs ⊗ slopes
/// (Martens and Grosse 2015).
struct LayerMoments {
  Eigen::MatrixXd inputs;  ///< mean square of what enters, one (for the bias) the last; or, of many, empty
  Eigen::VectorXd squares, mean;  ///< its diagonal and its last column
  Eigen::MatrixXd slopes;         ///< of what the margins' curvature gives back to the layer's units

  /// Those of (x − shift)·inverse_scale.
  void standardise(const Eigen::VectorXd& shift, const Eigen::VectorXd& inverse_scale);
};

/// φ = T·ψ with Tᵀ(H + Λ)T near the identity. Of a layer, a matrix of inputs × units, with λ of its weights
/// near r_j·c_k, H near A ⊗ G, and r^(−½)Ar^(−½) = U·diag(a)·Uᵀ, c^(−½)Gc^(−½) = V·diag(g)·Vᵀ:
///   Φ = r^(−½)·U·((a_i·g_k + 1)^(−½) ∘ Ψ)·Vᵀ·c^(−½)
/// The last biases have no penalty: they are taken where the inputs of their layer are centred, which parts
/// them from its weights, and have a block of their own.
class PerceptronUnits {
 public:
  using Vec = Eigen::VectorXd;
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  PerceptronUnits(const PerceptronShape& shape, Index last_biases) : shape_(shape), biases_(last_biases) {}

  /// One number an element, T = diag(units).
  void adopt(const Vec& units);
  void adopt(const Vec& lambda, const std::vector<LayerMoments>& moments);
  bool elementwise() const { return layers_.empty(); }
  const Vec& elements() const { return elements_; }

  void to_true(Vec& x) const;    ///< x ← T·x
  void to_own(Vec& x) const;     ///< x ← T⁻¹·x
  void pull_back(Vec& g) const;  ///< g ← Tᵀ·g
  /// An upper bound of TᵀΛT.
  double largest(const Vec& lambda) const;

 private:
  struct Layer {
    Index place, inputs, units;
    Vec row, column;           // r^(−½), c^(−½)
    std::vector<Index> alive;  // inputs that U mixes; it leaves the others
    Rows vectors;              // U
    Eigen::MatrixXd turn;      // V
    Rows shrink;               // (a_i·g_k + 1)^(−½)
  };
  void mix(const Layer& layer, bool back, Rows& x) const;
  void shear(Vec& x, double sign) const;

  PerceptronShape shape_;
  Index biases_;
  Vec elements_;
  std::vector<Layer> layers_;
  Vec mean_;                          // of what enters the last layer
  Eigen::LLT<Eigen::MatrixXd> last_;  // of the last biases
  mutable Rows scratch_, gathered_, mixed_;
};

}  // namespace bilevel::problems
