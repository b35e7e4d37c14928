#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <bilevel/models/clean.hpp>
#include <bilevel/models/clean_file.hpp>
#include <bilevel/models/json.hpp>
#include "commands.hpp"
#include "data_arguments.hpp"
#include "data_output.hpp"
#include "flags.hpp"
#include "kept_run.hpp"
#include "problem_arguments.hpp"
#include "report/clean_page.hpp"
#include "report/page.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;
using bilevel::models::CleanData;
using bilevel::models::Cleaned;

struct CleanArguments {
  std::string file;
  RowsArgument trusted, test{.text = "0", .labels = ""};
  bilevel::models::CleanOptions options;
  DataArguments data;
  std::string json, report, output, ranking, checkpoint;
  bool resume = false;
  std::string command_line;
};

/// --output is for files with a line for each row.
void require_lines(const std::string& path, const bilevel::data::ReadOptions& reading,
                   const std::string& format) {
  try {
    bilevel::models::require_lines(path, reading, format);
  } catch (const InvalidInput& error) {
    throw InvalidInput(
        fmt::format("--output: {}: use --ranking FILE, which lists every row with its weight", error.what()));
  }
}

/// Reads the data, splits them, and says what is noted in words of the command line.
CleanData prepared(const CleanArguments& a, const bilevel::data::ReadOptions& reading) {
  bilevel::models::CleaningData all(bilevel::data::read(a.file, reading));
  all.test = a.test.read(reading, all.data.schema, "--test");
  all.trusted = a.trusted.read(reading, all.data.schema, "--trusted");
  CleanData data = bilevel::models::prepare_clean(std::move(all), a.options);
  as_flags(data.notes);
  return data;
}

