#include "property.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace bilevel::fuzz {
namespace {

using data::Dataset;
using data::Index;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

template <class Values>
bool same(const Values& left, const Values& right) {
  if (left.size() != right.size()) return false;
  for (Index k = 0; k < left.size(); ++k) {
    const double a = left.data()[k], b = right.data()[k];
    if (a != b && !(std::isnan(a) && std::isnan(b))) return false;
  }
  return true;
}

data::DenseRows dense(const Dataset& data) {
  return data.sparse() ? data::DenseRows(data.sparse_rows()) : data.dense_rows();
}

void check_sparse(const data::SparseRows& x) {
  require(x.isCompressed(), "a sparse matrix is compressed");
  for (Index row = 0; row < x.rows(); ++row) {
    for (int k = x.outerIndexPtr()[row]; k < x.outerIndexPtr()[row + 1]; ++k) {
      const int column = x.innerIndexPtr()[k];
      require(column >= 0 && column < x.cols(), "a column lies in the matrix");
      require(k == x.outerIndexPtr()[row] || x.innerIndexPtr()[k - 1] < column, "columns ascend");
    }
  }
}

void check(const Dataset& data, const data::ReadOptions& options) {
  const auto rows = data.rows();
  const auto features = static_cast<std::size_t>(data.features());
  require(rows > 0 && features > 0, "there are rows and features");
  require(data.names.size() == features && data.origins.size() == features, "every feature has a name");
  require(data.schema.features == data.features() && data.schema.names == data.names,
          "the schema counts features");
  require(data.target.size() == rows || (options.target_optional && data.target.size() == 0),
          "a target a row");
  require(data.weights.size() == 0 || (data.weights.size() == rows && data.weights.minCoeff() >= 0),
          "weights");
  require(data.split.empty() || static_cast<Index>(data.split.size()) == rows, "a split level a row");
  require(data.target.allFinite() && data.weights.allFinite() && data.offsets.allFinite(), "finite");
  for (const double value : data.target) {
    require(data.levels.empty() || (value >= 0 && value < static_cast<double>(data.levels.size())),
            "a level");
  }
  if (data.sparse()) check_sparse(data.sparse_rows());
  const data::DenseRows x = dense(data);
  require(!x.array().isInf().any(), "no infinity");
  require(options.missing == data::Missing::mean || !x.array().isNaN().any(), "nothing missing");
}

}  // namespace

data::ReadOptions small_options(data::Format format) {
  data::ReadOptions options;
  options.format = format;
  options.limits.cells = 100'000;
  options.limits.columns = 500;
  options.limits.levels = 20;
  options.limits.line_bytes = 10'000;
  return options;
}

void choose(data::ReadOptions& options, std::uint8_t bits) {
  const bool columns = options.format == data::Format::csv || options.format == data::Format::npy;
  if ((bits & 1) != 0) options.missing = data::Missing::mean;
  if ((bits & 2) != 0) options.storage = data::Storage::sparse;
  if ((bits & 4) != 0) options.zero_based = true;
  if ((bits & 4) != 0 && columns) options.target = "0";
  if ((bits & 8) != 0 && columns) options.weights = "1";
  if ((bits & 8) != 0) options.features = 7;
  if ((bits & 16) != 0 && columns) options.split = "2";
  if ((bits & 32) != 0 && columns) options.categorical = {"-2"};
  if ((bits & 64) != 0) options.target_optional = true;
  if ((bits & 128) != 0) options.format = data::Format::automatic;
  if (options.format == data::Format::idx) options.target_optional = true;
}

void read_and_check(std::string_view bytes, const data::ReadOptions& options) {
  Dataset first;
  try {
    data::Source source("input", bytes);
    first = data::read(source, options);
  } catch (const InvalidInput&) {
    return;
  }
  check(first, options);
  data::Source source("input", bytes);
  const Dataset again = data::read(source, options, &first.schema);
  check(again, options);
  require(again.names == first.names && again.levels == first.levels, "the same names");
  require(again.sparse() == first.sparse() && same(dense(again), dense(first)), "the same features");
  require(same(again.target, first.target) && same(again.weights, first.weights),
          "the same target and weights");
}

}  // namespace bilevel::fuzz
