#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>

#include <bilevel/models/json.hpp>
#include <bilevel/models/tune.hpp>

#include "commands.hpp"
#include "data_output.hpp"
#include "flags.hpp"
#include "kept_run.hpp"
#include "model_arguments.hpp"
#include "problem_arguments.hpp"
#include "report/page.hpp"
#include "report/tune_page.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using bilevel::models::Fitted;
using bilevel::models::Quality;
using bilevel::models::Tuned;

struct TuneArguments {
  ModelArguments model;
  std::string bounds = "-10:10";
  std::string json, report, save, checkpoint;
  bool resume = false;
  std::string command_line;
};

std::string measures(const Quality& q) {
  std::string text;
  const auto add = [&](std::string_view what, const std::optional<double>& value) {
    if (value) text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", what, *value);
  };
  add("accuracy", q.accuracy);
  add("AUC", q.auc);
  if (q.rmse) text += fmt::format("{}RMSE {:.6g}", text.empty() ? "" : ", ", *q.rmse);
  add("R²", q.r2);
  return text;
}

std::string model_text(const bilevel::models::Prepared& p) {
  if (!p.network()) return std::string(name(p.model));
  return fmt::format("mlp {} ({}, {})", fmt::join(p.layers, "-"), name(p.activation), name(p.model));
}

void print(const TuneArguments& a, const bilevel::models::Prepared& p, const Tuned& r) {
  const bilevel::models::TuneOptions& options = a.model.options;
  say("{}: {} training rows{}{}, {} features{}; {}\n", p.source, p.training_rows,
      p.validation_rows > 0 ? fmt::format(", {} to validate", p.validation_rows) : "",
      p.test_rows > 0 ? fmt::format(", {} for the test", p.test_rows) : "", p.names.size(),
      p.storage == "sparse" ? " (sparse)" : "", p.splitting);
  say("{}, penalties {}{}: {} of them from {} number{}; {}\n", model_text(p), r.choice.kind,
      options.penalty == bilevel::models::Penalty::automatic ? " (chosen)" : "", r.chosen.log_lambda.size(),
      r.chosen.theta.size(), r.chosen.theta.size() == 1 ? "" : "s", r.solvers);
  for (const std::string& answer : r.choice.answers) say("  {}\n", answer);
  say("\n");
  say("{:<34}{:>16}{:>16}{:>22}   {}\n", "", "validation loss", "test loss",
      r.chosen.test ? "against the single λ" : "",
      r.chosen.test ? "on the test rows" : "on the validation rows");
  const auto row = [&](const std::string& what, const Fitted& f, double error) {
    const std::string cell = what + std::string(34 - std::min<std::size_t>(34, columns(what)), ' ');
    std::string difference;
    if (f.test && std::isfinite(error))
      difference = f.test->loss == r.grid.test->loss
                       ? "the same"
                       : fmt::format("{:+.3g} ± {:.2g}", f.test->loss - r.grid.test->loss, error);
    say("{}{:>16}{:>16}{}{}   {}\n", cell,
        f.fitted ? fmt::format("{:.7g}", f.validation_loss) : std::string("not fitted"),
        f.test ? fmt::format("{:.7g}", f.test->loss) : std::string("–"),
        std::string(22 - std::min<std::size_t>(22, columns(difference)), ' '), difference,
        measures(f.test ? *f.test : f.validation));
  };
  row("default, λ = 1/n", r.standard, r.standard_difference_error);
  row(fmt::format("best {}of {} single λ, {:.3g}", r.grid_uncertified ? "certified " : "", r.points.size(),
                  std::exp(r.grid.theta[0])),
      r.grid, bilevel::unknown);
  row("chosen: " + r.choice.kind, r.chosen, r.test_difference_error);
  say("\n{}: {}\n", coloured(r.trustworthy() ? Colour::green : Colour::red, name(r.summary.status)),
      r.summary.message);
  print_certificate(r.summary.certificate);
  if (r.summary.status == bilevel::Status::stalled) {
    const double norm = r.summary.gradient_norm;
    std::string advice = "the λ are the best that were found";
    if (norm > options.tolerance_for(p.network()))
      advice +=
          fmt::format(", and may well be good enough: --tolerance {:.0e} accepts a gradient of this size",
                      std::pow(10.0, std::ceil(std::log10(norm))));
    else
      advice += "; their gradient is small enough, but how far it is off is not known";
    if (options.lower < -7 || options.upper > 7)
      advice += "; a narrower box (--bounds -7:7) is easier to certify";
    print_entry("what now", advice);
  }
  Index lower = 0, upper = 0;
  for (const double each : r.chosen.log_lambda)
    if (const auto bound = at_bound(r, each)) ++(*bound == "lower" ? lower : upper);
  if (r.choice.kind != "adaptive" && (r.chosen.log_lambda.size() > 1 || lower + upper > 0))
    print_entry("penalties",
                fmt::format("{} at the upper bound {:g} (of no use), {} at the lower {:g} (free), {} between",
                            upper, r.upper, lower, r.lower, r.chosen.log_lambda.size() - lower - upper));
  std::vector<Index> order(static_cast<std::size_t>(r.chosen.log_lambda.size()));
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<Index>(k);
  std::stable_sort(order.begin(), order.end(),
                   [&](Index x, Index y) { return r.chosen.log_lambda[x] < r.chosen.log_lambda[y]; });
  std::string least;
  for (std::size_t k = 0; k < std::min<std::size_t>(order.size(), 8); ++k)
    least += fmt::format("{}{} {:.2f}", k ? ", " : "", r.chosen.names[static_cast<std::size_t>(order[k])],
                         r.chosen.log_lambda[order[k]]);
  print_entry(order.size() > 1 ? "least log λ" : "log λ", least + (order.size() > 8 ? ", …" : ""));
  print_entry("time", fmt::format("{:.2f} s for {} fits of one λ, {} fits in {:.2f} s in all", r.grid_seconds,
                                  r.grid_fits, r.fits, r.seconds));
  if (!p.constant.empty())
    print_entry("constant",
                fmt::format("{} feature(s) never change and are left out: {}{}", p.constant.size(),
                            fmt::join(p.constant.begin(),
                                      p.constant.begin() +
                                          static_cast<long>(std::min<std::size_t>(p.constant.size(), 6)),
                                      ", "),
                            p.constant.size() > 6 ? ", …" : ""));
  for (const std::string& note : p.notes) print_entry("note", note);
  for (const std::string& warning : r.warnings) print_entry("warning", warning, Colour::yellow);
}

