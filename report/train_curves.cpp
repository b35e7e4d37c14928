#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"
#include "train_sections.hpp"

// Learning, gradients and relaxation: what changes from epoch to epoch and from step to step.
namespace report {
namespace {

constexpr std::size_t most_points = 1500;

/// A measure of an epoch: its field, its name and what it is multiplied by to be shown.
struct Curve {
  const char* key;
  const char* name;
  double factor = 1;
};

double epoch_number(const Reading& epoch, std::size_t i) {
  const double given = number_or_nan(epoch, "epoch");
  return std::isfinite(given) ? given : static_cast<double>(i + 1);
}

Json new_chart(const char* title, const char* x, const char* y, bool log = false) {
  Json chart = chart_block(title, x, y, Json::array());
  if (log) chart["y"]["scale"] = "log";
  return chart;
}

/// Adds a series to a chart; none where there is no number that the chart can show.
void add_series(Json& chart, std::string name, Json points) {
  const bool log = chart["y"].contains("scale");
  const bool some = std::any_of(points.begin(), points.end(), [&](const Json& point) {
    const double x = point[0].get<double>(), y = point[1].get<double>();
    return std::isfinite(x) && std::isfinite(y) && (y > 0 || !log);
  });
  if (some) chart["series"].push_back(series(std::move(name), "path", std::move(points)));
}

/// A log axis where numbers span more than a factor of twenty, else one from zero.
void choose_scale(Json& chart) {
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (const Json& one : chart["series"])
    for (const Json& point : one["points"])
      if (const double value = point[1].get<double>(); std::isfinite(value)) {
        smallest = std::min(smallest, value);
        largest = std::max(largest, value);
      }
  if (smallest > 0 && largest > 20 * smallest)
    chart["y"]["scale"] = "log";
  else if (smallest >= 0 && largest > 0)
    chart["y"]["min"] = 0;
}

Json epoch_chart(Json chart, const Reading& epochs, std::initializer_list<Curve> curves) {
  for (const Curve& curve : curves) {
    Json points = Json::array();
    for (const std::size_t i : spread(epochs.size(), most_points)) {
      const Reading epoch = epochs[i];
      points.push_back({epoch_number(epoch, i), curve.factor * number_or_nan(epoch, curve.key)});
    }
    add_series(chart, curve.name, std::move(points));
  }
  return chart;
}

/// The charts that show something, side by side.
void add_charts(Json& blocks, std::vector<Json> charts) {
  std::erase_if(charts, [](const Json& chart) { return chart["series"].empty(); });
  if (!charts.empty()) blocks.push_back(columns_block(std::move(charts)));
}

/// Every epoch, with the columns for which there is a number.
Json epoch_table(const Reading& epochs) {
  std::vector<Curve> columns{{"train_error", "Training error, %", 100},
                             {"test_error", "Test error, %", 100},
                             {"train_cost", "Training cost"},
                             {"test_cost", "Test cost"},
                             {"gradient_cosine", "Gradient cosine"},
                             {"gradient_error", "Gradient error"},
                             {"relaxation_residual", "Movement left"},
                             {"learning_rate", "Learning rate"},
                             {"samples_per_second", "Samples a second"},
                             {"seconds", "Seconds"}};
  std::erase_if(columns, [&](const Curve& column) {
    for (const Reading epoch : epochs)
      if (std::isfinite(number_or_nan(epoch, column.key))) return false;
    return true;
  });
  Json names = Json::array({"Epoch"}), rows = Json::array();
  for (const Curve& column : columns) names.push_back(column.name);
  for (std::size_t i = 0; i < std::min(epochs.size(), most_rows); ++i) {
    const Reading epoch = epochs[i];
    Json row = Json::array({number_word(epoch_number(epoch, i), 6)});
    for (const Curve& column : columns)
      row.push_back(number_word(column.factor * number_or_nan(epoch, column.key)));
    rows.push_back(std::move(row));
  }
  std::string caption = cut_rows(rows, epochs.size(), "first");
  return long_table_block("Every epoch", std::move(names), std::move(rows), std::move(caption));
}

/// What the probe measured, and in a person's words what that means.
Json probe_table(const Reading& probe) {
  Json rows = Json::array();
  const auto add = [&](const char* name, Json value, std::string meaning) {
    if (value != "" && value != missing) rows.push_back({name, std::move(value), std::move(meaning)});
  };
  const double cosine = number_or_nan(probe, "cosine"), samples = number_or_nan(probe, "samples");
  const double norm = number_or_nan(probe, "gradient_norm");
  const std::string angle = angle_word(cosine), exact = probe.text_or_empty("exact");
  std::string compared = exact.empty() ? "" : fmt::format("compared with {}", exact);
  if (std::isfinite(samples))
    compared += fmt::format("{}on {}", compared.empty() ? "" : " ", counted(samples, "sample"));
  add("Estimator", probe.text_or_empty("estimator"), std::move(compared));
  add("Cosine", number_word(cosine, 6),
      angle.empty() ? "" : fmt::format("{} from the exact direction", angle));
  add("Relative error", number_word(number_or_nan(probe, "relative_error")),
      "length of the difference over that of the exact gradient");
  add("Norm", number_word(norm), "length of the gradient");
  if (const auto certificate = probe.find("certificate")) {
    const double bound = number_or_nan(*certificate, "bound");
    const std::string share = percent_word(bound / norm), verdict = certificate->text_or_empty("verdict");
    add("Certificate", certificate->text_or_empty("kind"), "how far the bound can be relied on");
    add("Bound", number_word(bound),
        share.empty() ? "of the gradient’s error"
                      : fmt::format("of the gradient’s error: {} of its length", share));
    if (!verdict.empty()) add("Verdict", status_cell(verdict), certificate->text_or_empty("reason"));
  }
  return table_block("The last network’s gradient against the exact one", {"", "Measured", "Meaning"},
                     std::move(rows));
}

/// The numbers or words of an array, one after the other.
std::string joined(const Reading& array, const char* between) {
  std::string text;
  for (const Reading one : array) {
    if (!text.empty()) text += between;
    text += one.json().is_number() ? number_text(one.number()) : one.text();
  }
  return text;
}

struct Setting {
  const char* key;
  const char* name;
};

/// The settings that are there, in this order.
Json settings_table(const char* title, const Reading& given, std::initializer_list<Setting> settings) {
  Json rows = Json::array();
  for (const Setting& setting : settings) {
    const auto value = given.find(setting.key);
    if (!value) continue;
    const bool layers = setting.key == std::string_view("layers");
    rows.push_back({setting.name, value->json().is_array() ? joined(*value, layers ? " – " : ", ")
                                                           : word_or_empty(given, setting.key)});
  }
  return table_block(title, {"Setting", "Value"}, std::move(rows));
}

/// How one phase settled. Its movements may begin with the first step or with a zeroth, as the energies do.
struct Phase {
  std::string name;
  std::vector<double> energy, moved;

