#include "meta.hpp"

#include <cmath>
#include <memory>

#include <ATen/Parallel.h>

#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/learning/meta_learn.hpp>
#include <bilevel/learning/picture_tasks.hpp>
#include <bilevel/version.hpp>

#include "bilevel/data_output.hpp"
#include "bilevel/flags.hpp"
#include "bilevel/interrupt.hpp"
#include "bilevel/kept_run.hpp"
#include "bilevel/option_group.hpp"
#include "bilevel/problem_arguments.hpp"
#include "bilevel/terminal.hpp"
#include "meta_output.hpp"
#include "report/meta_page.hpp"
#include "report/page.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;
using bilevel::Status;
using bilevel::Verdict;
using namespace bilevel::learning;

struct MetaArguments {
  std::string data = "sinusoids";
  MetaOptions options;
  PictureTaskOptions pictures;
  // Names and texts that become objects once all are known.
  std::string learner, unit, strengths = "weights", layers, device = "cpu";
  long shots = 0, queries = 0, size = 28;
  bool no_rotations = false, resume = false;
  std::string json, report, save, checkpoint, command_line;
};

at::Device device_of(const std::string& text) {
  try {
    const at::Device device(text);
    if (device.is_cuda() && !at::hasCUDA())
      throw InvalidInput(
          fmt::format("--device {}: LibTorch sees no CUDA device; take cpu, or build with a LibTorch for "
                      "CUDA where there is one",
                      text));
    return device;
  } catch (const c10::Error&) {
    throw InvalidInput(fmt::format("--device {} must be cpu, cuda or cuda:N", text));
  }
}

/// Options that were given and mean nothing here, by the rule of the other commands.
void refuse_idle(const CLI::App& command, const MetaArguments& a) {
  const auto refuse = [&](bool idle, std::initializer_list<const char*> flags, std::string_view why) {
    for (const char* flag : flags)
      if (idle && command.count(flag) > 0) throw InvalidInput(fmt::format("meta: {} {}", flag, why));
  };
  const bool curves = a.data == "sinusoids";
  refuse(curves, {"--ways", "--no-rotations", "--size", "--test-share", "--filters", "--blocks"},
         "is for pictures, and sinusoids are rows of numbers");
  refuse(!curves, {"--layers"},
         "is for tasks of numbers: the network for pictures has --blocks, of --filters each");
  refuse(!curves && !omniglot_files(a.data).empty(), {"--size", "--test-share"},
         "is for folders of class folders: Omniglot has a size and test classes of its own");
  const LearnerKind kind = a.options.learner.kind;
  refuse(kind != LearnerKind::center, {"--strengths"}, "is for --learner center");
  refuse(kind != LearnerKind::hypernetwork, {"--embedding"}, "is for --learner hypernetwork");
  const bilevel::EstimatorChoice estimator = bilevel::estimator_named(a.options.estimator);
  refuse(!bilevel::nudges(estimator), {"--beta"}, "is for the ep-… estimators");
  refuse(!a.options.estimator.starts_with("implicit-"), {"--adjoint-steps"},
         "is for the implicit-… estimators, which solve for an adjoint");
  refuse(bilevel::differentiates_steps(estimator), {"--inner-tolerance"},
         "is for estimators that want tasks settled, not for those that differentiate so many steps");
}

/// Names become what they name.
void resolve_names(MetaArguments& a) {
  MetaOptions& o = a.options;
  const bool curves = a.data == "sinusoids";
  o.learner.kind = learner_kind_of(a.learner.empty() ? curves ? "center" : "heads" : a.learner);
  o.learner.strengths = strengths_of(a.strengths);
  if (!a.unit.empty()) o.learner.unit = unit_of(a.unit);
  if (!a.layers.empty()) {
    const auto layers = sizes_argument(a.layers, " must be sizes of at least 1 joined by '-', as in 40-40");
    o.learner.layers.assign(layers.begin(), layers.end());
  }
  o.device = device_of(a.device);
  a.pictures.shots = a.shots > 0 ? a.shots : 1;
  a.pictures.queries = a.queries > 0 ? a.queries : 15;
  a.pictures.height = a.pictures.width = a.size;
  a.pictures.rotations = !a.no_rotations;
  a.pictures.seed = o.seed;
  a.pictures.device = o.device;
  o.validate().throw_if_any();
}

