#include <bilevel/outer/checkpoint.hpp>

#include <nlohmann/json.hpp>

#include <bilevel/outcome/atomic_file.hpp>

namespace bilevel {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "bilevel-checkpoint";
constexpr int format_version = 4;

// JSON has no NaN and no infinity; finite numbers are printed with as many digits as make them exact.
json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
double number(const json& j) {
  if (j.is_number()) return j.get<double>();
  const auto text = j.get<std::string>();
  if (text == "nan") return unknown;
  if (text == "inf") return everywhere;
  if (text == "-inf") return -everywhere;
  throw InvalidInput(fmt::format("'{}' is not a number", text));
}

json array(const Eigen::VectorXd& x) {
  json j = json::array();
  for (const double value : x) j.push_back(number(value));
  return j;
}
Eigen::VectorXd vector(const json& j) {
  Eigen::VectorXd x(static_cast<Index>(j.size()));
  for (std::size_t i = 0; i < j.size(); ++i) x[static_cast<Index>(i)] = number(j[i]);
  return x;
}

json encode(const Certificate& c) {
  return {{"kind", static_cast<int>(c.kind)},
          {"verdict", static_cast<int>(c.verdict)},
          {"bound", number(c.bound)},
          {"theorem_bound", number(c.theorem_bound)},
          {"inner_residual", number(c.inner_residual)},
          {"adjoint_residual", number(c.adjoint_residual)},
          {"delta", number(c.delta)},
          {"delta_prime", number(c.delta_prime)},
          {"mu", number(c.mu)},
          {"smoothness", number(c.smoothness)},
          {"mu_source", c.mu_source},
          {"smoothness_source", c.smoothness_source},
          {"reason", c.reason}};
}
Certificate decode_certificate(const json& j) {
  Certificate c;
  c.kind = static_cast<Kind>(j.at("kind").get<int>());
  c.verdict = static_cast<Verdict>(j.at("verdict").get<int>());
  c.bound = number(j.at("bound"));
  c.theorem_bound = number(j.at("theorem_bound"));
  c.inner_residual = number(j.at("inner_residual"));
  c.adjoint_residual = number(j.at("adjoint_residual"));
  c.delta = number(j.at("delta"));
  c.delta_prime = number(j.at("delta_prime"));
  c.mu = number(j.at("mu"));
  c.smoothness = number(j.at("smoothness"));
  c.mu_source = j.at("mu_source");
  c.smoothness_source = j.at("smoothness_source");
  c.reason = j.at("reason");
  return c;
}

/// The ledger's fields in one fixed order.
json encode(const Cost& c) {
  return {c.inner_values,     c.inner_gradients, c.outer_values,        c.outer_gradients, c.linearisations,
          c.hessian_products, c.cross_products,  c.dense_hessians,      c.factorizations,  c.bytes,
          c.seconds_inner,    c.seconds_adjoint, c.seconds_certificate, c.dense_columns};
}
Cost decode_cost(const json& j) {
  return {.inner_values = j.at(0),
          .inner_gradients = j.at(1),
          .outer_values = j.at(2),
          .outer_gradients = j.at(3),
          .linearisations = j.at(4),
          .hessian_products = j.at(5),
          .cross_products = j.at(6),
          .dense_hessians = j.at(7),
          .dense_columns = j.at(13),
          .factorizations = j.at(8),
          .bytes = j.at(9),
          .seconds_inner = j.at(10),
          .seconds_adjoint = j.at(11),
          .seconds_certificate = j.at(12)};
}

json encode(const OptimizerState& state) {
  json j{{"numbers", json::object()}, {"vectors", json::object()}};
  for (const auto& [key, value] : state.numbers) j["numbers"][key] = number(value);
  for (const auto& [key, value] : state.vectors) j["vectors"][key] = array(value);
  return j;
}
OptimizerState decode_state(const json& j) {
  OptimizerState state;
  for (const auto& [key, value] : j.at("numbers").items()) state.numbers[key] = number(value);
  for (const auto& [key, value] : j.at("vectors").items()) state.vectors[key] = vector(value);
  return state;
}

json encode(const Checkpoint& c) {
  json j;
  j["identity"] = c.identity;
  j["optimizer"] = c.optimizer;
  j["theta"] = array(c.theta);
  j["state"] = encode(c.state);
  j["search"] = encode(c.search);
  j["searched"] = c.searched;
  if (c.accepted)
    j["accepted"] = {{"theta", array(c.accepted->theta)},
                     {"phi", array(c.accepted->phi)},
                     {"pi", array(c.accepted->pi)},
                     {"gradient", array(c.accepted->gradient)},
                     {"outer_value", number(c.accepted->outer_value)},
                     {"gradient_norm", number(c.accepted->gradient_norm)},
                     {"certificate", encode(c.accepted->certificate)},
                     {"corrected_value", number(c.accepted->corrected_value)}};
  j["inner_tolerance"] = number(c.inner_tolerance);
  j["adjoint_tolerance"] = number(c.adjoint_tolerance);
  j["iterations"] = c.iterations;
  j["evaluations"] = c.evaluations;
  j["seconds"] = c.seconds;
  j["cost"] = encode(c.cost);
  j["history"] = json::array();
  for (const HistoryEntry& h : c.history)
    j["history"].push_back({h.iteration, h.accepted, number(h.outer_value), number(h.gradient_norm),
                            number(h.bound), static_cast<int>(h.kind), static_cast<int>(h.verdict),
                            number(h.inner_tolerance), h.seconds});
  return j;
}

Checkpoint decode(const json& j) {
  Checkpoint c;
  c.identity = j.at("identity");
  c.optimizer = j.at("optimizer");
  c.theta = vector(j.at("theta"));
  c.state = decode_state(j.at("state"));
  c.search = decode_state(j.at("search"));
  c.searched = j.at("searched");
  if (j.contains("accepted")) {
    const json& a = j.at("accepted");
    c.accepted = AcceptedPoint{vector(a.at("theta")),
                               vector(a.at("phi")),
                               vector(a.at("pi")),
                               vector(a.at("gradient")),
                               number(a.at("outer_value")),
                               number(a.at("gradient_norm")),
                               decode_certificate(a.at("certificate")),
                               number(a.at("corrected_value"))};
  }
  c.inner_tolerance = number(j.at("inner_tolerance"));
  c.adjoint_tolerance = number(j.at("adjoint_tolerance"));
  c.iterations = j.at("iterations");
  c.evaluations = j.at("evaluations");
  c.seconds = j.at("seconds");
  c.cost = decode_cost(j.at("cost"));
  for (const json& h : j.at("history"))
    c.history.push_back({h.at(0), h.at(1), number(h.at(2)), number(h.at(3)), number(h.at(4)),
                         static_cast<Kind>(h.at(5).get<int>()), static_cast<Verdict>(h.at(6).get<int>()),
                         number(h.at(7)), h.at(8)});
  return c;
}

}  // namespace

