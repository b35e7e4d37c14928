#include <cmath>
#include <cstdlib>
#include <memory>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/networks/train.hpp>
#include <bilevel/version.hpp>

#include "commands.hpp"
#include "data_arguments.hpp"
#include "data_output.hpp"
#include "flags.hpp"
#include "kept_run.hpp"
#include "option_group.hpp"
#include "problem_arguments.hpp"
#include "report/page.hpp"
#include "report/train_page.hpp"
#include "terminal.hpp"
#include "train_output.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;
using bilevel::Status;
using namespace bilevel::networks;

struct TrainArguments {
  TrainOptions options;
  TrainingFiles files;
  SplitOptions split;
  // Names and texts that become objects once all are known.
  std::string energy = "hopfield", layers, activation, read_out, optimizer, schedule, scaling = "auto";
  RowsArgument test;
  DataArguments data;
  std::string json, report, save, netlist, start, checkpoint;
  bool resume = false;
  std::string command_line;
};

/// Names become what they name.
void resolve_names(TrainArguments& a) {
  TrainOptions& o = a.options;
  o.energy = energy_of(a.energy);
  o.layers = sizes_argument(
      a.layers,
      " must be sizes of at least 1 joined by '-', as in 784-512-10, or one hidden layer alone, as in 512");
  if (!a.activation.empty()) o.activation = activation_of(a.activation);
  if (!a.read_out.empty()) o.read_out = read_out_of(a.read_out);
  if (!a.optimizer.empty()) o.optimizer = weight_optimizer_of(a.optimizer);
  if (!a.schedule.empty()) o.schedule = schedule_of(a.schedule);
  a.split.scaling = scaling_of(a.scaling);
  a.split.seed = o.seed;
  a.files.reading = a.data.read_options();
  a.split.test_share = a.test.number("--test");
  if (const auto share = a.split.test_share; share && !(*share > 0 && *share < 1))
    throw InvalidInput(fmt::format("--test {} must be a file or a share between 0 and 1", a.test.text));
  if (a.split.test_share && !a.test.labels.empty())
    throw InvalidInput(fmt::format(
        "--test-labels {} needs a file of test rows, and --test is a share of the data", a.test.labels));
  if (!a.split.test_share) a.files.test = a.test.text;
  a.files.test_labels = a.test.labels;
  if (!a.start.empty()) o.start = read_network(a.start);
  o.validate().throw_if_any();
}

TrainingData data_of(const TrainArguments& a) {
  constexpr Index drawn_rows = 4000;
  if (!a.files.data.empty()) return read_training_data(a.files, a.split);
  if (!a.test.text.empty())
    throw InvalidInput("--test needs data: without DATA, train draws pictures and tests on others");
  return drawn_digits(a.split.rows > 0 ? a.split.rows : drawn_rows, a.options.seed);
}

/// For --beta: what is wrong with the text, or nothing.
std::string not_zero(const std::string& text) {
  return std::strtod(text.c_str(), nullptr) != 0
             ? std::string()
             : "0 would compare a phase with itself; give another strength";
}

void print_head(const TrainSettings& s, const TrainingData& d) {
  const auto& a = s.architecture;
  const auto& p = s.propagation;
  say("{}: {} training rows, {} test rows, {} features, {} classes; {}\n", d.train.source, d.train.rows(),
      d.test.rows(), d.features(), d.classes.size(), d.scaling);
  say("{} {} ({}, {} read-out), {} parameters; {}, β = {:g}, {} + {} steps, batches of {}, {}\n",
      name(a.energy), fmt::join(a.layers, "-"), name(a.activation), name(a.read_out), a.parameters(),
      s.estimator, p.beta, p.free.max_steps, p.nudged.max_steps, s.batch, name(s.optimizer));
  say("learning rates {:.3g}, × {:.3g} an epoch{}\n\n", fmt::join(s.learning_rates, ", "), s.decay,
      a.resistive() ? fmt::format("; gain {:g} on the inputs, {:g} between layers", a.input_gain, a.gain)
                    : std::string());
  say("epoch  train error  test error  samples/s  residual  gradient's cosine  certified\n");
  std::fflush(stdout);
}

/// How many gradients were certified of how many, and what came out.
std::string verdicts_of(const CertifiedGradients& c) {
  std::vector<std::string> parts;
  for (const auto& [count, verdict] : {std::pair{c.trusted, bilevel::Verdict::trusted},
                                       {c.doubtful, bilevel::Verdict::doubtful},
                                       {c.untrusted, bilevel::Verdict::untrusted}})
    if (count > 0) parts.push_back(fmt::format("{} {}", count, name(verdict)));
  if (c.cut_short > 0) parts.push_back(fmt::format("{} given up", c.cut_short));
  return fmt::format("{} of {} batches{}{}", c.count(), c.batches, parts.empty() ? "" : ": ",
                     fmt::join(parts, ", "));
}

