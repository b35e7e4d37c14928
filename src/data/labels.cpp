#include <algorithm>
#include <cmath>

#include "data/cell.hpp"
#include "data/complaint.hpp"
#include "data/formats.hpp"
#include "data/levels.hpp"

namespace bilevel::data {
namespace {

/// The labels of a file of numbers, in an array of one axis or of one column.
void read_array_labels(Stream& stream, const Array& array, const Limits& limits, Dataset& data) {
  const auto [rows, columns] = checked_shape(array, stream.name(), limits);
  if (columns != 1) complain(stream.name(), "has {} cells a row; labels have one", columns);
  if (rows != data.rows()) {
    complain(stream.name(), "has {} labels, and {} has {} rows", rows, data.source, data.rows());
  }
  Elements elements(stream, array.element, rows);
  elements.await(rows);
  data.target.resize(rows);
  elements.take(rows, data.target.data());
  elements.finish();
  for (Index i = 0; i < rows; ++i) {
    if (!std::isfinite(data.target[i])) {
      complain(stream.name(), "row {}: the label is {}; correct it or remove the row", i + 1, data.target[i]);
    }
  }
}

class TextLabels {
 public:
  TextLabels(Stream& stream, const ReadOptions& options, const Schema* like, Dataset& data)
      : file_(stream.name()),
        options_(options),
        like_(like),
        data_(data),
        lines_(stream, options.limits.line_bytes) {}

  void read() {
    const Index rows = data_.rows();
    data_.target.resize(rows);
    if (like_ != nullptr) {
      decided_ = true;
      texts_ = !like_->target_levels.empty();
      levels_ = Levels(like_->target_levels);
    }
    Index count = 0;
    bool first_is_text = false;
    Cells cells(file_, '\n');  // the whole line is one cell
    std::string_view label;
    double value = 0;
    while (lines_.next()) {
      if (trimmed(lines_.text()).empty()) continue;
      cells.begin(lines_.text(), lines_.number());
      cells.next(label);
      const CellKind kind = classify(label, value);
      if (count == rows) {
        complain(file_, "has more labels than {} has rows, {}{}", data_.source, rows,
                 first_is_text ? "; is its first line a header? Remove it" : "");
      }
      if (count == 0) first_is_text = kind == CellKind::text;
      data_.target[count++] = convert(label, kind, value);
    }
    if (count != rows) complain(file_, "has {} labels, and {} has {} rows", count, data_.source, rows);
    const std::vector<int> sorted = levels_.sort();
    if (texts_) {
      for (double& code : data_.target) code = sorted[static_cast<std::size_t>(code)];
    }
    data_.levels = levels_.texts();
  }

 private:
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    complain(file_, "line {}: {}", lines_.number(), fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  double convert(std::string_view label, CellKind kind, double value) {
    if (kind == CellKind::missing) refuse("the label is missing; remove the row");
    if (!decided_) texts_ = kind == CellKind::text;
    decided_ = true;
    if (!texts_) {
      if (kind == CellKind::number) return value;
      if (kind == CellKind::infinite) refuse("the label {} is not finite", shown(label));
      refuse("the label {} is not a number, as those before; correct it", shown(label));
    }
    const int known = levels_.find(label);
    if (known >= 0) return known;
    if (like_ != nullptr) refuse("the first file had no row whose label is {}", shown(label));
    if (levels_.size() >= options_.limits.levels)
      refuse("there are more than {} different labels", options_.limits.levels);
    return levels_.add(label);
  }

  std::string file_;
  ReadOptions options_;
  const Schema* like_;
  Dataset& data_;
  Lines lines_;
  bool decided_ = false, texts_ = false;
  Levels levels_;
};

}  // namespace

void read_labels(Dataset& data, const ReadOptions& options, const Schema* like) {
  Source source(options.labels);
  Stream stream(source);
  data.levels.clear();
  const Format format = detect(stream);
  if (format == Format::idx) {
    read_array_labels(stream, read_idx_header(stream), options.limits, data);
  } else if (format == Format::npy) {
    read_array_labels(stream, read_npy_header(stream), options.limits, data);
  } else {
    TextLabels(stream, options, like, data).read();
  }
  data.target_name = "label";
}

}  // namespace bilevel::data
