#include <bilevel/networks/architecture.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "by_name.hpp"

namespace bilevel::networks {
namespace {

constexpr std::array<std::string_view, 3> energies{"hopfield", "predictive-coding", "resistive"};
constexpr std::array<std::string_view, 4> activations{"clip", "sigmoid", "tanh", "diode"};
constexpr std::array<std::string_view, 2> read_outs{"squared", "cross-entropy"};

/// Uniform in [−1, 1), from the engine's bits alone: the standard distributions differ between platforms.
double uniform(std::mt19937_64& engine) {
  return static_cast<double>(static_cast<std::int64_t>(engine()) >> 11) * 0x1p-52;
}

using Matrix = Eigen::Map<Eigen::MatrixXd>;

/// 0 … n − 1 in an order of the engine's.
std::vector<Index> shuffled(Index n, std::mt19937_64& engine) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  return order;
}

/// Rows or columns, whichever are fewer, are orthogonal and of length `size`: those of a cosine transform, in
/// any order and with any signs. O(n²), where factorising a random matrix takes n³.
void draw_orthogonal(double size, std::mt19937_64& engine, Matrix w) {
  const Index n = std::max(w.rows(), w.cols());
  const std::vector<Index> rows = shuffled(n, engine), columns = shuffled(n, engine);
  Eigen::VectorXd cosines(4 * n), row_signs(w.rows()), column_signs(w.cols());
  for (Index i = 0; i < 4 * n; ++i)
    cosines[i] = std::cos(std::numbers::pi * static_cast<double>(i) / static_cast<double>(2 * n));
  for (auto* signs : {&row_signs, &column_signs})
    for (Index i = 0; i < signs->size(); ++i) (*signs)[i] = engine() >> 63 ? 1 : -1;
  for (Index j = 0; j < w.cols(); ++j)
    for (Index i = 0; i < w.rows(); ++i) {
      const Index frequency = rows[static_cast<std::size_t>(i)];
      const double length = size * std::sqrt((frequency == 0 ? 1.0 : 2.0) / static_cast<double>(n));
      w(i, j) = length * row_signs[i] * column_signs[j] *
                cosines[frequency * (2 * columns[static_cast<std::size_t>(j)] + 1) % (4 * n)];
    }
}

void draw_uniform(double size, std::mt19937_64& engine, Matrix w) {
  for (Index i = 0; i < w.size(); ++i) w.data()[i] = size * uniform(engine);
}

/// W_k and b_k of networks with hidden layers that carry a signal through all of them.
void draw_carrying(const Architecture& a, double scale, std::mt19937_64& engine, Eigen::VectorXd& theta) {
  const auto weights = [&](Index k) {
    const LayerParameters p = a.layer(k);
    return Matrix(theta.data() + p.weights, p.units, p.inputs);
  };
  const auto bias = [&](Index k) {
    const LayerParameters p = a.layer(k);
    return theta.segment(p.bias, p.units);
  };
  const bool mutual = a.energy == Energy::hopfield;
  const double coupling = mutual ? 0.5 : 1, middle = middle_of(a.activation);
  draw_uniform(scale * weight_size(a, 1) * std::sqrt(6 / static_cast<double>(a.width(0) + a.width(1))),
               engine, weights(1));
  // A unit whose neighbours are all in their middle is in its own.
  if (a.activation == Activation::clip)
    for (Index k = 1; k < a.depth(); ++k) bias(k).array() += middle;
  for (Index k = 2; k <= a.depth(); ++k) {
    draw_orthogonal(scale * coupling * weight_size(a, k), engine, weights(k));
    bias(k) -= middle * weights(k).rowwise().sum();
    if (mutual && k < a.depth()) bias(k - 1) -= middle * weights(k).colwise().sum().transpose();
  }
  // Clipped outputs that begin below 0 answer to no nudge: all begin at the mean of their targets.
  if (a.bounded(a.depth())) bias(a.depth()).array() += 1 / static_cast<double>(a.outputs());
}

/// Conductances of which every unit has `few` to the layer below: a mean over few falls less.
void draw_few(const LayerParameters& p, Index few, double scale, std::mt19937_64& engine,
              Eigen::VectorXd& theta) {
  Matrix g(theta.data() + p.weights, p.units, p.inputs);
  g.setZero();
  // Their sum is that of conductances to all.
  const double most = 0.5 * scale * std::sqrt(static_cast<double>(p.inputs)) / static_cast<double>(few);
  std::vector<Index> order = shuffled(p.inputs, engine);
  for (Index i = 0; i < p.units; ++i)
    for (std::size_t n = 0; n < static_cast<std::size_t>(few); ++n) {
      std::swap(order[n], order[n + engine() % (order.size() - n)]);
      g(i, order[n]) = most * std::abs(uniform(engine));
    }
}

}  // namespace

double middle_of(Activation activation) {
  return activation == Activation::clip || activation == Activation::sigmoid ? 0.5 : 0;
}

double weight_size(const Architecture& a, Index k) {
  // ρ′ at the middle; the ends of a coupling have one each, and inputs and outputs are linear.
  const double slope = a.activation == Activation::sigmoid ? 0.25 : 1;
  return 1 / (k == 1 || k == a.depth() ? std::sqrt(slope) : slope);
}

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
  const Index hidden = architecture.depth() - 1;
  if (hidden >= (architecture.energy == Energy::hopfield ? 1 : 2) && !architecture.resistive()) {
    draw_carrying(architecture, scale, engine, theta);
    return theta;
  }
  for (Index k = 1; k <= architecture.depth(); ++k) {
    const LayerParameters p = architecture.layer(k);
    if (architecture.resistive()) {
      const auto sources = static_cast<double>((k == 1 ? 2 : 1) * p.inputs);
      for (Index i = p.weights; i < p.end; ++i)
        theta[i] = std::max(0.0, scale / std::sqrt(sources) * uniform(engine));
      if (hidden > 1 && k > 1)
        draw_few(p, std::min(p.inputs, Architecture::few_neighbours), scale, engine, theta);
    } else {
      draw_uniform(scale * std::sqrt(6 / static_cast<double>(p.inputs + p.units)), engine,
                   Matrix(theta.data() + p.weights, p.units, p.inputs));
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