void print_epoch(const Epoch& e, bool certifying) {
  say("{:5}  {:9.2f} %  {:8.2f} %  {:9.0f}  {:8.1e}  {:>17}  {}\n", e.epoch, 100 * e.train_error,
      100 * e.test_error, e.samples_per_second, e.relaxation_residual,
      std::isnan(e.gradient_cosine) ? std::string("–") : fmt::format("{:.5f}", e.gradient_cosine),
      certifying ? verdicts_of(e.certified) : "–");
  std::fflush(stdout);
}

void print_end(const TrainArguments& a, const TrainingData& d, const TrainedNetwork& r) {
  say("\n");
  const bool done = r.status == Status::converged;
  print_entry("run", fmt::format("{}: {}", name(r.status), as_flags(r.message)),
              done ? Colour::green : Colour::red);
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
  if (r.certified.count() > 0)
    print_entry("certified",
                fmt::format("while it learned {}; one in {:.4g}, in {:.1f} s", verdicts_of(r.certified),
                            r.certified.interval(), r.certified.seconds));
  else if (a.options.certify_every == 0)
    print_entry("certified",
                "no gradient while it learned: a tenth of the time was too short for one; "
                "--certify-every N certifies every N-th all the same");
  print_entry("time", fmt::format("{:.1f} s in all", r.seconds));
  for (const std::string& note : d.notes) print_entry("note", note);
  for (const std::string& warning : r.warnings) print_entry("warning", as_flags(warning), Colour::yellow);
  if (r.status == Status::diverged && !a.checkpoint.empty())
    print_entry("kept", fmt::format("{}: the same command with --resume and {} goes on from there",
                                    a.checkpoint, as_flags(r.remedy)));
}

int run(TrainArguments& a) {
  resolve_names(a);
  require_outputs("train", {a.json, a.report, a.save, a.netlist, a.checkpoint},
                  {a.files.data, a.files.test, a.files.reading.labels, a.files.test_labels, a.start});
  if (!a.files.data.empty() && !a.test.text.empty())
    require_not_the_data("train", a.files.data, {{"--test", a.test.text}},
                         "name other rows, or a share of these (0.2)");
  Progress progress;
  progress.show("reading the data");
  const TrainingData data = data_of(a);
  const TrainSettings settings = resolve_options(a.options, data);
  if (!a.netlist.empty() && !settings.architecture.resistive())
    throw InvalidInput("--netlist needs --energy resistive: other networks are no circuits");
  const std::string identity =
      fmt::format("{} of {}", run_identity(data, settings), as_utf8(data.train.source));
  a.checkpoint = place_of("train", a.checkpoint, identity);
  const bilevel::KeptRun place(a.checkpoint);
  place.require_place(a.resume, identity);
  const bilevel::models::TuneControl kept = control_of(place, a.resume, identity, progress);
  TrainControl control{.checkpoint = kept.checkpoint,
                       .resume = kept.resume,
                       .forget = kept.forget,
                       .identity = kept.identity,
                       .progress = kept.progress,
                       .interrupted = kept.interrupted};
  progress.show("");
  print_head(settings, data);
  control.callback = [&](const Epoch& e) {
    progress.show("");
    print_epoch(e, settings.certify_every >= 0);
    return true;
  };
  const TrainedNetwork result = train(data, settings, control);
  progress.show("");
  if (result.resumed) say(stderr, "bilevel: resumed from {}\n", a.checkpoint);
  if (unfinished(result.status))
    say(stderr, "bilevel: {}; {} keeps the run: the same command with --resume{} goes on from there\n",
        as_flags(result.message), a.checkpoint, a.resume ? "" : " added");
  print_end(a, data, result);
  const Json j = train_result(a.command_line, settings, data, result);
  write_outputs({{a.save, [&] { return result.network.text(std::string(bilevel::version)); }},
                 {a.netlist, [&] { return result.network.netlist(data.test.inputs.col(0)); }},
                 {a.json, [&] { return json_text(j); }},
                 {a.report, [&] { return report::render(report::train_page(j)); }}});
  if (result.status == Status::converged) place.forget();
  return result.status == Status::converged ? ok : no;
}

void add_run_options(CLI::App& command, TrainArguments& a) {
  TrainOptions& t = a.options;
  const OptionGroup run{command, ""};
  run.add("data", a.files.data,
          "Folder with the four IDX files of MNIST's names, or with a folder of pictures (PNG, JPEG, PGM, "
          "PPM) for "
          "each class; or a LIBSVM, CSV or NPY file; without it, pictures of digits are drawn",
          "DATA");
  run.add("--energy", a.energy, "hopfield, predictive-coding or resistive")->capture_default_str();
  run.add("--layers", a.layers, "Sizes, 784-512-10, or one hidden layer alone, 512", "SIZES");
  run.number("--epochs", t.epochs, "Passes over the training rows");
  run.number("--batch", t.batch, "Rows for one step of the weights");
  run.add("--test", a.test.text,
          "Rows to test on: a file like the data, or a share of its rows (default: 0.2)", "FILE|SHARE");
  run.add("--test-labels", a.test.labels, "Labels of that file, see --labels", "FILE");
  run.number("--rows", a.split.rows, "Train on this many rows at most, drawn at random");
  run.add("--seed", t.seed, "Of weights, order and all draws")->check(whole_number())->capture_default_str();
  run.number("--seconds", t.seconds, "Most seconds of training");
}

