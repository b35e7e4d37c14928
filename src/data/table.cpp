#include "data/table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "data/cell.hpp"
#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

using Content = TableColumn::Content;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The first names, for a person who misspelt one.
std::string listed(const std::vector<TableColumn>& columns) {
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, columns.size()); ++c) {
    text += fmt::format("{}{}", c == 0 ? "" : ", ", shown(columns[c].name));
  }
  return columns.size() > most ? text + ", …" : text;
}

}  // namespace

Table::Table(std::string file, std::string_view place, const ReadOptions& options, const Schema* like)
    : file_(std::move(file)), place_(place), options_(options), like_(like) {}

void Table::refuse(const TableColumn& column, Index where, std::string_view what) const {
  const auto number = &column - columns_.data();
  complain(file_, "{} {}, column {} (index {}): {}", place_, where, shown(column.name), number, what);
}

void Table::set_columns(std::vector<std::string> names, bool header) {
  if (static_cast<Index>(names.size()) > options_.limits.columns) {
    complain(file_, "has {} columns, more than the limit of {}", names.size(), options_.limits.columns);
  }
  header_ = header;
  columns_.resize(names.size());
  for (std::size_t c = 0; c < names.size(); ++c) columns_[c].name = std::move(names[c]);
  check_names_differ();
  if (like_ != nullptr) {
    take_roles_from(*like_, header);
  } else {
    take_roles_from_options();
  }
  bool features = false;
  for (const std::size_t c : order_) {
    TableColumn& column = columns_[c];
    features = features || column.role == ColumnKind::numeric;
    if (column.role != ColumnKind::ignored) column.slot = width_++;
    if (column.role == ColumnKind::weight || column.role == ColumnKind::offset)
      column.content = Content::numbers;
    if (column.role == ColumnKind::split) column.content = Content::texts;
    column.plain = column.content == Content::numbers && column.role != ColumnKind::weight;
  }
  if (!features) {
    complain(file_,
             "has no column left for a feature ({} in all); check ReadOptions.target, ReadOptions.ignore and "
             "ReadOptions.delimiter",
             columns_.size());
  }
}

void Table::check_names_differ() const {
  std::unordered_set<std::string_view> seen;
  for (const TableColumn& column : columns_) {
    if (!seen.insert(column.name).second) {
      complain(
          file_,
          "two columns are called {}; rename one, or use ReadOptions.header = no with ReadOptions.skip = 1",
          shown(column.name));
    }
  }
}

Index Table::find_column(const std::string& wanted, std::string_view option) const {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].name == wanted) return static_cast<Index>(c);
  }
  const auto count = static_cast<Index>(columns_.size());
  Index index = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [stop, error] = std::from_chars(wanted.data(), end, index);
  if (wanted.empty() || error != std::errc{} || stop != end) {
    complain(file_, "{} {}: there is no such column; there are {}", option, shown(wanted), listed(columns_));
  }
  if (index < -count || index >= count) {
    complain(file_, "{} {}: there are {} columns, so an index is 0 to {}, or -{} to -1 from the end", option,
             wanted, count, count - 1, count);
  }
  return index < 0 ? index + count : index;
}

void Table::assign(const std::string& wanted, std::string_view option, ColumnKind role) {
  TableColumn& column = columns_[static_cast<std::size_t>(find_column(wanted, option))];
  if (column.role != ColumnKind::numeric && column.role != role) {
    complain(file_, "{} {}: column {} is already the {} column", option, wanted, shown(column.name),
             name(column.role));
  }
  column.role = role;
}

void Table::take_roles_from_options() {
  for (const std::string& ignored : options_.ignore)
    assign(ignored, "ReadOptions.ignore =", ColumnKind::ignored);
  if (!options_.weights.empty()) assign(options_.weights, "ReadOptions.weights =", ColumnKind::weight);
  if (!options_.offset.empty()) assign(options_.offset, "ReadOptions.offset =", ColumnKind::offset);
  if (!options_.split.empty()) assign(options_.split, "ReadOptions.split =", ColumnKind::split);
  if (options_.labels.empty())
    assign(options_.target.empty() ? "-1" : options_.target, "ReadOptions.target =", ColumnKind::target);
  for (const std::string& wanted : options_.categorical) {
    TableColumn& column =
        columns_[static_cast<std::size_t>(find_column(wanted, "ReadOptions.categorical ="))];
    if (column.role != ColumnKind::numeric && column.role != ColumnKind::target) {
      complain(file_, "ReadOptions.categorical = {}: column {} is the {} column", wanted, shown(column.name),
               name(column.role));
    }
    column.content = Content::texts;
  }
  for (std::size_t c = 0; c < columns_.size(); ++c) order_.push_back(c);
}

