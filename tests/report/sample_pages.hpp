#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace report_test {

using Json = nlohmann::ordered_json;

/// The blocks of the section of this name; none where the page has no such section.
inline Json blocks(const Json& page, const std::string& id) {
  for (const Json& one : page["sections"])
    if (one["id"] == id) return one["blocks"];
  return Json::array();
}

/// Points (x, f(x)) for `count` values of x, evenly spaced, or in ratio if `log`.
template <typename Function>
Json points(double from, double to, int count, bool log, Function f) {
  Json list = Json::array();
  for (int i = 0; i < count; ++i) {
    const double share = i / (count - 1.0);
    const double x = log ? from * std::pow(to / from, share) : from + (to - from) * share;
    list.push_back({x, f(x)});
  }
  return list;
}

inline Json log_chart() {
  Json measured = points(1e-6, 10, 33, true, [](double b) { return 1e-7 / b + b / (1 + b); });
  measured[5][1] = nullptr;
  measured[6][1] = 0;
  return {{"type", "chart"},
          {"label", "Figure 2A"},
          {"title", "Error over β"},
          {"caption", "The error is smallest where bias and noise are equal."},
          {"x", {{"name", "β"}, {"scale", "log"}}},
          {"y", {{"name", "‖∇̂ − ∇‖"}, {"scale", "log"}, {"min", 1e-5}, {"max", 10}}},
          {"series",
           {{{"name", "measured"}, {"style", "dots"}, {"points", measured}},
            {{"name", "theory"}, {"style", "dashed"}, {"points", points(1e-6, 10, 60, true, [](double b) {
                                                         return 2e-7 / b + 1.5 * b / (1 + b);
                                                       })}}}}};
}

inline Json line_chart() {
  Json chart{{"type", "chart"},
             {"label", "Figure 1A"},
             {"title", "L_in = φ⁴ − θφ² for several θ"},
             {"caption", "Lines that leave the range are cut."},
             {"x", {{"name", "φ"}, {"scale", "linear"}}},
             {"y", {{"name", "L_in"}, {"min", -1.2}, {"max", 2}}},
             {"series", Json::array()}};
  for (const double theta : {-1.0, 0.0, 1.0, 2.0})
    chart["series"].push_back(
        {{"name", fmt::format("θ = {:g}", theta)},
         {"style", "line"},
         {"points", points(-1.5, 1.5, 121, false, [&](double p) { return p * p * p * p - theta * p * p; })}});
  return chart;
}

inline Json field_chart() {
  Json x = Json::array(), y = Json::array(), values = Json::array(), path = Json::array();
  for (int i = 0; i <= 40; ++i) x.push_back(-2 + 0.1 * i);
  for (int i = 0; i <= 30; ++i) y.push_back(-1.5 + 0.1 * i);
  for (const double b : y) {
    Json row = Json::array();
    for (const double a : x) row.push_back(std::pow(a - 1, 2) + 3 * std::pow(b - 0.3 * a, 2));
    values.push_back(row);
  }
  for (int i = 0; i < 14; ++i)
    path.push_back({1 - 2.6 * std::pow(0.75, i), 0.3 + 1.2 * std::pow(0.6, i) * (i % 2 == 0 ? -1 : 1)});
  return {{"type", "chart"},
          {"label", "Figure 3"},
          {"title", "A trajectory over L_out"},
          {"caption", "From left to right."},
          {"x", {{"name", "φ₁"}}},
          {"y", {{"name", "φ₂"}}},
          {"series", {{{"name", "descent"}, {"style", "path"}, {"points", path}}}},
          {"field", {{"name", "L_out"}, {"x", x}, {"y", y}, {"values", values}}}};
}

inline Json bar_chart() {
  return {{"type", "chart"},
          {"title", "Cost to an error of 10⁻³"},
          {"caption", "Fewer is better."},
          {"categories", {"first order", "recurrent", "conjugate gradient", "equilibrium propagation"}},
          {"x", {{"name", "method"}}},
          {"y", {{"name", "products"}, {"scale", "log"}}},
          {"series",
           {{{"name", "κ = 10"}, {"style", "bars"}, {"values", {1, 103, 27, 34}}},
            {{"name", "κ = 10⁴"}, {"style", "bars"}, {"values", {nullptr, 144615, 107, 668}}}}}};
}

