#include <bilevel/data/dataset.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {
namespace {

void check_rows(const std::vector<Index>& rows, Index available) {
  for (const Index row : rows) {
    if (row < 0 || row >= available) {
      throw InvalidInput(
          fmt::format("take_rows: row {} of {} rows, which are counted from 0", row, available));
    }
  }
}

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
  check_rows(rows, x.rows());
  DenseRows taken(static_cast<Index>(rows.size()), x.cols());
  const auto bytes = static_cast<std::size_t>(x.cols()) * sizeof(double);
#pragma omp parallel for schedule(static) if (taken.size() > 65536)
  for (Index i = 0; i < taken.rows(); ++i) {
    std::memcpy(taken.data() + i * x.cols(), x.data() + rows[static_cast<std::size_t>(i)] * x.cols(), bytes);
  }
  return taken;
}

SparseRows take_rows(const SparseRows& x, const std::vector<Index>& rows) {
  check_rows(rows, x.rows());
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
