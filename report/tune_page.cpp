#include "tune_page.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"
#include "tune_outcome.hpp"

namespace report {
namespace {

/// What was tried in one search, as dots, and the best of it so far, as a line.
struct Search {
  Json tried = Json::array(), best = Json::array();
  double lowest = infinity, end = 0;

  void add(double seconds, double loss) {
    if (std::isfinite(seconds)) end = std::max(end, seconds);
    tried.push_back({end, loss});
    if (!(loss < lowest)) return;
    if (std::isfinite(lowest)) best.push_back({end, lowest});
    best.push_back({end, lowest = loss});
  }
  void finish() {
    if (std::isfinite(lowest)) best.push_back({end, lowest});
  }
};

/// One time axis for both: the steps of tuning come after the fits of the grid.
void add_search(Json& sections, const Reading& root) {
  Search grid, tuning;
  const auto baseline = root.find("baseline");
  const auto given = baseline ? baseline->find("grid") : std::nullopt;
  if (const auto points = given ? given->find("points") : std::nullopt) {
    double time = 0;
    for (const Reading point : *points) {
      if (const double seconds = number_or_nan(point, "seconds"); std::isfinite(seconds)) time += seconds;
      grid.add(time, number_or_nan(point, "validation_loss"));
    }
    if (const double seconds = number_or_nan(*given, "seconds"); std::isfinite(seconds))
      grid.end = std::max(grid.end, seconds);
    grid.finish();
  }
  tuning.end = grid.end;
  if (const auto history = root.find("history")) {
    // Of very many steps, as many as a screen can show.
    for (const std::size_t i : spread(history->size(), 1500)) {
      const Reading step = (*history)[i];
      tuning.add(grid.end + number_or_nan(step, "seconds"), number_or_nan(step, "outer_value"));
    }
    tuning.finish();
  }
  Json curves = Json::array();
  const bool both = std::isfinite(grid.lowest) && std::isfinite(tuning.lowest);
  if (std::isfinite(grid.lowest)) {
    curves.push_back(series("single λ: each fit of the grid", "dots", grid.tried));
    curves.push_back(series("single λ: best so far", "line", grid.best));
  }
  if (std::isfinite(tuning.lowest)) {
    curves.push_back(series("tuned: each step", "dots", tuning.tried));
    curves.push_back(series("tuned: best so far", "line", tuning.best));
  }
  if (curves.empty()) return;
  std::string caption = both ? "Tuning is drawn after the last fit of the grid." : "";

  // The worst fits of a grid are so bad that nothing else would be seen.
  Json y = Json::object();
  const double low = std::min(grid.lowest, tuning.lowest),
               high = std::isfinite(grid.lowest) ? grid.lowest : low;
  const double ceiling = high + 5 * std::max(high - low, 0.02 * std::abs(high));
  std::size_t above = 0;
  for (const Json* list : {&grid.tried, &tuning.tried})
    for (const Json& point : *list) above += point[1].get<double>() > ceiling;
  if (above > 0 && ceiling > low) {
    y["max"] = ceiling;
    caption += fmt::format("{}{} above the frame.", caption.empty() ? "" : " ",
                           above == 1 ? "One loss lies" : fmt::format("{} losses lie", above));
  }
  Json chart = chart_block("Validation loss against time", "seconds", "validation loss", std::move(curves),
                           std::move(caption));
  chart["y"].update(y);
  add_section(sections, "time", "Loss against time", std::move(chart));
}

struct Penalty {
  std::string name, at_bound;
  double log_lambda;
};

std::vector<Penalty> sorted_penalties(const Reading& list) {
  std::vector<Penalty> all;
  all.reserve(list.size());
  for (const Reading one : list)
    all.push_back(
        {word_or_empty(one, "name"), one.text_or_empty("at_bound"), number_or_nan(one, "log_lambda")});
  const auto key = [](const Penalty& one) {
    return std::isfinite(one.log_lambda) ? one.log_lambda : infinity;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Penalty& a, const Penalty& b) { return key(a) < key(b); });
  return all;
}

/// The first `count` penalties with their names, those at a bound with a marker of their own.
Json named_chart(const std::vector<Penalty>& all, std::size_t count, const std::string& unit,
                 const std::string& of_what) {
  Json names = Json::array(), curves = Json::array();
  for (std::size_t i = 0; i < count; ++i) names.push_back(all[i].name);
  for (const auto& [bound, name] :
       {std::pair{"", "between the bounds"}, std::pair{"upper", "at the upper bound"},
        std::pair{"lower", "at the lower bound"}}) {
    Json values = Json::array();
    bool some = false;
    for (std::size_t i = 0; i < count; ++i) {
      const bool here = all[i].at_bound == bound && std::isfinite(all[i].log_lambda);
      values.push_back(here ? Json(all[i].log_lambda) : Json(nullptr));
      some = some || here;
    }
    if (some) curves.push_back(category_series(name, "dots", std::move(values)));
  }
  std::string title = count == all.size() ? fmt::format("The penalty of each {}", unit)
                                          : fmt::format("The {} smallest penalties", count);
  Json chart = chart_block(std::move(title), "log λ", unit, std::move(curves),
                           fmt::format("The smaller the penalty, the more freely {} used.", of_what));
  chart["horizontal"] = true;
  chart["categories"] = std::move(names);
  return chart;
}

Json profile_chart(const std::vector<Penalty>& all) {
  Json points = Json::array();
  const auto chosen = spread(all.size(), 1000);
  for (const std::size_t i : chosen) points.push_back({static_cast<double>(i + 1), all[i].log_lambda});
  std::string caption = "From the smallest to the largest.";
  if (chosen.size() < all.size())
    caption += fmt::format(" Drawn: {} of {}, evenly chosen.", chosen.size(),
                           count_word(static_cast<double>(all.size())));
  return chart_block("All penalties, sorted", "rank", "log λ",
                     Json::array({series("log λ", "line", std::move(points))}), std::move(caption));
}

void add_penalties(Json& sections, const Reading& root) {
  constexpr std::size_t most_named = 60, named_of_many = 40;
  const auto list = root.find("penalties");
  if (!list || list->size() == 0) return;
  const std::string unit = unit_of(root);
  const bool network = of_network(root);
  const std::vector<Penalty> all = sorted_penalties(*list);
  const auto at = [&](const char* bound) {
    return std::count_if(all.begin(), all.end(), [&](const Penalty& one) { return one.at_bound == bound; });
  };
  const auto sentence = [&](std::ptrdiff_t count, const char* bound, const std::string& meaning) {
    return fmt::format("{} of {} {} at the {} bound: {}", count_word(static_cast<double>(count)),
                       count_word(static_cast<double>(all.size())),
                       all.size() == 1 ? "penalty sits"
                       : count == 1    ? "penalties sits"
                                       : "penalties sit",
                       bound, meaning);
  };
  Json blocks = Json::array();
  const auto these = [&](std::ptrdiff_t count) {
    if (unit.empty()) return fmt::format("the {} are", network ? "weights" : "coefficients");
    return count == 1 ? fmt::format("this {} is", unit) : fmt::format("these {} are", plural(unit));
  };
  if (const auto upper = at("upper"); upper > 0)
    blocks.push_back(text_block(sentence(upper, "upper", these(upper) + " not used.")));
  if (const auto lower = at("lower"); lower > 0)
    // A wider box is no advice for a run that already has trouble in this one.
    blocks.push_back(text_block(sentence(
        lower, "lower",
        these(lower) + " hardly penalised" +
            (trustworthy(root) ? ", and a smaller lower bound (--bounds) may reduce the loss further."
                               : "."))));

  const auto finite =
      std::count_if(all.begin(), all.end(), [](const Penalty& one) { return std::isfinite(one.log_lambda); });
  const std::size_t drawn = static_cast<std::size_t>(finite);  // those without a number are the last
  if (drawn > most_named) blocks.push_back(profile_chart({all.begin(), all.begin() + finite}));
  if (const auto images = root.find("images"); images && images->size() > 0) {
    Json items = Json::array();
    for (const Reading image : *images) items.push_back(image.json());
    blocks.push_back(
        {{"type", "images"},
         {"title", "The penalty of each pixel"},
         {"items", std::move(items)},
         {"caption", "The darker, the more freely a pixel is used. Pixels that never change are paper."}});
  }
  const char* const of_what = !network           ? "its coefficient is"
                              : unit == "weight" ? "its weight is"
                                                 : "its weights are";
  if (drawn > 1)
    blocks.push_back(named_chart(all, drawn > most_named ? named_of_many : drawn,
                                 unit.empty() ? "coefficient" : unit, of_what));

  Json rows = Json::array();
  for (std::size_t i = 0; i < std::min(all.size(), most_rows); ++i)
    rows.push_back({all[i].name, number_word(all[i].log_lambda), number_word(std::exp(all[i].log_lambda)),
                    all[i].at_bound});
  std::string head = unit.empty() ? "penalty" : unit;
  head[0] = static_cast<char>(head[0] - 'a' + 'A');
  std::string caption = cut_rows(rows, all.size(), "smallest");
  blocks.push_back(long_table_block("Every penalty", {head, "log λ", "λ", "At bound"}, std::move(rows),
                                    std::move(caption)));
  add_section(sections, "penalties", "Penalties", std::move(blocks));
}

struct Coefficient {
  std::string name, label;
  double grid, tuned;

