#include <bilevel/models/prepared.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "feature_groups.hpp"
#include "gather.hpp"
#include "preparation.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
namespace problems = bilevel::problems;
using data::Dataset;

std::vector<Index> rows_at(const std::vector<const std::vector<Place>*>& groups) {
  std::vector<Index> rows;
  for (const auto* group : groups)
    for (const Place& place : *group)
      if (place.file == 0) rows.push_back(place.row);
  return rows;
}

/// Where the model is to be read with K folds, all but one of them.
std::vector<const std::vector<Place>*> others(const Layout& layout, std::size_t without) {
  std::vector<const std::vector<Place>*> groups;
  for (std::size_t k = 0; k < layout.folds.size(); ++k)
    if (k != without || layout.folds.size() == 1) groups.push_back(&layout.folds[k]);
  return groups;
}

std::vector<RowRange> joined(const std::vector<RowRange>& ranges) {
  std::vector<RowRange> out;
  for (const RowRange& range : ranges) {
    if (range.first == range.second) continue;
    if (!out.empty() && out.back().second == range.first)
      out.back().second = range.second;
    else
      out.push_back(range);
  }
  return out;
}

Vec picked(const Vec& all, const std::vector<Index>& columns) {
  Vec some(static_cast<Index>(columns.size()));
  for (std::size_t j = 0; j < columns.size(); ++j) some[static_cast<Index>(j)] = all[columns[j]];
  return some;
}

}  // namespace

Preparation::Preparation(TuningData given, const TuneOptions& options) : options_(options) {
  options.validate().throw_if_any();
  files_.push_back(std::move(given.data));
  const auto further = [&](std::optional<Dataset>& table) {
    if (!table) return -1;
    if (table->features() != first().features())
      throw InvalidInput(fmt::format("{} has {} features, {} has {}", table->source, table->features(),
                                     first().source, first().features()));
    files_.push_back(std::move(*table));
    return static_cast<int>(files_.size()) - 1;
  };
  validation_file_ = further(given.validation);
  test_file_ = further(given.test);
  for (const Dataset& file : files_) file.validate().throw_if_any();
}

void Preparation::describe_source() {
  for (const Dataset& file : files_)
    for (const std::string& note : file.notes) p_.notes.push_back(note);
  if (first().rows() < 2)
    throw InvalidInput(fmt::format("{}: one row is not enough to learn from", first().source));
  if (first().features() < 1) throw InvalidInput(fmt::format("{}: there are no features", first().source));
  if (first().target.size() != first().rows())
    throw InvalidInput(fmt::format("{}: there is no target to learn", first().source));
  p_.source = first().source;
  p_.format = data::name(first().format);
  p_.storage = first().sparse() ? "sparse" : "dense";
  p_.target = first().target_name;
  p_.image = first().image;
  p_.schema = first().schema;
  // A date, a number of money or the name of a row: hardly what a category is.
  for (const data::Column& column : first().schema.columns)
    if (column.levels.size() > std::max<std::size_t>(20, static_cast<std::size_t>(first().rows()) / 3))
      p_.notes.push_back(
          fmt::format("'{}' is text of {} different kinds in {} rows, and became as many features; "
                      "ReadOptions.ignore = '{}' leaves it out",
                      column.name, column.levels.size(), first().rows(), column.name));
}

void Preparation::place_rows() {
  layout_ =
      lay_out(options_, files_, validation_file_, test_file_, p_.model.classifies() && options_.stratify);
  p_.intercept = options_.intercept;
  p_.held_out = layout_.held_out;
  if (options_.refit && !p_.held_out)
    throw InvalidInput(
        "TuneOptions.refit is for TuneOptions.validation; with folds the final model has all rows anyway");
  p_.has_test = !layout_.test.empty();
  p_.refits = !p_.held_out || options_.refit;
  p_.splitting = layout_.text;
  p_.validation_rows = static_cast<Index>(layout_.validation.size());
  p_.test_rows = static_cast<Index>(layout_.test.size());
  const auto append = [&](const std::vector<Place>& places) {
    const RowRange range{static_cast<Index>(rows_.size()), static_cast<Index>(rows_.size() + places.size())};
    rows_.insert(rows_.end(), places.begin(), places.end());
    return range;
  };
  for (const auto& fold : layout_.folds) {
    if (fold.empty()) throw InvalidInput("a fold has no rows: use fewer folds");
    fold_ranges_.push_back(append(fold));
    p_.training_rows += static_cast<Index>(fold.size());
  }
  validation_ = append(layout_.validation);
  test_ = append(layout_.test);
  for (const Place& place : rows_) p_.source_rows.push_back(place.row + 1);
}

