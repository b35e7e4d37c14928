#include "kept_training.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#include "encoding/foreign_json.hpp"

namespace bilevel::networks {
namespace {

using Json = nlohmann::json;

Json number_or_null(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

template <class Part>
Json encoded(const Part& part) {
  Json j = Json::object();
  Part::for_each_field([&](const char* name, auto field) {
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(part.*field)>>)
      j[name] = number_or_null(part.*field);
    else
      j[name] = part.*field;
  });
  return j;
}

template <class Part>
void decode(const Json& j, Part& part) {
  Part::for_each_field([&](const char* name, auto field) {
    const Json& one = j.at(name);
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(part.*field)>>)
      part.*field = one.is_null() ? unknown : one.get<double>();
    else
      part.*field = whole_number(one, 0);
  });
}

template <class K>
auto vectors_of(K& kept) {
  return std::array{&kept.theta, &kept.first_moment, &kept.second_moment, &kept.states};
}

KeptTraining decoded(const Json& j, std::string_view bytes) {
  KeptTraining k;
  k.epoch = static_cast<int>(whole_number(j.at("epoch"), 0, std::numeric_limits<int>::max()));
  k.batch = whole_number(j.at("batch"), 0);
  k.steps = whole_number(j.at("steps"), 0);
  k.seconds = j.at("seconds");
  k.epoch_seconds = j.at("epoch_seconds");
  const Json& sums = j.at("sums");
  k.cost = sums.at("cost");
  k.wrong = sums.at("wrong");
  k.residual = sums.at("residual");
  k.nudged_residual = sums.at("nudged_residual");
  k.samples = whole_number(sums.at("samples"), 0);
  decode(j.at("certified"), k.certified);
  std::size_t at = 0, which = 0;
  for (auto* each : vectors_of(k)) {
    const auto size = static_cast<std::size_t>(whole_number(j.at("sizes").at(which++), 0));
    if (size > (bytes.size() - at) / sizeof(float)) throw InvalidInput("it is cut off");
    each->resize(static_cast<Index>(size));
    if (size > 0) std::memcpy(each->data(), bytes.data() + at, size * sizeof(float));
    at += size * sizeof(float);
  }
  for (const Json& fields : j.at("epochs")) {
    Epoch e;
    e.epoch = static_cast<int>(k.epochs.size()) + 1;
    decode(fields, e);
    decode(fields.at("certified"), e.certified);
    k.epochs.push_back(e);
  }
  if (k.epoch != static_cast<int>(k.epochs.size()) || at != bytes.size()) throw InvalidInput("it is damaged");
  return k;
}

}  // namespace

std::string run_identity(const TrainingData& d, const TrainSettings& s) {
  const auto sum = [](const auto& numbers) {
    return checksum({reinterpret_cast<const char*>(numbers.data()),
                     sizeof(*numbers.data()) * static_cast<std::size_t>(numbers.size())});
  };
  const Architecture& a = s.architecture;
  return fmt::format(
      "train {:016x} {:016x} {:016x} test {:016x} {:016x} {} {} {} {} gains {} {} {} noise={}{} {} "
      "momentum={} weight_decay={} start={} batch={} seed={}",
      sum(d.train.inputs), sum(d.train.labels), checksum(fmt::format("{}", fmt::join(d.classes, "\n"))),
      sum(d.test.inputs), sum(d.test.labels), name(a.energy), fmt::join(a.layers, "-"), name(a.activation),
      name(a.read_out), a.input_gain, a.gain, s.estimator, s.propagation.noise,
      s.persistent ? " persistent" : "", name(s.optimizer), s.momentum, s.weight_decay,
      s.start ? fmt::format("{:016x}", sum(*s.start)) : fmt::format("{}", s.scale), s.batch, s.seed);
}

std::string write_kept(const std::string& path, const std::string& identity, const KeptTraining& k) {
  std::string bytes;
  Json sizes = Json::array();
  for (const auto* each : vectors_of(k)) {
    sizes.push_back(each->size());
    bytes.append(reinterpret_cast<const char*>(each->data()),
                 sizeof(float) * static_cast<std::size_t>(each->size()));
  }
  Json epochs = Json::array();
  for (const Epoch& e : k.epochs) {
    epochs.push_back(encoded(e));
    epochs.back()["certified"] = encoded(e.certified);
  }
  const Json run{{"identity", identity},
                 {"epoch", k.epoch},
                 {"batch", k.batch},
                 {"steps", k.steps},
                 {"seconds", k.seconds},
                 {"epoch_seconds", k.epoch_seconds},
                 {"sums",
                  {{"cost", k.cost},
                   {"wrong", k.wrong},
                   {"residual", k.residual},
                   {"nudged_residual", k.nudged_residual},
                   {"samples", k.samples}}},
                 {"certified", encoded(k.certified)},
                 {"sizes", sizes},
                 {"epochs", epochs}};
  return replace_file(path, sealed(training_file, run.dump(), bytes));
}

KeptTraining read_kept(const std::string& path, const std::string& identity) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(fmt::format("cannot resume from {}: {}; begin anew without resuming", path, why));
  };
  const std::optional<std::string> text = read_file(path);
  if (!text) throw refuse("the file cannot be read");
  try {
    const Contents contents = unsealed(*text, training_file);
    const Json j = Json::parse(contents.run);
    if (j.at("identity") != identity)
      throw InvalidInput("it keeps a run on other data or with another network, estimator or optimiser");
    return decoded(j, contents.bytes);
  } catch (const Json::exception&) {
    throw refuse("it is damaged");
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

}  // namespace bilevel::networks
