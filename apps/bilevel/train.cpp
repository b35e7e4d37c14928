#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include <bilevel/outer/checkpoint.hpp>
#include <bilevel/version.hpp>

#include "commands.hpp"
#include "data_arguments.hpp"
#include "data_output.hpp"
#include "kept_run.hpp"
#include "problem_arguments.hpp"
#include "report/page.hpp"
#include "report/train_page.hpp"
#include "terminal.hpp"
#include "train_output.hpp"
#include "training/network_file.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;
using bilevel::Status;
using training::Epoch;
using training::Settings;
using training::TrainData;
using training::TrainResult;

struct TrainArguments {
  training::TrainTask task;
  DataArguments data;
  std::string json, report, save, netlist, start, checkpoint;
  bool resume = false;
  std::string command_line;
};

/// What a kept run must agree with: the rows, the network, and what draws and moves its weights. Rates and
/// numbers of steps may change: that is how a run that diverged goes on.
std::string identity_of(const Settings& s, const TrainData& d) {
  const auto& x = d.train.inputs;
  const std::string_view bytes(reinterpret_cast<const char*>(x.data()),
                               sizeof(float) * static_cast<std::size_t>(x.size()));
  const std::string_view labels(reinterpret_cast<const char*>(d.train.labels.data()),
                                sizeof(int) * d.train.labels.size());
  return fmt::format("train {} {:016x} {:016x} {:016x} {} {} {} {} gains {} {} {} batch={} seed={}",
                     as_utf8(d.train.source), bilevel::checksum(bytes), bilevel::checksum(labels),
                     bilevel::checksum(fmt::format("{}", fmt::join(d.classes, "\n"))),
                     name(s.architecture.energy), fmt::join(s.architecture.layers, "-"),
                     name(s.architecture.activation), name(s.architecture.read_out),
                     s.architecture.input_gain, s.architecture.gain, s.optimizer, s.batch, s.seed);
}

/// For --beta: what is wrong with the text, or nothing.
std::string not_zero(const std::string& text) {
  return std::strtod(text.c_str(), nullptr) != 0
             ? std::string()
             : "0 would compare a phase with itself; give another strength";
}

void print_head(const Settings& s, const TrainData& d) {
  const auto& a = s.architecture;
  const auto& p = s.propagation;
  say("{}: {} training rows, {} test rows, {} features, {} classes; {}\n", d.train.source, d.train.rows(),
      d.test.rows(), d.features(), d.classes.size(), d.scaling);
  say("{} {} ({}, {} read-out), {} parameters; {}, β = {:g}, {} + {} steps, batches of {}, {}\n",
      name(a.energy), fmt::join(a.layers, "-"), name(a.activation), name(a.read_out), a.parameters(),
      s.estimator, p.beta, p.free.max_steps, p.nudged.max_steps, s.batch, s.optimizer);
  say("learning rates {:.3g}, × {:.3g} an epoch{}\n\n", fmt::join(s.learning_rates, ", "), s.decay,
      a.resistive() ? fmt::format("; gain {:g} on the inputs, {:g} between layers", a.input_gain, a.gain)
                    : std::string());
  say("epoch  train error  test error  samples/s  residual  gradient's cosine\n");
  std::fflush(stdout);
}

void print_epoch(const Epoch& e) {
  say("{:5}  {:9.2f} %  {:8.2f} %  {:9.0f}  {:8.1e}  {}\n", e.epoch, 100 * e.train_error, 100 * e.test_error,
      e.samples_per_second, e.relaxation_residual,
      std::isnan(e.gradient_cosine) ? std::string("–") : fmt::format("{:.5f}", e.gradient_cosine));
  std::fflush(stdout);
}

