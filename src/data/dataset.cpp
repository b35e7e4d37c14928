#include <bilevel/data/dataset.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

namespace bilevel::data {

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

namespace {

/// Adds what is wrong with a column that has something for each row, or is empty.
template <class Column, class Allowed>
void check_column(Violations& v, std::string_view field, const Column& column, Index rows, Allowed&& allowed,
                  std::string_view rule) {
  const auto size = static_cast<Index>(column.size());
  v.require(size == 0 || size == rows, field, size,
            fmt::format("must be one for each of {} rows, or none", rows));
  for (Index i = 0; i < size; ++i)
    if (const auto value = column[static_cast<decltype(column.size())>(i)]; !allowed(value)) {
      v.require(false, field, value, fmt::format("{} (row {})", rule, i + 1));
      return;  // one is enough of what may be millions
    }
}

}  // namespace

Violations Dataset::validate() const {
  Violations v("Dataset");
  const auto one_a_feature = [&](std::string_view field, std::size_t size) {
    v.require(static_cast<Index>(size) == features(), field, size,
              fmt::format("must be one for each of {} features", features()));
  };
  one_a_feature("names", names.size());
  one_a_feature("origins", origins.size());
  const auto finite = [](double value) { return std::isfinite(value); };
  if (levels.empty())
    check_column(v, "target", target, rows(), finite, "must be finite");
  else
    check_column(
        v, "target", target, rows(),
        [&](double value) {
          return value >= 0 && value < static_cast<double>(levels.size()) && value == std::floor(value);
        },
        fmt::format("must be the number of one of {} levels", levels.size()));
  check_column(
      v, "weights", weights, rows(), [&](double value) { return value >= 0 && std::isfinite(value); },
      "must be finite and not negative");
  check_column(v, "offsets", offsets, rows(), finite, "must be finite");
  check_column(
      v, "split", split, rows(),
      [&](int value) { return value >= 0 && static_cast<std::size_t>(value) < split_levels.size(); },
      fmt::format("must be the number of one of {} split_levels", split_levels.size()));
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

}  // namespace bilevel::data
