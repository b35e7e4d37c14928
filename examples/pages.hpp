// What examples with a report share: blocks of its page (docs/report.md) and their files.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/outcome/violations.hpp>
#if __has_include(<report/page.hpp>)
#include <report/page.hpp>
#define BILEVEL_WITH_REPORT
#endif

#include "arguments.hpp"

namespace pages {

using Json = nlohmann::ordered_json;

/// One curve, or one set of bars where `categories` are given and the values are numbers.
struct Series {
  std::string name;
  Json points;
  std::string style = "line";
};

inline Json chart(const std::string& title, const std::string& x, const std::string& y,
                  const std::vector<Series>& series, const std::string& caption = {},
                  const std::vector<std::string>& categories = {}) {
  Json block{{"type", "chart"},
             {"title", title},
             {"x", {{"name", x}}},
             {"y", {{"name", y}}},
             {"series", Json::array()}};
  if (!caption.empty()) block["caption"] = caption;
  if (!categories.empty()) block["categories"] = categories;
  for (const Series& s : series)
    block["series"].push_back(
        {{"name", s.name}, {"style", s.style}, {categories.empty() ? "points" : "values", s.points}});
  return block;
}

/// The same with a scale, linear or log, for one of its axes.
inline Json scaled(Json chart, const char* axis, const std::string& scale) {
  chart[axis]["scale"] = scale;
  return chart;
}

inline Json table(const std::vector<std::string>& columns, const Json& rows) {
  return {{"type", "table"}, {"columns", columns}, {"rows", rows}};
}

inline Json text(const std::string& words) {
  return {{"type", "text"}, {"text", words}};
}

inline Json section(const std::string& title, const std::vector<Json>& blocks) {
  return {{"title", title}, {"blocks", blocks}};
}

/// Throws InvalidInput where the file cannot be written.
inline void write_file(const std::string& file, const std::string& contents) {
  if (const std::string why = bilevel::replace_file(file, contents); !why.empty())
    throw bilevel::InvalidInput(why);
}

#ifdef BILEVEL_WITH_REPORT
constexpr bool with_reports = true;
#else
constexpr bool with_reports = false;
#endif

/// The same of a page, as HTML.
inline void write_page(const std::string& file, [[maybe_unused]] const Json& page) {
#ifdef BILEVEL_WITH_REPORT
  write_file(file, report::render(page));
#else
  throw bilevel::InvalidInput(
      fmt::format("--report {}: built without reports, which come with BILEVEL_APPS=ON", file));
#endif
}

/// Throws InvalidInput, before any work, where a report is asked for that cannot be written.
inline void check_report(const arguments::Told& told) {
  if (!with_reports && !told.text("--report").empty())
    throw bilevel::InvalidInput("--report: built without reports; `bilevel report` makes one of --json FILE");
}

/// To the files that `--json` and `--report` name. The JSON holds the page too, which `bilevel report`
/// renders.
inline void write(const arguments::Told& told, Json result, const Json& page) {
  result["page"] = page;
  if (const std::string& path = told.text("--json"); !path.empty()) write_file(path, result.dump(1) + "\n");
  if (const std::string& path = told.text("--report"); !path.empty()) write_page(path, page);
}

}  // namespace pages
