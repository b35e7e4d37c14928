#include <cstring>

#include "data/cell.hpp"
#include "data/complaint.hpp"
#include "data/formats.hpp"
#include "data/table.hpp"

namespace bilevel::data {
namespace {

class CsvReader {
 public:
  explicit CsvReader(Task& task)
      : task_(task),
        lines_(task.stream, task.options.limits.line_bytes),
        table_(task.file(), "line", task.options, task.like) {}

  Dataset read() {
    for (Index k = 0; k < task_.options.skip; ++k) {
      if (!lines_.next())
        complain(task_.file(), "ends before line {}, which ReadOptions.skip = {} leaves out", k + 1,
                 task_.options.skip);
    }
    if (!next_record()) complain(task_.file(), "has no line with data in it");
    if (const std::size_t bare = lines_.text().find('\r');
        bare != std::string_view::npos && bare + 1 < lines_.text().size() &&
        lines_.text().find_first_of("\n\"") == std::string_view::npos)
      complain(task_.file(),
               "ends its lines with carriage returns alone; convert it first (tr '\\r' '\\n' < FILE)");
    Cells cells(task_.file(), delimiter_);
    if (!begin_columns(cells)) {
      add_row(cells);
    }
    while (next_record()) add_row(cells);
    if (table_.rows() == 0) {
      complain(task_.file(),
               "has a header but no rows; if its first line is no header, use ReadOptions.header = no");
    }
    return table_.finish(Format::csv);
  }

 private:
  /// Goes to the next line that is not blank, joined with those that its quoted cells go on in.
  bool next_record() {
    while (lines_.next()) {
      const std::string_view line = lines_.text();
      if (is_blank_line(line, delimiter_)) continue;
      if (delimiter_ == 0) {
        delimiter_ = task_.options.delimiter != 0 ? task_.options.delimiter : find_delimiter(line);
      }
      if (std::memchr(line.data(), '"', line.size()) == nullptr) return true;
      QuoteScan scan(delimiter_);
      while (scan.open_after(lines_.text())) {
        if (!lines_.join()) {
          complain(task_.file(), "line {}: a quoted cell is opened and never closed", lines_.number());
        }
      }
      return true;
    }
    return false;
  }

  /// From the first line; whether that was a header.
  bool begin_columns(Cells& cells) {
    std::vector<std::string> first;
    bool number = false, text = false;
    std::string_view cell;
    double value = 0;
    for (cells.begin(lines_.text(), lines_.number()); cells.next(cell);) {
      const CellKind kind = classify(cell, value);
      number = number || kind == CellKind::number || kind == CellKind::infinite;
      text = text || kind == CellKind::text;
      first.emplace_back(cell);
      if (static_cast<Index>(first.size()) > task_.options.limits.columns) {
        complain(task_.file(),
                 "line {} has more than {} cells, the limit of columns; check ReadOptions.delimiter",
                 lines_.number(), task_.options.limits.columns);
      }
    }
    const bool header =
        task_.options.header == Header::yes || (task_.options.header == Header::automatic && text && !number);
    if (header && !task_.names.empty()) {
      complain(task_.file(),
               "has a header, so ReadOptions.names has no use; use ReadOptions.header = no with "
               "ReadOptions.skip = 1 to replace it");
    }
    if (!header) {
      table_.set_columns(column_names(task_, first.size()), false);
      return false;
    }
    for (std::size_t c = 0; c < first.size(); ++c) {
      if (first[c].empty()) first[c] = fmt::format("c{}", c);
    }
    table_.set_columns(std::move(first), true);
    return true;
  }

  void add_row(Cells& cells) {
    double* const row = table_.add_row();
    const Index line = lines_.number();
    cells.begin(lines_.text(), line);
    std::string_view cell;
    std::size_t count = 0;
    for (TableColumn& column : table_.columns()) {
      if (column.plain && cells.next_number(row[column.slot])) {
        ++count;
        continue;
      }
      if (!cells.next(cell)) ragged(cells, count);
      ++count;
      if (column.slot >= 0) row[column.slot] = table_.cell(column, cell, line);
    }
    if (cells.next(cell)) ragged(cells, count + 1);
  }

  [[noreturn]] void ragged(Cells& cells, std::size_t count) {
    std::string_view cell;
    while (cells.next(cell)) ++count;
    complain(task_.file(),
             "line {} has {} cell{}, the lines before have {}; correct it, leave lines at the top out with "
             "ReadOptions.skip = N, "
             "or set ReadOptions.delimiter (now {})",
             lines_.number(), count, count == 1 ? "" : "s", table_.columns().size(),
             delimiter_ == '\t'  ? "a tab"
             : delimiter_ == ' ' ? "blanks"
                                 : shown({&delimiter_, 1}));
  }

  Task& task_;
  Lines lines_;
  Table table_;
  char delimiter_ = 0;
};

}  // namespace

Dataset read_csv(Task& task) {
  return CsvReader(task).read();
}

}  // namespace bilevel::data
