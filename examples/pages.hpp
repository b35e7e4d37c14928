// What examples with a report share: blocks of its page (docs/report.md), and their two flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>
#if __has_include(<report/page.hpp>)
#include <report/page.hpp>
#endif

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
  Json block{{"type", "chart"},    {"title", title},     {"caption", caption},
             {"x", {{"name", x}}}, {"y", {{"name", y}}}, {"series", Json::array()}};
  if (!categories.empty()) block["categories"] = categories;
  for (const Series& s : series)
    block["series"].push_back(
        {{"name", s.name}, {"style", s.style}, {categories.empty() ? "points" : "values", s.points}});
  return block;
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

struct Flags {
  std::string report;
  long seeds = 1;
};

/// --report FILE and --seeds N; nothing, after saying so, where there is anything else.
inline std::optional<Flags> flags(int argc, char** argv) {
  Flags found;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--report" && !value.empty()) {
      found.report = value;
    } else if (char* end = nullptr; name == "--seeds" && !value.empty() &&
                                    (found.seeds = std::strtol(value.c_str(), &end, 10)) > 0 && *end == 0) {
    } else {
      fmt::print(stderr, "{}: usage: {} [--report FILE] [--seeds N], N at least 1\n", name, argv[0]);
      return {};
    }
  }
  return found;
}

/// Writes the page where a file was named. Exit code 0, or 2 after saying what the matter is.
inline int write(const Flags& flags, [[maybe_unused]] const Json& page) {
  if (flags.report.empty()) return 0;
#if __has_include(<report/page.hpp>)
  const std::string why = bilevel::replace_file(flags.report, report::render(page));
#else
  const std::string why = "--report: built without reports, which come with BILEVEL_APPS=ON";
#endif
  if (!why.empty()) fmt::print(stderr, "{}\n", why);
  return why.empty() ? 0 : 2;
}

}  // namespace pages