void Table::take_roles_from(const Schema& like, bool header) {
  const bool by_name = header && like.header;
  std::vector<std::size_t> earlier(columns_.size(), like.columns.size());  // its column in `like`
  const auto is_target = [](const Column& column) { return column.kind == ColumnKind::target; };
  if (by_name) {
    Levels places;
    for (const TableColumn& column : columns_) places.add(column.name);
    for (std::size_t k = 0; k < like.columns.size(); ++k) {
      const Column& column = like.columns[k];
      const int found = places.find(column.name);
      const bool may_lack = column.kind == ColumnKind::ignored || column.kind == ColumnKind::split ||
                            (is_target(column) && lacks_target_freely()) ||
                            (column.kind == ColumnKind::weight && options_.target_optional);
      if (found < 0 && !may_lack) {
        complain(file_, "has no column {}, which was the {} column of {}; there are {}", shown(column.name),
                 name(column.kind), earlier_file(), listed(columns_));
      }
      if (found >= 0) earlier[static_cast<std::size_t>(found)] = k;
    }
  } else {
    const bool target_absent = lacks_target_freely() && columns_.size() + 1 == like.columns.size() &&
                               std::any_of(like.columns.begin(), like.columns.end(), is_target);
    if (columns_.size() != like.columns.size() && !target_absent) {
      complain(file_, "has {} columns, {} had {}; check ReadOptions.delimiter and ReadOptions.skip",
               columns_.size(), earlier_file(), like.columns.size());
    }
    std::size_t c = 0;
    for (std::size_t k = 0; k < like.columns.size(); ++k) {
      if (!(target_absent && is_target(like.columns[k]))) earlier[c++] = k;
    }
  }
  std::vector<std::size_t> column_of(like.columns.size(), columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    TableColumn& column = columns_[c];
    if (earlier[c] == like.columns.size()) {
      column.role = ColumnKind::ignored;
      notes_.push_back(
          fmt::format("column {} was not in {} and is left out", shown(column.name), earlier_file()));
      continue;
    }
    const Column& known = like.columns[earlier[c]];
    column_of[earlier[c]] = c;
    column.name = known.name;
    const bool categorical = known.kind == ColumnKind::categorical;
    column.role = categorical ? ColumnKind::numeric : known.kind;
    const auto& levels = is_target(known) ? like.target_levels : known.levels;
    if (categorical || (is_target(known) && !levels.empty())) {
      column.content = Content::texts;
      column.known = true;
      column.levels = Levels(levels);
    } else if (known.kind == ColumnKind::numeric || is_target(known)) {
      column.content = Content::numbers;
      column.known = true;
    }
    if (is_target(known) && !options_.labels.empty()) column.role = ColumnKind::ignored;
  }
  for (const std::size_t c : column_of) {
    if (c != columns_.size()) order_.push_back(c);
  }
}

void Table::keep_all_slots() {
  width_ = static_cast<Index>(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].role != ColumnKind::ignored) columns_[c].slot = static_cast<Index>(c);
  }
}

double* Table::add_row() {
  if ((rows_ + 1) > options_.limits.cells / width_) {
    complain(
        file_,
        "has more than {} cells, the limit; leave columns out with ReadOptions.ignore or take fewer rows",
        options_.limits.cells);
  }
  ++rows_;
  return cells_.grow(static_cast<std::size_t>(width_));
}

double Table::unusable(const TableColumn& column, Index where, std::string_view what) {
  if (column.role != ColumnKind::target || !options_.target_optional) refuse(column, where, what);
  target_unusable_ = true;
  return not_a_number;
}

