#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <bilevel/problem/units.hpp>
#include <bilevel/problems/data_loss.hpp>
#include <bilevel/problems/penalty_map.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::problems {

/// Of hidden units; both are smooth, so that Hessians exist everywhere. softplus(z) = log(1 + exp z).
enum class Activation { tanh, softplus };
std::string_view name(Activation activation);
/// Throws InvalidInput with the list of names for any other text.
Activation activation_named(std::string_view text);

/// A multilayer perceptron: a₀ = x, a_l = σ(W_lᵀ a_(l−1) + b_l), and the margins W_Lᵀ a_(L−1) + b_L of the
/// last layer. Its parameters are one vector, the layers one after another: W_l row by row, the weights that
/// leave an input next to each other, then b_l. With no hidden layer that is a linear model, and the layout
/// that of its coefficients.
struct PerceptronShape {
  Index features = 0;
  std::vector<Index> hidden = {};  ///< units of each hidden layer
  Index outputs = 1;
  Activation activation = Activation::tanh;

  Index layers() const { return static_cast<Index>(hidden.size()) + 1; }
  Index inputs(Index layer) const {
    return layer == 0 ? features : hidden[static_cast<std::size_t>(layer - 1)];
  }
  Index units(Index layer) const {
    return layer + 1 == layers() ? outputs : hidden[static_cast<std::size_t>(layer)];
  }
  Index place(Index layer) const;  ///< of the first weight of a layer
  Index size() const { return place(layers()); }
  /// All but the last biases: these come first, and have penalties.
  Index penalised() const { return size() - outputs; }
};

/// The margins of rows from what their features give to the first layer, W_0ᵀx + b_0, a row each.
Eigen::MatrixXd perceptron_margins(const PerceptronShape& shape, const Eigen::VectorXd& parameters,
                                   Eigen::MatrixXd first);

class PerceptronLoss;
class PerceptronUnits;

/// A multilayer perceptron with penalties to learn, on data that are standardised as they are read:
///   L_in = mean training loss + ½ Σ_k λ_k(θ) φ_k²,      L_out = mean validation loss, no penalty
/// φ holds all weights and biases in the layout of PerceptronShape, those of the first layer for the
/// standardised features. The biases of hidden layers have penalties as weights have: a unit of no use would
/// leave its bias undetermined otherwise. The last biases are free, but for the last class's, which is 0.
/// L_in has many minima: which of them is φ*(θ) follows from the start, initial_phi(), random weights of the
/// seed given. See Units for the problem's own variable.
class Perceptron final : public Problem<Eigen::VectorXd>, public Units<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;

  /// One output: `loss` is one without a parameter whose second derivative is known (LossKind::continued):
  /// squared or logistic. Several: softmax. Throws InvalidInput for anything else.
  Perceptron(PerceptronShape shape, kernels::Loss loss, Samples samples, std::vector<RowRange> training,
             std::vector<RowRange> validation, Standardisation standardisation, PenaltyMap penalties,
             bool intercept = true, std::uint64_t seed = 1);
  ~Perceptron() override;

  Vec initial_phi() const override;
  Vec initial_theta() const override;
  double inner(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) override;
  double outer(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& psi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;

  /// By a typical curvature, a number for each element, a power of two: changing units changes no digit.
  void adopt_units(const Vec& theta) override;
  /// By the curvature that the training rows show at φ, as Kronecker factors of each layer.
  void adopt_units(const Vec& theta, const Vec& phi) override;
  void to_own(Vec& x) const override;
  void to_true(Vec& x) const override;
  /// T's diagonal, where adopt_units knew no φ.
  const Vec& units() const;

  const PerceptronShape& shape() const { return shape_; }
  /// The parameters for features as they are stored, and for standardised ones, both for φ in its true units.
  Vec stored_coefficients(const Vec& phi) const;
  Vec standardised_coefficients(const Vec& phi) const;
  /// The gradient by ψ of a function whose gradient by the stored parameters is g.
  void pull_back(const Vec& g, Vec& out) const;
  /// The gradient by ψ of Σ shares_i·loss of validation row i, unweighted.
  void validation_gradient(const Vec& psi, const Vec& shares, Vec& out);

  /// Other penalties from now on; θ may have another size then.
  void set_penalty_map(PenaltyMap penalties);
  const PenaltyMap& penalties() const { return penalties_; }
  RowLosses& training();
  RowLosses& validation();

 private:
  friend struct PerceptronCurvature;

  void to_stored(const Vec& phi, Vec& u) const;
  void pull_back_stored(const Vec& g, Vec& out) const;
  void set_penalties(const Vec& theta);
  double cross_norm(const Vec& lambda, const Vec& cross) const;

  PerceptronShape shape_;
  std::unique_ptr<PerceptronLoss> training_, validation_;
  Standardisation standardisation_;
  PenaltyMap penalties_;
  Index penalised_, size_;
  Vec mean_square_;  // of what each weight is multiplied with
  std::unique_ptr<PerceptronUnits> units_;
  Vec start_;
  Vec lambda_;           // of each element of φ, 0 for the last biases
  Vec phi_, u_, g_, h_;  // scratch: φ = T·ψ, and stored coordinates
};

/// The weighted mean loss of some rows, as `Perceptron` has it.
std::unique_ptr<RowLosses> make_perceptron_loss(PerceptronShape shape, kernels::Loss loss, Samples samples,
                                                std::vector<RowRange> ranges);

}  // namespace bilevel::problems