std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
  return hash;
}

std::uint64_t checksum(const Eigen::VectorXd& numbers) {
  return checksum(std::string_view(reinterpret_cast<const char*>(numbers.data()),
                                   sizeof(double) * static_cast<std::size_t>(numbers.size())));
}

std::string write_checkpoint(const std::string& path, const Checkpoint& checkpoint, bool durable) {
  const std::string run = encode(checkpoint).dump();
  const std::string head =
      json{{"format", format_name}, {"version", format_version}, {"checksum", checksum(run)}}.dump();
  return replace_file(
      path, fmt::format("{},\"run\":{}}}\n", std::string_view(head).substr(0, head.size() - 1), run),
      durable);
}

Checkpoint read_checkpoint(const std::string& path, const std::string& identity) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(
        fmt::format("cannot resume from {}: {}; start without resuming or name the right file", path, why));
  };
  const std::optional<std::string> text = read_file(path);
  if (!text) throw refuse("the file cannot be opened");
  Checkpoint checkpoint;
  try {
    const json file = json::parse(*text);
    if (!file.is_object() || file.value("format", "") != format_name)
      throw refuse("it is not a bilevel checkpoint");
    if (file.at("version") != format_version)
      throw refuse(fmt::format("it has version {}, this program reads version {}", file.at("version").dump(),
                               format_version));
    if (file.at("checksum") != checksum(file.at("run").dump()))
      throw refuse("its checksum does not fit: the file is damaged");
    checkpoint = decode(file.at("run"));
  } catch (const json::parse_error&) {
    throw refuse("it is truncated or not a checkpoint at all");
  } catch (const json::exception& error) {
    throw refuse(fmt::format("it lacks a field or has one of the wrong type ({})", error.what()));
  }
  if (checkpoint.identity != identity)
    throw refuse(fmt::format("it belongs to another run: it says '{}', this run is '{}'", checkpoint.identity,
                             identity));
  return checkpoint;
}

}  // namespace bilevel
