#include "kept_learning.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/files/container.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::learning {

namespace {

using KeptJson = nlohmann::json;

constexpr FileKind learning_file{"bilevel-learning", 1};

KeptJson or_null(double x) {
  return std::isfinite(x) ? KeptJson(x) : KeptJson(nullptr);
}
double or_unknown(const KeptJson& j) {
  return j.is_null() ? unknown : j.get<double>();
}

template <class Kept>
auto vectors_of(Kept& k) {
  return std::array{&k.theta, &k.first_moment, &k.second_moment, &k.good_theta};
}

KeptJson encoded(const MetaPoint& p) {
  return {p.step,       or_null(p.training_loss),  or_null(p.test.value),    or_null(p.test.standard_error),
          p.test.tasks, or_null(p.inner_residual), or_null(p.gradient_norm), p.seconds};
}
MetaPoint point(const KeptJson& j) {
  return {.step = j.at(0),
          .training_loss = or_unknown(j.at(1)),
          .test = {or_unknown(j.at(2)), or_unknown(j.at(3)), j.at(4).get<long>()},
          .inner_residual = or_unknown(j.at(5)),
          .gradient_norm = or_unknown(j.at(6)),
          .seconds = j.at(7)};
}

KeptLearning decoded(const KeptJson& j, std::string_view bytes) {
  KeptLearning k;
  k.step = j.at("step");
  k.seconds = j.at("seconds");
  k.good_step = j.at("good_step");
  k.loss = or_unknown(j.at("loss"));
  k.residual = or_unknown(j.at("residual"));
  k.gradient_norm = or_unknown(j.at("gradient_norm"));
  k.since = j.at("since");
  k.certified.trusted = j.at("trusted");
  k.certified.doubtful = j.at("doubtful");
  k.certified.untrusted = j.at("untrusted");
  k.certified.seconds = j.at("certifying");
  for (const KeptJson& each : j.at("curve")) k.curve.push_back(point(each));
  if (k.step < 0 || k.since < 0) throw InvalidInput("it is damaged");
  const auto parts = vectors_of(k);
  if (bytes.size() % (parts.size() * sizeof(float)) != 0) throw InvalidInput("it is cut off");
  const std::size_t each = bytes.size() / parts.size();
  for (auto* part : parts) {
    part->resize(each / sizeof(float));
    if (each > 0) std::memcpy(part->data(), bytes.data(), each);
    bytes.remove_prefix(each);
  }
  return k;
}

}  // namespace

std::string write_kept(const std::string& path, const std::string& identity, const KeptLearning& k) {
  std::string bytes;
  for (const auto* part : vectors_of(k))
    bytes.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(float));
  KeptJson curve = KeptJson::array();
  for (const MetaPoint& each : k.curve) curve.push_back(encoded(each));
  const KeptJson run{{"identity", identity},
                     {"step", k.step},
                     {"seconds", k.seconds},
                     {"good_step", k.good_step},
                     {"loss", or_null(k.loss)},
                     {"residual", or_null(k.residual)},
                     {"gradient_norm", or_null(k.gradient_norm)},
                     {"since", k.since},
                     {"trusted", k.certified.trusted},
                     {"doubtful", k.certified.doubtful},
                     {"untrusted", k.certified.untrusted},
                     {"certifying", k.certified.seconds},
                     {"curve", std::move(curve)}};
  return replace_file(path, sealed(learning_file, run.dump(), bytes), false);
}

KeptLearning read_kept(const std::string& path, const std::string& identity) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(fmt::format("cannot resume from {}: {}; begin anew without resuming", path, why));
  };
  const std::optional<std::string> text = read_file(path);
  if (!text) throw refuse("the file cannot be read");
  try {
    const Contents contents = unsealed(*text, learning_file);
    const KeptJson j = KeptJson::parse(contents.run);
    if (j.at("identity") != identity)
      throw InvalidInput("it keeps a run on other tasks or with another learner or method");
    return decoded(j, contents.bytes);
  } catch (const KeptJson::exception&) {
    throw refuse("it is damaged");
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

}  // namespace bilevel::learning
