#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/read.hpp>

#include "data/blocks.hpp"
#include "data/levels.hpp"

namespace bilevel::data {

/// A column of a file while the file is being read.
struct TableColumn {
  std::string name;
  ColumnKind role = ColumnKind::numeric;  ///< numeric stands for a feature of either kind
  /// A feature or target takes its kind from its first cell that is not missing.
  enum class Content { undecided, numbers, texts } content = Content::undecided;
  bool plain = false;  ///< any finite number can be stored as it is
  Index slot = -1;     ///< its place in a gathered row; -1: not read
  bool known = false;  ///< the levels are those of an earlier file
  Levels levels;
  Index missing = 0, unknown = 0;  ///< cells
  Index decided_at = 0;            ///< where its first cell decided what it holds; 0: that was clear before
  Index texts = 0, numbers = 0;    ///< cells of a column that its first cell made one of texts
};

/// The rows of a file with columns (CSV, NPY): who plays which role, the cells gathered so far, and the data
/// set they make. A gathered row has one number a column that is read; texts are numbers of levels.
class Table {
 public:
  /// Cells are placed at a line of text or at a row of an array: `place` says which, in messages.
  Table(std::string file, std::string_view place, const ReadOptions& options, const Schema* like);

  /// Gives the columns their names and roles. `header`: the names stood in the file.
  void set_columns(std::vector<std::string> names, bool header);
  std::vector<TableColumn>& columns() { return columns_; }

  /// Columns that a row holds when it comes from an array, which has all of them.
  void keep_all_slots();
  Index width() const { return width_; }
  /// Room for the next row, once it is clear that it is allowed.
  double* add_row();
  /// Room for cells of an array, in its order.
  double* add_cells(Index count) { return cells_.grow(static_cast<std::size_t>(count)); }
  void set_array(Index rows, bool column_major) { rows_ = rows, column_major_ = column_major; }
  Index rows() const { return rows_; }

  /// The number to store for a cell that is not a plain number, or for any cell of a column that is not
  /// plain. `where` is the line or row, counted from 1.
  double cell(TableColumn& column, std::string_view text, Index where);
  double number(TableColumn& column, double value, Index where);

  /// The features, in the order of the first file.
  Dataset finish(Format format);

 private:
  Index find_column(const std::string& wanted, std::string_view option) const;
  void assign(const std::string& wanted, std::string_view option, ColumnKind role);
  void take_roles_from_options();
  void take_roles_from(const Schema& like, bool header);
  void check_names_differ() const;
  double missing_cell(TableColumn& column, Index where);
  double level(TableColumn& column, std::string_view text, Index where);
  [[noreturn]] void refuse(const TableColumn& column, Index where, std::string_view what) const;
  /// Refuses the cell, unless it is a target, which rows to predict need not have: it is NaN then.
  double unusable(const TableColumn& column, Index where, std::string_view what);
  /// What a message calls the file whose schema this one follows.
  std::string_view earlier_file() const {
    return options_.target_optional ? "the data of the model" : "the first file";
  }
  bool lacks_target_freely() const { return options_.target_optional || !options_.labels.empty(); }
  void check_first_cells() const;
  void add_notes(Dataset& data) const;
  void describe(Dataset& data, Format format);
  void fill(Dataset& data);

  std::string file_;
  std::string place_;
  ReadOptions options_;
  const Schema* like_;
  bool header_ = false;
  std::vector<TableColumn> columns_;
  std::vector<std::size_t> order_;  ///< of the columns in the data set and in its schema
  std::vector<std::string> notes_;
  Index width_ = 0, rows_ = 0;
  bool column_major_ = false;
  bool target_unusable_ = false;  ///< predicting: its cells are missing or unknown
  Blocks<double> cells_;
};

}  // namespace bilevel::data