void print(const CleanArguments& a, const CleanData& c, const Cleaned& r) {
  say("{}: {} training rows, {} trusted, {} for the test; {} features{}, {} classes\n", c.source,
      c.training_rows, c.trusted_rows, c.test_rows, c.columns.size(),
      c.storage == "sparse" ? " (sparse)" : "", c.classes.size());
  say("softmax with one weight a training row, λ = {:g}; {}\n\n", c.lambda, c.scaling);
  say("{} of {} training rows look mislabelled: weight below {:g}, and the model says otherwise\n",
      coloured(Colour::bold, fmt::format("{}", r.flagged)), c.training_rows, a.options.threshold);
  if (r.light > r.flagged)
    say("({} more lost their weight, though the model agrees with their labels)\n", r.light - r.flagged);
  say("\n");

  const auto padded = [](std::string text, std::size_t width) {
    if (columns(text) > width - 2) {
      std::string cut;
      for (const char byte : text) {
        const bool begins = (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
        if (begins && columns(cut) == width - 3) break;
        cut += byte;
      }
      text = cut + "…";
    }
    return text + std::string(width - columns(text), ' ');
  };
  say("{:>9}  {}{}{:>10}{}\n", "row", padded("label", 24), padded("the model says", 24), "weight",
      c.original.empty() ? "" : "  original");
  // The rows that look mislabelled, or where there are none the three that come nearest to it.
  const std::size_t shown = r.flagged > 0 ? std::min<std::size_t>(static_cast<std::size_t>(r.flagged), 10)
                                          : std::min<std::size_t>(r.order.size(), 3);
  for (std::size_t k = 0; k < shown; ++k) {
    const Index i = r.order[k];
    say("{:>9}  {}{}{:>10.2g}{}\n", r.rows[static_cast<std::size_t>(i)], padded(r.label(i), 24),
        padded(r.prediction(i), 24), r.weights[i],
        c.original.empty()
            ? std::string()
            : "  " + c.classes[static_cast<std::size_t>(c.original[static_cast<std::size_t>(i)])]);
  }
  say("\n");
  if (r.truth)
    print_entry("truth", fmt::format("{} labels were corrupted: precision {:.4f}, recall {:.4f}, F1 {:.4f}",
                                     r.truth->corrupted, r.truth->precision, r.truth->recall, r.truth->f1));
  if (r.accuracy_before)
    print_entry("test accuracy",
                fmt::format("{:.4f} with all rows as they are, {:.4f} with the learned weights",
                            *r.accuracy_before, *r.accuracy_after));
  print_entry("trusted loss", fmt::format("{:.6g} with all rows as they are, {:.6g} with the learned weights",
                                          r.loss_before, r.loss_after));
  const bilevel::Summary& s = r.summary;
  print_entry("run", fmt::format("{}: {}", name(s.status), s.message),
              r.trustworthy() ? Colour::green : Colour::red);
  print_certificate(s.certificate);
  print_entry("time", fmt::format("{} steps, {:.2f} s in all", s.iterations, r.seconds));
  if (!c.constant.empty())
    print_entry("constant", fmt::format("{} feature(s) never change on the training rows and are left out",
                                        c.constant.size()));
  for (const std::string& note : c.notes) print_entry("note", note);
  for (const std::string& warning : r.warnings) print_entry("warning", warning, Colour::yellow);
}

/// All training rows as CSV, the most suspicious first.
std::string ranking_text(const Cleaned& r) {
  std::string text = "rank,row,label,weight,predicted\n";
  for (std::size_t k = 0; k < r.order.size(); ++k) {
    const Index i = r.order[k];
    text += fmt::format("{},{},{},{:.6g},{}\n", k + 1, r.rows[static_cast<std::size_t>(i)],
                        csv_cell(r.label(i)), r.weights[i], csv_cell(r.prediction(i)));
  }
  return text;
}

int run(CleanArguments a) {
  if (a.file.empty()) throw InvalidInput("clean: name a data file; bilevel clean --help says more");
  const bilevel::data::ReadOptions reading = a.data.read_options();
  a.options.missing = reading.missing;
  a.options.trusted = a.trusted.number("--trusted").value_or(0);
  a.options.test = a.test.number("--test").value_or(0);
  if (a.trusted.text.empty())
    throw InvalidInput(
        "--trusted is missing: name rows whose labels are right, by a file, a share or a number");
  a.options.validate().throw_if_any();
  require_outputs("clean", {a.json, a.report, a.output, a.ranking, a.checkpoint},
                  {a.file, a.trusted.text, a.test.text, reading.labels, a.trusted.labels, a.test.labels});
  require_not_the_data("clean", a.file, {{"--trusted", a.trusted.text}, {"--test", a.test.text}},
                       "name rows that are known to be right, a share (0.1) or a number of them");
  if (!a.output.empty() && a.options.corrupt > 0)
    throw InvalidInput(
        "clean: --corrupt is a trial, which replaces labels in memory only: there is nothing to clean in the "
        "file; leave --output or --corrupt out");

  Progress progress;
  progress.show("reading the data");
  const CleanData data = prepared(a, reading);
  if (!a.output.empty()) require_lines(a.file, reading, data.format);
  const std::string identity = identity_of(data), checkpoint = place_of("clean", a.checkpoint, identity);
  const bilevel::KeptRun kept(checkpoint);
  const bilevel::models::TuneControl control = control_of(kept, a.resume, identity, progress);
  Cleaned result = bilevel::models::clean(data, a.options, control);
  progress.show("");
  as_flags(result.warnings);

  if (result.interrupted)
    say(stderr,
        "bilevel: stopped after {} steps; {} keeps the run: the same command with --resume{} goes on from "
        "there\n",
        result.summary.iterations, checkpoint, a.resume ? "" : " added");
  if (result.summary.resumed) say(stderr, "bilevel: resumed from {}\n", checkpoint);
  print(a, data, result);
  const std::string j = bilevel::models::as_json(data, a.options, result, a.command_line);
  // Half a run says too little about which rows to lose.
  const bool half = unfinished(result.summary.status);
  if (half && !a.output.empty()) {
    say(stderr, "bilevel: {} is not written, since the run is not over\n", a.output);
    a.output.clear();
  }
  // The cleaned text first: it is read from the file once more, which may have changed.
  write_outputs(
      {{a.output, [&] { return bilevel::models::text_without(a.file, reading, data, result.flagged_rows); }},
       {a.ranking, [&] { return ranking_text(result); }},
       {a.json, [&] { return j; }},
       {a.report, [&] { return report::render(report::clean_page(Json::parse(j))); }}});
  if (!half) kept.forget();
  return result.trustworthy() ? ok : no;
}

}  // namespace

