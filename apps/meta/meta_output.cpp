#include "meta_output.hpp"

#include <sys/resource.h>

#include <bilevel/encoding/base64.hpp>
#include <bilevel/encoding/utf8.hpp>
#include <bilevel/version.hpp>

#include "bilevel/flags.hpp"

namespace app {
namespace {

using namespace bilevel::learning;
using at::Tensor;

Json numbers(const Tensor& all) {
  const Tensor host = all.to(at::kCPU, at::kDouble).contiguous();
  Json j = Json::array();
  const double* const first = host.data_ptr<double>();
  for (const double* each = first; each != first + host.numel(); ++each) j.push_back(number(*each));
  return j;
}

/// The pixels of a picture as a report takes them: 0 for paper, 255 for ink.
std::string pixels(const Tensor& picture) {
  const Tensor bytes =
      picture.to(at::kCPU, at::kFloat).mul(255).round().clamp(0, 255).to(at::kByte).contiguous();
  std::string text;
  bilevel::append_base64(bytes.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bytes.numel()), text);
  return text;
}

Json curve_task(const ShownTask& s) {
  Json j{{"support", {{"x", numbers(s.task.support_x)}, {"y", numbers(s.task.support_y)}}}};
  if (!s.points.empty()) j["query"] = {{"x", numbers(s.points[0])}, {"y", numbers(s.points[1])}};
  j["x"] = numbers(s.task.query_x);
  j["before"] = numbers(s.before);
  j["after"] = numbers(s.after);
  return j;
}

Json picture_task(const ShownTask& s) {
  constexpr long most = 40;
  const auto drawn = [](const Tensor& x, const Tensor& y, const ShownTask* answered, long count) {
    Json all = Json::array();
    for (long i = 0; i < std::min<long>(count, x.size(1)); ++i) {
      Json one{{"pixels", pixels(x[0][i])}, {"class", y[0][i].argmax().item<long>()}};
      if (answered) {
        one["before"] = answered->before[0][i].argmax().item<long>();
        one["after"] = answered->after[0][i].argmax().item<long>();
      }
      all.push_back(std::move(one));
    }
    return all;
  };
  // Some queries of every class.
  const long queries = s.task.query_x.size(1), step = std::max(1L, queries / most);
  ShownTask few = s;
  const auto some = [&](Tensor& all) { all = all.slice(1, 0, queries, step); };
  for (Tensor* each : {&few.task.query_x, &few.task.query_y, &few.before, &few.after}) some(*each);
  return {{"width", s.task.support_x.size(4)},
          {"height", s.task.support_x.size(3)},
          {"support", drawn(s.task.support_x, s.task.support_y, nullptr, most)},
          {"query", drawn(few.task.query_x, few.task.query_y, &few, most)}};
}

Json shown_task(const ShownTask& s, bool classes) {
  Json j = classes ? picture_task(s) : curve_task(s);
  if (!s.classes.empty()) {
    j["classes"] = Json::array();
    for (const std::string& each : s.classes) j["classes"].push_back(bilevel::as_utf8(each));
  }
  j["judged_before"] = number(s.judged_before);
  j["judged_after"] = number(s.judged_after);
  return j;
}

Json point_of(const MetaPoint& p) {
  return {{"step", p.step},
          {"training_loss", number(p.training_loss)},
          {"test", number(p.test.value)},
          {"test_standard_error", number(p.test.standard_error)},
          {"inner_residual", number(p.inner_residual)},
          {"gradient_norm", number(p.gradient_norm)},
          {"seconds", p.seconds}};
}

}  // namespace

