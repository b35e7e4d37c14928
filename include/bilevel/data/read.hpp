#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>
#include <bilevel/data/source.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {

enum class Missing {
  refuse,  ///< a missing cell is an error with its line and column
  mean     ///< left as NaN in numeric columns, for impute(); the level "missing" in categorical ones
};
enum class Storage {
  automatic,  ///< LIBSVM: dense where at least a third of the cells are stored, else sparse; others: dense
  dense,
  sparse
};
enum class Header {
  automatic,  ///< the first line is a header where none of its cells is a number
  yes,
  no
};

/// Beyond these a file is refused before memory is taken for it.
struct Limits {
  std::int64_t cells = std::int64_t{1} << 32;  ///< of the matrix; sparse: stored entries
  Index columns = most_columns;                ///< of the file, and features
  Index levels = 1000;                         ///< of one categorical column
  std::int64_t line_bytes = 64 << 20;          ///< of one line of text
};

struct ReadOptions {
  Format format = Format::automatic;
  /// Name or 0-based index of a column (negative: from the end, -1 is the last); empty: the last one.
  /// CSV and NPY; LIBSVM has its labels in front, IDX has none.
  std::string target;
  /// A file that holds the target instead (IDX or NPY of rank 1, or text with one value a line); then all
  /// columns are features.
  std::string labels;
  /// Names or indices of optional columns: sample weights (0 or more), offsets, what a row belongs to.
  std::string weights, offset, split;
  std::vector<std::string> ignore;       ///< columns to leave out, unread
  std::vector<std::string> categorical;  ///< columns of categories although they look like numbers
  /// A file with one name a line: of the features, or of all columns (CSV without header, NPY).
  std::string names;
  Header header = Header::automatic;
  char delimiter = 0;  ///< 0: found in the first line (tab, comma, semicolon, else runs of blanks: ' ')
  Index skip = 0;      ///< lines at the top to skip (CSV, LIBSVM)
  Missing missing = Missing::refuse;
  bool zero_based = false;  ///< LIBSVM: the first feature has index 0
  Index features = 0;       ///< LIBSVM: at least this many columns
  Storage storage = Storage::automatic;
  Limits limits;
  bool target_optional = false;  ///< predicting: the file may lack the target

  Violations validate() const;
};

/// Reads a file in one pass. With `like`, a further file (validation, test, prediction) is encoded as the
/// first one was: its roles and levels are taken from there, columns are matched by name where there is a
/// header (else by position), levels unknown there become zeros with a note, as do further LIBSVM columns.
/// Throws InvalidInput with the file, the line or byte, and what to do about it.
Dataset read(const std::string& path, const ReadOptions& options, const Schema* like = nullptr);
Dataset read(Source& source, const ReadOptions& options, const Schema* like = nullptr);

}  // namespace bilevel::data
