#include "run_sections.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "blocks.hpp"

namespace report {
namespace {

/// "a, b, c and 17 more"; elements are texts or objects with a name.
std::string listed(const Reading& array, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(array.size(), most); ++i) {
    const Reading one = array[i];
    text += (i == 0 ? "" : ", ") + (one.json().is_object() ? word_or_empty(one, "name") : one.text());
  }
  if (array.size() > most)
    text += fmt::format(" and {} more", count_word(static_cast<double>(array.size() - most)));
  return text;
}

/// Whether "a.b.c" leads to something; lists are looked at by their first element, and nothing is missed
/// below null, below an empty list or below what is no object.
bool has(const Json& json, std::string_view path) {
  if (json.is_array()) return json.empty() || has(json[0], path);
  if (path.empty() || !json.is_object()) return true;
  const std::size_t dot = std::min(path.find('.'), path.size());
  const auto found = json.find(std::string(path.substr(0, dot)));
  return found != json.end() && has(*found, path.substr(std::min(dot + 1, path.size())));
}

Json history_chart(const Reading& history) {
  Json norms = Json::array(), bounds = Json::array();
  bool bounded = false;
  for (const std::size_t i : spread(history.size(), 1000)) {
    const Reading entry = history[i];
    const double at = static_cast<double>(i + 1), bound = number_or_nan(entry, "bound");
    norms.push_back({at, number_or_nan(entry, "gradient_norm")});
    bounds.push_back({at, bound});
    bounded = bounded || std::isfinite(bound);
  }
  Json curves = Json::array({series("norm of the gradient", "path", std::move(norms))});
  if (bounded) curves.push_back(series("bound of its error", "dashed", std::move(bounds)));
  Json chart =
      chart_block("Outer gradients and the bounds of their errors", "evaluation", "norm", std::move(curves),
                  "The norm is that of the projected gradient: zero at an optimum within the bounds of θ.");
  chart["y"]["scale"] = "log";
  return chart;
}

Json history_table(const Reading& history, const char* outer_name) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < std::min(history.size(), most_rows); ++i) {
    const Reading entry = history[i];
    rows.push_back({static_cast<double>(i + 1), word_or_empty(entry, "accepted"),
                    number_word(number_or_nan(entry, "outer_value"), 8),
                    number_word(number_or_nan(entry, "gradient_norm"), 3),
                    number_word(number_or_nan(entry, "bound"), 3), entry.text_or_empty("kind"),
                    status_cell(entry.text_or_empty("verdict")),
                    number_word(number_or_nan(entry, "inner_tolerance"), 2),
                    number_word(number_or_nan(entry, "seconds"), 3)});
  }
  std::string caption = cut_rows(rows, history.size(), "first");
  return long_table_block("Every evaluation",
                          {"Evaluation", "Accepted", outer_name, "Gradient norm", "Error bound", "Kind",
                           "Verdict", "Inner tolerance", "Seconds"},
                          std::move(rows), std::move(caption));
}

}  // namespace

std::string source_of(const Reading& result) {
  const auto data = result.find("data");
  return data ? data->text_or_empty("source") : "";
}

std::string cut_rows(Json& rows, std::size_t count, const char* first) {
  constexpr std::size_t most_bytes = 600000;
  std::size_t kept = 0, bytes = 0;
  for (; kept < std::min(rows.size(), most_rows); ++kept) {
    for (const Json& cell : rows[kept])
      bytes += 3 + (cell.is_string() ? cell.get_ref<const std::string&>().size() : 30);
    if (bytes > most_bytes) break;
  }
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end());
  if (kept == count) return "";
  return fmt::format("The {} {} of {} are in this page; the file written by --json has all.", first,
                     count_word(static_cast<double>(kept)), count_word(static_cast<double>(count)));
}

void add_notices(Json& blocks, const Reading& result, std::initializer_list<const char*> expected) {
  std::vector<std::string> absent;
  for (const std::string key : expected) {
    const auto within = [&](const std::string& other) { return key.starts_with(other + "."); };
    if (!has(result.json(), key) && std::none_of(absent.begin(), absent.end(), within)) absent.push_back(key);
  }
  if (!absent.empty())
    blocks.push_back(notice_block(fmt::format(
        "Not in this file: {}. What would be made of it is left out of the page.", fmt::join(absent, ", "))));
  const std::string status = result.text_or_empty("status"), message = result.text_or_empty("message");
  const bool done = status.empty() || status == "converged" || status == "relative-decrease";
  if (!done)
    blocks.push_back(notice_block(fmt::format("The run ended before it converged ({}).{}{}", status,
                                              message.empty() ? "" : " ", message)));
  if (const auto warnings = result.find("warnings"))
    for (const Reading warning : *warnings) blocks.push_back(notice_block(warning.text()));
}

