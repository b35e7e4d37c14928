#include <bilevel/networks/architecture.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace bilevel::networks {
namespace {

constexpr std::array<std::string_view, 3> energies{"hopfield", "predictive-coding", "resistive"};
constexpr std::array<std::string_view, 4> activations{"clip", "sigmoid", "tanh", "diode"};
constexpr std::array<std::string_view, 2> read_outs{"squared", "cross-entropy"};

template <class Enum, class Names>
Enum by_name(std::string_view what, std::string_view name, const Names& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw InvalidInput(fmt::format("there is no {} \"{}\"; known are {}", what, name, fmt::join(names, ", ")));
}

/// Uniform in [−1, 1), from the engine's bits alone: the standard distributions differ between platforms.
double uniform(std::mt19937_64& engine) {
  return static_cast<double>(static_cast<std::int64_t>(engine()) >> 11) * 0x1p-52;
}

}  // namespace

std::string_view name(Energy energy) {
  return energies[static_cast<std::size_t>(energy)];
}
std::string_view name(Activation activation) {
  return activations[static_cast<std::size_t>(activation)];
}
std::string_view name(ReadOut read_out) {
  return read_outs[static_cast<std::size_t>(read_out)];
}
Energy energy_of(std::string_view name) {
  return by_name<Energy>("energy", name, energies);
}
Activation activation_of(std::string_view name) {
  return by_name<Activation>("activation", name, activations);
}
ReadOut read_out_of(std::string_view name) {
  return by_name<ReadOut>("read-out", name, read_outs);
}

Violations Architecture::validate() const {
  Violations v("network");
  v.require(layers.size() >= 2, "layers", layers.size(),
            "layer sizes: there must be at least inputs and outputs");
  // As many as a file has columns at most: sums of products of these are numbers still.
  v.require(layers.size() <= 1000, "layers", layers.size(), "layers: there must be 1000 at most");
  for (const Index units : layers)
    v.require(units >= 1 && units <= 10'000'000, "layers", units, "must each be 1 to ten million");
  v.positive("input_gain", input_gain).positive("gain", gain);
  v.require(resistive() == (activation == Activation::diode), "activation", name(activation),
            resistive() ? "must be diode: the units of a resistive network have no other"
                        : "belongs to resistive networks");
  v.require(energy != Energy::predictive_coding || smooth(), "activation", name(activation),
            "must be sigmoid or tanh: predictive coding needs its derivative");
  v.require(resistive() || (input_gain == 1 && gain == 1), "gain",
            resistive() ? gain : std::max(gain, input_gain), "belongs to resistive networks");
  v.require(!resistive() || read_out == ReadOut::squared, "read_out", name(read_out),
            "must be squared: nudging a circuit is a resistor to a source");
  return v;
}

Index Architecture::states() const {
  Index sum = 0;
  for (Index k = 1; k <= depth(); ++k) sum += width(k);
  return sum;
}

Index Architecture::parameters() const {
  return layer(depth()).end;
}

LayerParameters Architecture::layer(Index k) const {
  LayerParameters p;
  for (Index l = 1; l <= k; ++l) {
    p.units = width(l);
    p.inputs = width(l - 1);
    p.weights = p.end;
    p.opposite = p.weights + p.units * p.inputs;
    p.bias = p.opposite + (resistive() && l == 1 ? p.units * p.inputs : 0);
    p.end = p.bias + (resistive() ? 2 : 1) * p.units;
  }
  return p;
}

bool Architecture::bounded(Index k) const {
  return !smooth() && (k < depth() || (energy == Energy::hopfield && read_out == ReadOut::squared));
}

Eigen::VectorXd Architecture::lower(Index k) const {
  Eigen::VectorXd bound = Eigen::VectorXd::Constant(width(k), -std::numeric_limits<double>::infinity());
  if (!bounded(k)) return bound;
  if (!resistive()) return Eigen::VectorXd::Zero(width(k));
  for (Index i = 0; i < bound.size(); i += 2) bound[i] = 0;
  return bound;
}

Eigen::VectorXd Architecture::upper(Index k) const {
  Eigen::VectorXd bound = Eigen::VectorXd::Constant(width(k), std::numeric_limits<double>::infinity());
  if (!bounded(k)) return bound;
  if (!resistive()) return Eigen::VectorXd::Ones(width(k));
  for (Index i = 1; i < bound.size(); i += 2) bound[i] = 0;
  return bound;
}

Eigen::VectorXd initial_parameters(const Architecture& architecture, std::uint64_t seed, double scale) {
  architecture.validate().throw_if_any();
  Violations("network").positive("scale", scale).throw_if_any();
  Eigen::VectorXd theta = Eigen::VectorXd::Zero(architecture.parameters());
  std::mt19937_64 engine(seed);
  for (Index k = 1; k <= architecture.depth(); ++k) {
    const LayerParameters p = architecture.layer(k);
    if (architecture.resistive()) {
      const auto sources = static_cast<double>((k == 1 ? 2 : 1) * p.inputs);
      for (Index i = p.weights; i < p.end; ++i)
        theta[i] = std::max(0.0, scale / std::sqrt(sources) * uniform(engine));
    } else {
      const double size = scale * std::sqrt(6 / static_cast<double>(p.inputs + p.units));
      for (Index i = p.weights; i < p.bias; ++i) theta[i] = size * uniform(engine);
    }
  }
  return theta;
}

void require_parameters(const Architecture& architecture, const Eigen::VectorXd& theta) {
  if (theta.size() != architecture.parameters())
    throw InvalidInput(fmt::format("network: theta has {} numbers, layers {} want {}", theta.size(),
                                   fmt::join(architecture.layers, "-"), architecture.parameters()));
  for (Index k = 1; k <= architecture.depth(); ++k) {
    const LayerParameters p = architecture.layer(k);
    for (Index i = p.weights; i < p.end; ++i) {
      const auto what = [&] {
        return fmt::format("{} {} of layer {}", i < p.bias ? "weight" : "bias",
                           i < p.bias ? i - p.weights : i - p.bias, k);
      };
      if (!std::isfinite(theta[i])) throw InvalidInput(fmt::format("network: {} is {}", what(), theta[i]));
      if (architecture.resistive() && theta[i] < 0)
        throw InvalidInput(fmt::format("network: {} is a conductance and cannot be {}", what(), theta[i]));
    }
  }
}

}  // namespace bilevel::networks