void print_end(const TrainArguments& a, const TrainData& d, const TrainResult& r) {
  say("\n");
  const bool done = r.status == Status::converged;
  print_entry("run", fmt::format("{}: {}", name(r.status), r.message), done ? Colour::green : Colour::red);
  if (!r.epochs.empty()) {
    const Epoch& e = r.epochs.back();
    print_entry("test error", fmt::format("{:.2f} % of {} rows (train {:.2f} %)", 100 * e.test_error,
                                          d.test.rows(), 100 * e.train_error));
  }
  if (r.probe) {
    print_entry("gradient",
                std::isnan(r.probe->cosine)
                    ? fmt::format("the exact one is zero or not known on {} test rows", r.probe->samples)
                    : fmt::format("cosine {:.6f} to the exact one on {} test rows, relative error {:.2g}",
                                  r.probe->cosine, r.probe->samples, r.probe->relative_error));
    print_certificate(r.probe->certificate);
    if (r.probe->certificate.verdict != bilevel::Verdict::trusted)
      print_entry("note",
                  std::isnan(r.probe->cosine)
                      ? "outputs that sit at their bounds have no exact gradient; a finite nudge moves "
                        "them all the same (docs/networks.md)"
                      : "a finite nudge trains well without being the exact gradient: a smaller --beta "
                        "and more --free-steps and --nudged-steps bring it nearer (docs/networks.md)");
  }
  print_entry("time", fmt::format("{:.1f} s in all", r.seconds));
  for (const std::string& note : d.notes) print_entry("note", note);
  for (const std::string& warning : r.warnings) print_entry("warning", warning, Colour::yellow);
  if (r.status == Status::diverged && !a.checkpoint.empty())
    print_entry("kept", fmt::format("{}: the same command with --resume and {} goes on from there",
                                    a.checkpoint, r.remedy));
}

int run(TrainArguments a) {
  training::TrainTask& task = a.task;
  task.reading = a.data.read_options();
  task.validate();
  require_outputs("train", {a.json, a.report, a.save, a.netlist, a.checkpoint},
                  {task.data, task.test, task.reading.labels, task.test_labels, a.start});
  if (!task.data.empty() && !task.test.empty())
    require_not_the_data("train", task.data, {{"--test", task.test}},
                         "name other rows, or a share of these (0.2)");
  Progress progress;
  progress.show("reading the data");
  const TrainData data = training::load(task);
  const Settings settings = training::settle_task(
      task, data.features(), data.train.rows(), static_cast<Index>(data.classes.size()), data.feature_size());
  if (!a.netlist.empty() && !settings.architecture.resistive())
    throw InvalidInput("--netlist needs --energy resistive: other networks are no circuits");
  std::optional<Eigen::VectorXf> start;
  if (!a.start.empty()) {
    const training::SavedNetwork saved = training::read_network(a.start);
    const auto words = [](const bilevel::networks::Architecture& n) {
      return fmt::format("{} {} ({}, {})", name(n.energy), fmt::join(n.layers, "-"), name(n.activation),
                         name(n.read_out));
    };
    const std::string has = words(saved.settings.architecture), wanted = words(settings.architecture);
    if (has != wanted)
      throw InvalidInput(fmt::format("--start {}: it is {}, and {} is to be trained", a.start, has, wanted));
    start = saved.theta;
  }
  const bilevel::models::TuneControl kept =
      control_of("train", a.checkpoint, a.resume, identity_of(settings, data), progress);
  a.checkpoint = kept.checkpoint;
  training::TrainControl control{.checkpoint = kept.checkpoint,
                                 .resume = kept.resume,
                                 .identity = kept.identity,
                                 .progress = kept.progress,
                                 .interrupted = kept.interrupted};
  progress.show("");
  print_head(settings, data);
  control.on_epoch = [&](const Epoch& e) {
    progress.show("");
    print_epoch(e);
  };
  const TrainResult result = training::train(settings, data, control, start ? &*start : nullptr);
  progress.show("");
  if (result.resumed) say(stderr, "bilevel: resumed from {}\n", a.checkpoint);
  if (unfinished(result.status))
    say(stderr, "bilevel: {}; {} keeps the run: the same command with --resume{} goes on from there\n",
        result.message, a.checkpoint, a.resume ? "" : " added");
  print_end(a, data, result);
  const Json j = train_result(a.command_line, settings, data, result);
  write_outputs(
      {{a.save,
        [&] {
          return training::network_text(
              {settings, result.theta, data.classes, data.shift, data.factor, data.imputed, data.schema},
              std::string(bilevel::version));
        }},
       {a.netlist,
        [&] {
          return training::circuit_text(settings, result.theta, data.test.inputs.col(0), data.classes);
        }},
       {a.json, [&] { return json_text(j); }},
       {a.report, [&] { return report::render(report::train_page(j)); }}});
  if (result.status == Status::converged) forget(a.checkpoint);
  return result.status == Status::converged ? ok : no;
}

