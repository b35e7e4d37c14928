#include <bilevel/outer/checkpoint.hpp>

#include <algorithm>
#include <cstring>
#include <map>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/encoding/base64.hpp>
#include "encoding/foreign_json.hpp"

#include "files/read_own.hpp"

namespace bilevel {
namespace {

using nlohmann::json;

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

// Vectors, the bulk of a run with many parameters, are the bytes of their doubles in base64: exact, and two
// thirds of the size of digits in a tenth of the time.
Eigen::VectorXd vector(const std::string& text) {
  const std::optional<std::string> bytes = from_base64(text);
  if (!bytes || bytes->size() % sizeof(double) != 0) throw InvalidInput("a vector is damaged");
  Eigen::VectorXd x(static_cast<Index>(bytes->size() / sizeof(double)));
  if (x.size() > 0) std::memcpy(x.data(), bytes->data(), bytes->size());
  return x;
}

/// Of an enumeration whose last value is given.
template <class Value>
Value choice(const json& j, Value last) {
  return static_cast<Value>(whole_number(j, 0, static_cast<int>(last)));
}
constexpr Kind last_kind = Kind::rigorous;
constexpr Verdict last_verdict = Verdict::trusted;

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
  c.kind = choice(j.at("kind"), last_kind);
  c.verdict = choice(j.at("verdict"), last_verdict);
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

json encode(const Cost& c) {
  json j = json::object();
  Cost::for_each_field([&](const char* name, auto field) { j[name] = c.*field; });
  return j;
}
Cost decode_cost(const json& j) {
  Cost c;
  Cost::for_each_field([&](const char* name, auto field) {
    using Number = std::remove_reference_t<decltype(c.*field)>;
    if constexpr (std::is_floating_point_v<Number>)
      c.*field = j.at(name);
    else
      c.*field = static_cast<Number>(whole_number(j.at(name), 0));
  });
  return c;
}

json encode(const std::map<std::string, double>& numbers) {
  json j = json::object();
  for (const auto& [key, value] : numbers) j[key] = number(value);
  return j;
}
std::map<std::string, double> decode_numbers(const json& j) {
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : j.items()) numbers[key] = number(value);
  return numbers;
}

/// All but the vectors.
json encode(const Checkpoint& c) {
  json j;
  j["identity"] = c.identity;
  j["optimizer"] = c.optimizer;
  j["state"] = encode(c.state.numbers);
  j["search"] = encode(c.search.numbers);
  j["searched"] = c.searched;
  if (c.accepted)
    j["accepted"] = {{"outer_value", number(c.accepted->outer_value)},
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

/// Calls visit(name, vector) for every vector of a checkpoint.
template <class Point, class Visit>
void for_each_vector(Point& c, Visit&& visit) {
  visit("theta", c.theta);
  if (c.accepted) {
    visit("accepted.theta", c.accepted->theta);
    visit("accepted.phi", c.accepted->phi);
    visit("accepted.pi", c.accepted->pi);
    visit("accepted.gradient", c.accepted->gradient);
  }
  for (auto& [key, value] : c.state.vectors) visit("state." + key, value);
  for (auto& [key, value] : c.search.vectors) visit("search." + key, value);
}

/// What stands beside θ has its size; before the first point an optimiser may hold nothing at all. The
/// weights of a kink's gradients have another size.
void require_sizes(const Checkpoint& c) {
  const auto base = c.state.vectors.find("base"), first = c.state.vectors.find("first");
  const bool begun = (base != c.state.vectors.end() && base->second.size() > 0) ||
                     (first != c.state.vectors.end() && first->second.size() > 0);
  for_each_vector(c, [&](const std::string& key, const Eigen::VectorXd& x) {
    if (key == "accepted.phi" || key == "accepted.pi" || key == "search.weights") return;
    const Index size = key.starts_with("state.") && !begun ? 0 : c.theta.size();
    if (x.size() != size)
      throw InvalidInput(fmt::format("{} has {} numbers instead of {}", key, x.size(), size));
  });
  if (!(c.inner_tolerance > 0 && c.adjoint_tolerance > 0 && c.seconds >= 0))
    throw InvalidInput("a tolerance or the time is not positive");
}

Checkpoint decode(const json& j) {
  Checkpoint c;
  c.identity = j.at("identity");
  c.optimizer = j.at("optimizer");
  c.state.numbers = decode_numbers(j.at("state"));
  c.search.numbers = decode_numbers(j.at("search"));
  c.searched = whole_number(j.at("searched"), 0);
  const json& vectors = j.at("vectors");
  for (const auto& [key, value] : vectors.items()) {
    if (key.starts_with("state.")) c.state.vectors[key.substr(6)];
    if (key.starts_with("search.")) c.search.vectors[key.substr(7)];
  }
  if (j.contains("accepted")) {
    const json& a = j.at("accepted");
    c.accepted.emplace();
    c.accepted->outer_value = number(a.at("outer_value"));
    c.accepted->gradient_norm = number(a.at("gradient_norm"));
    c.accepted->certificate = decode_certificate(a.at("certificate"));
    c.accepted->corrected_value = number(a.at("corrected_value"));
  }
  for_each_vector(c, [&](const std::string& key, Eigen::VectorXd& x) {
    x = vector(vectors.at(key).get_ref<const std::string&>());
  });
  c.inner_tolerance = number(j.at("inner_tolerance"));
  c.adjoint_tolerance = number(j.at("adjoint_tolerance"));
  c.iterations = whole_number(j.at("iterations"), 0);
  c.evaluations = whole_number(j.at("evaluations"), 0);
  c.seconds = j.at("seconds");
  c.cost = decode_cost(j.at("cost"));
  for (const json& h : j.at("history"))
    c.history.push_back({whole_number(h.at(0)), h.at(1), number(h.at(2)), number(h.at(3)), number(h.at(4)),
                         choice(h.at(5), last_kind), choice(h.at(6), last_verdict), number(h.at(7)),
                         h.at(8)});
  require_sizes(c);
  return c;
}

}  // namespace

std::uint64_t checksum(const Eigen::VectorXd& numbers) {
  return checksum(std::string_view(reinterpret_cast<const char*>(numbers.data()),
                                   sizeof(double) * static_cast<std::size_t>(numbers.size())));
}

std::string write_checkpoint(const std::string& path, const Checkpoint& checkpoint, bool durable) {
  Index numbers = 0;
  for_each_vector(checkpoint, [&](const std::string&, const Eigen::VectorXd& x) { numbers += x.size(); });
  std::string run = encode(checkpoint).dump();
  run.reserve(run.size() + 11 * static_cast<std::size_t>(numbers) + 65536);
  run.back() = ',';
  run += "\"vectors\":{";
  for_each_vector(checkpoint, [&](const std::string& key, const Eigen::VectorXd& x) {
    run += fmt::format("\"{}\":\"", key);
    append_base64(x.data(), sizeof(double) * static_cast<std::size_t>(x.size()), run);
    run += "\",";
  });
  run.back() = '}';
  run += '}';
  return replace_file(path, sealed(checkpoint_file, std::move(run)), durable);
}

Checkpoint read_checkpoint(const std::string& path, const std::string& identity) {
  return read_own(read_file(path), fmt::format("cannot resume from {}", path),
                  "start without resuming or name the right file", [&](const std::string& text) {
                    Checkpoint checkpoint = decode(json::parse(unsealed(text, checkpoint_file).run));
                    if (checkpoint.identity != identity)
                      throw InvalidInput(
                          fmt::format("it belongs to another run: it says '{}', this run is '{}'",
                                      checkpoint.identity, identity));
                    return checkpoint;
                  });
}

}  // namespace bilevel
