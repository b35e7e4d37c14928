#include "tune_outcome.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "run_sections.hpp"

namespace report {
namespace {

std::string model_in_words(const std::optional<Reading>& model) {
  const std::string name = model ? model->text_or_empty("name") : "",
                    title = model ? model->text_or_empty("title") : "";
  return !title.empty() ? title : name.empty() ? "a model" : fmt::format("the model “{}”", name);
}

/// A measure besides the loss.
struct Measure {
  const char* key;
  const char* name;
};
constexpr std::array measures{Measure{"accuracy", "accuracy"}, Measure{"auc", "AUC"}, Measure{"rmse", "RMSE"},
                              Measure{"r2", "R²"}};

const Outcome* find(const std::vector<Outcome>& all, const char* name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Outcome& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// "5.4 % lower than", "as large as".
std::string against(double value, double reference) {
  const double change = (value - reference) / std::abs(reference);
  if (!std::isfinite(change)) return "";
  if (std::abs(change) < 5e-5) return "as large as";
  return fmt::format("{} % {} than", number_word(100 * std::abs(change), 2), change < 0 ? "lower" : "higher");
}

std::string what_was_tuned(const Reading& root) {
  const auto model = root.find("model"), data = root.find("data");
  const double numbers = model ? number_or_nan(*model, "hyperparameters") : NAN;
  double count = numbers;
  if (const auto penalties = root.find("penalties")) count = static_cast<double>(penalties->size());
  const auto choice = root.find("choice");
  const std::string kind = choice ? choice->text_or_empty("kind") : "";
  const std::string subject = model_in_words(model);
  std::string text = count == 1             ? fmt::format("The penalty of {}", subject)
                     : std::isfinite(count) ? fmt::format("{} of {}", counted(count, "penalty"), subject)
                                            : fmt::format("The penalties of {}", subject);
  if (const std::string unit = unit_of(root); !unit.empty()) text += fmt::format(", one for each {},", unit);
  if (kind == "adaptive" && std::isfinite(numbers))
    text += fmt::format(" by {},", counted(numbers, "number"));
  text += count == 1 ? " was tuned" : " were tuned";
  if (const auto rows = data ? data->find("rows") : std::nullopt) {
    const double training = number_or_nan(*rows, "training"), validation = number_or_nan(*rows, "validation");
    if (std::isfinite(training)) text += fmt::format(" on {}", counted(training, "training row"));
    // Folds take turns: then no rows are there for validation alone.
    if (std::isfinite(training) && validation > 0)
      text += fmt::format(" and {}", counted(validation, "validation row"));
    else if (const std::string how = data->text_or_empty("splitting"); !how.empty())
      text += fmt::format(" ({})", how);
  }
  if (const std::string time = in_seconds(number_or_nan(root, "seconds")); !time.empty())
    text += fmt::format(" in {}", time);
  return text + ".";
}

/// "0.412 with the default λ = 1, 0.392 with the best single λ of 41 fits, 0.371 tuned".
template <typename Value>
std::string in_turn(const std::vector<Outcome>& all, Value value, bool details) {
  std::string text;
  for (const Outcome& one : all) {
    const double number = value(one);
    if (!std::isfinite(number)) continue;
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", number_word(number));
    if (one.name == "Tuned")
      text += "tuned";
    else
      text += one.name == "Default λ" ? "with the default λ" : "with the best single λ";
    if (!details || one.name == "Tuned") continue;
    if (one.penalties != missing) text += fmt::format(" = {}", one.penalties);
    std::string effort = std::isfinite(one.fits) ? counted(one.fits, "fit") : "";
    if (const std::string time = in_seconds(one.seconds); !time.empty())
      effort += fmt::format("{}{}", effort.empty() ? "" : ", ", time);
    if (!effort.empty()) text += fmt::format(" ({})", effort);
  }
  return text;
}

/// Does the gain on the validation rows hold on rows that took no part?
std::string on_test(const Outcome& grid, const Outcome& tuned) {
  const double before = grid.on_test("loss"), after = tuned.on_test("loss");
  const std::string words = against(after, before);
  if (words.empty()) return "";
  std::string text = fmt::format(" The tuned test loss is {} that of the best single λ", words);
  const double error = tuned.on_test("difference_error");
  if (std::isfinite(error))
    text += fmt::format(", a difference of {} ± {} (its standard error, row by row)",
                        number_word(std::abs(after - before), 2), number_word(error, 2));
  return text + ".";
}

/// Differences from the best single λ in per cent of its loss, with two standard errors to either side.
std::optional<Json> differences(const Reading& root, const std::vector<Outcome>& all) {
  Json names = Json::array(), middle = Json::array(), low = Json::array(), high = Json::array();
  const auto add = [&](const char* name, double value, double error) {
    if (!std::isfinite(value) || !std::isfinite(error)) return;
    names.push_back(name);
    middle.push_back(100 * value);
    low.push_back(100 * (value - 2 * error));
    high.push_back(100 * (value + 2 * error));
  };
  // What was tried on held-out rows, be it chosen or not.
  if (const auto choice = root.find("choice"))
    add(of_network(root) && choice->text_or_empty("kind") != "adaptive" ? "held-out rows: per-layer"
                                                                        : "held-out rows: adaptive",
        -number_or_nan(*choice, "gain"), number_or_nan(*choice, "gain_error"));
  const Outcome *grid = find(all, "Best single λ"), *standard = find(all, "Default λ");
  const double single = grid ? grid->on_test("loss") : NAN;
  if (standard)
    add("test rows: default λ", (standard->on_test("loss") - single) / std::abs(single),
        standard->on_test("difference_error") / std::abs(single));
  add("test rows: chosen", (all.back().on_test("loss") - single) / std::abs(single),
      all.back().on_test("difference_error") / std::abs(single));
  if (names.empty()) return {};
  Json curves = Json::array({category_series("difference", "dots", std::move(middle)),
                             category_series("two standard errors below", "dots", std::move(low)),
                             category_series("two standard errors above", "dots", std::move(high))});
  Json chart = chart_block("Loss compared with the best single λ", "difference, % of its loss", "rows: model",
                           std::move(curves),
                           "Left of zero is better than one λ for all. Only test rows took no part.");
  chart["horizontal"] = true;
  chart["categories"] = std::move(names);
  return chart;
}

Json comparison(const std::vector<Outcome>& all) {
  Json columns{"Penalties", "λ", "Validation loss"};
  std::vector<const char*> keys;
  const auto occurs = [&](const char* key) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Outcome& one) { return std::isfinite(one.on_test(key)); });
  };
  if (occurs("loss")) {
    keys.push_back("loss");
    columns.push_back("Test loss");
  }
  for (const Measure& measure : measures)
    if (occurs(measure.key)) {
      keys.push_back(measure.key);
      columns.push_back(fmt::format("Test {}", measure.name));
    }
  columns.push_back("Fits");
  columns.push_back("Seconds");
  Json rows = Json::array();
  for (const Outcome& one : all) {
    Json row{one.name, one.penalties, number_word(one.validation_loss, 6)};
    for (const char* key : keys) row.push_back(number_word(one.on_test(key), 6));
    row.push_back(std::isfinite(one.fits) ? fmt::format("{:.0f}", one.fits) : std::string(missing));
    row.push_back(number_word(one.seconds, 3));
    rows.push_back(std::move(row));
  }
  return table_block("Before and after", std::move(columns), std::move(rows));
}

}  // namespace