int run(TuneArguments a) {
  bilevel::models::TuneOptions& options = a.model.options;
  std::tie(options.lower, options.upper) = bounds_argument(a.bounds);
  a.model.resolve("tune");
  std::vector<std::string> outputs{a.json, a.report, a.save};
  const std::vector<std::string> own = kept_run(a.checkpoint, options).files();
  outputs.insert(outputs.end(), own.begin(), own.end());
  require_outputs("tune", outputs, a.model.inputs());

  Progress progress;
  progress.show("reading the data");
  const bilevel::models::Prepared prepared = a.model.prepare();
  if (!a.save.empty()) require_savable(prepared);
  // Networks take their time: what was chosen for them is said before.
  if (prepared.network())
    for (const std::string& note : prepared.notes) say(stderr, "bilevel: note: {}\n", note);
  const std::string identity = identity_of(prepared, options),
                    checkpoint = place_of("tune", a.checkpoint, identity);
  const bilevel::KeptRun kept = kept_run(checkpoint, options);
  const bilevel::models::TuneControl control = control_of(kept, a.resume, identity, progress);
  Tuned result = bilevel::models::tune(prepared, options, control);
  progress.show("");
  as_flags(result.warnings);

  if (result.interrupted || unfinished(result.summary.status) || !result.chosen.fitted) {
    const bool chosen = result.reached.empty();
    say(stderr, "bilevel: stopped {}; {}{}\n",
        chosen ? fmt::format("after {} steps", result.summary.iterations) : result.reached,
        result.points.empty()
            ? std::string("nothing is kept")
            : fmt::format("{} keeps the run: the same command with --resume{} goes on from there",
                          chosen ? checkpoint : checkpoint + ".grid", a.resume ? "" : " added"),
        result.chosen.fitted ? "" : "; no model was fitted in the time left, so none is written");
    if (!result.chosen.fitted) return no;
  }
  if (result.summary.resumed) say(stderr, "bilevel: resumed from {}\n", checkpoint);
  print(a, prepared, result);
  const std::string j = bilevel::models::as_json(prepared, options, result, a.command_line);
  write_outputs({{a.save, [&] { return result.model.text(); }},
                 {a.json, [&] { return j; }},
                 {a.report, [&] { return report::render(report::tune_page(Json::parse(j))); }}});
  if (!result.interrupted && !unfinished(result.summary.status)) kept.forget();
  return result.trustworthy() ? ok : no;
}

}  // namespace