void add_network_options(CLI::App& command, TrainArguments& a) {
  TrainOptions& t = a.options;
  const OptionGroup network{command, "The network"};
  network.add("--activation", a.activation, "clip, sigmoid or tanh");
  network.add("--read-out", a.read_out, "squared or cross-entropy");
  network.number("--input-gain", t.input_gain, "Resistive: inputs are multiplied by this");
  network.number("--gain", t.gain, "Resistive: amplification between layers");
  network.number("--scale", t.scale, "Of the initial weights");
  network.add("--start", a.start, "Begin with the weights of a saved network", "FILE");
}

void add_learning_options(CLI::App& command, TrainArguments& a) {
  TrainOptions& t = a.options;
  const OptionGroup learning{command, "Learning"};
  learning.add("--estimator", t.estimator,
               "ep-central, ep-forward-2 … 4, ep-random-sign, ep-holomorphic, implicit-cg, "
               "implicit-neumann (recurrent backpropagation), backpropagation (predictive coding), …");
  learning.add("--beta", t.beta, "Strength of the nudge", "X")->check(not_zero);
  learning.number("--points", t.points, "Of ep-holomorphic: nudges on its circle, even (default: 8)");
  learning.add("--optimizer", a.optimizer, "sgd or adam");
  learning.number("--learning-rate", t.learning_rate, "Of the first layer");
  learning.add("--layer-rates", t.layer_rates, "Factors of it, one a layer of weights", "X,…")
      ->delimiter(',');
  learning.number("--decay", t.decay, "The rate is multiplied by this after every epoch");
  learning.add("--momentum", t.momentum, "Of sgd", "X")->check(CLI::NonNegativeNumber);
  learning.add("--weight-decay", t.weight_decay, "A step takes rate × this × weight off each weight", "X");
  learning.add("--probe", t.probe, "Rows on which the gradient is compared with the exact one; 0: none", "N")
      ->capture_default_str();
  learning
      .add("--certify-every", t.certify_every,
           "Batches from one certified gradient to the next; 0: as often as takes a tenth of the time; -1: "
           "none is",
           "N")
      ->capture_default_str();
}

void add_settling_options(CLI::App& command, TrainArguments& a) {
  TrainOptions& t = a.options;
  const OptionGroup settling{command, "Settling"};
  settling.add("--schedule", a.schedule, "even-odd, synchronous, sweep or gradient");
  settling.number("--step", t.step, "Of a layer towards its minimum (1: all the way), or of gradient steps");
  settling.number("--free-steps", t.free_steps, "Most steps of the free phase");
  settling.number("--nudged-steps", t.nudged_steps, "Steps of each nudged phase");
  settling.add("--tolerance", t.tolerance,
               "A sample has settled when no unit moves by more; 0: take all steps", "X");
  command.add_flag("--persistent", t.persistent, "Free phases go on from where the sample's last one ended")
      ->group(settling.heading);
  settling.add("--noise", t.noise, "Deviation of noise on everything that a layer receives", "X");
}

void add_output_options(CLI::App& command, TrainArguments& a) {
  const OptionGroup outputs{command, "Results"};
  outputs.add("--save", a.save, "Write the network", "FILE");
  outputs.add("--netlist", a.netlist,
              "Write a resistive network as a SPICE circuit, its inputs at the volts of the first test row",
              "FILE");
  outputs.add("--report", a.report, "Write a report to read, one HTML file", "FILE");
  outputs.add("--json", a.json, "Write the whole result", "FILE");
  outputs.add("--checkpoint", a.checkpoint,
              "Where the run is kept while it lasts (default: bilevel-train-….ckpt here, removed at the end)",
              "FILE");
  command.add_flag("--resume", a.resume, "Go on with a run that was stopped or diverged")
      ->group(outputs.heading);
}

}  // namespace

std::function<int()> add_train(CLI::App& program) {
  auto a = std::make_shared<TrainArguments>();
  CLI::App& command = *program.add_subcommand(
      "train",
      "Train a network that settles (Hopfield, predictive coding, resistive) by equilibrium propagation");
  add_run_options(command, *a);
  add_network_options(command, *a);
  add_learning_options(command, *a);
  add_settling_options(command, *a);
  add_output_options(command, *a);
  command
      .add_option("--scaling", a->scaling,
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