TaskData tasks_of(const MetaArguments& a) {
  if (a.data != "sinusoids") return picture_tasks(a.data, a.pictures);
  SinusoidOptions o;
  if (a.shots > 0) o.shots = a.shots;
  if (a.queries > 0) o.queries = a.queries;
  o.device = a.options.device;
  return sinusoids(o);
}

std::string counted(long count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_head(const TaskData& data, const MetaOptions& o) {
  const TaskForm& form = data.training->form();
  const Learner learner(o.learner, form);
  if (form.classes)
    say("{}: {} classes to learn from, {} for the test; {}-way {}-shot, {} queries a task\n", data.source,
        data.training_classes, data.test_classes, form.outputs, form.support / form.outputs, form.query);
  else
    say("{}: {} rows to adapt to, {} to be judged by\n", data.source, form.support, form.query);
  const std::string inner =
      o.adaptation.inner_steps > 0
          ? fmt::format("{} of {}", counted(o.adaptation.inner_steps, "step"), o.adaptation.inner)
          : fmt::format("{} to {:g}", o.adaptation.inner, o.adaptation.inner_tolerance);
  say("{}: {} numbers shared, {} adapted by a task\n", name(o.learner.kind), learner.shared_parameters(),
      learner.adapted_parameters());
  say("{} of {}: {}, {}; on {}\n\n", counted(o.steps, "step"), counted(o.tasks, "task"), o.estimator, inner,
      o.device.str());
  say("   step  training loss  {:>16}  inner residual  outer gradient     time\n",
      form.classes ? "test accuracy" : "test error");
  std::fflush(stdout);
}

std::string measure(const Mean& mean, bool classes) {
  if (std::isnan(mean.value)) return "not known";
  return classes ? fmt::format("{:.2f} ± {:.2f} %", 100 * mean.value, 100 * mean.standard_error)
                 : fmt::format("{:.4f} ± {:.4f}", mean.value, mean.standard_error);
}

void print_point(const MetaPoint& p, bool classes) {
  const auto shown_number = [](double x, const char* kind) {
    return std::isnan(x) ? std::string("–") : fmt::format(fmt::runtime(kind), x);
  };
  const auto padded = [](const std::string& text, std::size_t width) {
    return std::string(width - std::min(width, columns(text)), ' ') + text;
  };
  say("{:7}  {}  {}  {}  {}  {:5.1f} s\n", p.step, padded(shown_number(p.training_loss, "{:.5f}"), 13),
      padded(measure(p.test, classes), 16), padded(shown_number(p.inner_residual, "{:.2g}"), 14),
      padded(shown_number(p.gradient_norm, "{:.3g}"), 14), p.seconds);
  std::fflush(stdout);
}

void print_end(const MetaLearned& r, bool classes) {
  say("\n");
  const std::optional<Verdict> verdict = r.verdict();
  const bool done = r.status == Status::converged, believed = !verdict || *verdict == Verdict::trusted;
  print_entry("run",
              !done ? fmt::format("{}: {}", name(r.status), as_flags(r.message))
                    : fmt::format("{}{}", r.message,
                                  believed ? "" : fmt::format("; the gradient is {}", name(*verdict))),
              !done      ? Colour::red
              : believed ? Colour::green
                         : Colour::yellow);
  const auto adapted = [&] {
    if (!std::isnan(r.test.value))
      return fmt::format("{} on {}", measure(r.test, classes), counted(r.test.tasks, "task"));
    return fmt::format("none: adapting to {} does not end in numbers", counted(r.test.tasks, "task"));
  };
  print_entry(classes ? "test accuracy" : "test error",
              fmt::format("{} ({} without adapting)", adapted(), measure(r.test_before, classes)));
  if (r.probe) {
    print_entry("gradient",
                std::isnan(r.probe->cosine)
                    ? fmt::format("not known beside a tight reference on {}: one of the two is not finite",
                                  counted(r.probe->tasks, "task"))
                    : fmt::format("cosine {:.5f} to a tight reference on {}, relative error {:.2g}",
                                  r.probe->cosine, counted(r.probe->tasks, "task"), r.probe->relative_error));
    print_certificate(r.probe->certificate);
  }
  if (r.certified.count() > 0)
    print_entry("certified",
                fmt::format("while it learned {}: {} trusted, {} doubtful, {} untrusted; in {:.1f} s",
                            counted(r.certified.count(), "gradient"), r.certified.trusted,
                            r.certified.doubtful, r.certified.untrusted, r.certified.seconds));
  print_entry("time", fmt::format("{:.1f} s in all{}", r.seconds,
                                  std::isnan(r.seconds_per_step)
                                      ? std::string()
                                      : fmt::format(", {:.2f} ms a step", 1e3 * r.seconds_per_step)));
  for (const std::string& warning : r.warnings) print_entry("warning", as_flags(warning), Colour::yellow);
}

int run(const CLI::App& command, MetaArguments& a) {
  resolve_names(a);
  refuse_idle(command, a);
  require_outputs("meta", {a.json, a.report, a.save, a.checkpoint}, {});
  Progress progress;
  progress.show("reading the data");
  const TaskData data = tasks_of(a);
  const MetaOptions options = resolve(a.options, data.training->form());
  const bool classes = data.training->form().classes;
  // Layers of units are too little work for LibTorch to divide: waiting for another core takes longer.
  if (options.device.is_cpu() && !data.training->form().pictures()) at::set_num_threads(1);
  const std::string identity =
      fmt::format("{} of {}", run_identity(data, options), bilevel::as_utf8(data.source));
  a.checkpoint = place_of("meta", a.checkpoint, identity);
  const bilevel::KeptRun place(a.checkpoint);
  place.require_place(a.resume, identity);
  say_where_none_is_kept(place, a.resume);
  catch_interrupts();
  progress.show("");
  print_head(data, options);
  MetaControl control;
  control.checkpoint = a.checkpoint;
  control.resume = a.resume;
  control.forget = false;  // not before all that it gave is written
  control.identity = identity;
  control.interrupted = [] { return interrupted(); };
  control.progress = [&](const std::string& text) { progress.show(text); };
  control.callback = [&](const MetaPoint& point) {
    progress.show("");
    print_point(point, classes);
  };
  const MetaLearned result = meta_learn(data, options, control);
  progress.show("");
  if (result.resumed) say(stderr, "bilevel: resumed from {}\n", a.checkpoint);
  if (unfinished(result.status))
    say(stderr, "bilevel: {}; {} keeps the run: the same command with --resume{} goes on from there\n",
        as_flags(result.message), a.checkpoint, a.resume ? "" : " added");
  print_end(result, classes);
  const Json j = meta_result(a.command_line, options, data, result);
  write_outputs({{a.save, [&] { return result.learner.text(); }},
                 {a.json, [&] { return json_text(j); }},
                 {a.report, [&] { return report::render(report::meta_page(j)); }}});
  if (!unfinished(result.status)) place.forget();
  const bool believed = result.verdict().value_or(Verdict::trusted) == Verdict::trusted;
  return result.status == Status::converged && believed ? ok : no;
}

void add_task_options(CLI::App& command, MetaArguments& a) {
  const OptionGroup tasks{command, ""};
  tasks
      .add("data", a.data,
           "sinusoids, a folder of class folders with pictures, or the folder with Omniglot's IDX files",
           "DATA")
      ->capture_default_str();
  tasks.number("--ways", a.pictures.ways, "Classes of a task (default: 5)");
  tasks.number("--shots", a.shots,
               "Rows of a sinusoid (default: 10), or pictures of each class (1), to adapt to");
  tasks.number("--queries", a.queries, "Rows (10), or pictures of each class (15), to be judged by");
  command.add_flag("--no-rotations", a.no_rotations,
                   "Do not make classes of their own of pictures turned by quarters of a circle");
  tasks.number("--size", a.size, "Height and width that pictures of a folder are brought to (28)");
  tasks.number("--test-share", a.pictures.test_share, "Of a folder's classes, kept for the test (0.2)");
  tasks.add("--device", a.device, "cpu, cuda or cuda:N", "NAME")->capture_default_str();
  tasks.add("--seed", a.options.seed, "Of first values and all tasks", "N")
      ->check(whole_number())
      ->capture_default_str();
  tasks.number("--seconds", a.options.seconds, "Most seconds of learning");
}

void add_learner_options(CLI::App& command, MetaArguments& a) {
  LearnerOptions& l = a.options.learner;
  const OptionGroup learner{command, "The learner"};
  learner.add("--learner", a.learner,
              "center, gain, heads or hypernetwork (default: center for sinusoids, heads for pictures)",
              "NAME");
  learner.add("--layers", a.layers, "Units of hidden layers (40-40)", "SIZES");
  learner.number("--filters", l.filters, "Of each block of the network for pictures (64)");
  learner.number("--blocks", l.blocks, "Of that network (4)");
  learner.add("--unit", a.unit, "tanh, silu, or relu for heads", "NAME");
  learner.add("--strengths", a.strengths, "Of center's regulariser: one, layers or weights", "NAME")
      ->capture_default_str();
  learner.number("--strength", l.strength, "Of the regulariser, where it starts (1; heads: 0.1)");
  learner.number("--embedding", l.embedding, "Numbers that a task of a hypernetwork adapts (16)");
}

void add_method_options(CLI::App& command, MetaArguments& a) {
  MetaOptions& o = a.options;
  const OptionGroup method{command, "Learning"};
  method
      .add("--estimator", o.estimator,
           "Of the outer gradient: implicit-cg, implicit-neumann, one-step, first-order, ep-central, "
           "unrolled, …",
           "NAME")
      ->capture_default_str();
  method.add("--beta", o.beta, "Strength of the nudge of ep-… (default: a hundredth, a task)", "X");
  method.add("--inner", o.adaptation.inner,
             "Steps of adaptation: lbfgs (default), barzilai-borwein (a center of layers), gradient-descent, "
             "heavy-ball, "
             "nesterov or adam",
             "NAME");
  method.number("--inner-steps", o.adaptation.inner_steps,
                "So many of them (default: until tasks have settled)");
  method.number("--inner-tolerance", o.adaptation.inner_tolerance, "Inner gradient of a settled task (1e-3)");
  method.number("--inner-rate", o.adaptation.inner_rate, "Length of such a step, or of the first one");
  method.number("--adjoint-steps", o.adjoint_steps, "Most iterations of the second phase (100)");
  method.number("--tasks", o.tasks, "Side by side in each step (25; pictures: 16)");
  method.number("--steps", o.steps, "Of what is shared, by Adam (3000; pictures: 4000)");
  method.number("--learning-rate", o.learning_rate,
                "Where it starts (3e-3; pictures: 2e-3); falls to 0 along half a cosine");
  method.number("--clip", o.clip, "Outer gradients are shortened to this length (10)");
  method.number("--test-tasks", o.test_tasks, "On which the result is tested (1000)");
  method.number("--looks", o.looks, "At a tenth of these, while it learns (20)");
  method
      .add("--probe", o.probe_tasks, "Tasks on which the gradient is compared with a reference; 0: none", "N")
      ->capture_default_str();
  method.add("--certify", o.certify, "Gradients that are certified while it learns; 0: none", "N")
      ->capture_default_str();
}

void add_output_options(CLI::App& command, MetaArguments& a) {
  const OptionGroup outputs{command, "Results"};
  outputs.add("--save", a.save, "Write the learner, for bilevel meta adapt", "FILE");
  outputs.add("--report", a.report, "Write a report to read, one HTML file", "FILE");
  outputs.add("--json", a.json, "Write the whole result", "FILE");
  outputs.add("--checkpoint", a.checkpoint,
              "Where the run is kept while it lasts (default: bilevel-meta-….ckpt here, removed at the end)",
              "FILE");
  command.add_flag("--resume", a.resume, "Go on with a run that was stopped")->group(outputs.heading);
}

}  // namespace

std::function<int()> add_meta(CLI::App& program) {
  auto a = std::make_shared<MetaArguments>();
  CLI::App& command = *program.add_subcommand(
      "meta",
      "Learn what tasks share, so that a few rows or pictures teach the next one (few-shot learning)");
  add_task_options(command, *a);
  add_learner_options(command, *a);
  add_method_options(command, *a);
  add_output_options(command, *a);
  command.footer(
      "What is left out is chosen for the learner and the tasks: docs/meta.md.\n\n"
      "Examples:\n"
      "  bilevel meta sinusoids --report report.html --save sines.learner\n"
      "  bilevel meta adapt sines.learner rows.csv new.csv\n"
      "  bilevel meta omniglot/ --ways 5 --shots 1 --device cuda --report report.html\n"
      "  bilevel meta pictures/ --ways 3 --shots 5 --save pictures.learner\n"
      "  bilevel meta adapt pictures.learner few/ more/ --output labels.csv");
  const auto adapt = add_adapt(command);
  return [a, adapt, &command] {
    if (command.got_subcommand("adapt")) return adapt();
    a->command_line = command_line();
    return run(command, *a);
  };
}

}  // namespace app
