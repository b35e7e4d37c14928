#include <bilevel/networks/saved_network.hpp>

#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include <bilevel/data/moments.hpp>
#include <bilevel/encoding/base64.hpp>
#include <bilevel/files/atomic_file.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/networks/netlist.hpp>
#include "encoding/foreign_json.hpp"
#include <bilevel/networks/propagation.hpp>
#include <bilevel/networks/training_options.hpp>
#include <bilevel/version.hpp>

#include "inputs.hpp"
#include "models/schema_json.hpp"

namespace bilevel::networks {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view network_format = "bilevel-network";
constexpr int network_version = 2;

template <class Vector>
std::string packed(const Vector& x) {
  std::string text;
  append_base64(x.data(), sizeof(x[0]) * static_cast<std::size_t>(x.size()), text);
  return text;
}

template <class Vector>
Vector unpacked(const std::string& text) {
  using Scalar = typename Vector::Scalar;
  const std::optional<std::string> bytes = from_base64(text);
  if (!bytes || bytes->size() % sizeof(Scalar) != 0) throw InvalidInput("its numbers are damaged");
  Vector x(static_cast<Index>(bytes->size() / sizeof(Scalar)));
  if (x.size() > 0) std::memcpy(x.data(), bytes->data(), bytes->size());
  return x;
}

data::Dataset table_of(const Eigen::MatrixXd& rows) {
  data::Dataset table;
  table.source = "rows in memory";
  table.x = data::DenseRows(rows);
  return table;
}

}  // namespace

