#include "gather.hpp"

#include <cmath>

namespace bilevel::models {

namespace data = bilevel::data;
using bilevel::problems::ModelMatrix;

namespace {

/// Up to this share of cells the sparse kernels are the faster ones: a pass over the data costs three times
/// as much a stored cell, a cell of XᵀDX twenty-five times (measured).
constexpr double sparse_share = 0.15;

/// A column's value that more than half of its cells in some rows have, or what was given for one where none
/// has; and how many of all cells looked at differ from their column's.
struct Common {
  Eigen::VectorXd values;
  Index cells = 0, stored = 0;

  bool beyond(double share) const { return static_cast<double>(stored) > share * static_cast<double>(cells); }
};

/// Of every `stride`-th row.
Common vote(const data::DenseRows& x, Index stride, const std::vector<Index>& columns,
            const Eigen::VectorXd& otherwise) {
  const auto d = static_cast<Index>(columns.size());
  const Index rows = (x.rows() + stride - 1) / stride;
  Common common{Eigen::VectorXd::Zero(d), rows * d, 0};
  // Boyer and Moore's vote: a value that more than half of the cells have is what is left at the end.
  std::vector<Index> lead(columns.size(), 0), count(columns.size(), 0);
  for (Index i = 0; i < x.rows(); i += stride)
    for (Index j = 0; j < d; ++j) {
      const double value = x(i, columns[static_cast<std::size_t>(j)]);
      Index& ahead = lead[static_cast<std::size_t>(j)];
      if (ahead == 0) common.values[j] = value;
      ahead += value == common.values[j] ? 1 : -1;
    }
  for (Index i = 0; i < x.rows(); i += stride)
    for (Index j = 0; j < d; ++j)
      count[static_cast<std::size_t>(j)] += x(i, columns[static_cast<std::size_t>(j)]) == common.values[j];
  for (Index j = 0; j < d; ++j)
    if (2 * count[static_cast<std::size_t>(j)] > rows) {
      common.stored += rows - count[static_cast<std::size_t>(j)];
    } else {
      common.values[j] = otherwise[j];
      common.stored += rows;
    }
  return common;
}

}  // namespace

void require_numbers(const data::Dataset& d, std::string_view options) {
  const auto require = [&](Index row, Index column, double value) {
    if (!std::isfinite(value))
      throw InvalidInput(fmt::format(
          "{}: row {} has the value {} in '{}': leave it out, or let the mean stand in for what is "
          "missing ({}.missing = mean)",
          d.source, row + 1, value, d.names[static_cast<std::size_t>(column)], options));
  };
  for (Index i = 0; i < d.rows(); ++i)
    if (d.sparse())
      for (data::SparseRows::InnerIterator cell(d.sparse_rows(), i); cell; ++cell)
        require(i, cell.col(), cell.value());
    else
      for (Index j = 0; j < d.features(); ++j) require(i, j, d.dense_rows()(i, j));
}

std::optional<Eigen::VectorXd> common_values(const data::Dataset& data, const std::vector<Index>& columns,
                                             const Eigen::VectorXd& otherwise) {
  if (data.sparse()) return {};
  const data::DenseRows& x = data.dense_rows();
  // Most dense files are far from sparse: some rows tell, and the others need not be read twice more. A share
  // twice as large is no matter of chance.
  constexpr Index sample = 4096;
  if (const Index stride = x.rows() / sample; stride > 1)
    if (vote(x, stride, columns, otherwise).beyond(2 * sparse_share)) return {};
  Common common = vote(x, 1, columns, otherwise);
  if (common.beyond(sparse_share)) return {};
  return std::move(common.values);
}

std::shared_ptr<const ModelMatrix> gather(const std::vector<data::Dataset>& files,
                                          const std::vector<Place>& rows, const std::vector<Index>& columns,
                                          const Eigen::VectorXd& shift, const Eigen::VectorXd& scale,
                                          bool drop_zeros, Index& nonzeros) {
  const auto n = static_cast<Index>(rows.size()), d = static_cast<Index>(columns.size());
  if (!files[0].sparse()) {
    const auto cell = [&](Index i, Index j) {
      const Place& place = rows[static_cast<std::size_t>(i)];
      const double in = files[static_cast<std::size_t>(place.file)].dense_rows()(
          place.row, columns[static_cast<std::size_t>(j)]);
      return (in - shift[j]) / scale[j];
    };
    if (!drop_zeros) {
      nonzeros = n * d;
      return std::make_shared<ModelMatrix>(n, d, [&](Index i, double* out) {
        for (Index j = 0; j < d; ++j) out[j] = cell(i, j);
      });
    }
    ModelMatrix::Sparse x(n, d);
    for (Index i = 0; i < n; ++i) {
      x.startVec(i);
      for (Index j = 0; j < d; ++j)
        if (const double value = cell(i, j); value != 0) x.insertBack(i, j) = value;
    }
    x.finalize();
    nonzeros = x.nonZeros();
    return std::make_shared<ModelMatrix>(std::move(x));
  }
  std::vector<int> place_of(static_cast<std::size_t>(files[0].features()), -1);
  for (Index j = 0; j < d; ++j)
    place_of[static_cast<std::size_t>(columns[static_cast<std::size_t>(j)])] = static_cast<int>(j);
  ModelMatrix::Sparse x(n, d);
  nonzeros = 0;
  for (const data::Dataset& file : files) nonzeros += file.nonzeros();
  x.reserve(nonzeros);
  for (Index i = 0; i < n; ++i) {
    x.startVec(i);
    const Place& place = rows[static_cast<std::size_t>(i)];
    const data::SparseRows& from = files[static_cast<std::size_t>(place.file)].sparse_rows();
    for (data::SparseRows::InnerIterator it(from, place.row); it; ++it)
      if (const int j = place_of[static_cast<std::size_t>(it.col())]; j >= 0)
        x.insertBack(i, j) = it.value() / scale[j];
  }
  x.finalize();
  nonzeros = x.nonZeros();
  return std::make_shared<ModelMatrix>(std::move(x));
}

}  // namespace bilevel::models