void add_run_options(CLI::App& command, training::TrainTask& t) {
  command
      .add_option("data", t.data,
                  "Folder with the four IDX files of MNIST's names, or a LIBSVM, CSV or NPY file; without "
                  "it, pictures "
                  "of digits are drawn")
      ->type_name("DATA");
  command.add_option("--energy", t.energy, "hopfield, predictive-coding or resistive")->capture_default_str();
  command.add_option("--layers", t.layers, "Sizes, 784-512-10, or one hidden layer alone, 512")
      ->type_name("SIZES");
  command.add_option("--epochs", t.epochs, "Passes over the training rows")->type_name("N")->check(positive);
  command.add_option("--batch", t.batch, "Rows for one step of the weights")->type_name("N")->check(positive);
  command
      .add_option("--test", t.test,
                  "Rows to test on: a file like the data, or a share of its rows (default: 0.2)")
      ->type_name("FILE|SHARE");
  command.add_option("--test-labels", t.test_labels, "Labels of that file, see --labels")->type_name("FILE");
  command.add_option("--rows", t.rows, "Train on this many rows at most, drawn at random")
      ->type_name("N")
      ->check(positive);
  command.add_option("--seed", t.seed, "Of weights, order and all draws")
      ->check(whole_number())
      ->capture_default_str();
  command.add_option("--seconds", t.seconds, "Most seconds of training")->type_name("X")->check(positive);
}

void add_network_options(CLI::App& command, TrainArguments& a) {
  training::TrainTask& t = a.task;
  const std::string network = "The network";
  command.add_option("--activation", t.activation, "clip, sigmoid or tanh")->group(network);
  command.add_option("--read-out", t.read_out, "squared or cross-entropy")->group(network);
  command.add_option("--input-gain", t.input_gain, "Resistive: inputs are multiplied by this")
      ->type_name("X")
      ->check(positive)
      ->group(network);
  command.add_option("--gain", t.gain, "Resistive: amplification between layers")
      ->type_name("X")
      ->check(positive)
      ->group(network);
  command.add_option("--scale", t.scale, "Of the initial weights")
      ->type_name("X")
      ->check(positive)
      ->group(network);
  command.add_option("--start", a.start, "Begin with the weights of a saved network")
      ->type_name("FILE")
      ->group(network);
}

void add_learning_options(CLI::App& command, training::TrainTask& t) {
  const std::string learning = "Learning";
  command
      .add_option("--estimator", t.estimator,
                  "ep-central, ep-forward-2 … 8, ep-random-sign, ep-holomorphic, ep-agnostic, implicit-cg, "
                  "implicit-neumann (recurrent backpropagation), backpropagation (predictive coding), …")
      ->group(learning);
  command.add_option("--beta", t.beta, "Strength of the nudge")
      ->type_name("X")
      ->check(not_zero)
      ->group(learning);
  command.add_option("--points", t.points, "Of ep-holomorphic: nudges on its circle, even (default: 8)")
      ->type_name("N")
      ->check(positive)
      ->group(learning);
  command.add_option("--optimizer", t.optimizer, "sgd or adam")->group(learning);
  command.add_option("--learning-rate", t.learning_rate, "Of the first layer")
      ->type_name("X")
      ->check(positive)
      ->group(learning);
  command.add_option("--layer-rates", t.layer_rates, "Factors of it, one a layer of weights")
      ->type_name("X,…")
      ->delimiter(',')
      ->group(learning);
  command.add_option("--decay", t.decay, "The rate is multiplied by this after every epoch")
      ->type_name("X")
      ->check(positive)
      ->group(learning);
  command.add_option("--momentum", t.momentum, "Of sgd")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber)
      ->group(learning);
  command.add_option("--weight-decay", t.weight_decay, "A step takes rate × this × weight off each weight")
      ->type_name("X")
      ->group(learning);
  command
      .add_option("--probe", t.probe, "Rows on which the gradient is compared with the exact one; 0: none")
      ->type_name("N")
      ->capture_default_str()
      ->group(learning);
}

