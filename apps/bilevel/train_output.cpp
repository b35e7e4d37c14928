#include "train_output.hpp"

#include <algorithm>
#include <cmath>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/version.hpp>

#include "flags.hpp"
#include "kept_run.hpp"

namespace app {
namespace {

using namespace bilevel::networks;

constexpr Index most_pictures = 60, most_weight_images = 64;

/// A picture's value with the digits that an eye can tell.
double rounded(double x) {
  return std::round(x * 1000) / 1000;
}

Json list(const std::vector<double>& numbers) {
  Json j = Json::array();
  for (const double x : numbers) j.push_back(number(x));
  return j;
}

Json trace_of(const Trace& trace) {
  return {{"beta", trace.beta}, {"energy", list(trace.energy)}, {"moved", list(trace.moved)}};
}

Json certified_of(const CertifiedGradients& c) {
  Json j{{"gradients", c.count()}};
  CertifiedGradients::for_each_field([&](const char* name, auto field) { j[name] = c.*field; });
  j["interval"] = number(c.interval());
  return j;
}

Json epoch_of(const Epoch& e) {
  Json j{{"epoch", e.epoch}};
  Epoch::for_each_field([&](const char* name, auto field) { j[name] = number(e.*field); });
  j["certified"] = certified_of(e.certified);
  return j;
}

/// Weights from the inputs to the first units, as pictures; of a resistive network the difference of the two
/// signs.
Json weight_images(const TrainSettings& s, const TrainingData& data, const Eigen::VectorXf& theta) {
  const auto p = s.architecture.layer(1);
  const Eigen::Map<const Eigen::MatrixXf> weights(theta.data() + p.weights, p.units, p.inputs);
  Eigen::MatrixXf shown = weights.topRows(std::min(p.units, most_weight_images));
  if (s.architecture.resistive())
    shown -=
        Eigen::Map<const Eigen::MatrixXf>(theta.data() + p.opposite, p.units, p.inputs).topRows(shown.rows());
  const double largest = std::max(1e-30, static_cast<double>(shown.cwiseAbs().maxCoeff()));
  Json images = Json::array();
  for (Index i = 0; i < shown.rows(); ++i) {
    Json image = Json::array();
    for (Index j = 0; j < shown.cols(); ++j)
      image.push_back(rounded(static_cast<double>(shown(i, j)) / largest));
    images.push_back(std::move(image));
  }
  return {{"rows", data.image->first},
          {"columns", data.image->second},
          {"largest", largest},
          {"images", std::move(images)}};
}

Json wrong_samples(const TrainingData& data, const TrainedNetwork& r) {
  Json wrong = Json::array();
  for (std::size_t n = 0; n < r.predicted.size() && wrong.size() < most_pictures; ++n) {
    const int label = data.test.labels[n], predicted = r.predicted[n];
    if (label == predicted) continue;
    const auto column = static_cast<Index>(n);
    Json image = nullptr;
    if (data.image) {
      const auto x = data.test.inputs.col(column);
      const float least = x.minCoeff(), range = std::max(1e-30f, x.maxCoeff() - least);
      image = Json::array();
      for (Index j = 0; j < x.size(); ++j)
        image.push_back(rounded(static_cast<double>((x[j] - least) / range)));
    }
    Json outputs = Json::array();
    for (Index i = 0; i < r.outputs.rows(); ++i)
      outputs.push_back(number(rounded(static_cast<double>(r.outputs(i, column)))));
    wrong.push_back({{"index", n},
                     {"label", data.classes[static_cast<std::size_t>(label)]},
                     {"predicted", data.classes[static_cast<std::size_t>(predicted)]},
                     {"image", std::move(image)},
                     {"outputs", std::move(outputs)}});
  }
  return wrong;
}

}  // namespace

Json train_result(const std::string& command_line, const TrainSettings& s, const TrainingData& data,
                  const TrainedNetwork& r) {
  const auto& a = s.architecture;
  const auto& p = s.propagation;
  Json j{{"command", "train"},
         {"version", bilevel::version},
         {"command_line", as_utf8(command_line)},
         {"status", name(r.status)},
         {"message", as_flags(r.message)},
         {"trusted", r.probe && r.probe->certificate.verdict == bilevel::Verdict::trusted}};
  j["data"] = {{"source", as_utf8(data.train.source)},
               {"test_source", as_utf8(data.test.source)},
               {"train_rows", data.train.rows()},
               {"test_rows", data.test.rows()},
               {"features", data.features()},
               {"image", data.image ? Json{data.image->first, data.image->second} : Json(nullptr)},
               {"classes", data.classes},
               {"scaling", data.scaling},
               {"generated", data.generated},
               {"notes", data.notes}};
  j["network"] = {{"energy", name(a.energy)},         {"layers", a.layers},
                  {"activation", name(a.activation)}, {"read_out", name(a.read_out)},
                  {"input_gain", a.input_gain},       {"gain", a.gain},
                  {"parameters", a.parameters()}};
  j["settings"] = {{"estimator", s.estimator},
                   {"beta", p.beta},
                   {"points", p.circle > 0 ? Json(p.circle) : Json(nullptr)},
                   {"optimizer", name(s.optimizer)},
                   {"learning_rates", s.learning_rates},
                   {"centred", s.centred},
                   {"momentum", s.momentum},
                   {"decay", s.decay},
                   {"weight_decay", s.weight_decay},
                   {"batch", s.batch},
                   {"epochs", s.epochs},
                   {"schedule", name(p.free.schedule)},
                   {"step", p.free.step},
                   {"free_steps", p.free.max_steps},
                   {"nudged_steps", p.nudged.max_steps},
                   {"tolerance", p.free.tolerance},
                   {"persistent", s.persistent},
                   {"noise", p.noise},
                   {"scale", s.scale},
                   {"seed", s.seed},
                   {"certify_every", s.certify_every},
                   {"threads", bilevel::problems::kernels::threads()}};
  j["epochs"] = Json::array();
  for (const Epoch& e : r.epochs) j["epochs"].push_back(epoch_of(e));
  j["certified"] = certified_of(r.certified);
  j["certified"]["last"] = r.last_certificate ? describe(*r.last_certificate) : Json(nullptr);
  if (r.probe)
    j["probe"] = {{"samples", r.probe->samples},
                  {"estimator", s.estimator},
                  {"cosine", number(r.probe->cosine)},
                  {"relative_error", number(r.probe->relative_error)},
                  {"gradient_norm", number(r.probe->norm)},
                  {"exact", r.probe->exact},
                  {"certificate", describe(r.probe->certificate)}};
  if (!r.traces.empty()) {
    j["relaxation"] = {{"free", trace_of(r.traces.front())}, {"nudged", Json::array()}};
    for (std::size_t i = 1; i < r.traces.size(); ++i)
      j["relaxation"]["nudged"].push_back(trace_of(r.traces[i]));
  }
  if (data.image) j["weights"] = weight_images(s, data, r.theta());
  const std::size_t classes = data.classes.size();
  std::vector<std::vector<long>> confusion(classes, std::vector<long>(classes, 0));
  for (std::size_t n = 0; n < r.predicted.size(); ++n)
    ++confusion[static_cast<std::size_t>(data.test.labels[n])][static_cast<std::size_t>(r.predicted[n])];
  j["confusion"] = confusion;
  j["wrong"] = wrong_samples(data, r);
  j["warnings"] = Json::array();
  for (const std::string& warning : r.warnings) j["warnings"].push_back(as_flags(warning));
  j["resumed"] = r.resumed;
  j["seconds"] = r.seconds;
  return j;
}

}  // namespace app