  Phase(const Reading& phase, std::string phase_name) : name(std::move(phase_name)) {
    if (const auto given = phase.find("energy")) energy = numbers_of(*given);
    if (const auto given = phase.find("moved")) moved = numbers_of(*given);
  }
  double first_move() const { return energy.empty() || energy.size() > moved.size() ? 1 : 0; }
  double last_step() const {
    return std::max(
        {0.0, static_cast<double>(energy.size()) - 1, first_move() + static_cast<double>(moved.size()) - 1});
  }
};

Json points_of(const std::vector<double>& values, double first) {
  Json points = Json::array();
  for (const std::size_t i : spread(values.size(), most_points))
    points.push_back({first + static_cast<double>(i), values[i]});
  return points;
}

/// "In 20 steps of the free phase the mean energy fell from −3 to −58 and the movement from 0.5 to 2e-5."
std::string how_it_settled(const Phase& free) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<double>& values, std::size_t first) {
    if (values.size() <= first + 1) return;
    const double from = values[first], to = values.back();
    if (!std::isfinite(from) || !std::isfinite(to)) return;
    text += fmt::format("{}the mean {} went from {} to {}", text.empty() ? "" : " and ", what,
                        number_word(from, 3), number_word(to, 3));
  };
  add("energy", free.energy, 0);
  // Before the first step nothing has moved.
  add("movement", free.moved, free.first_move() == 0 ? 1 : 0);
  if (text.empty()) return "";
  text = fmt::format("In {} of the free phase {}.", counted(free.last_step(), "step"), text);
  std::size_t rises = 0;
  for (std::size_t i = 1; i < free.energy.size(); ++i)
    rises += free.energy[i] > free.energy[i - 1] + 1e-6 * std::abs(free.energy[i - 1]);
  if (rises > 0)
    text += fmt::format(" The energy rose at {}: without noise, a sign that the step is too long.",
                        counted(static_cast<double>(rises), "step"));
  return text;
}

}  // namespace

