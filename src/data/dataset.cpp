#include <bilevel/data/dataset.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

Eigen::VectorXd take(const Eigen::VectorXd& values, const std::vector<Index>& rows) {
  if (values.size() == 0) return {};
  return values(rows);
}

}  // namespace

std::string_view name(Format format) {
  constexpr std::array<std::string_view, 5> names = {"automatic", "csv", "libsvm", "idx", "npy"};
  return names[static_cast<std::size_t>(format)];
}

std::string_view name(ColumnKind kind) {
  constexpr std::array<std::string_view, 7> names = {"numeric", "categorical", "ignored", "target",
                                                     "weight",  "offset",      "split"};
  return names[static_cast<std::size_t>(kind)];
}

Violations Schema::validate() const {
  Violations v("schema");
  const bool has_columns = format == Format::csv || format == Format::npy;
  v.require(format != Format::automatic, "format", name(format), "says nothing");
  v.require(features >= 1 && features <= most_columns, "features", features,
            fmt::format("must be 1 to {}", most_columns));
  v.require(static_cast<Index>(names.size()) == features, "names", names.size(),
            fmt::format("names: there must be one for each of {} features", features));
  v.require(has_columns || columns.empty(), "columns", columns.size(),
            fmt::format("columns: a {} file has features alone", name(format)));
  Index made = 0;
  std::array<int, 7> with_role{};
  std::unordered_set<std::string_view> seen;
  for (const Column& column : columns) {
    const bool categorical = column.kind == ColumnKind::categorical;
    made += categorical                          ? static_cast<Index>(column.levels.size())
            : column.kind == ColumnKind::numeric ? 1
                                                 : 0;
    ++with_role[static_cast<std::size_t>(column.kind)];
    v.require(seen.insert(column.name).second, "columns", column.name, "must not occur twice");
    // One feature each, in their order.
    v.require(!categorical || std::adjacent_find(column.levels.begin(), column.levels.end(),
                                                 std::greater_equal<>()) == column.levels.end(),
              "columns", column.name, "must have its levels sorted, each one once");
    if (!v.empty()) return v;  // one is enough of what may be millions
  }
  v.require(!has_columns || made == features, "columns", made,
            fmt::format("features: there must be {}, as many as it counts", features));
  for (const ColumnKind kind :
       {ColumnKind::target, ColumnKind::weight, ColumnKind::offset, ColumnKind::split})
    v.require(with_role[static_cast<std::size_t>(kind)] <= 1, "columns", name(kind),
              "must be the role of one column at most");
  const std::unordered_set<std::string_view> levels(target_levels.begin(), target_levels.end());
  v.require(levels.size() == target_levels.size(), "target_levels", target_levels.size(),
            "levels: each must occur once");
  return v;
}

Index Dataset::rows() const {
  return std::visit([](const auto& matrix) { return matrix.rows(); }, x);
}
Index Dataset::features() const {
  return std::visit([](const auto& matrix) { return matrix.cols(); }, x);
}
Index Dataset::nonzeros() const {
  return sparse() ? sparse_rows().nonZeros() : dense_rows().size();
}

DenseRows take_rows(const DenseRows& x, const std::vector<Index>& rows) {
  check_rows("take_rows", rows, x.rows());
  DenseRows taken(static_cast<Index>(rows.size()), x.cols());
  const auto bytes = static_cast<std::size_t>(x.cols()) * sizeof(double);
#pragma omp parallel for schedule(static) if (taken.size() > 65536)
  for (Index i = 0; i < taken.rows(); ++i) {
    std::memcpy(taken.data() + i * x.cols(), x.data() + rows[static_cast<std::size_t>(i)] * x.cols(), bytes);
  }
  return taken;
}

SparseRows take_rows(const SparseRows& x, const std::vector<Index>& rows) {
  check_rows("take_rows", rows, x.rows());
  const int* const starts = x.outerIndexPtr();
  const auto size_of = [&](Index row) { return Index{starts[row + 1]} - starts[row]; };
  Index entries = 0;
  for (const Index row : rows) entries += size_of(row);
  if (entries > std::numeric_limits<int>::max()) {
    throw InvalidInput(fmt::format("take_rows: {} entries, more than a sparse matrix can hold", entries));
  }
  SparseRows taken(static_cast<Index>(rows.size()), x.cols());
  taken.resizeNonZeros(entries);
  int* const ends = taken.outerIndexPtr();
  ends[0] = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Index row = rows[i], size = size_of(row);
    std::copy_n(x.innerIndexPtr() + starts[row], size, taken.innerIndexPtr() + ends[i]);
    std::copy_n(x.valuePtr() + starts[row], size, taken.valuePtr() + ends[i]);
    ends[i + 1] = ends[i] + static_cast<int>(size);
  }
  return taken;
}

Dataset take_rows(const Dataset& data, const std::vector<Index>& rows) {
  Dataset taken;
  taken.source = data.source;
  taken.format = data.format;
  if (data.sparse()) {
    taken.x = take_rows(data.sparse_rows(), rows);
  } else {
    taken.x = take_rows(data.dense_rows(), rows);
  }
  taken.names = data.names;
  taken.origins = data.origins;
  taken.target_name = data.target_name;
  taken.target = take(data.target, rows);
  taken.levels = data.levels;
  taken.weights = take(data.weights, rows);
  taken.offsets = take(data.offsets, rows);
  taken.split_levels = data.split_levels;
  if (!data.split.empty()) {
    for (const Index row : rows) taken.split.push_back(data.split[static_cast<std::size_t>(row)]);
  }
  taken.image = data.image;
  taken.notes = data.notes;
  taken.schema = data.schema;
  return taken;
}

}  // namespace bilevel::data
