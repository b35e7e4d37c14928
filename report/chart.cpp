#include "chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace report {
namespace {

/// Six significant digits are more than a screen shows, and a third of the size.
Json compact(double value) {
  if (!std::isfinite(value)) return nullptr;
  const double rounded = std::stod(fmt::format("{:.6g}", value));
  if (rounded == std::round(rounded) && std::abs(rounded) < 1e6) return static_cast<int>(rounded);
  return rounded;
}

/// A number, or NaN for null, which is a gap.
double number_or_gap(const Reading& array, std::size_t i) {
  const Json& value = array.json()[i];
  if (value.is_number()) return value.get<double>();
  if (!value.is_null()) array[i].fail(fmt::format("must be a number or null, is {}", value.type_name()));
  return std::numeric_limits<double>::quiet_NaN();
}

struct Axis {
  Json json;
  std::string name;
  bool log = false;
};

Axis read_axis(const Reading& block, const char* key) {
  Axis axis;
  axis.json = Json::object();
  const auto found = block.find(key);
  if (!found) return axis;
  axis.name = found->text_or_empty("name");
  if (!axis.name.empty()) axis.json["name"] = axis.name;
  if (const auto scale = found->find("scale")) {
    const std::string name = scale->text();
    if (name != "linear" && name != "log") scale->fail("must be linear or log, is " + name);
    axis.log = name == "log";
    if (axis.log) axis.json["log"] = true;
  }
  std::array<double, 2> range{};
  int ends = 0;
  for (const char* end : {"min", "max"}) {
    const auto limit = found->find(end);
    if (!limit || !std::isfinite(limit->number())) continue;
    if (axis.log && limit->number() <= 0) limit->fail("must be positive on a log scale");
    axis.json[end] = compact(limit->number());
    range[static_cast<std::size_t>(ends++)] = limit->number();
  }
  if (ends == 2 && range[0] >= range[1]) found->fail("min must be smaller than max");
  return axis;
}

/// Collects the numbers of one coordinate; what a log axis cannot show is counted and becomes a gap.
struct Numbers {
  bool log;
  Json list = Json::array();
  int omitted = 0;

  bool add(double value) {
    const bool impossible = log && value <= 0;
    list.push_back(impossible ? Json(nullptr) : compact(value));
    return impossible;
  }
};

Json read_series(const Reading& series, const Axis& x, const Axis& y, std::size_t categories, int& omitted) {
  constexpr std::array styles{"line", "dashed", "dots", "path", "bars"};
  const Reading style = series.at("style");
  const std::string name = style.text();
  if (std::find(styles.begin(), styles.end(), name) == styles.end())
    style.fail("must be line, dashed, dots, path or bars, is " + name);
  Json result{{"name", series.text("name")}, {"style", name}};

  Numbers xs{x.log}, ys{y.log};
  if (categories > 0) {
    const Reading values = series.at("values");
    if (values.size() != categories)
      values.fail(fmt::format("has {} elements, the chart {} categories", values.size(), categories));
    for (std::size_t i = 0; i < categories; ++i) omitted += ys.add(number_or_gap(values, i));
  } else {
    if (name == "bars") series.fail("bars need categories");
    const Reading points = series.at("points");
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!points.json()[i].is_array() || points.json()[i].size() != 2)
        points[i].fail("must be a pair of numbers");
      const Reading point = points[i];
      const bool no_x = xs.add(number_or_gap(point, 0));
      const bool no_y = ys.add(number_or_gap(point, 1));
      omitted += no_x || no_y;
    }
    result["x"] = std::move(xs.list);
  }
  result["y"] = std::move(ys.list);
  return result;
}

Json increasing(const Reading& grid) {
  Json list = Json::array();
  double last = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double value = number_or_gap(grid, i);
    if (!(value > last)) grid.fail("must be increasing");
    list.push_back(compact(last = value));
  }
  if (list.size() < 2) grid.fail("must have at least two elements");
  return list;
}

void read_field(const Reading& field, Chart& chart) {
  Json x = increasing(field.at("x")), y = increasing(field.at("y"));
  const Reading rows = field.at("values");
  if (rows.size() != y.size())
    rows.fail(fmt::format("has {} rows, \"y\" {} elements", rows.size(), y.size()));
  std::vector<double> values;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Reading row = rows[i];
    if (row.size() != x.size()) row.fail(fmt::format("has {} elements, \"x\" {}", row.size(), x.size()));
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double value = number_or_gap(row, j);
      values.push_back(value);
      if (!std::isfinite(value)) continue;
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
  }
  Json shades = Json::array();
  for (const double value : values) {
    const double share = largest > smallest ? (value - smallest) / (largest - smallest) : 0.5;
    shades.push_back(std::isfinite(value) ? Json(static_cast<int>(std::lround(255 * share))) : Json(nullptr));
  }
  chart.field_name = field.text("name");
  // The ends of a scale of greys: three digits, and rounding errors are zero.
  const auto end = [&](double value) {
    const double size = std::max(std::abs(smallest), std::abs(largest));
    return std::abs(value) < 1e-9 * size ? std::string("0")
                                         : number_text(std::stod(fmt::format("{:.3g}", value)));
  };
  chart.field_smallest = end(smallest);
  chart.field_largest = end(largest);
  chart.drawing["field"] = {{"x", std::move(x)}, {"y", std::move(y)}, {"shades", std::move(shades)}};
}

}  // namespace

Chart read_chart(const Reading& block) {
  Chart chart;
  const Axis x = read_axis(block, "x"), y = read_axis(block, "y");
  chart.drawing = {{"x", x.json}, {"y", y.json}};

  Json categories = Json::array();
  if (const auto found = block.find("categories"))
    for (std::size_t i = 0; i < found->size(); ++i) categories.push_back((*found)[i].text());
  if (!categories.empty() && x.log) block.fail("categories have no log scale");

  const std::string title = block.text("title");
  chart.spoken = title.empty() ? "Chart" : title;
  if (!y.name.empty() && !x.name.empty())
    chart.spoken += fmt::format(". {} over {}", y.name, x.name);
  else if (!y.name.empty() || !x.name.empty())
    chart.spoken += ". " + y.name + x.name;

  const Reading series = block.at("series");
  chart.drawing["series"] = Json::array();
  int omitted = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    chart.drawing["series"].push_back(read_series(series[i], x, y, categories.size(), omitted));
    chart.spoken += (i == 0 ? ": " : ", ") + chart.drawing["series"][i]["name"].get<std::string>();
  }
  if (!categories.empty()) chart.drawing["categories"] = std::move(categories);
  if (const auto field = block.find("field")) read_field(*field, chart);
  if (series.size() == 0 && chart.field_name.empty()) block.fail("there is nothing to draw");
  if (omitted > 0)
    chart.omitted = fmt::format("Not drawn: {} {} at or below zero, which a logarithmic axis cannot show.",
                                omitted, omitted == 1 ? "point" : "points");
  return chart;
}

}  // namespace report