std::function<int()> add_clean(CLI::App& program) {
  auto a = std::make_shared<CleanArguments>();
  CLI::App& command = *program.add_subcommand(
      "clean", "Find the rows of your data whose labels look wrong, judged by a few that you trust");
  bilevel::models::CleanOptions& t = a->options;
  command.add_option("data", a->file, "The data: CSV, TSV, LIBSVM, IDX or NPY, also gzip or bzip2")
      ->type_name("DATA");
  command
      .add_option("--trusted", a->trusted.text,
                  "Rows whose labels are right: a file like the data, or a share or a number of its rows")
      ->type_name("FILE|SHARE|N");
  command.add_option("--trusted-labels", a->trusted.labels, "Labels of that file, see --labels")
      ->type_name("FILE");
  command
      .add_option("--test", a->test.text, "Rows to measure accuracy on, with labels that are right; 0: none")
      ->type_name("FILE|SHARE|N")
      ->capture_default_str();
  command.add_option("--test-labels", a->test.labels, "Labels of that file, see --labels")->type_name("FILE");
  command.add_option("--rows", t.rows, "Look at this many of the other rows, drawn at random (default: all)")
      ->type_name("N");
  command
      .add_option("--corrupt", t.corrupt,
                  "A trial: give this share of the rows a label at random, and see whether they are found")
      ->type_name("SHARE");
  command
      .add_option("--lambda", t.lambda,
                  "Penalty λ of the model (default: 3e-5 times the mean ‖x‖² of the scaled training rows)")
      ->type_name("X")
      ->check(positive);
  command
      .add_option("--threshold", t.threshold,
                  "Rows with less weight than this, whose label the model contradicts, look mislabelled")
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--iterations", t.iterations, "Most steps")->capture_default_str();
  command
      .add_option("--decrease", t.decrease,
                  "Stop when a step lowers the loss on the trusted rows by less than this share of it")
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--seconds", t.seconds, "Most seconds of learning (default: no limit)")
      ->type_name("X")
      ->check(positive);
  command.add_option("--seed", t.seed, "Of all draws")->check(whole_number())->capture_default_str();
  command.add_option("--output", a->output, "Write the data without those rows (CSV, TSV, LIBSVM)")
      ->type_name("FILE");
  command.add_option("--ranking", a->ranking, "Write all rows by suspicion: rank,row,label,weight,predicted")
      ->type_name("FILE");
  command.add_option("--report", a->report, "Write a report to read, one HTML file")->type_name("FILE");
  command.add_option("--json", a->json, "Write the whole result")->type_name("FILE");
  command
      .add_option("--checkpoint", a->checkpoint,
                  "Where an interrupted run is kept (default: bilevel-clean-….ckpt here, removed at the end)")
      ->type_name("FILE");
  command.add_flag("--resume", a->resume, "Go on with an interrupted run of the same command");
  a->data.add_to(command, DataArguments::Purpose::classifying);
  command.footer(
      "What is minimised, natural logarithms:\n"
      "  inner  φ*(θ) = argmin of 1/n Σ_i σ(θ_i)·ℓ_i(φ) + ½λ‖φ‖² over the training rows, softmax losses "
      "ℓ_i;\n"
      "         the intercepts are penalised too\n"
      "  outer  mean of ℓ at φ*(θ) over the trusted rows, without penalty\n"
      "One θ_i a training row, within -10:10, all weights σ(θ_i) ½ at the start. Rows that the trusted ones\n"
      "speak against lose their weight; they look mislabelled where the model contradicts them, too. Row\n"
      "numbers count the rows of the file from 1, without its header.\n\n"
      "Examples:\n"
      "  bilevel clean survey.csv --target answer --trusted checked.csv --output cleaned.csv\n"
      "  bilevel clean digits.csv --trusted 300 --test 0.2 --corrupt 0.4 --report report.html\n"
      "  bilevel clean train-images.gz --labels train-labels.gz --rows 5000 --trusted 5000 --corrupt 0.5\n"
      "      --test t10k-images.gz --test-labels t10k-labels.gz --report report.html");
  return [a] {
    a->command_line = command_line();
    return run(*a);
  };
}

}  // namespace app
