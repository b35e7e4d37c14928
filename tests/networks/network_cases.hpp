#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <bilevel/networks/network_problem.hpp>
#include <bilevel/networks/relaxation.hpp>

namespace network_cases {

using namespace bilevel::networks;
using bilevel::InvalidInput;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// One of every kind, small enough for dense references.
inline std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const Activation activation : {Activation::clip, Activation::sigmoid, Activation::tanh})
    for (const ReadOut read_out : {ReadOut::squared, ReadOut::cross_entropy})
      for (const std::vector<Index>& layers :
           {std::vector<Index>{5, 3}, {5, 7, 3}, {5, 6, 4, 3}, {4, 5, 4, 3, 2}})
        all.push_back(
            {.energy = Energy::hopfield, .layers = layers, .activation = activation, .read_out = read_out});
  for (const Activation activation : {Activation::sigmoid, Activation::tanh})
    for (const ReadOut read_out : {ReadOut::squared, ReadOut::cross_entropy})
      for (const std::vector<Index>& layers : {std::vector<Index>{5, 3}, {5, 7, 3}, {5, 6, 4, 3}})
        all.push_back({.energy = Energy::predictive_coding,
                       .layers = layers,
                       .activation = activation,
                       .read_out = read_out});
  for (const std::vector<Index>& layers : {std::vector<Index>{5, 3}, {5, 7, 3}, {5, 6, 4, 3}})
    all.push_back({.energy = Energy::resistive,
                   .layers = layers,
                   .activation = Activation::diode,
                   .input_gain = 3,
                   .gain = 1.5});
  return all;
}

inline std::string label(const Architecture& a) {
  return fmt::format("{} {} {} {}", name(a.energy), name(a.activation), name(a.read_out),
                     fmt::join(a.layers, "-"));
}

inline Mat random_matrix(Index rows, Index columns, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  return Mat::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

/// Weights without a structure, whatever training begins with: every one is drawn for itself.
inline Vec plain_parameters(const Architecture& a, std::uint64_t seed) {
  Vec theta = Vec::Zero(a.parameters());
  std::mt19937_64 engine(seed);
  const auto uniform = [&] {
    return static_cast<double>(static_cast<std::int64_t>(engine()) >> 11) * 0x1p-52;
  };
  for (Index k = 1; k <= a.depth(); ++k) {
    const LayerParameters p = a.layer(k);
    const auto sources = static_cast<double>((k == 1 ? 2 : 1) * p.inputs);
    for (Index i = p.weights; i < (a.resistive() ? p.end : p.bias); ++i)
      theta[i] = a.resistive() ? std::max(0.0, uniform() / std::sqrt(sources))
                               : std::sqrt(6 / static_cast<double>(p.inputs + p.units)) * uniform();
  }
  return theta;
}

/// Biases too, so that no term vanishes. Couplings between settling layers are weak enough for the energy of
/// Hopfield networks to have one minimum.
inline Vec parameters(const Architecture& a, std::uint64_t seed) {
  Vec theta = plain_parameters(a, seed);
  std::mt19937_64 engine(seed + 1000);
  std::uniform_real_distribution<double> uniform(0.05, 0.4);
  if (a.resistive()) {
    for (double& each : theta) each += uniform(engine);
    return theta;
  }
  if (a.energy == Energy::hopfield) theta *= 0.4;
  for (Index k = 1; k <= a.depth(); ++k)
    for (Index i = a.layer(k).bias; i < a.layer(k).end; ++i) theta[i] = uniform(engine);
  return theta;
}

inline Samples samples(const Architecture& a, Index batch, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Samples s{random_matrix(a.inputs(), batch, engine), Mat::Zero(a.outputs(), batch)};
  for (Index n = 0; n < batch; ++n)
    s.targets(static_cast<Index>(engine() % static_cast<std::uint64_t>(a.outputs())), n) = 1;
  return s;
}

inline NetworkProblem problem(const Architecture& a, Index batch, std::uint64_t seed) {
  return NetworkProblem(a, samples(a, batch, seed), parameters(a, seed));
}

/// Fine steps for predictive coding, exact ones for the others.
inline RelaxationOptions tight(const Architecture& a) {
  const bool predictive = a.energy == Energy::predictive_coding;
  return {
      .schedule = Schedule::even_odd, .step = predictive ? 0.3 : 1, .max_steps = 20000, .tolerance = 1e-15};
}

}  // namespace network_cases
