#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <Eigen/Core>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::networks {

using Index = Eigen::Index;

/// What a network minimises when it settles; formulas in docs/networks.md.
enum class Energy { hopfield, predictive_coding, resistive };
/// ρ of the hidden units. `clip`: states held in [0, 1]; `diode`: resistive units, whose voltage an ideal
/// diode holds on one side of zero (even units ≥ 0, odd ones ≤ 0).
enum class Activation { clip, sigmoid, tanh, diode };
/// L_out of one sample: ½‖u_K − y‖², or the cross-entropy of softmax(u_K).
enum class ReadOut { squared, cross_entropy };

std::string_view name(Energy energy);
std::string_view name(Activation activation);
std::string_view name(ReadOut read_out);
/// By name; InvalidInput with the list where there is none.
Energy energy_of(std::string_view name);
Activation activation_of(std::string_view name);
ReadOut read_out_of(std::string_view name);

/// Where one layer's parameters lie in θ. Matrices are column by column, the layer's units down a column.
struct LayerParameters {
  Index units = 0, inputs = 0;
  Index weights = 0;   ///< W_k, units × inputs; resistive: conductances, in the first layer those to +x
  Index opposite = 0;  ///< resistive, first layer: conductances to −x; elsewhere no room is taken
  Index bias = 0;  ///< b_k; resistive: conductances to the positive rail, then as many to the negative one
  Index end = 0;
};

/// A layered network: its energy, its units, and how θ is laid out. With s_0 = x clamped, s_k = ρ(u_k):
///   hopfield           E = Σ_k Σ_i c(u_ki) − s_kᵀ(W_k s_{k−1} + b_k),   c(u) = u·ρ(u) − ∫ρ, so that at rest
///                      u_k = W_k s_{k−1} + b_k + W_{k+1}ᵀ s_{k+1}; clip: c = ½u² with u held in [0, 1]
///   predictive_coding  E = Σ_k ½‖u_k − W_k s_{k−1} − b_k‖²
///   resistive          E = Σ_k Σ_ij ½ g_ij (a_{k−1} u_{k−1,j} − u_ki)² with inputs ±a_0 x, a_k the gain of
///   the
///                      amplifiers behind layer k, and conductances to rails at ±rail
/// The last layer is linear; that of a clipped Hopfield network with squared error is clipped as well,
/// without which strong couplings would leave the energy without a minimum.
struct Architecture {
  Energy energy = Energy::hopfield;
  std::vector<Index> layers;  ///< n_0-n_1-…-n_K: inputs, hidden layers, outputs
  Activation activation = Activation::clip;
  ReadOut read_out = ReadOut::squared;
  double input_gain = 1;  ///< a_0 of resistive networks: what inputs are multiplied by; > 0
  double gain = 1;        ///< a_k, k ≥ 1, of resistive networks: amplification between layers; > 0

  Violations validate() const;

  Index depth() const { return static_cast<Index>(layers.size()) - 1; }  ///< K
  Index inputs() const { return layers.front(); }
  Index outputs() const { return layers.back(); }
  Index width(Index k) const { return layers[static_cast<std::size_t>(k)]; }
  Index states() const;                  ///< Σ_{k≥1} n_k: |φ| of one sample
  Index parameters() const;              ///< |θ|
  LayerParameters layer(Index k) const;  ///< k = 1 … K

  bool resistive() const { return energy == Energy::resistive; }
  /// Analytic in u: sigmoid and tanh networks, whose states have no bounds.
  bool smooth() const { return activation == Activation::sigmoid || activation == Activation::tanh; }
  /// Bounds of the states of layer k; infinite where there are none.
  Eigen::VectorXd lower(Index k) const;
  Eigen::VectorXd upper(Index k) const;
  bool bounded(Index k) const;
  /// What s_{k−1} is multiplied by on its way into layer k.
  double gain_into(Index k) const { return !resistive() ? 1 : k == 1 ? input_gain : gain; }
  /// Siemens from every unit of a circuit to ground: one whose conductances have all become zero rests there.
  static constexpr double leak = 1e-6;
  /// Neighbours below that a unit of a circuit with several hidden layers begins with; the other conductances
  /// to the layer below begin at 0.
  static constexpr Index few_neighbours = 4;
  /// Voltage of the rails of layer k: on the scale of its other inputs.
  double rail(Index k) const { return k == 1 ? input_gain : 1; }
};

/// The activity that a hidden unit can leave both ways: ½ of clip and sigmoid, else 0.
double middle_of(Activation activation);
/// What the weights of layer k are drawn, and moved, in units of: 1/ρ′ at the middle between hidden layers,
/// its root to inputs and outputs, which are linear. 1 but for sigmoid units, whose slope is ¼.
double weight_size(const Architecture& architecture, Index k);

/// Parameters that carry a signal from the inputs to the outputs and a nudge back, however many layers there
/// are between. The same for one seed, but for the rounding of cosines. With c_k = weight_size(k):
///   hopfield           W_1 uniform in ±√(6/(n_0 + n_1)) · c_1 · scale; the others have orthogonal rows or
///                      columns of length ½·c_k·scale: a chain of linear units with couplings below
///                      ½/cos(π/K) is stable, and at ½ a signal falls least. Biases put units whose
///                      neighbours are in their middle into their own, clipped outputs at 1/n_K
///   predictive coding  the same with length c_k·scale, which keeps the length of a signal; with one hidden
///                      layer W uniform in ±√(6/(n_{k−1} + n_k)) · scale, biases 0
///   resistive          g = max(0, uniform in ±scale/√(inputs)), rails alike; with several hidden layers, and
///                      from the second on, few_neighbours of them alone, of the same sum, since the mean of
///                      many voltages is small
Eigen::VectorXd initial_parameters(const Architecture& architecture, std::uint64_t seed, double scale = 1);

/// Complains, naming the first one, about parameters that are not finite, or conductances below 0.
void require_parameters(const Architecture& architecture, const Eigen::VectorXd& theta);

}  // namespace bilevel::networks
