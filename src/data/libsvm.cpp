#include <algorithm>
#include <cmath>
#include <limits>

#include "data/blocks.hpp"
#include "data/cell.hpp"
#include "data/complaint.hpp"
#include "data/formats.hpp"

namespace bilevel::data {
namespace {

struct Entry {
  int column;
  double value;
};

class LibsvmReader {
 public:
  explicit LibsvmReader(Task& task)
      : task_(task),
        lines_(task.stream, task.options.limits.line_bytes),
        first_(zero_based() ? 0 : 1),
        // int holds the index of a column and the number of columns.
        columns_limit_(std::min<Index>(task.options.limits.columns, std::numeric_limits<int>::max() - 1)),
        known_(task.like == nullptr ? columns_limit_ : task.like->features) {}

  Dataset read() {
    for (Index k = 0; k < task_.options.skip; ++k) {
      if (!lines_.next())
        complain(task_.file(), "ends before line {}, which ReadOptions.skip = {} leaves out", k + 1,
                 task_.options.skip);
    }
    while (lines_.next()) {
      std::string_view line = lines_.text();
      line = trimmed(line.substr(0, line.find('#')));
      if (!line.empty()) add_row(line);
    }
    if (rows_ == 0) complain(task_.file(), "has no line with data in it");
    return finish();
  }

 private:
  bool zero_based() const {
    return task_.like == nullptr ? task_.options.zero_based : task_.like->zero_based;
  }

  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    complain(task_.file(), "line {}: {}", lines_.number(),
             fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  static std::string_view token_at(const char* at, const char* end) {
    return {at, static_cast<std::size_t>(std::find_if(at, end, is_blank) - at)};
  }

  void add_row(std::string_view line) {
    const char* at = line.data();
    const char* const end = at + line.size();
    double label = 0;
    const char* stop = parse_number(at, end, label);
    if (stop == nullptr || (stop != end && !is_blank(*stop))) refuse_label(token_at(at, end));
    at = skip_blanks(stop, end);
    row_.clear();
    int previous = -1;
    bool ascending = true;
    for (; at != end; at = skip_blanks(at, end)) {
      const Entry entry = next_entry(at, end);
      if (entry.column >= known_) {
        ++beyond_;
        continue;
      }
      ascending = ascending && entry.column > previous;
      previous = entry.column;
      row_.push_back(entry);
    }
    if (!ascending) sort_row();
    append(label);
  }

  [[noreturn]] void refuse_label(std::string_view label) const {
    if (label.find(',') != std::string_view::npos) {
      refuse("the label {} names several classes; keep one a line", shown(label));
    }
    if (label.find(':') != std::string_view::npos) {
      refuse("begins with {} where the label belongs; write the label first", shown(label));
    }
    refuse(
        "the label {} is not a finite number; a LIBSVM line is 'label index:value …' (another "
        "ReadOptions.format?)",
        shown(label));
  }

  Entry next_entry(const char*& at, const char* end) const {
    const char* const start = at;
    const bool negative = *at == '-';
    if (negative) ++at;
    std::int64_t index = 0;
    const char* const digits = at;
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
      index = std::min<std::int64_t>(index * 10 + (*at - '0'), std::int64_t{1} << 40);
    }
    if (at == digits || at == end || *at != ':') refuse_entry(start, end);
    if (negative)
      refuse("the index of {} is negative; indices count from {}", shown(token_at(start, end)), first_);
    if (index < first_) {
      refuse(
          "the index of {} is 0, and indices count from 1; if those of this file count from 0, use "
          "ReadOptions.zero_based",
          shown(token_at(start, end)));
    }
    index -= first_;
    if (index >= columns_limit_) {
      refuse("the index of {} exceeds the limit of {} columns", shown(token_at(start, end)), columns_limit_);
    }
    Entry entry{static_cast<int>(index), 0};
    const char* const stop = parse_number(at + 1, end, entry.value);
    if (stop == nullptr || (stop != end && !is_blank(*stop))) {
      refuse("the value of {} is not a finite number; correct it or remove it", shown(token_at(start, end)));
    }
    at = stop;
    return entry;
  }

  [[noreturn]] void refuse_entry(const char* start, const char* end) const {
    const std::string_view token = token_at(start, end);
    if (token.substr(0, 4) == "qid:")
      refuse("{}: groups of ranked rows are not supported; remove the qid", shown(token));
    refuse("{} is not index:value; a LIBSVM line is 'label index:value …' (another ReadOptions.format?)",
           shown(token));
  }

  void sort_row() {
    std::sort(row_.begin(), row_.end(), [](const Entry& a, const Entry& b) { return a.column < b.column; });
    const auto twice = std::adjacent_find(
        row_.begin(), row_.end(), [](const Entry& a, const Entry& b) { return a.column == b.column; });
    if (twice != row_.end()) refuse("index {} occurs twice; keep one of them", twice->column + first_);
  }