void add_certificates(Json& sections, const Reading& result, const char* outer_name) {
  Json blocks = Json::array();
  const auto certificate = result.find("certificate");
  const auto history = result.find("history");

  std::string sentence =
      "Each outer gradient comes with a bound of its error. It is trusted if the bound is at most a tenth of "
      "the gradient’s norm, or below the tolerance.";
  if (history && history->size() > 0) {
    std::size_t trusted = 0;
    for (const Reading entry : *history) trusted += entry.text_or_empty("verdict") == "trusted";
    sentence += fmt::format(" {} of {} {} trusted.", count_word(static_cast<double>(trusted)),
                            counted(static_cast<double>(history->size()), "gradient"),
                            history->size() == 1 ? "was" : "were");
  }
  blocks.push_back(text_block(std::move(sentence)));

  Json facts = Json::array();
  if (certificate) add_status(facts, "Last verdict", certificate->text_or_empty("verdict"));
  add_fact(facts, "Gradient norm", number_word(number_or_nan(result, "gradient_norm")));
  if (certificate) {
    add_fact(facts, "Error bound", number_word(number_or_nan(*certificate, "bound")));
    add_fact(facts, "Kind of bound", certificate->text_or_empty("kind"));
    add_fact(facts, "Reason", certificate->text_or_empty("reason"));
  }
  add_fact(facts, "Outer steps", count_word(number_or_nan(result, "iterations")));
  add_fact(facts, "Evaluations", count_word(number_or_nan(result, "evaluations")));
  add_fact(facts, "Stopped", result.text_or_empty("message"));
  if (!facts.empty()) blocks.push_back(facts_block(std::move(facts)));
  if (history && history->size() > 0) {
    blocks.push_back(history_chart(*history));
    blocks.push_back(history_table(*history, outer_name));
  }
  if (blocks.size() == 1) return;
  add_section(sections, "certificates", "Certificates", std::move(blocks));
}

void add_data(Json& sections, const Reading& result) {
  const auto data = result.find("data");
  if (!data) return;
  Json facts = Json::array();
  add_fact(facts, "Source", data->text_or_empty("source"));
  add_fact(facts, "Test source", data->text_or_empty("test_source"));
  if (truth_or(*data, "generated", false)) add_fact(facts, "Origin", "generated by the program");
  add_fact(facts, "Format", data->text_or_empty("format"));
  if (const auto rows = data->find("rows")) {
    std::string text;
    for (const char* part : {"training", "validation", "trusted", "test"})
      if (const double count = number_or_nan(*rows, part); std::isfinite(count))
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count_word(count), part);
    add_fact(facts, "Rows", text);
  }
  add_fact(facts, "Training rows", count_word(number_or_nan(*data, "train_rows")));
  add_fact(facts, "Test rows", count_word(number_or_nan(*data, "test_rows")));
  add_fact(facts, "Split", data->text_or_empty("splitting"));
  const double features = number_or_nan(*data, "features"), nonzeros = number_or_nan(*data, "nonzeros");
  std::string shape = std::isfinite(features) ? count_word(features) : "";
  if (const auto image = data->find("image"); image && image->size() == 2)
    shape += fmt::format("{}pictures of {} × {}", shape.empty() ? "" : ", ", count_word((*image)[0].number()),
                         count_word((*image)[1].number()));
  add_fact(facts, "Features", shape);
  add_fact(facts, "Scaling", data->text_or_empty("scaling"));
  std::string storage = data->text_or_empty("storage");
  if (std::isfinite(nonzeros))
    storage += fmt::format("{}{}", storage.empty() ? "" : ", ", counted(nonzeros, "nonzero number"));
  add_fact(facts, "Storage", storage);
  add_fact(facts, "Target", word_or_empty(*data, "target"));
  if (const auto classes = data->find("classes"); classes && classes->size() > 0)
    add_fact(facts, "Classes", fmt::format("{}: {}", classes->size(), listed(*classes, 20)));
  if (const auto standardized = data->find("standardized"))
    add_fact(facts, "Standardised",
             standardized->truth() ? "yes, with the training rows’ means and deviations" : "no");
  if (const auto constant = data->find("constant"); constant && constant->size() > 0)
    add_fact(facts, "Constant features",
             fmt::format("{}: {}", count_word(static_cast<double>(constant->size())), listed(*constant, 20)));
  if (const auto groups = data->find("groups")) {
    const bool list = groups->json().is_array();
    add_fact(
        facts, "Groups",
        list ? fmt::format("{}: {}", groups->size(), listed(*groups, 20)) : word_or_empty(*data, "groups"));
  }
  Json blocks = Json::array();
  if (!facts.empty()) blocks.push_back(facts_block(std::move(facts)));
  if (const auto notes = data->find("notes"); notes && notes->size() > 0) {
    Json items = Json::array();
    for (const Reading note : *notes) items.push_back(note.text());
    blocks.push_back({{"type", "list"}, {"items", std::move(items)}});
  }
  add_section(sections, "data", "The data", std::move(blocks));
}

void add_formulas(Json& sections, const Reading& result) {
  const auto model = result.find("model");
  if (!model) return;
  Json facts = Json::array();
  add_fact(facts, "Inner loss", model->text_or_empty("inner"));
  add_fact(facts, "Outer loss", model->text_or_empty("outer"));
  add_fact(facts, "λ", number_word(number_or_nan(*model, "lambda")));
  if (const auto bounds = model->find("bounds"); bounds && bounds->size() == 2)
    add_fact(facts, "Bounds",
             fmt::format("{} ≤ θ = {} ≤ {}", number_word((*bounds)[0].number()),
                         result.text_or_empty("command") == "clean" ? "a row’s weight, as a logit," : "log λ",
                         number_word((*bounds)[1].number())));
  if (const auto intercept = model->find("intercept"))
    add_fact(facts, "Intercept", intercept->truth() ? "yes, not penalised" : "no");
  if (!facts.empty()) add_section(sections, "formulas", "Formulas", facts_block(std::move(facts)));
}

void add_command(Json& sections, const Reading& result) {
  const std::string command = result.text_or_empty("command_line");
  if (command.empty()) return;
  const std::string version = result.text_or_empty("version");
  add_section(
      sections, "again", "The same again",
      Json::array({text_block(version.empty()
                                  ? "This command repeats the run:"
                                  : fmt::format("With version {} this command repeats the run:", version)),
                   code_block(command)}));
}

}  // namespace report
