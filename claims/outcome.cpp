#include "outcome.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace claims {
namespace {

Json number(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json axis(std::string name, bool logarithmic) {
  return {{"name", std::move(name)}, {"scale", logarithmic ? "log" : "linear"}};
}

}  // namespace

Chart::Chart(std::string title, std::string label)
    : json{{"type", "chart"}, {"label", std::move(label)}, {"title", std::move(title)}} {
  json["series"] = Json::array();
}

Chart& Chart::x(std::string name, bool logarithmic) {
  json["x"] = axis(std::move(name), logarithmic);
  return *this;
}

Chart& Chart::y(std::string name, bool logarithmic) {
  json["y"] = axis(std::move(name), logarithmic);
  return *this;
}

Chart& Chart::y_range(double from, double to) {
  json["y"]["min"] = from;
  json["y"]["max"] = to;
  return *this;
}

Chart& Chart::caption(std::string text) {
  json["caption"] = std::move(text);
  return *this;
}

Chart& Chart::series(std::string name, const char* style, const std::vector<double>& x,
                     const std::vector<double>& y) {
  Json points = Json::array();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    points.push_back(Json::array({number(x[i]), number(y[i])}));
  json["series"].push_back({{"name", std::move(name)}, {"style", style}, {"points", std::move(points)}});
  return *this;
}

Chart& Chart::line(std::string name, const std::vector<double>& x, const std::vector<double>& y,
                   bool dashed) {
  return series(std::move(name), dashed ? "dashed" : "line", x, y);
}

Chart& Chart::dots(std::string name, const std::vector<double>& x, const std::vector<double>& y) {
  return series(std::move(name), "dots", x, y);
}

Chart& Chart::path(std::string name, const std::vector<double>& x, const std::vector<double>& y) {
  return series(std::move(name), "path", x, y);
}

Chart& Chart::field(std::string name, const std::vector<double>& x, const std::vector<double>& y,
                    const std::vector<std::vector<double>>& values) {
  Json rows = Json::array();
  for (const auto& row : values) rows.push_back(numbers(row));
  json["field"] = {{"name", std::move(name)}, {"x", numbers(x)}, {"y", numbers(y)}, {"values", rows}};
  return *this;
}

Chart& Chart::bars(std::string name, const std::vector<std::string>& categories,
                   const std::vector<double>& values) {
  json["categories"] = categories;
  json["series"].push_back({{"name", std::move(name)}, {"style", "bars"}, {"values", numbers(values)}});
  return *this;
}

Table::Table(std::string title, std::vector<std::string> columns, std::string label)
    : json{{"type", "table"}, {"label", std::move(label)}, {"title", std::move(title)}} {
  json["columns"] = std::move(columns);
  json["rows"] = Json::array();
}

Table& Table::row(const std::vector<std::string>& cells) {
  json["rows"].push_back(cells);
  return *this;
}

Table& Table::caption(std::string text) {
  json["caption"] = std::move(text);
  return *this;
}

void Outcome::check(std::string what, std::string expected, std::string found, bool holds) {
  checks_.push_back({std::move(what), std::move(expected), std::move(found), holds});
}

void Outcome::near(std::string what, double expected, double found, double tolerance) {
  check(std::move(what), fmt::format("{:.6g} ± {:.2g}", expected, tolerance), fmt::format("{:.6g}", found),
        std::abs(found - expected) <= tolerance);
}

void Outcome::at_most(std::string what, double limit, double found) {
  check(std::move(what), limit == 0 ? "exactly 0" : fmt::format("≤ {:.3g}", limit),
        fmt::format("{:.3g}", found), found >= 0 && found <= limit);
}

void Outcome::at_least(std::string what, double limit, double found) {
  check(std::move(what), fmt::format("≥ {:.3g}", limit), fmt::format("{:.3g}", found), found >= limit);
}

void Outcome::all_of(std::string what, long count, long total) {
  check(std::move(what), fmt::format("{0} of {0}", total), fmt::format("{} of {}", count, total),
        count == total);
}

void Outcome::none_of(std::string what, long count, long total) {
  check(std::move(what), fmt::format("0 of {}", total), fmt::format("{} of {}", count, total), count == 0);
}

void Outcome::note(std::string text) {
  blocks_.push_back({{"type", "text"}, {"text", std::move(text)}});
}

bool Outcome::holds() const {
  return !checks_.empty() &&
         std::all_of(checks_.begin(), checks_.end(), [](const Check& c) { return c.holds; });
}

}  // namespace claims