  double size() const { return std::max(std::abs(grid), std::abs(tuned)); }
};

/// Single λ against tuned, one series a class where there are few.
Json scatter(std::vector<Coefficient> all) {
  constexpr std::size_t most_points = 2000, most_classes = 8;
  std::erase_if(all, [](const Coefficient& one) { return !std::isfinite(one.grid + one.tuned); });
  const std::size_t count = all.size();
  std::stable_sort(all.begin(), all.end(),
                   [](const Coefficient& a, const Coefficient& b) { return a.size() > b.size(); });
  const double reach = all.empty() || all[0].size() == 0 ? 1 : all[0].size();
  if (count > most_points) all.resize(most_points);

  std::vector<std::string> labels;
  for (const Coefficient& one : all)
    if (std::find(labels.begin(), labels.end(), one.label) == labels.end() && labels.size() <= most_classes)
      labels.push_back(one.label);
  std::sort(labels.begin(), labels.end());
  const bool by_class = labels.size() > 1 && labels.size() <= most_classes;
  Json curves = Json::array();
  for (const std::string& label : by_class ? labels : std::vector<std::string>{""}) {
    Json points = Json::array();
    for (const Coefficient& one : all)
      if (!by_class || one.label == label) points.push_back({one.grid, one.tuned});
    curves.push_back(series(by_class ? label : "coefficients", "dots", std::move(points)));
  }
  curves.push_back(series("equal", "dashed", {{-reach, -reach}, {reach, reach}}));
  std::string caption = "On the dashed line both are equal.";
  if (count > most_points)
    caption += fmt::format(" Drawn: the {} largest of {}.", count_word(static_cast<double>(most_points)),
                           count_word(static_cast<double>(count)));
  return chart_block("Coefficients: best single λ against tuned", "with the best single λ", "tuned",
                     std::move(curves), std::move(caption));
}

void add_coefficients(Json& sections, const Reading& root) {
  const auto list = root.find("coefficients");
  if (!list || list->size() == 0) return;
  std::vector<Coefficient> all;
  all.reserve(list->size());
  bool labelled = false;
  std::size_t zeros_before = 0, zeros_after = 0;
  for (const Reading one : *list) {
    all.push_back({word_or_empty(one, "name"), word_or_empty(one, "class"), number_or_nan(one, "grid"),
                   number_or_nan(one, "tuned")});
    labelled = labelled || !all.back().label.empty();
    zeros_before += all.back().grid == 0;
    zeros_after += all.back().tuned == 0;
  }
  const auto key = [](const Coefficient& one) { return std::isfinite(one.tuned) ? std::abs(one.tuned) : -1; };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Coefficient& a, const Coefficient& b) { return key(a) > key(b); });
  Json blocks = Json::array();
  if (zeros_before + zeros_after > 0)
    blocks.push_back(text_block(fmt::format(
        "Exactly zero: {} of {} coefficients with the best single λ, {} tuned.",
        count_word(static_cast<double>(zeros_before)), count_word(static_cast<double>(all.size())),
        count_word(static_cast<double>(zeros_after)))));
  if (std::any_of(all.begin(), all.end(),
                  [](const Coefficient& one) { return std::isfinite(one.grid + one.tuned); }))
    blocks.push_back(scatter(all));

  Json columns = Json::array({"Feature"}), rows = Json::array();
  if (labelled) columns.push_back("Class");
  columns.push_back("Best single λ");
  columns.push_back("Tuned");
  for (std::size_t i = 0; i < std::min(all.size(), most_rows); ++i) {
    Json row = Json::array({all[i].name});
    if (labelled) row.push_back(all[i].label);
    row.push_back(number_word(all[i].grid));
    row.push_back(number_word(all[i].tuned));
    rows.push_back(std::move(row));
  }
  std::string caption = cut_rows(rows, all.size(), "largest");
  if (const auto data = root.find("data");
      data && data->find("standardized") && data->find("standardized")->truth())
    caption +=
        (caption.empty() ? "" : " ") +
        std::string(
            "Of features with mean 0 and deviation 1: the saved model has them in the units of the file.");
  blocks.push_back(long_table_block("Every coefficient, the largest first", std::move(columns),
                                    std::move(rows), std::move(caption)));
  add_section(sections, "coefficients", "Coefficients", std::move(blocks));
}

}  // namespace

Json tune_page(const Json& result) {
  const Reading root(result, "");
  const std::vector<Outcome> all = outcomes(root);
  const std::string source = source_of(root);
  Json sections = Json::array();
  add_result(sections, root, all);
  add_search(sections, root);
  add_penalties(sections, root);
  add_coefficients(sections, root);
  add_certificates(sections, root, "Validation loss");
  add_data(sections, root);
  add_formulas(sections, root);
  add_command(sections, root);
  return page(source.empty() ? "Tuned penalties" : fmt::format("Tuned penalties for {}", source),
              headline(root, all), page_facts(root, all.back()), std::move(sections));
}

}  // namespace report