/// Table 1 of the paper: eight columns, most of short texts.
inline Json wide_table() {
  return Json::parse(R"json({"type": "table", "label": "Table 1", "title": "Methods",
    "columns": ["method", "efficiency (paper)", "cost to 10⁻³ at κ = 10, 10², 10³, 10⁴",
                "error at 100 equivalents, κ = 10³", "robustness (paper)", "indefinite Hessian at φ̂",
                "simplicity (paper)", "oracles of phase 2"],
    "rows": [["First-order approximation", "+", "never, never, never, never", "1.0e+00", "+++",
              "finite 100 %; error 1 by definition", "+++", "∂θ L_out"],
             ["Recurrent backpropagation", "++", "129, 1381, 15027, 144249", "9.5e-01", "++",
              "diverges 100 %, 100 % flagged; error after 300 terms 2e+89", "+",
              "∂φ L_out, ∂θ L_out, ∂φ² L_in·v, v·∂θ∂φ L_in"]]})json");
}

inline Json horizontal_chart() {
  return {{"type", "chart"},
          {"title", "Penalties"},
          {"horizontal", true},
          {"categories", {"age", "blood pressure, the mean of three measurements", "weight"}},
          {"x", {{"name", "log λ"}}},
          {"y", {{"name", "feature"}}},
          {"series",
           {{{"name", "free"}, {"style", "dots"}, {"values", {-3.5, nullptr, 2}}},
            {{"name", "at a bound"}, {"style", "bars"}, {"values", {nullptr, 10, nullptr}}}}}};
}

/// More rows than are shown at once; only few of its cells are text.
inline Json long_table() {
  Json rows = Json::array();
  for (int i = 0; i < 205; ++i) rows.push_back({i, 1.0 / (i + 1), "–"});
  rows[0][2] = "the first row";
  rows[204] = {
      204, {{"text", "the last row"}, {"link", "#charts"}}, {{"text", "marked"}, {"status", "trusted"}}};
  return {{"type", "table"},   {"title", "Two hundred and five rows"},     {"search", true},
          {"caption", "Cut."}, {"columns", {"number", "inverse", "note"}}, {"rows", rows}};
}

/// Two images: half paper and half ink, and a single pixel.
inline Json image_block() {
  return Json::parse(R"json({"type": "images", "title": "Images", "caption": "Two of them.", "items": [
    {"width": 4, "height": 2, "pixels": "AAAAAP////8=", "caption": "below is ink", "status": "corrupted"},
    {"width": 1, "height": 1, "pixels": "gA=="}]})json");
}

/// Four numbers with signs: −0.5, 0, 0.25 and 0.5.
inline Json signed_block() {
  return Json::parse(R"json({"type": "images", "title": "Signed images", "range": 0.5, "items": [
    {"width": 2, "height": 2, "pixels": "AYDA/w=="}]})json");
}

inline Json confusion_block() {
  return Json::parse(R"json({"type": "confusion", "title": "Taken for", "caption": "Two of eight are wrong.",
    "classes": ["cat", "dog", "owl"], "counts": [[4, 1, 0], [1, 2, 0], [0, 0, 0]]})json");
}