double Outcome::on_test(const char* key) const {
  return test ? number_or_nan(*test, key) : NAN;
}

std::string unit_of(const Reading& root) {
  static const std::map<std::string, std::string> units{{"per-feature", "feature"},
                                                        {"per-group", "group"},
                                                        {"per-class", "class"},
                                                        {"per-layer", "layer"},
                                                        {"per-parameter", "weight"}};
  const auto model = root.find("model"), choice = root.find("choice");
  std::string penalty = model ? model->text_or_empty("penalty") : "";
  // Chosen penalties are of the kind that was chosen.
  if (penalty == "auto") {
    penalty = choice ? choice->text_or_empty("kind") : "";
    if (penalty == "adaptive") penalty = "per-feature";
  }
  const auto found = units.find(penalty);
  return found == units.end() ? "" : found->second;
}

bool of_network(const Reading& root) {
  const auto model = root.find("model");
  return model && model->text_or_empty("name") == "mlp";
}

bool trustworthy(const Reading& root) {
  const auto certificate = root.find("certificate");
  const std::string status = root.text_or_empty("status");
  return (status == "converged" || status == "relative-decrease") && certificate &&
         certificate->text_or_empty("verdict") == "trusted";
}

std::vector<Outcome> outcomes(const Reading& root) {
  std::vector<Outcome> all;
  const auto baseline = root.find("baseline");
  for (const auto& [key, name] : {std::pair{"default", "Default λ"}, std::pair{"grid", "Best single λ"}}) {
    const auto given = baseline ? baseline->find(key) : std::nullopt;
    if (!given) continue;
    Outcome one{name,
                number_word(number_or_nan(*given, "lambda")),
                number_or_nan(*given, "validation_loss"),
                number_or_nan(*given, "fits"),
                number_or_nan(*given, "seconds"),
                given->find("test")};
    all.push_back(std::move(one));
  }
  const auto penalties = root.find("penalties");
  const std::size_t count = penalties ? penalties->size() : 0;
  const std::string values = count == 1 ? number_word(std::exp(number_or_nan((*penalties)[0], "log_lambda")))
                                        : counted(static_cast<double>(count), "value");
  all.push_back({"Tuned", count == 0 ? std::string(missing) : values, number_or_nan(root, "validation_loss"),
                 NAN, number_or_nan(root, "seconds"), root.find("test")});
  return all;
}