  void append(double label) {
    const std::size_t count = row_.size();
    const auto most = std::min<std::int64_t>(task_.options.limits.cells, std::numeric_limits<int>::max());
    if (static_cast<std::int64_t>(columns_.size() + count) > most ||
        rows_ == std::numeric_limits<int>::max() - 1) {
      refuse("the file holds more than {} entries, the limit; take fewer rows", most);
    }
    int* const columns = columns_.grow(count);
    double* const values = values_.grow(count);
    for (std::size_t k = 0; k < count; ++k) columns[k] = row_[k].column, values[k] = row_[k].value;
    if (count > 0) largest_ = std::max<Index>(largest_, row_.back().column + 1);
    labels_.push(label);
    ends_.push(static_cast<int>(columns_.size()));
    ++rows_;
  }

  /// The number of features, and their names.
  Index name_features(Dataset& data) {
    Index features = std::max(largest_, task_.options.features);
    const auto named = static_cast<Index>(task_.names.size());
    if (task_.like != nullptr) {
      features = task_.like->features;
    } else if (named > 0) {
      if (named < features) {
        complain(task_.file(),
                 "has {} columns, and ReadOptions.names = {} has {} lines; give every column a name",
                 features, task_.options.names, named);
      }
      features = named;
    }
    if (features == 0)
      complain(task_.file(), "has no feature in any line; a LIBSVM line is 'label index:value …'");
    if (features > columns_limit_) {
      complain(task_.file(), "would have {} columns, more than the limit of {}", features, columns_limit_);
    }
    if (task_.like != nullptr) {
      data.names = task_.like->names;
    } else if (named > 0) {
      data.names = std::move(task_.names);
    } else {
      data.names.reserve(static_cast<std::size_t>(features));
      for (Index j = 0; j < features; ++j) data.names.push_back(fmt::format("f{}", j + first_));
    }
    data.origins = data.names;
    return features;
  }

  bool choose_sparse(Index features) const {
    if (task_.options.storage != Storage::automatic) return task_.options.storage == Storage::sparse;
    if (task_.like != nullptr) return task_.like->sparse;
    return static_cast<double>(columns_.size()) * 3 <
           static_cast<double>(rows_) * static_cast<double>(features);
  }

  void fill_sparse(SparseRows& x, Index features) {
    x.resize(rows_, features);
    x.resizeNonZeros(static_cast<Index>(columns_.size()));
    int* end = x.outerIndexPtr();
    *end++ = 0;
    ends_.drain([&](const int* ends, std::size_t count) { end = std::copy_n(ends, count, end); });
    int* column = x.innerIndexPtr();
    columns_.drain(
        [&](const int* columns, std::size_t count) { column = std::copy_n(columns, count, column); });
    double* value = x.valuePtr();
    values_.drain(
        [&](const double* values, std::size_t count) { value = std::copy_n(values, count, value); });
  }

  void fill_dense(DenseRows& x, Index features) {
    if (rows_ > task_.options.limits.cells / features) {
      complain(task_.file(),
               "has {} rows of {} columns, more than {} cells, the limit; use ReadOptions.storage = sparse",
               rows_, features, task_.options.limits.cells);
    }
    x.setZero(rows_, features);
    std::vector<int> ends;
    ends.reserve(static_cast<std::size_t>(rows_));
    ends_.drain([&](const int* some, std::size_t count) { ends.insert(ends.end(), some, some + count); });
    std::size_t row = 0;
    int entry = 0;
    columns_.drain_beside(values_, [&](const int* columns, const double* values, std::size_t count) {
      for (std::size_t k = 0; k < count; ++k, ++entry) {
        while (entry == ends[row]) ++row;
        x(static_cast<Index>(row), columns[k]) = values[k];
      }
    });
  }

  Dataset finish() {
    Dataset data;
    data.source = task_.file();
    data.format = Format::libsvm;
    data.target_name = "label";
    const Index features = name_features(data);
    const bool sparse = choose_sparse(features);
    if (sparse) {
      fill_sparse(data.x.emplace<SparseRows>(), features);
    } else {
      fill_dense(data.x.emplace<DenseRows>(), features);
    }
    data.target.resize(rows_);
    double* label = data.target.data();
    labels_.drain(
        [&](const double* labels, std::size_t count) { label = std::copy_n(labels, count, label); });
    if (beyond_ > 0) {
      data.notes.push_back(fmt::format("{} entr{} beyond the {} columns of the first file {} left out",
                                       beyond_, beyond_ == 1 ? "y" : "ies", features,
                                       beyond_ == 1 ? "is" : "are"));
    }
    if (task_.like != nullptr) {
      data.schema = *task_.like;
      return data;
    }
    data.schema.format = Format::libsvm;
    data.schema.target_name = data.target_name;
    data.schema.features = features;
    data.schema.names = data.names;
    data.schema.zero_based = zero_based();
    return data;
  }

  Task& task_;
  Lines lines_;
  int first_;
  Index columns_limit_;
  Index known_;
  std::vector<Entry> row_;
  Blocks<int> columns_, ends_;
  Blocks<double> values_, labels_;
  Index rows_ = 0, largest_ = 0, beyond_ = 0;
};

}  // namespace

Dataset read_libsvm(Task& task) {
  return LibsvmReader(task).read();
}

}  // namespace bilevel::data
