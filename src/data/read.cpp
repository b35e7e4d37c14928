#include <bilevel/data/read.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>

#include "data/cell.hpp"
#include "data/complaint.hpp"
#include "data/formats.hpp"

namespace bilevel::data {
namespace {

std::vector<std::string> read_names(const std::string& path, const Limits& limits) {
  Source source(path);
  Stream stream(source);
  if (stream.ahead(3).substr(0, 3) == "\xef\xbb\xbf") stream.consume(3);
  Lines lines(stream, limits.line_bytes);
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  Index blank = 0;
  while (lines.next()) {
    const std::string_view name = trimmed(lines.text());
    if (name.empty() && blank == 0) blank = lines.number();
    if (name.empty()) continue;
    if (blank != 0) complain(path, "line {} is blank; give every feature a name, one a line", blank);
    if (!seen.emplace(name).second)
      complain(path, "line {}: the name {} occurs twice", lines.number(), shown(name));
    if (static_cast<Index>(names.size()) >= limits.columns) {
      complain(path, "has more than {} names, the limit of columns", limits.columns);
    }
    names.emplace_back(name);
  }
  if (names.empty()) complain(path, "has no name in it; write one a line");
  return names;
}

/// Options that name columns mean nothing where there are none.
void check_options_fit(const ReadOptions& options, Format format, const std::string& file) {
  if (format != Format::libsvm) {
    if (options.zero_based)
      complain(file, "ReadOptions.zero_based is for LIBSVM files, and this is {}", name(format));
    if (options.features > 0)
      complain(file, "ReadOptions.features is for LIBSVM files, and this is {}", name(format));
  }
  if (format == Format::csv || format == Format::npy) return;
  const auto refuse = [&](std::string_view option, bool given) {
    if (given) {
      complain(file, "{} names a column, and those of {} are all features; use a CSV file for it", option,
               name(format));
    }
  };
  refuse("ReadOptions.target", !options.target.empty());
  refuse("ReadOptions.weights", !options.weights.empty());
  refuse("ReadOptions.offset", !options.offset.empty());
  refuse("ReadOptions.split", !options.split.empty());
  refuse("ReadOptions.ignore", !options.ignore.empty());
  refuse("ReadOptions.categorical", !options.categorical.empty());
  if (format == Format::idx && options.labels.empty() && !options.target_optional) {
    complain(file, "an IDX file holds no target; name the file that does with ReadOptions.labels = FILE");
  }
}

bool has_columns(Format format) {
  return format == Format::csv || format == Format::npy;
}

SparseRows sparse_of(const DenseRows& x, const std::string& file) {
  const Index filled = (x.array() != 0).count();
  if (filled > std::numeric_limits<int>::max()) {
    complain(file, "has {} cells that are not zero, too many for ReadOptions.storage = sparse", filled);
  }
  SparseRows result = x.sparseView();
  result.makeCompressed();
  return result;
}

}  // namespace

std::vector<std::string> column_names(const Task& task, std::size_t columns) {
  std::vector<std::string> names = task.names;
  if (names.empty()) {
    for (std::size_t c = 0; c < columns; ++c) names.push_back(fmt::format("c{}", c));
    return names;
  }
  if (names.size() == columns) return names;
  if (names.size() + 1 == columns && task.options.labels.empty()) {
    const std::string& target = task.options.target;
    auto index = static_cast<std::ptrdiff_t>(columns) - 1;
    if (!target.empty()) std::from_chars(target.data(), target.data() + target.size(), index);
    if (index < 0) index += static_cast<std::ptrdiff_t>(columns);
    if (index >= 0 && index < static_cast<std::ptrdiff_t>(columns)) {
      names.insert(names.begin() + index, "target");
      return names;
    }
  }
  complain(
      task.file(),
      "has {} columns, and ReadOptions.names = {} has {} lines; give every column or every feature a name",
      columns, task.options.names, names.size());
}

Violations ReadOptions::validate() const {
  Violations violations("ReadOptions");
  violations.at_least("skip", skip, 0)
      .at_least("features", features, 0)
      .at_least("limits.cells", limits.cells, 1)
      .at_least("limits.columns", limits.columns, 1)
      .at_least("limits.levels", limits.levels, 1)
      .at_least("limits.line_bytes", limits.line_bytes, 1)
      .require(target.empty() || labels.empty(), "target", target, "and labels cannot both be given")
      .require(features <= limits.columns, "features", features, "must not exceed limits.columns")
      .require(delimiter != '"' && delimiter != '\n' && delimiter != '\r', "delimiter",
               "a quote or a line break", "cannot stand between cells");
  return violations;
}

Dataset read(const std::string& path, const ReadOptions& options, const Schema* like) {
  options.validate().throw_if_any();
  Source source(path);
  return read(source, options, like);
}

Dataset read(Source& source, const ReadOptions& options, const Schema* like) {
  options.validate().throw_if_any();
  if (like != nullptr) like->validate().throw_if_any();
  Stream stream(source);
  if (stream.ahead(3).substr(0, 3) == "\xef\xbb\xbf") stream.consume(3);
  if (stream.ahead(1).empty()) complain(source.name(), "is empty");
  const Format format = options.format == Format::automatic ? detect(stream) : options.format;
  check_options_fit(options, format, source.name());
  if (like != nullptr && like->format != format && !(has_columns(like->format) && has_columns(format))) {
    complain(source.name(), "is a {} file, the first one was {}; give both in one format", name(format),
             name(like->format));
  }
  Task task{stream, options, like, {}};
  if (!options.names.empty() && like == nullptr) task.names = read_names(options.names, options.limits);

  Dataset data = format == Format::csv      ? read_csv(task)
                 : format == Format::libsvm ? read_libsvm(task)
                 : format == Format::idx    ? read_idx(task)
                                            : read_npy(task);
  if (!options.labels.empty()) read_labels(data, options, like);
  const bool sparse = options.storage == Storage::sparse ||
                      (options.storage == Storage::automatic && like != nullptr && like->sparse);
  if (sparse && !data.sparse()) data.x = sparse_of(data.dense_rows(), data.source);
  if (like == nullptr) {
    data.schema.target_name = data.target_name;
    data.schema.target_levels = data.levels;
    data.schema.sparse = data.sparse();
  }
  return data;
}

}  // namespace bilevel::data
