#include "kept_training.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/encoding/foreign_json.hpp>
#include <bilevel/outer/checkpoint.hpp>

namespace training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view training_format = "bilevel-training";
constexpr int training_version = 2;

Json number(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}
double number(const Json& j) {
  return j.is_null() ? bilevel::unknown : j.get<double>();
}

/// The fields of an epoch in one fixed order.
template <class E, class Act>
void for_each_field(E& e, Act&& act) {
  act(e.train_error), act(e.test_error), act(e.train_cost), act(e.test_cost), act(e.samples_per_second);
  act(e.relaxation_residual), act(e.nudged_residual), act(e.gradient_cosine), act(e.gradient_error),
      act(e.learning_rate), act(e.seconds);
}

template <class K>
auto vectors_of(K& kept) {
  return std::array{&kept.theta, &kept.first_moment, &kept.second_moment, &kept.states};
}

}  // namespace

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
    Json fields = Json::array();
    for_each_field(e, [&](double value) { fields.push_back(number(value)); });
    epochs.push_back(std::move(fields));
  }
  // "format" first, by which the program knows its own files; the library sorts the others.
  const Json j{{"identity", identity},
               {"version", training_version},
               {"epoch", k.epoch},
               {"batch", k.batch},
               {"steps", k.steps},
               {"seconds", k.seconds},
               {"epoch_seconds", k.epoch_seconds},
               {"sums", {k.cost, k.wrong, k.residual, k.nudged_residual, k.samples}},
               {"sizes", sizes},
               {"epochs", epochs}};
  const std::string rest = j.dump();
  std::string text = fmt::format("{{\"format\":\"{}\",{}\n", training_format, rest.substr(1)) + bytes;
  // Over the line of text too: it says where in the rows the run stands.
  text += fmt::format("{:016x}", bilevel::checksum(text));
  return bilevel::replace_file(path, text);
}

KeptTraining read_kept(const std::string& path, const std::string& identity) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(fmt::format("{}: {}; leave --resume out to begin anew", path, why));
  };
  const std::optional<std::string> text = bilevel::read_file(path);
  if (!text) throw refuse("the file cannot be read");
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) throw refuse("it is cut off");
  try {
    bilevel::require_shallow(std::string_view(*text).substr(0, end));
    const Json j = Json::parse(text->substr(0, end));
    if (j.value("format", "") != training_format) throw InvalidInput("it keeps no training run");
    if (j.at("version") != training_version)
      throw InvalidInput("it was written by another version of this program");
    if (j.at("identity") != identity)
      throw InvalidInput("it keeps a run on other data or with another network");
    const std::string_view whole(*text);
    if (whole.size() < end + 1 + 16) throw InvalidInput("it is cut off");
    const std::string_view bytes = whole.substr(end + 1, whole.size() - end - 1 - 16);
    if (fmt::format("{:016x}", bilevel::checksum(whole.substr(0, whole.size() - 16))) !=
        whole.substr(whole.size() - 16))
      throw InvalidInput("it is cut off or damaged");
    KeptTraining k;
    constexpr auto most_epochs = std::numeric_limits<int>::max();
    k.epoch = static_cast<int>(bilevel::whole_number(j.at("epoch"), 0, most_epochs));
    k.batch = bilevel::whole_number(j.at("batch"), 0);
    k.steps = bilevel::whole_number(j.at("steps"), 0);
    k.seconds = j.at("seconds");
    k.epoch_seconds = j.at("epoch_seconds");
    const Json& sums = j.at("sums");
    k.cost = sums.at(0), k.wrong = sums.at(1), k.residual = sums.at(2), k.nudged_residual = sums.at(3),
    k.samples = bilevel::whole_number(sums.at(4), 0);
    std::size_t at = 0, which = 0;
    for (auto* each : vectors_of(k)) {
      const auto size = static_cast<std::size_t>(bilevel::whole_number(j.at("sizes").at(which++), 0));
      if (size > (bytes.size() - at) / sizeof(float)) throw InvalidInput("it is cut off");
      each->resize(static_cast<Index>(size));
      if (size > 0) std::memcpy(each->data(), bytes.data() + at, size * sizeof(float));
      at += size * sizeof(float);
    }
    for (const Json& fields : j.at("epochs")) {
      Epoch e;
      e.epoch = static_cast<int>(k.epochs.size()) + 1;
      std::size_t i = 0;
      for_each_field(e, [&](double& value) { value = number(fields.at(i++)); });
      k.epochs.push_back(e);
    }
    if (k.epoch != static_cast<int>(k.epochs.size()) || at != bytes.size())
      throw InvalidInput("it is damaged");
    return k;
  } catch (const Json::exception&) {
    throw refuse("it is damaged");
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

}  // namespace training