double Table::missing_cell(TableColumn& column, Index where) {
  ++column.missing;
  switch (column.role) {
    case ColumnKind::target:
      return unusable(column, where,
                      "the target is missing; remove the row or choose another ReadOptions.target");
    case ColumnKind::weight:
    case ColumnKind::offset:
    case ColumnKind::split:
      refuse(column, where,
             fmt::format("the {} is missing; fill it in or remove the row", name(column.role)));
    default:
      break;
  }
  if (options_.missing == Missing::refuse) {
    refuse(column, where,
           options_.target_optional ? "the cell is missing; ReadOptions.missing = mean fills such cells"
                                    : "the cell is missing; ReadOptions.missing = mean fills such cells, "
                                      "ReadOptions.ignore leaves the column out");
  }
  return not_a_number;
}

double Table::level(TableColumn& column, std::string_view text, Index where) {
  const int found = column.levels.find(text);
  if (found >= 0) return found;
  if (column.known) {
    if (column.role == ColumnKind::target) {
      unusable(column, where, fmt::format("the first file had no row whose target is {}", shown(text)));
    }
    ++column.unknown;
    return -1;
  }
  if (column.levels.size() >= options_.limits.levels) {
    refuse(
        column, where,
        column.role == ColumnKind::target
            ? fmt::format("the target has more than {} different texts; choose another ReadOptions.target",
                          options_.limits.levels)
            : fmt::format("the column has more than {} different texts; leave it out with ReadOptions.ignore",
                          options_.limits.levels));
  }
  return column.levels.add(text);
}

double Table::cell(TableColumn& column, std::string_view text, Index where) {
  double value = 0;
  const CellKind kind = classify(text, value);
  if (kind == CellKind::missing) return missing_cell(column, where);
  if (column.content == Content::undecided) {
    // Taken as a category each number would become a feature of its own.
    if (kind == CellKind::text && is_decimal_comma(text)) {
      refuse(column, where,
             fmt::format("{} looks like a number with a decimal comma, or commas between thousands; write "
                         "1234.5, or take the column as categories with ReadOptions.categorical = {}",
                         shown(text), column.name));
    }
    column.content = kind == CellKind::text ? Content::texts : Content::numbers;
    column.plain = column.content == Content::numbers;
    column.decided_at = where;
  }
  if (column.content == Content::texts) {
    ++(kind == CellKind::text ? column.texts : column.numbers);
    return level(column, text, where);
  }
  if (kind == CellKind::infinite) {
    return unusable(column, where,
                    fmt::format("{} is not finite; correct it or remove the row", shown(text)));
  }
  if (kind == CellKind::number) return number(column, value, where);
  if (column.role != ColumnKind::numeric && column.role != ColumnKind::target) {
    refuse(column, where,
           fmt::format("{} is not a number, which the {} must be", shown(text), name(column.role)));
  }
  if (column.known) {
    return unusable(column, where,
                    fmt::format("{} is not a number, and {} had numbers there", shown(text), earlier_file()));
  }
  refuse(column, where,
         fmt::format("{} is not a number, and the column began with numbers; take it as categories with "
                     "ReadOptions.categorical = {}, or correct the cell",
                     shown(text), column.name));
}

void Table::check_first_cells() const {
  for (const TableColumn& column : columns_) {
    if (column.decided_at == 0 || column.texts != 1 || column.numbers < 2) continue;
    refuse(column, column.decided_at,
           fmt::format(
               "{} is text, and all further cells of the column are numbers; if the line is a header, use "
               "ReadOptions.header = yes, if it does not belong to the table, ReadOptions.skip = N, and if "
               "the cells are "
               "categories, ReadOptions.categorical = {}",
               shown(column.levels.texts().front()), column.name));
  }
}

double Table::number(TableColumn& column, double value, Index where) {
  if (std::isnan(value)) return missing_cell(column, where);
  if (column.content == Content::undecided) column.content = Content::numbers, column.plain = true;
  if (std::isinf(value)) {
    return unusable(column, where, "the value is not finite; correct it or remove the row");
  }
  if (column.role == ColumnKind::weight && value < 0) {
    refuse(column, where, fmt::format("the weight is {}; weights are 0 or more", value));
  }
  if (column.content == Content::texts) return level(column, fmt::format("{}", value), where);
  return value;
}

}  // namespace bilevel::data
