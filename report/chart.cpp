#include "chart.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace report {
namespace {

double rounded(double value, int digits) {
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double result = value;  // stays where rounding up would overflow
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

/// Smaller numbers are zero: Chart.js multiplies a step by ten until it is whole, and never ends if the
/// factor overflows before.
double flushed(double value) {
  return std::abs(value) < 1e-250 ? 0 : value;
}

Json compact(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  const double short_value = rounded(value, digits);
  if (short_value == std::round(short_value) && std::abs(short_value) < 1e6)
    return static_cast<int>(short_value);
  return short_value;
}

/// A number, or NaN for null, which is a gap.
double number_or_gap(const Reading& array, std::size_t i) {
  const Json& value = array.json()[i];
  if (value.is_number()) return value.get<double>();
  if (!value.is_null()) array[i].fail(fmt::format("must be a number or null, is {}", value.type_name()));
  return std::numeric_limits<double>::quiet_NaN();
}

using Numbers = std::vector<double>;

struct Axis {
  std::string name;
  bool log = false;
  std::optional<double> min, max;
  double smallest = infinity, largest = -infinity;

  /// Takes a number of the data; what the axis cannot show becomes NaN.
  double take(double value) {
    value = flushed(value);
    if (!std::isfinite(value) || (log && value <= 0)) return std::numeric_limits<double>::quiet_NaN();
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    return value;
  }

  /// Six digits are more than a screen shows, and a third of the size; a narrow range far from zero needs
  /// more.
  int digits() const {
    const double low = min.value_or(smallest), high = max.value_or(largest);
    return high - low < 1e-3 * std::max(std::abs(low), std::abs(high)) ? 9 : 6;
  }

  Json compacted(const Numbers& numbers) const {
    Json list = Json::array();
    for (const double number : numbers) list.push_back(compact(number, digits()));
    return list;
  }

  Json json() const {
    Json result = Json::object();
    if (!name.empty()) result["name"] = name;
    if (log) result["log"] = true;
    if (min) result["min"] = compact(*min, digits());
    if (max) result["max"] = compact(*max, digits());
    return result;
  }
};

Axis read_axis(const Reading& block, const char* key) {
  Axis axis;
  const auto found = block.find(key);
  if (!found) return axis;
  axis.name = found->text_or_empty("name");
  if (const auto scale = found->find("scale")) {
    const std::string name = scale->text();
    if (name != "linear" && name != "log") scale->fail("must be linear or log, is " + name);
    axis.log = name == "log";
  }
  const auto read_end = [&](const char* key_of_end) -> std::optional<double> {
    const auto end = found->find(key_of_end);
    if (!end || !std::isfinite(end->number())) return std::nullopt;
    const double value = flushed(end->number());
    if (axis.log && value <= 0) end->fail("must be positive on a log scale");
    return value;
  };
  axis.min = read_end("min");
  axis.max = read_end("max");
  if (axis.min && axis.max && *axis.min >= *axis.max) found->fail("min must be smaller than max");
  return axis;
}

struct Series {
  std::string name, style;
  Numbers x, y;
};

/// Adds what `axis` takes of `value` to `numbers`; returns whether it is omitted, as a log axis cannot show
/// it.
bool add(Numbers& numbers, double value, Axis& axis) {
  numbers.push_back(axis.take(value));
  return axis.log && flushed(value) <= 0;
}

Series read_series(const Reading& series, Axis& x, Axis& y, std::size_t categories, bool horizontal,
                   int& omitted) {
  constexpr std::array styles{"line", "dashed", "dots", "path", "bars"};
  const Reading style = series.at("style");
  Series result;
  result.style = style.text();
  if (std::find(styles.begin(), styles.end(), result.style) == styles.end())
    style.fail("must be line, dashed, dots, path or bars, is " + result.style);
  result.name = series.text("name");

  if (categories > 0) {
    const Reading values = series.at("values");
    if (values.size() != categories)
      values.fail(fmt::format("has {} elements, the chart {} categories", values.size(), categories));
    if (horizontal && result.style != "bars" && result.style != "dots")
      style.fail("must be bars or dots in a horizontal chart, is " + result.style);
    for (std::size_t i = 0; i < categories; ++i)
      omitted += add(horizontal ? result.x : result.y, number_or_gap(values, i), horizontal ? x : y);
    return result;
  }
  if (result.style == "bars") series.fail("bars need categories");
  const Reading points = series.at("points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points.json()[i].is_array() || points.json()[i].size() != 2)
      points[i].fail("must be a pair of numbers");
    const Reading point = points[i];
    const bool no_x = add(result.x, number_or_gap(point, 0), x);
    const bool no_y = add(result.y, number_or_gap(point, 1), y);
    omitted += no_x || no_y;
  }
  return result;
}

/// The grid of a field. Its numbers stay even where a log axis cannot show them.
Numbers increasing(const Reading& grid, Axis& axis) {
  Numbers list;
  double last = -infinity;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double value = number_or_gap(grid, i);
    if (!(value > last)) grid.fail("must be increasing");
    axis.take(value);
    list.push_back(flushed(last = value));
  }
  if (list.size() < 2) grid.fail("must have at least two elements");
  return list;
}

struct Field {
  Numbers x, y;
  Json shades = Json::array();
};

Field read_field(const Reading& field, Axis& x_axis, Axis& y_axis, Chart& chart) {
  Field result{increasing(field.at("x"), x_axis), increasing(field.at("y"), y_axis)};
  const Numbers &x = result.x, &y = result.y;
  const Reading rows = field.at("values");
  if (rows.size() != y.size())
    rows.fail(fmt::format("has {} rows, \"y\" {} elements", rows.size(), y.size()));
  Numbers values;
  double smallest = infinity, largest = -infinity;
  for (const Reading row : rows) {
    if (row.size() != x.size()) row.fail(fmt::format("has {} elements, \"x\" {}", row.size(), x.size()));
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double value = number_or_gap(row, j);
      values.push_back(value);
      if (!std::isfinite(value)) continue;
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
  }
  for (const double value : values) {
    const double share = largest > smallest ? (value - smallest) / (largest - smallest) : 0.5;
    result.shades.push_back(std::isfinite(value) ? Json(static_cast<int>(std::lround(255 * share)))
                                                 : Json(nullptr));
  }
  chart.field_name = field.text("name");
  // The ends of a scale of greys: three digits, and rounding errors are zero.
  const auto end = [&](double value) {
    const double size = std::max(std::abs(smallest), std::abs(largest));
    return std::abs(value) < 1e-9 * size ? std::string("0") : number_text(rounded(value, 3));
  };
  chart.field_smallest = end(smallest);
  chart.field_largest = end(largest);
  return result;
}

}  // namespace

