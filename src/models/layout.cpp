#include "layout.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>

#include <bilevel/data/split.hpp>

namespace bilevel::models {

namespace data = bilevel::data;
using data::Dataset;

std::vector<Place> all_rows(int file, Index rows) {
  std::vector<Place> places;
  for (Index i = 0; i < rows; ++i) places.push_back({file, i});
  return places;
}

namespace {

/// The column that says what a row is for, by its name where that is known.
std::string split_column(const Dataset& d) {
  for (const data::Column& column : d.schema.columns)
    if (column.kind == data::ColumnKind::split) return column.name;
  return "split";
}

/// By a column: train, validation and test, or one fold for each of its values.
Layout by_column(const Dataset& d) {
  const std::string column = split_column(d);
  Layout layout;
  std::vector<int> role;  // −1 test, −2 validation, else the fold
  const auto is = [](const std::string& text, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), text) != words.end();
  };
  int folds = 0;
  bool trains = false, validates = false;
  for (const std::string& level : d.split_levels) {
    std::string lower = level;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (is(lower, {"test", "testing"})) {
      role.push_back(-1);
    } else if (is(lower, {"validation", "valid", "val", "dev"})) {
      role.push_back(-2);
      validates = true;
    } else if (is(lower, {"train", "training"})) {
      role.push_back(0);
      folds = std::max(folds, 1);
      trains = true;
    } else {
      role.push_back(folds++);
    }
  }
  if (trains && !validates)
    throw InvalidInput(fmt::format(
        "ReadOptions.split = {}: it names rows called train but none called validation; add some, or "
        "write one value for each fold",
        column));
  if (validates && !trains)
    throw InvalidInput(
        fmt::format("ReadOptions.split = {}: it names validation rows but no rows called train", column));
  if (trains && folds > 1)
    throw InvalidInput(
        fmt::format("ReadOptions.split = {}: it mixes 'train' with other names; use train, validation, "
                    "test, or one value for each fold and test",
                    column));
  if (!trains && folds < 2)
    throw InvalidInput(
        fmt::format("ReadOptions.split = {}: it has {} value(s) beside test; two or more folds are needed, "
                    "or rows called train and validation",
                    column, folds));
  layout.folds.resize(static_cast<std::size_t>(folds));
  for (Index i = 0; i < d.rows(); ++i) {
    const int part = role[static_cast<std::size_t>(d.split[static_cast<std::size_t>(i)])];
    (part == -1   ? layout.test
     : part == -2 ? layout.validation
                  : layout.folds[static_cast<std::size_t>(part)])
        .push_back({0, i});
  }
  layout.held_out = validates;
  layout.text = validates ? fmt::format("by column '{}'", column)
                          : fmt::format("{} folds by column '{}'", folds, column);
  return layout;
}

}  // namespace

Layout lay_out(const TuneOptions& options, const std::vector<Dataset>& files, int validation_file,
               int test_file, bool stratified) {
  const Dataset& d = files[0];
  Layout layout;
  if (!d.split.empty()) layout = by_column(d);
  const bool split_given = !layout.folds.empty();

  std::vector<Index> pool;
  if (!split_given) {
    pool.resize(static_cast<std::size_t>(d.rows()));
    std::iota(pool.begin(), pool.end(), Index{0});
  }
  const auto strata = [&]() -> std::optional<std::vector<int>> {
    if (!stratified) return {};
    Eigen::VectorXd target(static_cast<Index>(pool.size()));
    for (std::size_t i = 0; i < pool.size(); ++i) target[static_cast<Index>(i)] = d.target[pool[i]];
    return data::strata_of(target);
  };
  const auto take = [&](double fraction, std::uint64_t seed) {
    const auto groups = strata();
    const auto drawn =
        data::draw_part(static_cast<Index>(pool.size()), fraction, seed, groups ? &*groups : nullptr);
    std::vector<Place> taken;
    std::vector<Index> rest;
    for (std::size_t i = 0; i < pool.size(); ++i)
      if (drawn[i])
        taken.push_back({0, pool[i]});
      else
        rest.push_back(pool[i]);
    pool = std::move(rest);
    return taken;
  };

  if (test_file >= 0) {
    if (!layout.test.empty())
      throw InvalidInput(
          "ReadOptions.split names test rows, and a table of its own is given for TuneOptions.test: give one "
          "of the two");
    layout.test = all_rows(test_file, files[static_cast<std::size_t>(test_file)].rows());
  } else if (!split_given) {
    const double fraction = options.test;
    if (fraction > 0) {
      if (pool.size() < 3)
        throw InvalidInput("there are too few rows to keep some for a test: use TuneOptions.test = 0");
      layout.test = take(fraction, options.seed ^ 0x7465737400000000ULL);
    }
  }
  if (split_given) {
    if (validation_file >= 0 || options.validation)
      throw InvalidInput("ReadOptions.split and TuneOptions.validation: give one of the two");
    return layout;
  }
  std::string how;
  if (validation_file >= 0) {
    layout.held_out = true;
    layout.validation = all_rows(validation_file, files[static_cast<std::size_t>(validation_file)].rows());
    how = "validation from a file";
  } else if (options.validation) {
    const double fraction = *options.validation;
    if (pool.size() < 2) throw InvalidInput("there are too few rows to split into training and validation");
    layout.held_out = true;
    layout.validation = take(fraction, options.seed);
    how = fmt::format("{:g} of the rows held out{}, seed {}", fraction, stratified ? ", stratified" : "",
                      options.seed);
  }
  if (layout.held_out) {
    layout.folds.resize(1);
    for (const Index i : pool) layout.folds[0].push_back({0, i});
  } else {
    if (static_cast<int>(pool.size()) < 2 * options.folds)
      throw InvalidInput(fmt::format("{} rows are too few for {} folds: use a smaller TuneOptions.folds",
                                     pool.size(), options.folds));
    const auto groups = strata();
    const auto fold = data::assign_folds(static_cast<Index>(pool.size()), options.folds, options.seed,
                                         groups ? &*groups : nullptr);
    layout.folds.resize(static_cast<std::size_t>(options.folds));
    for (std::size_t i = 0; i < pool.size(); ++i)
      layout.folds[static_cast<std::size_t>(fold[i])].push_back({0, pool[i]});
    how = fmt::format("{} folds{}, seed {}", options.folds, stratified ? ", stratified" : "", options.seed);
  }
  layout.text = how;
  return layout;
}

}  // namespace bilevel::models