std::function<int()> add_tune(CLI::App& program) {
  auto a = std::make_shared<TuneArguments>();
  CLI::App& command = *program.add_subcommand(
      "tune", "Tune the penalties of a model on your data, and say how sure the answer is");
  bilevel::models::TuneOptions& t = a->model.options;
  a->model.add_to(command);
  command
      .add_option("--penalty", a->model.penalty,
                  "auto: what the data ask for; global: one λ for all; or per-feature, per-group, per-class, "
                  "and for mlp "
                  "per-layer, per-parameter")
      ->capture_default_str();
  command
      .add_option("--prior-width", t.prior_width,
                  "How far log λ of one feature is believed to lie from another's; inf: anywhere")
      ->type_name("X")
      ->capture_default_str();
  auto* bounds =
      command
          .add_option("--bounds", a->bounds,
                      "Keep every log λ within LO:HI; unless given, LO is lowered where that helps")
          ->type_name("LO:HI")
          ->capture_default_str();
  command.add_flag("--refit", t.refit, "With --validation: train the final model on those rows too");
  command.add_option("--grid", t.grid, "How many single λ to try first")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--start", t.starts, "Further starts of log λ, beside the best single one")
      ->type_name("X")
      ->delimiter(',');
  command
      .add_option("--tolerance", t.tolerance,
                  "Stop at this norm of the projected outer gradient (default: 1e-6, of mlp 1e-4)")
      ->type_name("X")
      ->check(positive);
  command.add_option("--iterations", t.iterations, "Most steps")->capture_default_str();
  command.add_option("--seconds", t.seconds, "Most seconds of tuning (default: no limit)")
      ->type_name("X")
      ->check(positive);
  command.add_option("--seed", t.seed, "Of splits")->check(whole_number())->capture_default_str();
  command.add_option("--report", a->report, "Write a report to read, one HTML file")->type_name("FILE");
  command.add_option("--json", a->json, "Write the whole result")->type_name("FILE");
  command.add_option("--save", a->save, "Write the model, for bilevel predict")->type_name("FILE");
  command
      .add_option("--checkpoint", a->checkpoint,
                  "Where an interrupted run is kept (default: bilevel-tune-….ckpt here, removed at the end)")
      ->type_name("FILE");
  command.add_flag("--resume", a->resume, "Go on with an interrupted run of the same command");
  command.footer(
      "What is minimised, natural logarithms, squared errors halved:\n"
      "  inner  φ*(θ) = argmin of mean training loss + ½ Σ_j exp(θ_j) φ_j²; the intercept is free\n"
      "         (mlp: φ are all weights and the biases of hidden layers;\n"
      "         softmax: ½ Σ_j exp(θ_j) Σ_c φ_jc²; lasso: Σ_j exp(θ_j)|φ_j|; elastic net: both)\n"
      "  outer  mean validation loss at φ*(θ), without penalty, or its mean over K folds\n"
      "θ_j = log λ_j stays within --bounds; useless features run to the upper end, so that optimal means a\n"
      "projected gradient of zero. Features are standardised on the training rows (--no-standardize: "
      "not).\n\n"
      "Examples:\n"
      "  bilevel tune --example --report report.html\n"
      "  bilevel tune houses.csv --target price --report report.html --save model.json\n"
      "  bilevel tune train.svm --test test.svm --validation 0.25 --model logistic\n"
      "  bilevel tune train-images-idx3-ubyte.gz --model mlp --layers 64-32 --penalty per-layer --validation "
      "0.2\n"
      "  bilevel tune survey.csv --target answer --penalty per-group --missing mean --cv 10");
  return [a, bounds] {
    a->model.options.bounds_given = bounds->count() > 0;
    a->command_line = command_line();
    return run(*a);
  };
}

}  // namespace app