Chart read_chart(const Reading& block) {
  Chart chart;
  Axis x = read_axis(block, "x"), y = read_axis(block, "y");

  Json categories = Json::array();
  if (const auto found = block.find("categories"))
    for (const Reading name : *found) categories.push_back(name.text());
  const auto lying = block.find("horizontal");
  const bool horizontal = lying && lying->truth();
  if (horizontal && categories.empty()) lying->fail("needs categories");
  if (!categories.empty() && (horizontal ? y : x).log) block.fail("categories have no log scale");

  const std::string title = block.text("title");
  chart.spoken = title.empty() ? "Chart" : title;
  if (!y.name.empty() && !x.name.empty())
    chart.spoken += fmt::format(". {} over {}", y.name, x.name);
  else if (!y.name.empty() || !x.name.empty())
    chart.spoken += ". " + y.name + x.name;

  std::vector<Series> all;
  int omitted = 0;
  for (const Reading series : block.at("series")) {
    chart.spoken += all.empty() ? ": " : ", ";
    all.push_back(read_series(series, x, y, categories.size(), horizontal, omitted));
    chart.spoken += all.back().name;
  }
  std::optional<Field> background;
  if (const auto field = block.find("field")) background = read_field(*field, x, y, chart);
  if (all.empty() && chart.field_name.empty()) block.fail("there is nothing to draw");

  // How many digits to write is known only now that the axes have seen all of the data.
  chart.drawing = {{"x", x.json()}, {"y", y.json()}, {"series", Json::array()}};
  for (const Series& one : all) {
    Json written{{"name", one.name}, {"style", one.style}};
    if (categories.empty() || horizontal) written["x"] = x.compacted(one.x);
    if (!horizontal) written["y"] = y.compacted(one.y);
    chart.drawing["series"].push_back(std::move(written));
  }
  if (!categories.empty()) chart.drawing["categories"] = std::move(categories);
  if (horizontal) chart.drawing["horizontal"] = true;
  if (background)
    chart.drawing["field"] = {{"x", x.compacted(background->x)},
                              {"y", y.compacted(background->y)},
                              {"shades", std::move(background->shades)}};
  if (omitted > 0)
    chart.omitted = fmt::format("Not drawn: {} {} at or below zero, which a logarithmic axis cannot show.",
                                omitted, omitted == 1 ? "point" : "points");
  return chart;
}

}  // namespace report
