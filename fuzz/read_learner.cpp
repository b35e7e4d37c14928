// Learners that bilevel meta has saved, and its kept runs, as read_saved does for models and networks.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include <ATen/Parallel.h>

#include <bilevel/files/container.hpp>
#include <bilevel/learning/meta_learn.hpp>

#include "edits.hpp"

namespace {

using namespace bilevel::learning;
using bilevel::InvalidInput;
using bilevel::fuzz::Choices;
using bilevel::fuzz::Json;

const MetaOptions& options() {
  static const MetaOptions few{.learner = {.kind = LearnerKind::hypernetwork, .layers = {2}, .embedding = 2},
                               .adaptation = {.inner_steps = 2},
                               .adjoint_steps = 2,
                               .tasks = 1,
                               .steps = 2,
                               .test_tasks = 2,
                               .looks = 1,
                               .probe_tasks = 0,
                               .certify = 0};
  return few;
}

const TaskData& tasks() {
  static const TaskData few = sinusoids({.shots = 2, .queries = 2});
  return few;
}

/// The line of JSON, and the numbers after it.
std::pair<Json, std::string> parts_of(const std::string& text) {
  const std::size_t end = text.find('\n');
  return {Json::parse(text.substr(0, end)).at("run"), text.substr(end + 1)};
}

std::string edited(const std::pair<Json, std::string>& valid, const bilevel::FileKind& kind,
                   Choices& choose) {
  std::string bytes = valid.second;
  if (choose.below(4) == 0) bytes.resize(4 * choose.below(bytes.size() / 4 + 8));
  if (choose.below(8) == 0 && !bytes.empty()) bytes.resize(choose.below(bytes.size()));
  return bilevel::sealed(kind, bilevel::fuzz::edited(valid.first, choose).dump(), bytes);
}

/// Either it is refused, or it answers tasks of the form that it says.
void check_learner(Choices& choose) {
  static const auto valid = parts_of(meta_learn(tasks(), options()).learner.text());
  SavedLearner s =
      read_learner(bilevel::fuzz::write("learner", edited(valid, {"bilevel-learner", 1}, choose)));
  s.adaptation.inner_steps = std::min(s.adaptation.inner_steps, 3L);
  const std::int64_t rows = 2, width = s.form.pictures() ? 0 : s.form.input[0];
  if (width == 0 || width > 64 || s.form.outputs > 64) return;
  const bilevel::torch::Tensor x = at::ones({1, rows, width}), y = at::ones({1, rows, s.form.outputs});
  const Adapted answers = s.adapt({x, y, x, y});
  if (answers.after.size(1) != rows || answers.after.size(2) != s.form.outputs) std::abort();
}

void check_run(Choices& choose) {
  const std::string path = bilevel::fuzz::path_of("run");
  MetaControl control{.checkpoint = path, .forget = false, .identity = "me"};
  static const auto valid = [&] {
    MetaControl stopped = control;
    bool first = true;
    stopped.interrupted = [&first] { return !std::exchange(first, false); };
    meta_learn(tasks(), options(), stopped);
    return parts_of(bilevel::fuzz::slurp(path));
  }();
  bilevel::fuzz::write("run", edited(valid, {"bilevel-learning", 1}, choose));
  control.resume = true;
  meta_learn(tasks(), options(), control);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size > 60) return 0;
  at::set_num_threads(1);
  Choices choose(bytes, size);
  try {
    choose.below(2) == 0 ? check_learner(choose) : check_run(choose);
  } catch (const InvalidInput&) {
  } catch (const std::exception& error) {
    std::fprintf(stderr, "not refused but: %s\n", error.what());
    std::abort();
  }
  return 0;
}