std::string SavedNetwork::text(const std::string& program_version) const {
  const Architecture& a = architecture;
  const OrderedJson j{{"format", network_format},
                      {"version", network_version},
                      {"program", program_version},
                      {"energy", name(a.energy)},
                      {"layers", a.layers},
                      {"activation", name(a.activation)},
                      {"read_out", name(a.read_out)},
                      {"input_gain", a.input_gain},
                      {"gain", a.gain},
                      {"schedule", name(free.schedule)},
                      {"step", free.step},
                      {"free_steps", free.max_steps},
                      {"tolerance", free.tolerance},
                      {"classes", classes},
                      {"shift", packed(shift)},
                      {"factor", packed(factor)},
                      {"imputed", packed(imputed)},
                      {"schema", schema.features > 0 ? models::encode(schema) : OrderedJson(nullptr)},
                      {"weights", packed(theta)}};
  return j.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

SavedNetwork read_network(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(fmt::format("{}: {}; a network is written by bilevel train --save FILE", path, why));
  };
  const std::optional<std::string> text = read_json_file(path);
  if (!text) throw refuse("the file cannot be read");
  try {
    require_shallow(*text);
    const OrderedJson j = OrderedJson::parse(*text);
    if (!j.is_object() || j.value("format", "") != network_format)
      throw InvalidInput("it is no network of bilevel");
    if (const auto version = whole_number(j.at("version")); version != network_version)
      throw InvalidInput(
          fmt::format("it has version {}, this program reads version {}", version, network_version));
    SavedNetwork n;
    Architecture& a = n.architecture;
    a.energy = energy_of(j.at("energy").get<std::string>());
    a.layers = models::whole_numbers(j.at("layers"));
    a.activation = activation_of(j.at("activation").get<std::string>());
    a.read_out = read_out_of(j.at("read_out").get<std::string>());
    a.input_gain = j.at("input_gain");
    a.gain = j.at("gain");
    a.validate().throw_if_any();
    RelaxationOptions& free = n.free;
    free.schedule = schedule_of(j.at("schedule").get<std::string>());
    free.step = j.at("step");
    free.max_steps = whole_number(j.at("free_steps"));
    if (free.max_steps > most_free_steps)
      throw InvalidInput(
          fmt::format("it asks for {} free_steps, and {} are the most", free.max_steps, most_free_steps));
    free.tolerance = j.at("tolerance");
    free.validate("network").throw_if_any();
    n.classes = j.at("classes").get<std::vector<std::string>>();
    n.shift = unpacked<Eigen::VectorXd>(j.at("shift"));
    n.factor = unpacked<Eigen::VectorXd>(j.at("factor"));
    n.imputed = unpacked<Eigen::VectorXd>(j.at("imputed"));
    if (!j.at("schema").is_null()) n.schema = models::decode_schema(j.at("schema"));
    n.theta = unpacked<Eigen::VectorXf>(j.at("weights"));
    if (static_cast<Index>(n.classes.size()) != a.outputs() || n.shift.size() != a.inputs() ||
        n.factor.size() != a.inputs() || (n.imputed.size() != 0 && n.imputed.size() != a.inputs()))
      throw InvalidInput("its sizes do not fit each other");
    if (!n.shift.allFinite() || !n.factor.allFinite()) throw InvalidInput("its scaling is not finite");
    if (n.schema.features != 0 && n.schema.features != a.inputs())
      throw InvalidInput("its columns do not fit its first layer");
    require_parameters(a, n.theta.cast<double>());
    return n;
  } catch (const OrderedJson::exception&) {
    throw refuse("it is damaged or cut off");
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

bool is_network(const std::string& path) {
  const std::optional<std::string> text = read_json_file(path);
  return text && text->find(fmt::format("\"{}\"", network_format)) != std::string::npos;
}

data::Dataset SavedNetwork::read(const std::string& path, data::ReadOptions options) const {
  if (schema.features == 0)
    throw InvalidInput(
        fmt::format("{}: the network was trained on drawn pictures or on rows in memory, which no file looks "
                    "like; train it on data from a file",
                    path));
  options.target_optional = true;
  if (imputed.size() > 0) options.missing = data::Missing::mean;
  return data::read(path, options, &schema);
}

Eigen::MatrixXf SavedNetwork::outputs(data::Dataset rows) const {
  const Architecture& a = architecture;
  if (rows.features() != a.inputs())
    throw InvalidInput(
        fmt::format("{}: has {} features, the network takes {}", rows.source, rows.features(), a.inputs()));
  if (imputed.size() > 0) data::impute(rows, imputed);
  Eigen::MatrixXf inputs = columns_of(rows, all_rows(rows.rows()));
  rescale(shift, factor, inputs);
  for (Index i = 0; i < inputs.cols(); ++i)
    if (!inputs.col(i).allFinite())
      throw InvalidInput(
          fmt::format("{}: row {} has a value that is missing or too large", rows.source, i + 1));
  Propagation<float> propagation(a, {.free = free});
  Eigen::MatrixXf outputs(a.outputs(), inputs.cols());
  const Eigen::MatrixXf targets = Eigen::MatrixXf::Zero(a.outputs(), inputs.cols());
  propagation.settle(theta.data(), inputs.data(), targets.data(), inputs.cols(), outputs.data());
  for (Index i = 0; i < outputs.cols(); ++i)
    if (!outputs.col(i).allFinite())
      throw InvalidInput(fmt::format("{}: row {} gives no finite prediction: a value is missing or too large",
                                     rows.source, i + 1));
  return outputs;
}

Eigen::MatrixXf SavedNetwork::outputs(const Eigen::MatrixXd& rows) const {
  return outputs(table_of(rows));
}

models::Predictions SavedNetwork::predictions(data::Dataset rows) const {
  models::Predictions said;
  said.notes = rows.notes;
  said.margins = outputs(std::move(rows)).cast<double>().transpose();
  if (architecture.read_out == ReadOut::cross_entropy)
    said.probabilities = models::softmax_rows(said.margins);
  said.values.resize(said.margins.rows());
  for (Index i = 0, best = 0; i < said.values.size(); ++i) {
    said.margins.row(i).maxCoeff(&best);
    said.values[i] = static_cast<double>(best);
  }
  return said;
}

std::vector<std::string> SavedNetwork::predict(data::Dataset rows) const {
  std::vector<std::string> answers;
  for (const double each : predictions(std::move(rows)).values)
    answers.push_back(classes[static_cast<std::size_t>(each)]);
  return answers;
}

std::vector<std::string> SavedNetwork::predict(const Eigen::MatrixXd& rows) const {
  return predict(table_of(rows));
}

void SavedNetwork::save(const std::string& path) const {
  if (const std::string problem = replace_file(path, text(std::string(version))); !problem.empty())
    throw InvalidInput(problem);
}

std::string SavedNetwork::netlist(const Eigen::VectorXf& inputs) const {
  if (!architecture.resistive()) throw InvalidInput("networks that are not resistive are no circuits");
  LayeredCircuit network = layered_circuit(architecture, theta.cast<double>());
  network.clamp(inputs.cast<double>());
  std::vector<std::string> meaning;
  for (std::size_t i = 0; i < classes.size(); ++i)
    meaning.push_back(fmt::format("n{} {}", network.outputs[i], classes[i]));
  return networks::netlist(network.circuit,
                           {.title = fmt::format("resistive network {}, inputs at V0 to V{}, outputs: {}",
                                                 fmt::join(architecture.layers, "-"), 2 * network.inputs - 1,
                                                 fmt::join(meaning, ", "))});
}

}  // namespace bilevel::networks
