#include "meta_page.hpp"

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"
#include "train_sections.hpp"

namespace report {
namespace {

bool has_classes(const Reading& root) {
  const auto data = root.find("data");
  return data && data->text_or_empty("kind") == "pictures";
}

std::string measured(const Reading& root, const char* suffix) {
  const bool classes = has_classes(root);
  const double value =
      number_or_nan(root, ((classes ? "test_accuracy" : "test_error") + std::string(suffix)).c_str());
  if (!std::isfinite(value)) return "";
  return classes ? percent_word(value) : number_word(value);
}

std::string with_error(const Reading& root) {
  const std::string value = measured(root, ""), error = measured(root, "_standard_error");
  return value.empty() || error.empty() ? value : fmt::format("{} ± {}", value, error);
}

/// Of the gradient at the end; older results have that of the probe alone.
std::string verdict_of(const Reading& root) {
  const std::string said = root.text_or_empty("verdict");
  return said.empty() ? gradients_verdict(root) : said;
}

std::string headline(const Reading& root) {
  static const std::map<std::string, const char*> words{{"interrupted", "Learning was interrupted. "},
                                                        {"time-limit", "Learning ran out of its time. "},
                                                        {"diverged", "Learning diverged. "}};
  const auto found = words.find(root.text_or_empty("status"));
  std::string text = found == words.end() ? "" : found->second;
  const auto data = root.find("data");
  const std::string value = with_error(root), before = measured(root, "_before");
  if (!value.empty()) {
    const std::string tasks = counted(number_or_nan(root, "test_tasks"), "test task");
    text +=
        has_classes(root)
            ? fmt::format(
                  "Of the pictures of {} it names {} rightly, after {} of each class ({} without adapting).",
                  tasks, value, data ? counted(number_or_nan(*data, "shots"), "picture") : "some", before)
            : fmt::format("On {} its mean squared error is {} after {} each ({} without adapting).", tasks,
                          value, data ? counted(number_or_nan(*data, "shots"), "row") : "some rows", before);
  }
  const std::string verdict = verdict_of(root);
  if (!verdict.empty()) text += fmt::format("\n\nThe certificate of its gradient says {}.", verdict);
  const auto probe = root.find("probe");
  if (!probe) return text;
  const std::string angle = angle_word(number_or_nan(*probe, "cosine"));
  if (!angle.empty())
    text += fmt::format(
        " On {} it points within {} of a reference in double precision, settled to its last digits.",
        counted(number_or_nan(*probe, "tasks"), "task"), angle);
  return text;
}

Json facts_of(const Reading& root) {
  Json facts = Json::array();
  add_fact(facts, has_classes(root) ? "Test accuracy" : "Test error", with_error(root));
  add_fact(facts, "Test tasks", count_word(number_or_nan(root, "test_tasks")));
  if (const auto learner = root.find("learner")) {
    add_fact(facts, "Learner", learner->text_or_empty("kind"));
    add_fact(facts, "Shared numbers", count_word(number_or_nan(*learner, "shared_parameters")));
    add_fact(facts, "Adapted, a task", count_word(number_or_nan(*learner, "adapted_parameters")));
  }
  add_fact(facts, "Steps", count_word(number_or_nan(root, "steps")));
  const double step = number_or_nan(root, "seconds_per_step");
  if (std::isfinite(step)) add_fact(facts, "A step takes", fmt::format("{} ms", number_word(1e3 * step, 3)));
  add_fact(facts, "Time", in_seconds(number_or_nan(root, "seconds")));
  if (const auto bytes = root.find("bytes"))
    add_fact(facts, "Memory of the process",
             fmt::format("{} MiB", count_word(number_or_nan(*bytes, "process") / 0x1p20)));
  const std::string status = root.text_or_empty("status"), verdict = verdict_of(root);
  // Done is not yet right: the badge says no better than the verdict.
  if (status == "converged")
    verdict.empty() ? add_fact(facts, "Outcome", "all steps done") : add_status(facts, "Gradient", verdict);
  else
    add_status(facts, "Outcome", status);
  add_fact(facts, "Version", root.text_or_empty("version"));
  return facts;
}

Json points_of(const Reading& curve, const char* key, double factor = 1) {
  Json points = Json::array();
  for (const Reading each : curve)
    if (const double value = factor * number_or_nan(each, key); std::isfinite(value))
      points.push_back({number_or_nan(each, "step"), value});
  return points;
}

void add_learning_curves(Json& sections, const Reading& root) {
  const auto curve = root.find("curve");
  if (!curve || curve->size() == 0) return;
  const bool classes = has_classes(root);
  const auto chart = [&](const char* title, const char* y, Json lines, bool log) {
    Json block = chart_block(title, "step", y, std::move(lines));
    if (log) block["y"]["scale"] = "log";
    return block;
  };
  Json charts = Json::array();
  charts.push_back(
      classes ? chart("Accuracy on test tasks", "%",
                      Json::array({series("test accuracy", "path", points_of(*curve, "test", 100))}), false)
              : chart("Mean squared error on test tasks", "error",
                      Json::array({series("test error", "path", points_of(*curve, "test"))}), true));
  charts.push_back(chart("Outer loss of training tasks", "loss",
                         Json::array({series("training loss", "path", points_of(*curve, "training_loss"))}),
                         true));
  Json blocks = Json::array({columns_block(std::move(charts))});
  Json lengths = Json::array({series("inner residual", "path", points_of(*curve, "inner_residual")),
                              series("outer gradient", "path", points_of(*curve, "gradient_norm"))});
  std::erase_if(lengths.get_ref<Json::array_t&>(), [](const Json& one) { return one["points"].empty(); });
  if (!lengths.empty())
    blocks.push_back(chart("How far adaptation is from settled, and the outer gradient", "norm",
                           std::move(lengths), true));
  Json rows = Json::array();
  for (const Reading each : *curve)
    rows.push_back(
        {number_word(number_or_nan(each, "step"), 8), number_word(number_or_nan(each, "training_loss")),
         number_word((classes ? 100 : 1) * number_or_nan(each, "test")),
         number_word((classes ? 100 : 1) * number_or_nan(each, "test_standard_error"), 2),
         number_word(number_or_nan(each, "inner_residual")),
         number_word(number_or_nan(each, "gradient_norm")), number_word(number_or_nan(each, "seconds"))});
  blocks.push_back(long_table_block("Every look",
                                    {"Step", "Training loss", classes ? "Test accuracy, %" : "Test error",
                                     "±", "Inner residual", "Outer gradient", "Seconds"},
                                    std::move(rows), ""));
  add_section(sections, "learning", "Learning", std::move(blocks));
}

Json pairs(const Reading& x, const Reading& y) {
  const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
  Json points = Json::array();
  for (std::size_t i = 0; i < std::min(xs.size(), ys.size()); ++i) points.push_back({xs[i], ys[i]});
  return points;
}

/// A task of numbers: its rows, and what is predicted before and after it has adapted.
Json curve_chart(const Reading& task, std::size_t number) {
  Json lines = Json::array({series("adapted", "line", pairs(task.at("x"), task.at("after"))),
                            series("before", "dashed", pairs(task.at("x"), task.at("before")))});
  const auto dots = [&](const char* key, const char* name) {
    if (const auto rows = task.find(key))
      lines.push_back(series(name, "dots", pairs(rows->at("x"), rows->at("y"))));
  };
  dots("support", "adapted to");
  dots("query", "judged by");
  return chart_block(fmt::format("Test task {}", number + 1), "x", "y", std::move(lines),
                     fmt::format("Mean squared error {} before, {} after.",
                                 number_word(number_or_nan(task, "judged_before"), 3),
                                 number_word(number_or_nan(task, "judged_after"), 3)));
}

Json picture_items(const Reading& task, const Reading& all, bool answered) {
  Json items = Json::array();
  const auto names = task.find("classes");
  const auto called = [&](const Reading& each, const char* key) {
    const double which = number_or_nan(each, key);
    return names && which >= 0 && which < static_cast<double>(names->size())
               ? (*names)[static_cast<std::size_t>(which)].json().get<std::string>()
               : word_or_empty(each, key);
  };
  for (const Reading each : all) {
    const std::string own = called(each, "class");
    Json item{{"width", task.at("width").json()},
              {"height", task.at("height").json()},
              {"pixels", each.text("pixels")}};
    item["caption"] = answered
                          ? fmt::format("{}: {} → {}", own, called(each, "before"), called(each, "after"))
                      : names ? own
                              : fmt::format("class {}", own);
    if (answered)
      item["status"] = word_or_empty(each, "class") == word_or_empty(each, "after") ? "right" : "wrong";
    items.push_back(std::move(item));
  }
  return items;
}

void add_tasks(Json& sections, const Reading& root) {
  const auto tasks = root.find("tasks");
  if (!tasks || tasks->size() == 0) return;
  Json blocks = Json::array();
  if (!has_classes(root)) {
    for (std::size_t i = 0; i < tasks->size(); i += 2) {
      Json charts = Json::array({curve_chart((*tasks)[i], i)});
      if (i + 1 < tasks->size()) charts.push_back(curve_chart((*tasks)[i + 1], i + 1));
      blocks.push_back(columns_block(std::move(charts)));
    }
  } else {
    for (const Reading task : *tasks) {
      blocks.push_back({{"type", "images"},
                        {"title", "What a test task adapts to"},
                        {"items", picture_items(task, task.at("support"), false)}});
      blocks.push_back(
          {{"type", "images"},
           {"title", "What it says of others"},
           {"items", picture_items(task, task.at("query"), true)},
           {"caption",
            fmt::format("Class: answer before → after it had adapted. {} of all are right, {} were before.",
                        percent_word(number_or_nan(task, "judged_after")),
                        percent_word(number_or_nan(task, "judged_before")))}});
    }
  }
  add_section(sections, "tasks", "Single tasks, before and after", std::move(blocks));
}

void add_gradient(Json& sections, const Reading& root) {
  Json blocks = Json::array();
  if (const auto probe = root.find("probe")) {
    Json rows = Json::array();
    const auto add = [&](const char* name, Json value, std::string meaning) {
      if (value != "" && value != missing) rows.push_back({name, std::move(value), std::move(meaning)});
    };
    add("Cosine", number_word(number_or_nan(*probe, "cosine"), 6),
        "of the gradient that is used and the reference, on tasks of their own");
    add("Relative error", number_word(number_or_nan(*probe, "relative_error")),
        "length of the difference over that of the reference");
    add("Norm", number_word(number_or_nan(*probe, "gradient_norm")), "of the reference");
    if (const auto certificate = probe->find("certificate")) {
      add("Bound", number_word(number_or_nan(*certificate, "bound")), "of the error, by the certificate");
      if (const std::string verdict = certificate->text_or_empty("verdict"); !verdict.empty())
        add("Verdict", status_cell(verdict), certificate->text_or_empty("reason"));
    }
    if (const auto reference = probe->find("reference"))
      add("Reference", "", reference->text_or_empty("message"));
    blocks.push_back(
        table_block("The gradient beside a tight reference", {"", "Measured", "Meaning"}, std::move(rows)));
    if (const auto reference = probe->find("reference"))
      blocks.push_back(text_block("The reference: " + reference->text_or_empty("message") + "."));
  }
  if (const auto certified = root.find("certified")) {
    const double trusted = number_or_nan(*certified, "trusted"),
                 doubtful = number_or_nan(*certified, "doubtful"),
                 untrusted = number_or_nan(*certified, "untrusted");
    if (trusted + doubtful + untrusted > 0) {
      blocks.push_back(text_block(
          fmt::format("While it learned {} {} certified: {} trusted, {} doubtful, {} untrusted.{}",
                      counted(trusted + doubtful + untrusted, "gradient"),
                      trusted + doubtful + untrusted == 1 ? "was" : "were", count_word(trusted),
                      count_word(doubtful), count_word(untrusted),
                      trusted > doubtful + untrusted
                          ? ""
                          : " Steps that end before a task has settled leave it short of its minimum: a "
                            "gradient that is then not trusted still leads downhill as long as its angle "
                            "to the reference is small.")));
      if (const auto last = certified->find("last"))
        blocks.push_back(text_block("The last of them: " + last->text_or_empty("reason") + "."));
    }
  }
  add_section(sections, "gradient", "The outer gradient", std::move(blocks));
}

/// Every plain value of an object, as facts.
void add_fields(Json& sections, const Reading& root, const char* key, std::string title) {
  const auto object = root.find(key);
  if (!object || !object->json().is_object()) return;
  Json facts = Json::array();
  for (const auto& [name, value] : object->json().items()) {
    if (value.is_null() || (value.is_array() && value.empty())) continue;
    std::string words = name;
    for (char& c : words)
      if (c == '_') c = ' ';
    if (value.is_array()) {
      std::string all;
      for (const Json& each : value)
        all += (all.empty() ? "" : "-") + (each.is_string() ? each.get<std::string>() : each.dump());
      facts.push_back(Json::array({words, all}));
    } else {
      facts.push_back(Json::array({words, word_or_empty(*object, name.c_str())}));
    }
  }
  if (!facts.empty()) add_section(sections, key, std::move(title), facts_block(std::move(facts)));
}

}  // namespace

Json meta_page(const Json& result) {
  const Reading root(result, "");
  const std::string source = source_of(root);
  Json sections = Json::array(), warnings = Json::array();
  add_notices(warnings, root,
              {"curve", "curve.test", "learner", "settings", "data", "tasks", "command_line"});
  add_section(sections, "warnings", "Take care", std::move(warnings));
  add_learning_curves(sections, root);
  add_tasks(sections, root);
  add_gradient(sections, root);
  add_fields(sections, root, "learner", "The learner");
  add_fields(sections, root, "settings", "How it was learned");
  add_fields(sections, root, "data", "The tasks");
  add_command(sections, root);
  return page(source.empty() ? "What tasks share" : fmt::format("What tasks share, learned from {}", source),
              headline(root), facts_of(root), std::move(sections));
}

}  // namespace report
