#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/complaint.hpp"
#include "data/table.hpp"

namespace bilevel::data {
namespace {

using Content = TableColumn::Content;

/// What becomes of one column of the gathered rows.
struct Move {
  Index slot = 0;
  Index feature = 0;         ///< where its (first) feature goes
  Index count = 1;           ///< consecutive numeric columns that move together; 0: categorical
  std::vector<int> numbers;  ///< of a level: its feature, from `feature`
  int missing = -1;          ///< the feature of a missing cell; -1: none
};

/// A column that has one number a row and is no feature.
struct Aside {
  Index slot = 0;
  ColumnKind role = ColumnKind::target;
  std::vector<int> numbers;  ///< of a level: its number once sorted
};

double sorted_number(const std::vector<int>& numbers, double gathered) {
  return numbers.empty() || !(gathered >= 0) ? gathered : numbers[static_cast<std::size_t>(gathered)];
}

/// One of the features of a categorical column becomes 1, the others 0.
void put_level(const Move& move, double code, double* features) {
  std::fill_n(features + move.feature, move.numbers.size(), 0.0);
  const int number = std::isnan(code) ? move.missing
                     : code < 0       ? -1
                                      : move.numbers[static_cast<std::size_t>(code)];
  if (number >= 0) features[move.feature + number] = 1;
}

void put(const Move& move, const double* gathered, double* features) {
  if (move.count > 0) {
    std::memcpy(features + move.feature, gathered + move.slot,
                static_cast<std::size_t>(move.count) * sizeof(double));
  } else {
    put_level(move, gathered[move.slot], features);
  }
}

void put_aside(const Aside& aside, double gathered, Index row, Dataset& data) {
  const double value = sorted_number(aside.numbers, gathered);
  switch (aside.role) {
    case ColumnKind::target:
      data.target[row] = value;
      break;
    case ColumnKind::weight:
      data.weights[row] = value;
      break;
    case ColumnKind::offset:
      data.offsets[row] = value;
      break;
    default:
      data.split[static_cast<std::size_t>(row)] = static_cast<int>(value);
  }
}

}  // namespace

void Table::add_notes(Dataset& data) const {
  constexpr std::size_t most = 10;
  std::vector<std::string> cells;
  for (const std::size_t c : order_) {
    const TableColumn& column = columns_[c];
    if (column.role == ColumnKind::target) continue;
    if (column.missing > 0 && column.missing == rows_) {
      cells.push_back(fmt::format("all cells of {} are missing", shown(column.name)));
    } else if (column.missing > 0) {
      cells.push_back(fmt::format("{} cell{} of {} {} missing", column.missing,
                                  column.missing == 1 ? "" : "s", shown(column.name),
                                  column.missing == 1 ? "is" : "are"));
    }
    if (column.unknown > 0) {
      cells.push_back(fmt::format(
          "{} cell{} of {} hold{} a level that the first file had not; zeros stand for it", column.unknown,
          column.unknown == 1 ? "" : "s", shown(column.name), column.unknown == 1 ? "s" : ""));
    }
  }
  data.notes = notes_;
  data.notes.insert(data.notes.end(), cells.begin(),
                    cells.begin() + static_cast<std::ptrdiff_t>(std::min(most, cells.size())));
  if (cells.size() > most) {
    data.notes.push_back(fmt::format("the same of {} further columns", cells.size() - most));
  }
  if (target_unusable_) {
    data.notes.push_back("the target has cells that are missing or unknown, so it is not used");
  }
}

void Table::describe(Dataset& data, Format format) {
  data.source = file_;
  data.format = format;
  data.schema.format = format;
  data.schema.header = header_;
  for (const std::size_t c : order_) {
    TableColumn& column = columns_[c];
    const bool feature = column.role == ColumnKind::numeric;
    Column described{column.name, column.role, {}};
    if (feature && column.content == Content::texts) {
      described.kind = ColumnKind::categorical;
      described.levels = column.levels.texts();
      for (const std::string& level : described.levels) {
        data.names.push_back(fmt::format("{}={}", column.name, level));
        data.origins.push_back(column.name);
      }
    } else if (feature) {
      data.names.push_back(column.name);
      data.origins.push_back(column.name);
    }
    if (column.role == ColumnKind::target) data.target_name = column.name;
    data.schema.columns.push_back(std::move(described));
  }
  if (like_ != nullptr) data.schema = *like_;
  if (like_ != nullptr) data.target_name = like_->target_name;
  const auto features = static_cast<Index>(data.names.size());
  if (features > options_.limits.columns) {
    complain(file_,
             "becomes {} features, more than the limit of {}; leave columns of many levels out with "
             "ReadOptions.ignore",
             features, options_.limits.columns);
  }
  if (rows_ > options_.limits.cells / std::max<Index>(features, 1)) {
    complain(file_,
             "becomes {} rows of {} features, more than {} cells, the limit; leave columns out with "
             "ReadOptions.ignore",
             rows_, features, options_.limits.cells);
  }
  data.schema.features = features;
  data.schema.names = data.names;
}

void Table::fill(Dataset& data) {
  std::vector<Move> moves;
  std::vector<Aside> asides;
  Index feature = 0;
  std::vector<std::vector<int>> sorted(columns_.size());
  for (const std::size_t c : order_) {
    TableColumn& column = columns_[c];
    // A column that had cells missing has the level for them, even where no cell says "missing".
    if (column.role == ColumnKind::numeric && column.content == Content::texts && column.missing > 0 &&
        !column.known) {
      column.levels.add(missing_level);
    }
    sorted[c] = column.levels.sort();
  }
  describe(data, data.format);
  for (const std::size_t c : order_) {
    TableColumn& column = columns_[c];
    if (column.role == ColumnKind::ignored) continue;
    if (column.role != ColumnKind::numeric) {
      if (column.role == ColumnKind::target && target_unusable_) continue;
      asides.push_back({column.slot, column.role, sorted[c]});
      if (column.role == ColumnKind::target) data.levels = column.levels.texts(), data.target.resize(rows_);
      if (column.role == ColumnKind::weight) data.weights.resize(rows_);
      if (column.role == ColumnKind::offset) data.offsets.resize(rows_);
      if (column.role == ColumnKind::split) {
        data.split_levels = column.levels.texts();
        data.split.resize(static_cast<std::size_t>(rows_));
      }
    } else if (column.content == Content::texts) {
      moves.push_back({column.slot, feature, 0, sorted[c], column.levels.find(missing_level)});
      feature += static_cast<Index>(sorted[c].size());
    } else {
      const bool joins =
          !moves.empty() && moves.back().count > 0 && moves.back().slot + moves.back().count == column.slot;
      if (joins) {
        ++moves.back().count;
      } else {
        moves.push_back({column.slot, feature, 1, {}, -1});
      }
      ++feature;
    }
  }

  auto& x = data.x.emplace<DenseRows>(rows_, feature);
  if (!column_major_) {
    Index row = 0;
    cells_.drain([&](const double* cells, std::size_t count) {
      const Index here = static_cast<Index>(count) / width_;
#pragma omp parallel for schedule(static) if (count > 65536)
      for (Index i = 0; i < here; ++i) {
        const double* const gathered = cells + i * width_;
        double* const features = x.data() + (row + i) * feature;
        for (const Move& move : moves) put(move, gathered, features);
        for (const Aside& aside : asides) put_aside(aside, gathered[aside.slot], row + i, data);
      }
      row += here;
    });
    return;
  }
  std::vector<const Move*> move_of(static_cast<std::size_t>(width_), nullptr);
  std::vector<const Aside*> aside_of(static_cast<std::size_t>(width_), nullptr);
  for (const Move& move : moves) {
    for (Index k = 0; k < std::max<Index>(move.count, 1); ++k)
      move_of[static_cast<std::size_t>(move.slot + k)] = &move;
  }
  for (const Aside& aside : asides) aside_of[static_cast<std::size_t>(aside.slot)] = &aside;
  Index column = 0, row = 0;
  cells_.drain([&](const double* cells, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      const auto c = static_cast<std::size_t>(column);
      const Move* const move = move_of[c];
      if (move != nullptr && move->count > 0) {
        x(row, move->feature + column - move->slot) = cells[k];
      } else if (move != nullptr) {
        put_level(*move, cells[k], x.data() + row * feature);
      } else if (aside_of[c] != nullptr) {
        put_aside(*aside_of[c], cells[k], row, data);
      }
      if (++row == rows_) row = 0, ++column;
    }
  });
}

Dataset Table::finish(Format format) {
  Dataset data;
  data.format = format;
  check_first_cells();
  fill(data);
  add_notes(data);
  if (like_ == nullptr) {
    data.schema.target_name = data.target_name;
    data.schema.target_levels = data.levels;
  }
  return data;
}

}  // namespace bilevel::data