/// Missing cells get the mean of the training rows.
void Preparation::impute_missing() {
  const std::vector<Index> pool = rows_at(others(layout_, layout_.folds.size()));
  moments_ = data::column_moments(first(), pool);
  p_.imputed = moments_.mean;
  p_.imputes = options_.missing == data::Missing::mean;
  if (p_.imputes) {
    for (Dataset& file : files_) data::impute(file, p_.imputed);
    moments_ = data::column_moments(first(), pool);
  } else {
    for (const Dataset& file : files_) require_numbers(file, "TuneOptions");
  }
}

void Preparation::choose_columns() {
  for (Index j = 0; j < first().features(); ++j)
    if (!std::isfinite(moments_.mean[j]) || !std::isfinite(moments_.deviation[j]))
      throw InvalidInput(
          fmt::format("{}: the values of '{}' are too large to be averaged; rescale that column, or leave it "
                      "out by ReadOptions.ignore",
                      first().source, first().names[static_cast<std::size_t>(j)]));
  for (Index j = 0; j < first().features(); ++j) {
    const std::string& name = first().names[static_cast<std::size_t>(j)];
    if (options_.standardize && moments_.deviation[j] == 0) {
      p_.constant.push_back(name);
    } else {
      p_.columns.push_back(j);
      p_.names.push_back(name);
    }
  }
  if (p_.columns.empty())
    throw InvalidInput(fmt::format("{}: every feature is constant on the training rows", first().source));
}

// Shifts change nothing but the intercept's value, so they are made wherever there is one: curvature is
// better conditioned.
Vec Preparation::shift_of(const data::ColumnMoments& moments) const {
  const bool centre = options_.intercept || options_.standardize;
  return centre ? picked(moments.mean, p_.columns) : Vec(Vec::Zero(static_cast<Index>(p_.columns.size())));
}

Vec Preparation::scale_of(const data::ColumnMoments& moments) const {
  return options_.standardize ? picked(moments.deviation, p_.columns)
                              : Vec(Vec::Ones(static_cast<Index>(p_.columns.size())));
}

Standardisation Preparation::standardisation(const Vec& shift, const Vec& scale) const {
  Standardisation s{(shift - p_.stored_shift).cwiseQuotient(p_.stored_scale), Vec(scale.size())};
  for (Index j = 0; j < scale.size(); ++j)
    s.inverse_scale[j] = scale[j] > 0 ? p_.stored_scale[j] / scale[j] : 0;
  return s;
}

void Preparation::standardise() {
  const auto d = static_cast<Index>(p_.columns.size());
  const Vec shift = shift_of(moments_), scale = scale_of(moments_);
  const std::optional<Vec> common =
      options_.storage == data::Storage::dense ? std::nullopt : common_values(first(), p_.columns, shift);
  drop_zeros_ = common.has_value();
  if (common) p_.storage = "sparse";
  p_.stored_shift = first().sparse() ? Vec(Vec::Zero(d)) : common ? *common : shift;
  p_.stored_scale = first().sparse() ? Vec(Vec::Ones(d)) : scale;
  set_splits(shift, scale);
}

void Preparation::set_splits(const Vec& shift, const Vec& scale) {
  for (std::size_t k = 0; k < fold_ranges_.size(); ++k) {
    Split split;
    if (p_.held_out) {
      split.training = {fold_ranges_[k]};
      split.validation = {validation_};
      split.standardisation = standardisation(shift, scale);
    } else {
      split.training =
          joined({{0, fold_ranges_[k].first}, {fold_ranges_[k].second, fold_ranges_.back().second}});
      split.validation = {fold_ranges_[k]};
      const data::ColumnMoments own = data::column_moments(first(), rows_at(others(layout_, k)));
      split.standardisation = standardisation(shift_of(own), scale_of(own));
    }
    p_.folds.push_back(std::move(split));
  }
  p_.final.training = p_.held_out && !options_.refit ? p_.folds[0].training
                                                     : joined({{0, fold_ranges_.back().second}, validation_});
  p_.final.standardisation = standardisation(shift, scale);
  p_.final.validation = p_.has_test ? std::vector<RowRange>{test_} : p_.folds[0].validation;
}

