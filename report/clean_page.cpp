#include "clean_page.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"

namespace report {
namespace {

/// "before → after" of an object that has both, "" otherwise.
std::string change(const std::optional<Reading>& object) {
  if (!object) return "";
  const double before = number_or_nan(*object, "before"), after = number_or_nan(*object, "after");
  if (!std::isfinite(before) || !std::isfinite(after)) return "";
  return fmt::format("{} → {}", number_word(before), number_word(after));
}

std::string clean_headline(const Reading& root) {
  const double samples = number_or_nan(root, "samples"), flagged = number_or_nan(root, "flagged");
  const double threshold = number_or_nan(root, "threshold");
  std::string text;
  if (std::isfinite(flagged)) {
    text =
        fmt::format("{} {} mislabelled", counted(flagged, "training row"), flagged == 1 ? "looks" : "look");
    if (std::isfinite(samples))
      text = fmt::format("{} of {} {} mislabelled", count_word(flagged), counted(samples, "training row"),
                         flagged == 1 ? "looks" : "look");
    if (std::isfinite(threshold))
      text += fmt::format(
          ": learned to serve the trusted rows, their weight fell below {}, and the model contradicts their "
          "labels",
          number_word(threshold));
    text += ".";
  }
  if (const std::string time = in_seconds(number_or_nan(root, "seconds")); !time.empty())
    text += fmt::format("{}The run took {}.", text.empty() ? "" : " ", time);

  if (const auto truth = root.find("truth")) {
    const double precision = number_or_nan(*truth, "precision"), recall = number_or_nan(*truth, "recall");
    const double corrupted = number_or_nan(*truth, "corrupted"), f1 = number_or_nan(*truth, "f1");
    text += "\n\nThe truth is known";
    if (std::isfinite(corrupted))
      text += fmt::format(": {} differ from the original", counted(corrupted, "label"));
    text += ".";
    if (std::isfinite(recall))
      text += fmt::format(" {} % of the corrupted labels were found", number_word(100 * recall, 3));
    if (std::isfinite(recall) && std::isfinite(precision))
      text += fmt::format(", and {} % of the rows found are corrupted", number_word(100 * precision, 3));
    if (std::isfinite(recall) && std::isfinite(f1)) text += fmt::format(" (F1 {})", number_word(f1));
    if (std::isfinite(recall)) text += ".";
  }
  if (const auto accuracy = root.find("accuracy"))
    if (const std::string words = change(accuracy); !words.empty()) {
      const double rows = number_or_nan(*accuracy, "test_rows");
      text += fmt::format("\n\nAccuracy on {}, with all rows as they are and with the learned weights: {}.",
                          std::isfinite(rows) ? counted(rows, "test row") : "the test rows", words);
    }
  return text;
}

Json clean_facts(const Reading& root) {
  Json facts = Json::array();
  add_fact(facts, "Suspicious rows", count_word(number_or_nan(root, "flagged")));
  if (const auto truth = root.find("truth")) {
    add_fact(facts, "Precision", number_word(number_or_nan(*truth, "precision")));
    add_fact(facts, "Recall", number_word(number_or_nan(*truth, "recall")));
    add_fact(facts, "F1", number_word(number_or_nan(*truth, "f1")));
  }
  add_fact(facts, "Test accuracy", change(root.find("accuracy")));
  add_fact(facts, "Trusted loss", change(root.find("trusted_loss")));
  add_fact(facts, "Time", in_seconds(number_or_nan(root, "seconds")));
  add_status(facts, "Outcome", root.text_or_empty("status"));
  add_fact(facts, "Version", root.text_or_empty("version"));
  return facts;
}

/// Corrupted or not against flagged or not, from the two ratios that were measured.
void add_truth_table(Json& blocks, const Reading& root) {
  const auto truth = root.find("truth");
  if (!truth) return;
  const double samples = number_or_nan(root, "samples"), flagged = number_or_nan(root, "flagged");
  const double corrupted = number_or_nan(*truth, "corrupted");
  const double found = std::round(number_or_nan(*truth, "recall") * corrupted);
  if (!std::isfinite(samples + flagged + found)) return;
  const auto whole = [](double number) { return fmt::format("{:.0f}", number); };
  Json rows = Json::array();
  rows.push_back({"corrupted", whole(found), whole(corrupted - found), whole(corrupted)});
  rows.push_back({"as in the original", whole(flagged - found),
                  whole(samples - flagged - (corrupted - found)), whole(samples - corrupted)});
  rows.push_back({"all", whole(flagged), whole(samples - flagged), whole(samples)});
  blocks.push_back(
      table_block("Truth and suspicion", {"Label", "Suspicious", "Kept", "All"}, std::move(rows)));
}

void add_before_and_after(Json& blocks, const Reading& root) {
  Json rows = Json::array();
  const auto add = [&](const char* name, const std::optional<Reading>& object) {
    if (!change(object).empty())
      rows.push_back({name, number_word(number_or_nan(*object, "before"), 6),
                      number_word(number_or_nan(*object, "after"), 6)});
  };
  add("Test accuracy", root.find("accuracy"));
  add("Loss on the trusted rows", root.find("trusted_loss"));
  if (rows.empty()) return;
  blocks.push_back(
      table_block("Before and after", {"", "All rows as they are", "Learned weights"}, std::move(rows)));
}

void add_histogram(Json& sections, const Reading& root) {
  const auto histogram = root.find("weights_histogram");
  if (!histogram) return;
  const Reading edges = histogram->at("edges");
  if (edges.size() < 2) edges.fail("must have at least two elements");
  Json categories = Json::array(), curves = Json::array();
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    categories.push_back(
        fmt::format("{} to {}", number_word(edges[i].number(), 3), number_word(edges[i + 1].number(), 3)));
  for (const auto& [key, name] :
       {std::pair{"counts", "training rows"}, std::pair{"clean", "label as in the original"},
        std::pair{"corrupted", "label corrupted"}})
    if (const auto counts = histogram->find(key)) {
      if (counts->size() != categories.size())
        counts->fail(fmt::format("has {} elements, there are {} edges", counts->size(), edges.size()));
      curves.push_back(category_series(name, "bars", counts->json()));
    }
  if (curves.empty()) return;
  Json chart = chart_block("How many rows got which weight", "weight σ(θ)", "rows", std::move(curves),
                           "A weight near 0 takes a row out of training, a weight near 1 keeps it.");
  chart["categories"] = std::move(categories);
  chart["y"]["min"] = 0;
  add_section(sections, "weights", "The weights", std::move(chart));
}

void add_images(Json& blocks, const Reading& root) {
  constexpr std::size_t most = 120;
  const auto images = root.find("images");
  if (!images || images->size() == 0) return;
  Json items = Json::array();
  for (std::size_t i = 0; i < std::min(images->size(), most); ++i) items.push_back((*images)[i].json());
  blocks.push_back(
      {{"type", "images"},
       {"title", "The most suspicious samples"},
       {"items", std::move(items)},
       {"caption",
        images->size() > most ? fmt::format("The first {} of {} images.", most, images->size()) : ""}});
}

void add_table(Json& blocks, const Reading& root) {
  const auto suspects = root.find("suspects");
  if (!suspects || suspects->size() == 0) return;
  struct Column {
    const char* key;
    const char* name;
    bool used;
  };
  std::vector<Column> columns{{"rank", "Rank", false},        {"row", "Row", false},
                              {"label", "Label", false},      {"predicted", "Predicted", false},
                              {"weight", "Weight", false},    {"corrupted", "Corrupted", false},
                              {"original", "Original", false}};
  for (const Reading one : *suspects)
    for (Column& column : columns) column.used = column.used || one.find(column.key);
  std::erase_if(columns, [](const Column& column) { return !column.used; });
  if (columns.empty()) return;
  Json names = Json::array(), rows = Json::array();
  for (const Column& column : columns) names.push_back(column.name);
  for (std::size_t i = 0; i < std::min(suspects->size(), most_rows); ++i) {
    const Reading one = (*suspects)[i];
    Json row = Json::array();
    for (const Column& column : columns) {
      const std::string word = column.key == std::string_view("weight")
                                   ? number_word(number_or_nan(one, "weight"))
                                   : word_or_empty(one, column.key);
      row.push_back(word.empty() ? std::string(missing) : word);
    }
    rows.push_back(std::move(row));
  }
  std::string caption = cut_rows(rows, suspects->size(), "most suspicious");
  blocks.push_back(
      long_table_block("Rows by suspicion", std::move(names), std::move(rows), std::move(caption)));
}

void add_losses(Json& sections, const Reading& root) {
  const auto history = root.find("history");
  if (!history || history->size() == 0) return;
  Json points = Json::array();
  bool some = false;
  for (const std::size_t i : spread(history->size(), 1500)) {
    const Reading step = (*history)[i];
    points.push_back({number_or_nan(step, "seconds"), number_or_nan(step, "outer_value")});
    some = some || std::isfinite(points.back()[0].get<double>() + points.back()[1].get<double>());
  }
  if (!some) return;
  add_section(sections, "time", "Loss against time",
              chart_block("Loss on the trusted rows against time", "seconds", "loss on the trusted rows",
                          Json::array({series("each step", "path", std::move(points))})));
}

}  // namespace

Json clean_page(const Json& result) {
  const Reading root(result, "");
  const std::string source = source_of(root);
  Json sections = Json::array(), outcome = Json::array(), rows = Json::array();
  add_notices(outcome, root,
              {"samples", "flagged", "trusted_loss", "weights_histogram", "suspects", "suspects.weight",
               "certificate", "history", "history.outer_value", "history.seconds", "history.gradient_norm",
               "data", "model", "command_line"});
  add_truth_table(outcome, root);
  add_before_and_after(outcome, root);
  add_section(sections, "result", "Result", std::move(outcome));
  add_histogram(sections, root);
  add_images(rows, root);
  add_table(rows, root);
  add_section(sections, "suspects", "Suspicious rows", std::move(rows));
  add_losses(sections, root);
  add_certificates(sections, root, "Loss on the trusted rows");
  add_data(sections, root);
  add_formulas(sections, root);
  add_command(sections, root);
  return page(source.empty() ? "Suspicious labels" : fmt::format("Suspicious labels in {}", source),
              clean_headline(root), clean_facts(root), std::move(sections));
}

}  // namespace report