std::string headline(const Reading& root, const std::vector<Outcome>& all) {
  std::string text = what_was_tuned(root);
  const Outcome &tuned = all.back(), *grid = find(all, "Best single λ");
  const std::string validation = in_turn(
      all, [](const Outcome& one) { return one.validation_loss; }, true);
  if (!validation.empty()) text += fmt::format("\n\nValidation loss: {}", validation);
  // What many penalties make of the rows that judge them is no gain: only the test is asked for one.
  if (!validation.empty()) text += ".";

  const std::string test = in_turn(
      all, [](const Outcome& one) { return one.on_test("loss"); }, false);
  if (test.empty()) return text;
  text += fmt::format(
      "\n\nOn {}, which took no part: loss {}.",
      std::isfinite(tuned.on_test("rows")) ? counted(tuned.on_test("rows"), "test row") : "the test rows",
      test);
  for (const Measure& measure : measures) {
    const std::string values = in_turn(
        all, [&](const Outcome& one) { return one.on_test(measure.key); }, false);
    if (values.empty()) continue;
    std::string name = measure.name;
    if (name == "accuracy") name = "Accuracy";
    text += fmt::format(" {}: {}.", name, values);
    break;
  }
  if (grid) text += on_test(*grid, tuned);
  return text;
}

Json page_facts(const Reading& root, const Outcome& tuned) {
  Json facts = Json::array();
  add_fact(facts, "Validation loss", number_word(tuned.validation_loss));
  add_fact(facts, "Test loss", number_word(tuned.on_test("loss")));
  for (const Measure& measure : measures)
    add_fact(facts, fmt::format("Test {}", measure.name).c_str(), number_word(tuned.on_test(measure.key)));
  add_fact(facts, "Time", in_seconds(tuned.seconds));
  if (const auto certificate = root.find("certificate"))
    add_status(facts, "Gradient", certificate->text_or_empty("verdict"));
  add_status(facts, "Outcome", root.text_or_empty("status"));
  add_fact(facts, "Version", root.text_or_empty("version"));
  return facts;
}

void add_result(Json& sections, const Reading& root, const std::vector<Outcome>& all) {
  Json blocks = Json::array();
  add_notices(blocks, root,
              {"validation_loss", "baseline.grid.points", "baseline.grid.points.validation_loss", "penalties",
               "penalties.log_lambda", "coefficients", "coefficients.grid", "coefficients.tuned",
               "certificate", "history", "history.outer_value", "history.seconds", "history.gradient_norm",
               "data", "model", "command_line"});
  if (root.text_or_empty("status") == "stalled") {
    std::string advice = "What now: the λ are the best that were found";
    const auto model = root.find("model");
    const auto bounds = model ? model->find("bounds") : std::nullopt;
    if (bounds && bounds->size() == 2 && ((*bounds)[0].number() < -7 || (*bounds)[1].number() > 7))
      advice += "; a narrower box (--bounds -7:7) is easier to certify";
    blocks.push_back(text_block(advice + "."));
  }
  if (const auto choice = root.find("choice"))
    if (const auto answers = choice->find("answers"); answers && answers->size() > 0) {
      std::string text = fmt::format("Penalties: {}.", choice->text_or_empty("kind"));
      for (const Reading answer : *answers) text += fmt::format("\n\n{}.", answer.text());
      blocks.push_back(text_block(std::move(text)));
    }
  blocks.push_back(comparison(all));
  if (auto chart = differences(root, all)) blocks.push_back(std::move(*chart));
  Json facts = Json::array();
  add_fact(facts, "Training loss", number_word(number_or_nan(root, "train_loss"), 6));
  if (const auto validation = root.find("validation"))
    for (const Measure& measure : measures)
      add_fact(facts, fmt::format("Validation {}", measure.name).c_str(),
               number_word(number_or_nan(*validation, measure.key), 6));
  if (!facts.empty()) blocks.push_back(facts_block(std::move(facts)));
  add_section(sections, "result", "Result", std::move(blocks));
}

}  // namespace report
