#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace claims {

using Json = nlohmann::ordered_json;

/// A drawing, as the room `report` reads it (docs/report.md).
class Chart {
 public:
  /// `label` is "Figure 1A" and the like where it redraws one of the paper's, else empty.
  explicit Chart(std::string title, std::string label = "");
  Chart& x(std::string name, bool logarithmic = false);
  Chart& y(std::string name, bool logarithmic = false);
  Chart& y_range(double from, double to);
  Chart& caption(std::string text);
  /// Points joined by a line; `dashed` for what theory says, next to what was measured.
  Chart& line(std::string name, const std::vector<double>& x, const std::vector<double>& y,
              bool dashed = false);
  Chart& dots(std::string name, const std::vector<double>& x, const std::vector<double>& y);
  /// A line with its points marked, in the order given: a path.
  Chart& path(std::string name, const std::vector<double>& x, const std::vector<double>& y);
  /// A grey background, the darker the smaller: values[i][j] at (x[j], y[i]).
  Chart& field(std::string name, const std::vector<double>& x, const std::vector<double>& y,
               const std::vector<std::vector<double>>& values);
  /// One bar a category instead of points; all series have the same categories.
  Chart& bars(std::string name, const std::vector<std::string>& categories,
              const std::vector<double>& values);

  Json json;

 private:
  Chart& series(std::string name, const char* style, const std::vector<double>& x,
                const std::vector<double>& y);
};

/// Rows of text under headings; a cell that is a number is aligned to the right.
class Table {
 public:
  explicit Table(std::string title, std::vector<std::string> columns, std::string label = "");
  Table& row(const std::vector<std::string>& cells);
  Table& caption(std::string text);

  Json json;
};

/// What a claim's experiment found. It holds if something was checked and every check holds.
class Outcome {
 public:
  struct Check {
    std::string what, expected, measured;
    bool holds;
  };

  /// One thing that must be seen.
  void check(std::string what, std::string expected, std::string found, bool holds);
  /// |found − expected| ≤ tolerance.
  void near(std::string what, double expected, double found, double tolerance);
  /// 0 ≤ found ≤ limit: for errors, which cannot be negative.
  void at_most(std::string what, double limit, double found);
  void at_least(std::string what, double limit, double found);
  /// count = total, of things counted.
  void all_of(std::string what, long count, long total);
  /// count = 0, of things counted.
  void none_of(std::string what, long count, long total);

  void show(const Chart& chart) { blocks_.push_back(chart.json); }
  void show(const Table& table) { blocks_.push_back(table.json); }
  /// A sentence for the report: what a reader should notice.
  void note(std::string text);

  /// What was measured, in the words of the table, at most 44 columns.
  std::string measured;

  bool holds() const;
  const std::vector<Check>& checks() const { return checks_; }
  const Json& blocks() const { return blocks_; }

 private:
  std::vector<Check> checks_;
  Json blocks_ = Json::array();
};

}  // namespace claims
