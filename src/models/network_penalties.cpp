// Which penalty each weight of a network obeys.

#include "network_penalties.hpp"

#include "feature_groups.hpp"
#include "preparation.hpp"

namespace bilevel::models {

using bilevel::problems::PenaltyMap;
using bilevel::problems::PerceptronShape;

namespace {

/// Penalties that are given to weights in their order.
struct Penalties {
  std::vector<std::string>& names;
  std::vector<Index> of = {};

  void add(std::string name, Index count) {
    of.insert(of.end(), static_cast<std::size_t>(count), static_cast<Index>(names.size()));
    names.push_back(std::move(name));
  }
  void add_layer(const PerceptronShape& shape, Index l) {
    const bool last = l + 1 == shape.layers();
    add(fmt::format("layer {}", l + 1), (shape.inputs(l) + (last ? 0 : 1)) * shape.units(l));
  }
  PenaltyMap map() { return {std::move(of), static_cast<Index>(names.size()), {}, {}}; }
};

}  // namespace

PenaltyMap layers_map(const PerceptronShape& shape, std::vector<std::string>& names) {
  Penalties penalties{names};
  for (Index l = 0; l < shape.layers(); ++l) penalties.add_layer(shape, l);
  return penalties.map();
}

void Preparation::set_network_penalties() {
  const PerceptronShape shape = p_.shape();
  const Index parameters = shape.size();
  if (parameters > most_parameters)
    throw InvalidInput(
        fmt::format("TuneOptions.layers = {}: with {} features that is a network of {} parameters, more than "
                    "{}: take smaller "
                    "layers, or fewer features",
                    fmt::join(p_.layers, "-"), shape.features, parameters, most_parameters));
  if (parameters > 10 * p_.training_rows)
    p_.notes.push_back(
        fmt::format("the network has {} parameters for {} training rows: what it learns is what the "
                    "penalties leave of it",
                    parameters, p_.training_rows));
  Penalties penalties{p_.hyperparameters};
  const Index width = shape.units(0);
  switch (options_.penalty) {
    case Penalty::global:
      penalties.add("all", shape.penalised());
      break;
    case Penalty::per_layer:
      p_.penalties = layers_map(shape, p_.hyperparameters);
      return;
    case Penalty::automatic:
    case Penalty::per_feature:
    case Penalty::per_group:
      if (options_.penalty == Penalty::per_group || options_.grouped()) {
        for (const Index group : groups_of(options_, first(), p_.columns, p_.hyperparameters))
          penalties.of.insert(penalties.of.end(), static_cast<std::size_t>(width), group);
      } else {
        for (const std::string& feature : p_.names) penalties.add(feature, width);
      }
      penalties.add("biases of layer 1", width);
      for (Index l = 1; l < shape.layers(); ++l) penalties.add_layer(shape, l);
      break;
    case Penalty::per_parameter:
      for (Index l = 0; l < shape.layers(); ++l)
        for (Index i = 0; i < shape.inputs(l) + (l + 1 == shape.layers() ? 0 : 1); ++i)
          for (Index unit = 0; unit < shape.units(l); ++unit) {
            const std::string from = i == shape.inputs(l) ? "bias"
                                     : l == 0             ? p_.names[static_cast<std::size_t>(i)]
                                                          : fmt::format("unit {}", i + 1);
            penalties.add(fmt::format("{} → unit {} of layer {}", from, unit + 1, l + 1), 1);
          }
      break;
    case Penalty::per_class:
      throw InvalidInput("TuneOptions.penalty = per-class is for softmax, not for mlp");
  }
  p_.penalties = penalties.map();
}

}  // namespace bilevel::models
