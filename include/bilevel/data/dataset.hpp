#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {

using Index = Eigen::Index;
/// No file may have more columns, nor become more features.
inline constexpr Index most_columns = 10'000'000;
using DenseRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Compressed; the columns of a row are sorted.
using SparseRows = Eigen::SparseMatrix<double, Eigen::RowMajor, int>;

enum class Format { automatic, csv, libsvm, idx, npy };
std::string_view name(Format format);

enum class ColumnKind { numeric, categorical, ignored, target, weight, offset, split };
std::string_view name(ColumnKind kind);

/// A column of a file.
struct Column {
  std::string name;
  ColumnKind kind = ColumnKind::numeric;
  std::vector<std::string> levels;  ///< of a categorical column, sorted; one feature each
};

/// What the first file of a task taught about its columns; further files are encoded by it (`read`'s `like`).
/// Plain strings and numbers, so that a model file can hold it.
struct Schema {
  Format format = Format::automatic;
  /// The columns of the file in their order (CSV, NPY). Empty for LIBSVM and IDX, whose columns are the
  /// features.
  std::vector<Column> columns;
  bool header = false;  ///< the names stood in the file: further files are matched by name
  std::string target_name;
  std::vector<std::string> target_levels;  ///< sorted; empty: the target is a number
  Index features = 0;
  std::vector<std::string> names;  ///< of the features
  bool sparse = false;
  bool zero_based = false;  ///< LIBSVM

  /// Whether its parts fit together: one read from a file may be anything.
  Violations validate() const;
};

struct Dataset {
  std::string source;
  Format format = Format::automatic;
  std::variant<DenseRows, SparseRows> x;
  std::vector<std::string> names;    ///< one a feature; one-hot columns are "colour=red"
  std::vector<std::string> origins;  ///< the source column of each feature (one-hot columns share theirs)
  std::string target_name;
  Eigen::VectorXd target;                 ///< numbers, or indices into `levels`; empty: the file had none
  std::vector<std::string> levels;        ///< not empty: the target was text; sorted
  Eigen::VectorXd weights, offsets;       ///< empty unless asked for
  std::vector<std::string> split_levels;  ///< sorted
  std::vector<int> split;                 ///< indices into split_levels; empty unless asked for
  std::optional<std::pair<Index, Index>> image;  ///< rows × columns of a picture (IDX of rank 3)
  std::vector<std::string> notes;                ///< what a person should know, a sentence each
  Schema schema;

  Index rows() const;
  Index features() const;
  bool sparse() const { return std::holds_alternative<SparseRows>(x); }
  /// Stored entries: all cells of a dense matrix.
  Index nonzeros() const;
  /// Whether its parts fit together: one filled in by hand may be anything. Cells of x may be missing.
  Violations validate() const;
  const DenseRows& dense_rows() const { return std::get<DenseRows>(x); }
  const SparseRows& sparse_rows() const { return std::get<SparseRows>(x); }
};

}  // namespace bilevel::data