std::string gradients_verdict(const Reading& result) {
  constexpr std::array<std::string_view, 3> from_best{"trusted", "doubtful", "untrusted"};
  const auto probe = result.find("probe"), trusted = result.find("trusted");
  const auto certificate = probe ? probe->find("certificate") : std::nullopt;
  const std::string said = certificate ? certificate->text_or_empty("verdict") : "";
  if (trusted && !trusted->truth() && said != "doubtful") return "untrusted";
  if (std::find(from_best.begin(), from_best.end(), said) != from_best.end()) return said;
  return trusted && trusted->truth() ? "trusted" : "";
}

std::string angle_word(double cosine) {
  if (!std::isfinite(cosine)) return "";
  const double pi = std::acos(-1.0);
  return number_word(std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / pi, 2) + "°";
}

std::string percent_word(double share) {
  return std::isfinite(share) ? number_word(100 * share, 3) + " %" : "";
}

std::vector<double> numbers_of(const Reading& array) {
  std::vector<double> numbers;
  numbers.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i)
    numbers.push_back(array.json()[i].is_null() ? nothing : array[i].number());
  return numbers;
}

void add_learning(Json& sections, const Reading& result) {
  const auto epochs = result.find("epochs");
  if (!epochs || epochs->size() == 0) return;
  Json errors = epoch_chart(new_chart("How often the network is wrong", "epoch", "wrong, %"), *epochs,
                            {{"train_error", "training", 100}, {"test_error", "test", 100}});
  Json costs = epoch_chart(new_chart("Cost", "epoch", "mean cost"), *epochs,
                           {{"train_cost", "training"}, {"test_cost", "test"}});
  choose_scale(errors);
  choose_scale(costs);
  Json blocks = Json::array();
  add_charts(blocks, {std::move(errors), std::move(costs)});
  blocks.push_back(epoch_table(*epochs));
  add_section(sections, "learning", "Learning", std::move(blocks));
}

void add_gradients(Json& sections, const Reading& result) {
  Json charts = Json::array(), blocks = Json::array();
  if (const auto epochs = result.find("epochs")) {
    Json cosine = epoch_chart(new_chart("Cosine with the exact gradient", "epoch", "cosine"), *epochs,
                              {{"gradient_cosine", "cosine"}});
    Json error = epoch_chart(new_chart("Error relative to the exact gradient", "epoch", "relative error"),
                             *epochs, {{"gradient_error", "relative error"}});
    choose_scale(error);
    add_charts(charts, {std::move(cosine), std::move(error)});
  }
  if (const auto probe = result.find("probe"))
    if (Json table = probe_table(*probe); !table["rows"].empty()) blocks.push_back(std::move(table));
  for (Json& chart : charts) blocks.push_back(std::move(chart));
  if (blocks.empty()) return;
  blocks.insert(
      blocks.begin(),
      text_block("Equilibrium propagation reads the gradient off settled states, with and without a "
                 "nudge. Here it is compared with the gradient that is exact for the same network "
                 "and the same samples: a cosine of 1 is the same direction."));
  add_section(sections, "gradients", "Gradients", std::move(blocks));
  sections.back()["status"] = gradients_verdict(result);
}