void add_settling_options(CLI::App& command, training::TrainTask& t) {
  const std::string relaxation = "Settling";
  command.add_option("--schedule", t.schedule, "even-odd, synchronous, sweep or gradient")->group(relaxation);
  command
      .add_option("--step", t.step, "Of a layer towards its minimum (1: all the way), or of gradient steps")
      ->type_name("X")
      ->check(positive)
      ->group(relaxation);
  command.add_option("--free-steps", t.free_steps, "Most steps of the free phase")
      ->type_name("N")
      ->check(positive)
      ->group(relaxation);
  command.add_option("--nudged-steps", t.nudged_steps, "Steps of each nudged phase")
      ->type_name("N")
      ->check(positive)
      ->group(relaxation);
  command
      .add_option("--tolerance", t.tolerance,
                  "A sample has settled when no unit moves by more; 0: take all steps")
      ->type_name("X")
      ->group(relaxation);
  command.add_flag("--persistent", t.persistent, "Free phases go on from where the sample's last one ended")
      ->group(relaxation);
  command.add_option("--noise", t.noise, "Deviation of noise on everything that a layer receives")
      ->type_name("X")
      ->group(relaxation);
}

void add_output_options(CLI::App& command, TrainArguments& a) {
  const std::string outputs = "Results";
  command.add_option("--save", a.save, "Write the network")->type_name("FILE")->group(outputs);
  command
      .add_option(
          "--netlist", a.netlist,
          "Write a resistive network as a SPICE circuit, its inputs at the volts of the first test row")
      ->type_name("FILE")
      ->group(outputs);
  command.add_option("--report", a.report, "Write a report to read, one HTML file")
      ->type_name("FILE")
      ->group(outputs);
  command.add_option("--json", a.json, "Write the whole result")->type_name("FILE")->group(outputs);
  command
      .add_option(
          "--checkpoint", a.checkpoint,
          "Where the run is kept while it lasts (default: bilevel-train-….ckpt here, removed at the end)")
      ->type_name("FILE")
      ->group(outputs);
  command.add_flag("--resume", a.resume, "Go on with a run that was stopped or diverged")->group(outputs);
}

}  // namespace

std::function<int()> add_train(CLI::App& program) {
  auto a = std::make_shared<TrainArguments>();
  CLI::App& command = *program.add_subcommand(
      "train",
      "Train a network that settles (Hopfield, predictive coding, resistive) by equilibrium propagation");
  add_run_options(command, a->task);
  add_network_options(command, *a);
  add_learning_options(command, a->task);
  add_settling_options(command, a->task);
  add_output_options(command, *a);
  command
      .add_option("--scaling", a->task.scaling,
                  "auto, none, unit (at most 1 in size) or standard (mean 0, deviation 1)")
      ->capture_default_str()
      ->group("Reading the data");
  a->data.add_to(command, DataArguments::Purpose::classifying);
  command.footer(
      "What is left out is chosen for the energy; docs/networks.md has the formulas and the defaults.\n\n"
      "Examples:\n"
      "  bilevel train --report report.html                         drawn digits, half a minute\n"
      "  bilevel train mnist/ --energy hopfield --layers 784-512-10 --report report.html --save net.json\n"
      "  bilevel train mnist/ --energy predictive-coding --layers 784-1000-10\n"
      "  bilevel train mnist/ --energy resistive --layers 784-100-10 --json result.json\n"
      "  bilevel train iris.csv --layers 20 --epochs 100 --test 0.3\n"
      "  bilevel train mnist/ --activation tanh --estimator ep-holomorphic --rows 2000");
  return [a] {
    a->command_line = command_line();
    return run(*a);
  };
}

}  // namespace app
