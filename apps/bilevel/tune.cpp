#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "commands.hpp"
#include "data_arguments.hpp"
#include "data_output.hpp"
#include "kept_run.hpp"
#include "problem_arguments.hpp"
#include "report/page.hpp"
#include "report/tune_page.hpp"
#include "terminal.hpp"
#include <bilevel/models/model_file.hpp>
#include <bilevel/models/tune.hpp>

namespace app {
namespace {

using bilevel::InvalidInput;
using bilevel::Verdict;
using bilevel::models::Fitted;
using bilevel::models::Quality;
using bilevel::models::TuneResult;

struct TuneArguments {
  bilevel::models::Task task;
  DataArguments data;
  std::string model = "automatic", penalty = "auto", bounds = "-10:10", separator;
  std::string json, report, save, checkpoint;
  bool resume = false, no_standardize = false, no_intercept = false, no_stratify = false, cv_given = false;
  bool prior_given = false;
  std::map<std::string_view, double> parameters;  // of losses, by the names of the models
  std::string command_line;
};

/// Everything that makes this run what it is: a checkpoint of another one is refused.
std::string identity_of(const bilevel::models::Task& t, const bilevel::models::Prepared& p) {
  std::uint64_t print = bilevel::checksum(*p.samples.labels);
  for (const bilevel::models::Part& part : p.folds)
    print ^= bilevel::checksum(part.standardisation.shift) +
             31 * bilevel::checksum(part.standardisation.inverse_scale);
  print ^= 7 * bilevel::checksum(p.stored_shift) + 17 * bilevel::checksum(p.stored_scale);
  if (p.samples.weights) print ^= 37 * bilevel::checksum(*p.samples.weights);
  if (p.samples.offsets) print ^= 41 * bilevel::checksum(*p.samples.offsets);
  print ^= 43 * features_checksum(*p.samples.matrix);
  for (const Index group : p.penalties.of)
    print = (print ^ static_cast<std::uint64_t>(group)) * 1099511628211ULL;
  return fmt::format(
      "tune {} {:016x} model={} penalty={} prior={} {} intercept={} bounds={}:{}{} grid={}{} seed={}",
      as_utf8(p.source), print, name(p.model), name(t.penalty), t.prior_width, p.splitting, t.intercept,
      t.lower, t.upper, t.bounds_given ? " fixed" : "", t.grid,
      p.model.loss_kind().parameter.empty()
          ? std::string()
          : fmt::format(" {}={}", p.model.loss_kind().parameter, p.loss_parameter),
      t.seed);
}

Json penalties(const TuneResult& r) {
  Json list = Json::array();
  for (Index k = 0; k < r.tuned.log_lambda.size(); ++k) {
    const auto bound = at_bound(r, r.tuned.log_lambda[k]);
    list.push_back({{"name", r.tuned.names[static_cast<std::size_t>(k)]},
                    {"log_lambda", r.tuned.log_lambda[k]},
                    {"at_bound", bound ? Json(*bound) : Json(nullptr)}});
  }
  return list;
}

Json coefficients(const bilevel::models::Prepared& p, const TuneResult& r) {
  Json list = Json::array();
  const Index c = p.outputs;
  for (Index k = 0; k < r.tuned.coefficients.size(); ++k) {
    const auto j = static_cast<std::size_t>(k / c);
    Json row{{"name", j < p.names.size() ? p.names[j] : "(intercept)"}};
    if (c > 1) row["class"] = p.classes[static_cast<std::size_t>(k % c)];
    row["grid"] = number(r.grid.coefficients[k]);
    row["tuned"] = number(r.tuned.coefficients[k]);
    list.push_back(std::move(row));
  }
  return list;
}

Json describe_choice(const bilevel::models::Choice& c) {
  const auto known = [](const std::optional<double>& x) { return x ? number(*x) : Json(nullptr); };
  Json j{{"kind", c.kind}, {"gamma", known(c.gamma)}, {"score", nullptr}};
  if (c.score) j["score"] = {{"rho", number(c.score->rho)}, {"nu", number(c.score->nu)}, {"p", number(c.score->p)}};
  j["gain"] = known(c.gain);
  j["gain_error"] = known(c.gain_error);
  j["prior"] = nullptr;
  if (c.prior_width)
    j["prior"] = {{"width", *c.prior_width}, {"loss_scale", known(c.loss_scale)}, {"precision", known(c.precision)}};
  j["answers"] = c.answers;
  return j;
}

Json whole_result(const TuneArguments& a, const bilevel::models::Prepared& p, const TuneResult& r) {
  const bilevel::Summary& s = r.summary;
  Json j;
  j["command"] = "tune";
  j["version"] = bilevel::version;
  j["status"] = r.interrupted ? "interrupted" : std::string(name(s.status));
  j["message"] = s.message;
  j["command_line"] = a.command_line;
  j["data"] = describe_data(a.task, p);
  j["model"] = describe_model(a.task, p);
  j["model"]["hyperparameters"] = r.tuned.theta.size();
  j["model"]["bounds"] = {r.lower, r.upper};
  j["choice"] = describe_choice(r.choice);
  j["train_loss"] = number(r.tuned.train_loss);
  j["validation_loss"] = number(r.tuned.validation_loss);
  j["validation"] = describe(r.tuned.validation);
  j["test"] = r.tuned.test ? describe(*r.tuned.test) : Json(nullptr);
  if (r.tuned.test) j["test"]["difference_error"] = number(r.test_difference_error);
  j["penalties"] = penalties(r);
  j["coefficients"] = coefficients(p, r);
  const auto baseline = [&](const Fitted& f) {
    Json b{{"train_loss", number(f.train_loss)},   {"validation_loss", number(f.validation_loss)},
           {"validation", describe(f.validation)}, {"test", f.test ? describe(*f.test) : Json(nullptr)},
           {"lambda", std::exp(f.theta[0])},       {"log_lambda", f.theta[0]}};
    return b;
  };
  Json grid = baseline(r.grid);
  grid["fits"] = r.grid_fits;
  grid["seconds"] = r.grid_seconds;
  grid["points"] = Json::array();
  double before = 0;
  for (const bilevel::models::GridPoint& point : r.points) {
    grid["points"].push_back({{"log_lambda", point.log_lambda},
                              {"validation_loss", number(point.validation_loss)},
                              {"seconds", point.seconds - before}});
    before = point.seconds;
  }
  j["baseline"] = {{"grid", std::move(grid)}, {"default", baseline(r.standard)}};
  if (r.standard.test)
    j["baseline"]["default"]["test"]["difference_error"] = number(r.standard_difference_error);
  j["warnings"] = r.warnings;
  j["certificate"] = describe(s.certificate);
  j["gradient_norm"] = number(s.gradient_norm);
  j["at_kink"] = s.at_kink;
  j["fits"] = r.fits;
  j["iterations"] = s.iterations;
  j["evaluations"] = s.evaluations;
  j["solvers"] = r.solvers;
  j["cost"] = describe(s.cost);
  j["seconds"] = r.seconds;
  j["resumed"] = s.resumed;
  // The descent's losses are in the units that it works in.
  std::vector<bilevel::HistoryEntry> history = s.history;
  for (auto& h : history) h.outer_value *= r.loss_scale;
  j["history"] = describe(history);
  return j;
}

bool trustworthy(const TuneResult& r) {
  return succeeded(r.summary.status) && r.summary.certificate.verdict == Verdict::trusted;
}

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

void print(const TuneArguments& a, const bilevel::models::Prepared& p, const TuneResult& r) {
  const auto& task = a.task;
  say("{}: {} training rows{}{}, {} features{}; {}\n", p.source, p.training_rows,
             p.validation_rows > 0 ? fmt::format(", {} to validate", p.validation_rows) : "",
             p.test_rows > 0 ? fmt::format(", {} for the test", p.test_rows) : "", p.names.size(),
             p.storage == "sparse" ? " (sparse)" : "", p.splitting);
  say("{}, penalties {}{}: {} of them from {} number{}; {}\n", name(p.model), r.choice.kind,
             task.penalty == bilevel::models::Penalty::automatic ? " (chosen)" : "", r.tuned.log_lambda.size(),
             r.tuned.theta.size(), r.tuned.theta.size() == 1 ? "" : "s", r.solvers);
  for (const std::string& answer : r.choice.answers) say("  {}\n", answer);
  say("\n");
  say("{:<34}{:>16}{:>16}{:>22}   {}\n", "", "validation loss", "test loss",
             r.tuned.test ? "against the single λ" : "",
             r.tuned.test ? "on the test rows" : "on the validation rows");
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
  row("chosen: " + r.choice.kind, r.tuned, r.test_difference_error);
  say("\n{}: {}\n", coloured(trustworthy(r) ? Colour::green : Colour::red, name(r.summary.status)),
             r.summary.message);
  print_certificate(r.summary.certificate);
  if (r.summary.status == bilevel::Status::stalled) {
    const double norm = r.summary.gradient_norm;
    std::string advice = "the λ are the best that were found";
    if (norm > task.tolerance)
      advice +=
          fmt::format(", and may well be good enough: --tolerance {:.0e} accepts a gradient of this size",
                      std::pow(10.0, std::ceil(std::log10(norm))));
    else
      advice += "; their gradient is small enough, but how far it is off is not known";
    if (task.lower < -7 || task.upper > 7) advice += "; a narrower box (--bounds -7:7) is easier to certify";
    print_entry("what now", advice);
  }
  Index lower = 0, upper = 0;
  for (const double each : r.tuned.log_lambda)
    if (const auto bound = at_bound(r, each)) ++(*bound == "lower" ? lower : upper);
  if (r.choice.kind != "adaptive" && (r.tuned.log_lambda.size() > 1 || lower + upper > 0))
    print_entry("penalties",
                fmt::format("{} at the upper bound {:g} (of no use), {} at the lower {:g} (free), {} between",
                            upper, r.upper, lower, r.lower, r.tuned.log_lambda.size() - lower - upper));
  std::vector<Index> order(static_cast<std::size_t>(r.tuned.log_lambda.size()));
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<Index>(k);
  std::stable_sort(order.begin(), order.end(),
                   [&](Index x, Index y) { return r.tuned.log_lambda[x] < r.tuned.log_lambda[y]; });
  std::string least;
  for (std::size_t k = 0; k < std::min<std::size_t>(order.size(), 8); ++k)
    least += fmt::format("{}{} {:.2f}", k ? ", " : "", r.tuned.names[static_cast<std::size_t>(order[k])],
                         r.tuned.log_lambda[order[k]]);
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

/// A model file is JSON, which has to be UTF-8: said before the work, not after it.
void require_utf8(const bilevel::models::Prepared& p) {
  const auto require = [&](const std::string& text) {
    if (as_utf8(text) != text)
      throw InvalidInput(fmt::format(
          "{}: '{}' is no UTF-8, which a model file needs; convert the file first (iconv -f latin1 "
          "-t utf-8)",
          p.source, as_utf8(text)));
  };
  require(p.schema.target_name);
  for (const auto* list :
       {&p.names, &p.classes, &p.hyperparameters, &p.schema.names, &p.schema.target_levels})
    for (const std::string& each : *list) require(each);
  for (const bilevel::data::Column& column : p.schema.columns) {
    require(column.name);
    for (const std::string& level : column.levels) require(level);
  }
}

/// Options that would change nothing: the person expects that they do.
void refuse_contradictions(const TuneArguments& a) {
  const bilevel::models::Task& t = a.task;
  const auto refuse = [](bool wrong, std::string_view text) {
    if (wrong) throw InvalidInput(fmt::format("tune: {}", text));
  };
  const bool grouped = t.penalty == bilevel::models::Penalty::per_group || t.penalty == bilevel::models::Penalty::automatic;
  refuse(!grouped && !t.groups.empty(), "--groups is for --penalty auto and per-group");
  refuse(!grouped && t.group_separator != 0, "--group-separator is for --penalty auto and per-group");
  refuse(a.prior_given && t.penalty == bilevel::models::Penalty::global,
         "--prior-width is for many penalties; --penalty global has one");
  refuse(!t.groups.empty() && t.group_separator != 0, "--groups and --group-separator: give one of the two");
  refuse(t.refit && t.validation.empty(),
         "--refit is for --validation; with folds the final model has all rows anyway");
  for (const auto& kind : bilevel::problems::loss_kinds())
    if (const auto given = a.parameters.find(kind.model); given != a.parameters.end() && given->second > 0)
      refuse(t.model != bilevel::models::Model(kind.loss),
             fmt::format("--{} is for --model {}", kind.parameter, kind.model));
  refuse(a.cv_given && !t.reading.split.empty(), "--split names the folds or parts itself: leave --cv out");
  refuse(!t.validation_labels.empty() && t.validation.empty(),
         "--validation-labels goes with --validation FILE");
  for (const double start : t.starts)
    refuse(start < t.lower || start > t.upper, "--start: the starts must lie within --bounds");
  require_not_the_data(
      "tune", t.data, {{"--validation", t.validation}, {"--test", t.test}},
      "rows that were learned from say nothing about new ones; give a share (0.2), or another file");
}

int run(TuneArguments a) {
  bilevel::models::Task& task = a.task;
  if (task.data.empty() != task.example)
    throw InvalidInput(task.example
                           ? "tune: --example brings its own data; leave the file out"
                           : "tune: name a data file, or try --example; bilevel tune --help says more");
  if (a.cv_given && !task.validation.empty())
    throw InvalidInput("tune: --cv and --validation: give one of the two");
  task.model = bilevel::models::model_named(a.model);
  if (const auto given = a.parameters.find(a.model); given != a.parameters.end())
    task.loss_parameter = given->second;
  task.penalty = bilevel::models::penalty_named(a.penalty);
  std::tie(task.lower, task.upper) = bounds_argument(a.bounds);
  task.standardize = !a.no_standardize;
  task.intercept = !a.no_intercept;
  task.stratify = !a.no_stratify;
  if (a.separator.size() > 1)
    throw InvalidInput(fmt::format("--group-separator {}: write one character", a.separator));
  task.group_separator = a.separator.empty() ? '\0' : a.separator[0];
  task.reading = a.data.read_options();
  task.validate();
  refuse_contradictions(a);
  const std::vector<std::string> beside = bilevel::models::kept_beside(task);
  std::vector<std::string> outputs{a.json, a.report, a.save};
  if (!a.checkpoint.empty())
    for (const std::string& file : kept_files(a.checkpoint, beside)) outputs.push_back(file);
  require_outputs("tune", outputs,
                  {task.data, task.validation, task.test, task.groups, task.reading.labels,
                   task.validation_labels, task.test_labels});

  Progress progress;
  progress.show("reading the data");
  const bilevel::models::Prepared prepared = bilevel::models::prepare(task);
  if (!a.save.empty()) require_utf8(prepared);
  const bilevel::models::TuneControl control =
      control_of("tune", a.checkpoint, a.resume, identity_of(task, prepared), progress, beside);
  const std::string& checkpoint = control.checkpoint;
  const TuneResult result = bilevel::models::tune(task, prepared, control);
  progress.show("");

  if (result.interrupted || !result.tuned.fitted) {
    const bool chosen = result.reached.empty();
    say(stderr, "bilevel: stopped {}; {}{}\n",
        chosen ? fmt::format("after {} steps", result.summary.iterations) : result.reached,
        result.points.empty() ? std::string("nothing is kept")
                              : fmt::format("{} keeps the run: the same command with --resume{} goes on from there",
                                            chosen ? checkpoint : checkpoint + ".grid", a.resume ? "" : " added"),
        result.tuned.fitted ? "" : "; no model was fitted in the time left, so none is written");
    if (!result.tuned.fitted) return no;
  }
  if (result.summary.resumed) say(stderr, "bilevel: resumed from {}\n", checkpoint);
  print(a, prepared, result);
  const Json j = a.json.empty() && a.report.empty() ? Json() : whole_result(a, prepared, result);
  write_outputs({{a.save,
                  [&] {
                    bilevel::models::SavedModel model = bilevel::models::make_saved(prepared, result.tuned);
                    model.status = name(result.summary.status);
                    model.verdict = name(result.summary.certificate.verdict);
                    return bilevel::models::model_text(model, std::string(bilevel::version));
                  }},
                 {a.json, [&] { return json_text(j); }},
                 {a.report, [&] { return report::render(report::tune_page(j)); }}});
  if (!result.interrupted && !unfinished(result.summary.status)) forget(checkpoint, beside);
  return trustworthy(result) ? ok : no;
}

}  // namespace

std::function<int()> add_tune(CLI::App& program) {
  auto a = std::make_shared<TuneArguments>();
  CLI::App& command = *program.add_subcommand(
      "tune", "Tune the penalties of a model on your data, with proof that they are good");
  bilevel::models::Task& t = a->task;
  command.add_option("data", t.data, "The data: CSV, TSV, LIBSVM, IDX or NPY, also gzip or bzip2")
      ->type_name("DATA");
  command.add_flag("--example", t.example, "Use built-in data: 4 strong features among 60");
  command
      .add_option("--model", a->model,
                  fmt::format("{} (automatic: by the target)", fmt::join(bilevel::models::model_names(), ", ")))
      ->capture_default_str();
  command
      .add_option("--penalty", a->penalty,
                  "auto: what the data ask for; global: one λ for all; or per-feature, per-group, per-class")
      ->capture_default_str();
  auto* prior = command
                    .add_option("--prior-width", t.prior_width,
                                "How far log λ of one feature is believed to lie from another's; inf: anywhere")
                    ->type_name("X")
                    ->capture_default_str();
  command.add_option("--groups", t.groups, "File with a feature's name and its group on each line")
      ->type_name("FILE");
  command
      .add_option("--group-separator", a->separator, "Groups are the parts of names before this character")
      ->type_name("C");
  auto* cv = command.add_option("--cv", t.folds, "Judge by K-fold cross-validation")
                 ->type_name("K")
                 ->capture_default_str();
  command.add_option("--validation", t.validation, "Judge by a file, or by this share of the rows, instead")
      ->type_name("FILE|SHARE");
  command.add_option("--validation-labels", t.validation_labels, "Targets of that file, see --labels")
      ->type_name("FILE");
  command.add_option("--test", t.test, "Rows kept for an honest last look: a file, a share, or 0 for none")
      ->type_name("FILE|SHARE")
      ->capture_default_str();
  command.add_option("--test-labels", t.test_labels, "Targets of that file, see --labels")->type_name("FILE");
  auto* bounds = command
                     .add_option("--bounds", a->bounds,
                                 "Keep every log λ within LO:HI; unless given, LO is lowered where that helps")
                     ->type_name("LO:HI")
                     ->capture_default_str();
  command.add_flag("--no-standardize", a->no_standardize, "Use the features as they are");
  command.add_flag("--no-intercept", a->no_intercept, "Leave the intercept out");
  command.add_flag("--no-stratify", a->no_stratify, "Split without regard to the classes");
  command.add_flag("--refit", t.refit, "With --validation: train the final model on those rows too");
  for (const auto& kind : bilevel::problems::loss_kinds())
    if (!kind.parameter.empty())
      command
          .add_option(fmt::format("--{}", kind.parameter), a->parameters[kind.model],
                      std::string(kind.parameter_help))
          ->type_name("X")
          ->check(positive);
  command.add_option("--grid", t.grid, "How many single λ to try first")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--start", t.starts, "Further starts of log λ, beside the best single one")
      ->type_name("X")
      ->delimiter(',');
  command.add_option("--tolerance", t.tolerance, "Stop at this norm of the projected outer gradient")
      ->capture_default_str();
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
  a->data.add_to(command, DataArguments::Purpose::tuning);
  command.footer(
      "What is minimised, natural logarithms, squared errors halved:\n"
      "  inner  φ*(θ) = argmin of mean training loss + ½ Σ_j exp(θ_j) φ_j²; the intercept is free\n"
      "         (softmax: ½ Σ_j exp(θ_j) Σ_c φ_jc²; lasso: Σ_j exp(θ_j)|φ_j|; elastic net: both)\n"
      "  outer  mean validation loss at φ*(θ), without penalty, or its mean over K folds\n"
      "θ_j = log λ_j stays within --bounds; useless features run to the upper end, so that optimal means a\n"
      "projected gradient of zero. Features are standardised on the training rows (--no-standardize: "
      "not).\n\n"
      "Examples:\n"
      "  bilevel tune --example --report report.html\n"
      "  bilevel tune houses.csv --target price --report report.html --save model.json\n"
      "  bilevel tune train.svm --test test.svm --validation 0.25 --model logistic\n"
      "  bilevel tune survey.csv --target answer --penalty per-group --missing mean --cv 10");
  return [a, cv, bounds, prior] {
    a->prior_given = prior->count() > 0;
    a->cv_given = cv->count() > 0;
    a->task.bounds_given = bounds->count() > 0;
    a->command_line = command_line();
    return run(*a);
  };
}

}  // namespace app