void add_settings(Json& sections, const Reading& result) {
  Json parts = Json::array();
  if (const auto epochs = result.find("epochs")) {
    Json speed = epoch_chart(new_chart("Samples a second", "epoch", "samples a second"), *epochs,
                             {{"samples_per_second", "training"}});
    speed["y"]["min"] = 0;
    add_charts(parts, {std::move(speed)});
  }
  const auto add = [&](const char* title, const char* key, std::initializer_list<Setting> settings) {
    const auto given = result.find(key);
    Json table = given ? settings_table(title, *given, settings) : Json{{"rows", Json::array()}};
    if (!table["rows"].empty()) parts.push_back(std::move(table));
  };
  add("The network", "network",
      {{"energy", "Energy"},
       {"layers", "Layers"},
       {"activation", "Activation"},
       {"read_out", "Read-out"},
       {"input_gain", "Input gain"},
       {"gain", "Gain"},
       {"parameters", "Parameters"}});
  add("Learning", "settings",
      {{"estimator", "Estimator"},
       {"beta", "β"},
       {"optimizer", "Optimiser"},
       {"learning_rates", "Learning rates"},
       {"decay", "Decay an epoch"},
       {"weight_decay", "Weight decay"},
       {"batch", "Batch"},
       {"epochs", "Epochs"},
       {"seed", "Seed"},
       {"threads", "Threads"}});
  add("Settling", "settings",
      {{"schedule", "Schedule"},
       {"step", "Step"},
       {"free_steps", "Free steps"},
       {"nudged_steps", "Nudged steps"},
       {"tolerance", "Tolerance"},
       {"persistent", "Persistent states"},
       {"noise", "Noise"}});
  if (parts.empty()) return;
  Json block{{"type", "columns"}, {"blocks", std::move(parts)}};
  add_section(sections, "settings", "Speed and settings", std::move(block));
}

void add_relaxation(Json& sections, const Reading& result) {
  Json blocks = Json::array();
  std::vector<Phase> nudged;
  double handover = 0;
  Json free_energy = new_chart("Free phase: mean energy", "step", "energy"),
       nudged_energy = new_chart("Nudged phases: mean energy", "step after the nudge", "energy"),
       moved = new_chart("Movement from step to step", "step", "mean movement", true);
  const auto relaxation = result.find("relaxation");
  if (const auto given = relaxation ? relaxation->find("nudged") : std::nullopt)
    for (const Reading one : *given) {
      const double beta = number_or_nan(one, "beta");
      nudged.emplace_back(one, std::isfinite(beta) ? fmt::format("β = {}", number_word(beta)) : "nudged");
    }
  if (const auto given = relaxation ? relaxation->find("free") : std::nullopt) {
    const Phase free(*given, "free");
    handover = free.last_step();
    if (std::string text = how_it_settled(free); !text.empty()) blocks.push_back(text_block(std::move(text)));
    add_series(free_energy, free.name, points_of(free.energy, 0));
    add_series(moved, free.name, points_of(free.moved, free.first_move()));
    // The nudged phases are seen to leave the free one, which has its colour in all charts.
    std::size_t before = 0;
    for (const Phase& one : nudged) before = std::max(before, one.energy.size());
    before = std::min(before, free.energy.size());
    if (before > 0)
      add_series(nudged_energy, free.name,
                 points_of({free.energy.end() - static_cast<std::ptrdiff_t>(before), free.energy.end()},
                           1 - static_cast<double>(before)));
  }
  for (const Phase& one : nudged) {
    add_series(nudged_energy, one.name, points_of(one.energy, 0));
    add_series(moved, one.name, points_of(one.moved, handover + one.first_move()));
  }
  if (handover > 0 && !nudged.empty())
    moved["caption"] = "The nudged phases start from the state in which the free phase ends.";
  std::vector<Json> movements{std::move(moved)};
  if (const auto epochs = result.find("epochs"))
    movements.push_back(
        epoch_chart(new_chart("Movement left at the end of the free phase", "epoch", "mean movement", true),
                    *epochs, {{"relaxation_residual", "movement left"}}));
  add_charts(blocks, {std::move(free_energy), std::move(nudged_energy)});
  add_charts(blocks, std::move(movements));
  add_section(sections, "relaxation", "How it settles", std::move(blocks));
}

}  // namespace report