/// A page with every kind of block and every field.
inline Json gallery() {
  Json text{{"type", "text"}, {"text", "The first paragraph.\n\nThe second one, with π* = −dφ_β/dβ."}};
  Json list{{"type", "list"}, {"items", {"one", "two", {{"text", "the charts"}, {"link", "#charts"}}}}};
  Json code{{"type", "code"}, {"text", "bilevel paper --seed 1 \\\n    --report FILE.html"}};
  // From text, as the initialisers of a list of pairs would make an object of it.
  Json facts{{"type", "facts"}, {"items", Json::parse(R"([["seed", "1"], ["a longer name", "a text"],
                                      [{"text": "linked", "link": "#charts"}, 0.25]])")}};
  Json table{{"type", "table"},
             {"label", "Table 1"},
             {"title", "Methods"},
             {"caption", "A caption."},
             {"source", {{"text", "where from"}, {"link", "#charts"}}},
             {"columns", {"method", "error", "digits", "status"}},
             {"rows",
              {{"implicit", 1.5e-9, "−12.5", {{"status", "holds"}}},
               {{{"text", "unrolled"}, {"link", "#blocks"}}, 0.25, "3.1e-05", {{"status", "fails"}}},
               {"neither", 1234567, "40 %", {{"text", "see"}, {"status", "untried"}}}}}};
  Json pair{{"type", "columns"}, {"blocks", {line_chart(), log_chart()}}};
  return {{"title", "Every block"},
          {"lead", "A page with every kind of block.\n\nIts lead has two paragraphs."},
          {"facts", Json::parse(R"([["seed", "1"], ["result", {"text": "3 of 3", "status": "holds"}]])")},
          {"sections",
           {{{"id", "blocks"}, {"title", "Words"}, {"blocks", {text, list, code, facts, table}}},
            {{"id", "charts"}, {"title", "Charts"}, {"blocks", {pair}}},
            {{"id", "more"},
             {"title", "More charts"},
             {"level", 2},
             {"status", "holds"},
             {"blocks", {field_chart(), bar_chart()}}},
            {{"id", "open"}, {"title", "Another status"}, {"level", 2}, {"status", "untried"}},
            {{"id", "long"},
             {"title", "Long tables and images"},
             {"blocks",
              {{{"type", "notice"}, {"text", "Take care.\n\nTwice."}},
               long_table(),
               image_block(),
               horizontal_chart(),
               signed_block(),
               confusion_block()}}}}}};
}

inline constexpr int gallery_charts = 5;

/// Text that would do harm if any of it were taken for more than text.
inline const std::string& hostile() {
  using namespace std::string_literals;
  static const std::string text =
      "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"><svg onload=alert(3)>' "
      "onclick=alert(4) <!--<script> --> ]]> </style></title></textarea>&lt;\xE2\x80\xA8\xE2\x80\xA9\xFF\0\x1B${1}`\\"s;
  return text;
}

/// Every string of `page` that is not a keyword of the schema.
inline void collect_strings(Json& value, const std::string& key, std::vector<std::string*>& strings) {
  if (value.is_string() && key != "type" && key != "style" && key != "scale" && key != "pixels")
    strings.push_back(value.get_ptr<std::string*>());
  if (value.is_array())
    for (Json& element : value) collect_strings(element, key, strings);
  if (value.is_object())
    for (auto& [name, member] : value.items()) collect_strings(member, name, strings);
}

inline std::vector<std::string*> strings_of(Json& page) {
  std::vector<std::string*> strings;
  collect_strings(page, "", strings);
  return strings;
}

/// A result of `bilevel paper` as large as the real one: 36 claims, 60 charts of four series with 200 points.
inline Json paper_result(int claims = 36, int charts = 60) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  Json list = Json::array();
  for (int c = 0; c < claims; ++c) {
    Json blocks = Json::array();
    for (int k = c; k < charts; k += claims) {
      Json series = Json::array();
      for (const char* style : {"line", "dashed", "dots", "path"}) {
        double height = 0;
        series.push_back(
            {{"name", fmt::format("{} of {}", style, k)},
             {"style", style},
             {"points", points(0, 1, 200, false, [&](double) { return height += normal(engine); })}});
      }
      const std::string label = k < 8 ? fmt::format("Figure {}{}", 1 + k / 2, k % 2 == 0 ? 'A' : 'B') : "";
      blocks.push_back({{"type", "chart"},
                        {"label", label},
                        {"title", fmt::format("Random walks, number {}", k)},
                        {"x", {{"name", "time"}}},
                        {"y", {{"name", "height"}}},
                        {"series", series}});
    }
    if (c == 25)
      blocks.push_back({{"type", "table"},
                        {"label", "Table 1"},
                        {"title", "Methods"},
                        {"columns", {"a", "b"}},
                        {"rows", Json::parse(R"([["x", "1"]])")}});
    const bool holds = c != 9;
    list.push_back(
        {{"name", fmt::format("claim-{}", c)},
         {"title", fmt::format("What claim number {} of the paper says in a few words", c)},
         {"place", "Section 2.1, Figure 1"},
         {"statement",
          "For L_in = φ⁴ − θφ² the stationary points are {0} for θ ≤ 0 and {0, ±√(θ/2)} for θ > 0. At θ = 0 "
          "the "
          "Hessian 12φ² − 2θ vanishes at φ = 0, no implicit function exists there, and no outer gradient."},
         {"protocol",
          "Newton's method from 200 starts for each of 13 values of θ collects the stationary set. The "
          "sensitivity dφ*/dθ of the upper branch is the outer gradient of L_out = ½(φ − y)² divided by φ* − "
          "y."},
         {"truth", "Closed forms: the roots of 4φ³ − 2θφ, the Hessian 12φ² − 2θ, dφ*/dθ = 1/(4φ*)."},
         {"slip", c % 7 == 3 ? "The text says π* = dφ_β/dβ; stationarity gives −π*." : ""},
         {"expected", "1 or 3 roots; 1/(4φ*); refusal at θ = 0"},
         {"measured", "0 of 13 sets wrong; 2e-16; refused"},
         {"holds", holds},
         {"seconds", 0.25},
         {"checks",
          {{{"what", "values of θ with a wrong number of stationary points"},
            {"expected", "0 of 13"},
            {"measured", "0 of 13"},
            {"holds", true}},
           {{"what", "dφ*/dθ against 1/(4φ*), relative"},
            {"expected", "≤ 1e-08"},
            {"measured", "2.2e-16"},
            {"holds", holds}}}},
         {"blocks", blocks}});
  }
  return {
      {"version", "0.2.0"},   {"seed", 1},      {"seconds", 31.4}, {"planted", ""}, {"asked", Json::array()},
      {"interrupted", false}, {"holds", false}, {"claims", list}};
}

}  // namespace report_test