Json meta_result(const std::string& command_line, const MetaOptions& o, const TaskData& data,
                 const MetaLearned& r) {
  const TaskForm& form = data.training->form();
  const LearnerOptions& l = o.learner;
  const Learner learner(l, form);
  Json j{{"command", "meta"},
         {"command_line", bilevel::as_utf8(command_line)},
         {"version", bilevel::version},
         {"status", name(r.status)},
         {"message", as_flags(r.message)}};
  j["data"] = {{"source", bilevel::as_utf8(data.source)},
               {"kind", form.classes ? "pictures" : "sinusoids"},
               {"ways", form.classes ? Json(form.outputs) : Json(nullptr)},
               {"shots", form.classes ? form.support / form.outputs : form.support},
               {"queries", form.classes ? form.query / form.outputs : form.query},
               {"training_classes", form.classes ? Json(data.training_classes) : Json(nullptr)},
               {"test_classes", form.classes ? Json(data.test_classes) : Json(nullptr)},
               {"notes", data.notes}};
  j["learner"] = {{"kind", name(l.kind)},
                  {"network", form.pictures() ? "conv" : "mlp"},
                  {"layers", form.pictures() ? Json(nullptr) : Json(l.layers)},
                  {"filters", form.pictures() ? Json(l.filters) : Json(nullptr)},
                  {"blocks", form.pictures() ? Json(l.blocks) : Json(nullptr)},
                  {"unit", l.unit ? Json(name(*l.unit)) : Json(nullptr)},
                  {"strengths", l.kind == LearnerKind::center ? Json(name(l.strengths)) : Json(nullptr)},
                  {"strength", l.strength},
                  {"embedding", l.kind == LearnerKind::hypernetwork ? Json(l.embedding) : Json(nullptr)},
                  {"shared_parameters", learner.shared_parameters()},
                  {"adapted_parameters", learner.adapted_parameters()}};
  j["settings"] = {
      {"estimator", o.estimator},
      {"beta", o.beta},
      {"inner", o.adaptation.inner},
      {"inner_steps", o.adaptation.inner_steps > 0 ? Json(o.adaptation.inner_steps) : Json(nullptr)},
      {"inner_tolerance", o.adaptation.inner_tolerance},
      {"inner_rate", o.adaptation.inner_rate},
      {"adjoint_steps", o.adjoint_steps},
      {"adjoint_tolerance", o.adjoint_tolerance},
      {"tasks", o.tasks},
      {"steps", o.steps},
      {"learning_rate", o.learning_rate},
      {"clip", o.clip},
      {"device", o.device.str()},
      {"seed", o.seed}};
  const std::string measure = form.classes ? "test_accuracy" : "test_error";
  j[measure] = number(r.test.value);
  j[measure + "_standard_error"] = number(r.test.standard_error);
  j[measure + "_before"] = number(r.test_before.value);
  j["test_tasks"] = r.test.tasks;
  j["curve"] = Json::array();
  for (const MetaPoint& each : r.curve) j["curve"].push_back(point_of(each));
  j["probe"] = nullptr;
  if (r.probe)
    j["probe"] = {{"tasks", r.probe->tasks},
                  {"cosine", number(r.probe->cosine)},
                  {"relative_error", number(r.probe->relative_error)},
                  {"gradient_norm", number(r.probe->gradient_norm)},
                  {"certificate", describe(r.probe->certificate)},
                  {"reference",
                   {{"message", r.probe->reference},
                    {"inner_residual", number(r.probe->reference_residual)},
                    {"adjoint_residual", number(r.probe->reference_adjoint_residual)},
                    {"certificate", describe(r.probe->reference_certificate)}}}};
  j["verdict"] = r.verdict() ? Json(name(*r.verdict())) : Json(nullptr);
  j["certified"] = {{"trusted", r.certified.trusted},
                    {"doubtful", r.certified.doubtful},
                    {"untrusted", r.certified.untrusted},
                    {"seconds", r.certified.seconds},
                    {"last", r.certified.last ? describe(*r.certified.last) : Json(nullptr)}};
  j["tasks"] = Json::array();
  for (const ShownTask& each : r.shown) j["tasks"].push_back(shown_task(each, form.classes));
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  j["steps"] = r.steps;
  j["seconds"] = r.seconds;
  j["seconds_per_step"] = number(r.seconds_per_step);
  j["bytes"] = {{"method", r.bytes}, {"process", std::int64_t{1024} * used.ru_maxrss}};
  j["resumed"] = r.resumed;
  j["warnings"] = Json::array();
  for (const std::string& each : r.warnings) j["warnings"].push_back(as_flags(each));
  return j;
}

}  // namespace app