std::shared_ptr<const Vec> Preparation::optional_column(Vec Dataset::*member, double factor) const {
  if ((first().*member).size() == 0) return nullptr;
  Vec column(static_cast<Index>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Vec& from = file_of(rows_[i]).*member;
    if (from.size() == 0) throw InvalidInput("a further file lacks the column of weights or offsets");
    column[static_cast<Index>(i)] = from[rows_[i].row] / factor;
  }
  return std::make_shared<const Vec>(std::move(column));
}

void Preparation::set_weights_and_offsets() {
  p_.samples.weights = optional_column(&Dataset::weights, 1);
  if (p_.samples.weights) {
    std::vector<const Split*> splits{&p_.final};
    for (const Split& split : p_.folds) splits.push_back(&split);
    for (const Split* split : splits)
      for (const auto* ranges : {&split->training, &split->validation}) {
        double total = 0;
        for (const auto& [from, to] : *ranges) total += p_.samples.weights->segment(from, to - from).sum();
        if (!(total > 0))
          throw InvalidInput(fmt::format(
              "{}: all rows of a part have weight 0 in the column of ReadOptions.weights: give some of them "
              "a positive weight, or use fewer folds",
              p_.source));
      }
  }
  p_.samples.offsets = optional_column(&Dataset::offsets, p_.target_scale);
  if (p_.samples.offsets && p_.model == Model::softmax)
    throw InvalidInput("ReadOptions.offset is not offered for softmax");
}

void Preparation::set_penalties() {
  const auto d = static_cast<Index>(p_.columns.size());
  const auto by_group = [&] {
    const std::vector<Index> group = groups_of(options_, first(), p_.columns, p_.hyperparameters);
    p_.penalties =
        problems::PenaltyMap::per_group(group, static_cast<Index>(p_.hyperparameters.size()), p_.outputs);
  };
  p_.penalty = options_.penalty;
  if (p_.network()) return set_network_penalties();
  switch (options_.penalty) {
    case Penalty::global:
      p_.penalties = problems::PenaltyMap::global(d, p_.outputs);
      p_.hyperparameters = {"all"};
      break;
    case Penalty::automatic:
      if (options_.grouped()) {
        by_group();
        break;
      }
      [[fallthrough]];
    case Penalty::per_feature:
      p_.penalties = problems::PenaltyMap::per_feature(d, p_.outputs);
      p_.hyperparameters = p_.names;
      break;
    case Penalty::per_class:
      p_.penalties = problems::PenaltyMap::per_class(d, p_.outputs);
      p_.hyperparameters = p_.classes;
      break;
    case Penalty::per_group:
      by_group();
      break;
    case Penalty::per_layer:
    case Penalty::per_parameter:
      throw InvalidInput("TuneOptions.penalty = per-layer and per-parameter are for TuneOptions.model = mlp");
  }
}

Prepared Preparation::run() {
  describe_source();
  choose_model();
  place_rows();
  impute_missing();
  choose_columns();
  standardise();
  set_targets();
  set_weights_and_offsets();
  set_penalties();
  p_.samples.matrix =
      gather(files_, rows_, p_.columns, p_.stored_shift, p_.stored_scale, drop_zeros_, p_.nonzeros);
  return std::move(p_);
}

Prepared prepare(TuningData data, const TuneOptions& options) {
  return Preparation(std::move(data), options).run();
}

void require_prepared(const Prepared& p, const TuneOptions& options) {
  if (p.folds.empty()) throw InvalidInput("the data were not prepared: call prepare(data, options) first");
  Violations v("TuneOptions");
  const auto as_then = [&](std::string_view field, auto now, auto then) {
    v.require(now == then, field, now, fmt::format("must be {}, as when the data were prepared", then));
  };
  if (options.model != Model::automatic) as_then("model", name(options.model), name(p.kind()));
  as_then("penalty", name(options.penalty), name(p.penalty));
  as_then("intercept", options.intercept, p.intercept);
  v.throw_if_any();
}

}  // namespace bilevel::models
