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

// A field of a certificate or of a line of the history.
template <class Value>
json encoded(const Value& value) {
  if constexpr (std::is_enum_v<Value>)
    return static_cast<int>(value);
  else if constexpr (std::is_floating_point_v<Value>)
    return number(value);
  else
    return value;
}
constexpr int last_of(Kind) {
  return static_cast<int>(Kind::rigorous);
}
constexpr int last_of(Verdict) {
  return static_cast<int>(Verdict::trusted);
}
template <class Value>
void decode(const json& j, Value& value) {
  if constexpr (std::is_enum_v<Value>)
    value = static_cast<Value>(whole_number(j, 0, last_of(value)));
  else if constexpr (std::is_floating_point_v<Value>)
    value = number(j);
  else if constexpr (std::is_same_v<Value, long>)
    value = whole_number(j);
  else
    value = j.get<Value>();
}

json encode(const Certificate& c) {
  json j = json::object();
  Certificate::for_each_field([&](const char* name, auto field) { j[name] = encoded(c.*field); });
  return j;
}
Certificate decode_certificate(const json& j) {
  Certificate c;
  Certificate::for_each_field([&](const char* name, auto field) { decode(j.at(name), c.*field); });
  return c;
}

// By position: there is one for every evaluation.
json encode(const HistoryEntry& h) {
  json j = json::array();
  HistoryEntry::for_each_field([&](const char*, auto field) { j.push_back(encoded(h.*field)); });
  return j;
}
HistoryEntry decode_entry(const json& j) {
  HistoryEntry h;
  std::size_t place = 0;
  HistoryEntry::for_each_field([&](const char*, auto field) { decode(j.at(place++), h.*field); });
  return h;
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
  for (const HistoryEntry& h : c.history) j["history"].push_back(encode(h));
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
  for (const json& h : j.at("history")) c.history.push_back(decode_entry(h));
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
