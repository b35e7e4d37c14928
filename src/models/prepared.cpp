#include <bilevel/models/prepared.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include <bilevel/data/moments.hpp>

#include <bilevel/models/classes.hpp>
#include <bilevel/models/example.hpp>
#include <bilevel/models/feature_groups.hpp>
#include <bilevel/models/gather.hpp>
#include <bilevel/models/layout.hpp>

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
namespace problems = bilevel::problems;
using data::Dataset;

Model chosen(const Task& task, const Dataset& d, const Classes& classes, std::vector<std::string>& notes) {
  if (task.model != Model::automatic) return task.model;
  const bool labels = !d.levels.empty() || d.format == data::Format::idx;
  const std::size_t count = classes.values.size();
  const Model model = count == 2 ? Model::logistic : labels ? Model::softmax : Model::ridge;
  const bool whole = std::all_of(classes.values.begin(), classes.values.end(),
                                 [](double value) { return value == std::floor(value); });
  notes.push_back(fmt::format("model {} was chosen because the target {}; --model takes another{}",
                              name(model),
                              count == 2 ? "has two values"
                              : labels   ? fmt::format("has {} classes", count)
                                         : std::string("is a number"),
                              model == Model::ridge && whole && count <= 20
                                  ? fmt::format(" (softmax, if its {} whole numbers are classes)", count)
                                  : ""));
  return model;
}

std::vector<Index> rows_of(const std::vector<const std::vector<Place>*>& groups) {
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

void require_classes(const std::vector<int>& classes, const std::vector<RowRange>& ranges, std::size_t count,
                     const std::vector<std::string>& names, std::string_view where) {
  std::vector<Index> seen(count, 0);
  for (const auto& [first, last] : ranges)
    for (Index i = first; i < last; ++i)
      ++seen[static_cast<std::size_t>(classes[static_cast<std::size_t>(i)])];
  for (std::size_t c = 0; c < count; ++c)
    if (seen[c] == 0)
      throw InvalidInput(
          fmt::format("class '{}' does not occur in {}: use fewer folds, another --seed, or leave "
                      "that class out of the file",
                      names[c], where));
}

}  // namespace

Prepared prepare(const Task& task) {
  task.validate();
  Prepared p;
  std::vector<Dataset> files;
  files.push_back(task.example ? example_data(task.seed) : data::read(task.data, task.reading));
  const auto further = [&](const std::string& path, const std::string& labels, std::string_view option) {
    files.push_back(read_further(task.reading, files[0].schema, path, labels, option));
    return static_cast<int>(files.size()) - 1;
  };
  int validation_file = -1, test_file = -1;
  if (!task.validation.empty() && !share(task.validation, "--validation"))
    validation_file = further(task.validation, task.validation_labels, "--validation-labels");
  if (!task.test.empty() && !share(task.test, "--test"))
    test_file = further(task.test, task.test_labels, "--test-labels");
  for (const Dataset& file : files)
    for (const std::string& note : file.notes) p.notes.push_back(note);
  Dataset& first = files[0];
  if (first.rows() < 2)
    throw InvalidInput(fmt::format("{}: one row is not enough to learn from", first.source));
  if (first.features() < 1) throw InvalidInput(fmt::format("{}: there are no features", first.source));
  p.source = first.source;
  p.format = data::name(first.format);
  p.storage = first.sparse() ? "sparse" : "dense";
  p.target = first.target_name;
  p.image = first.image;
  p.schema = first.schema;
  // A date, a number of money or the name of a row: hardly what a category is.
  for (const data::Column& column : first.schema.columns)
    if (column.levels.size() > std::max<std::size_t>(20, static_cast<std::size_t>(first.rows()) / 3))
      p.notes.push_back(
          fmt::format("'{}' is text of {} different kinds in {} rows, and became as many features; --ignore "
                      "'{}' leaves it out",
                      column.name, column.levels.size(), first.rows(), column.name));

  const Classes classes = classes_of(first);
  p.model = chosen(task, first, classes, p.notes);
  const bool classifier = p.model.classifies();
  if (!classifier && !first.levels.empty())
    throw InvalidInput(
        fmt::format("{}: the target '{}' is text ('{}', …): {} wants numbers; use --model logistic or "
                    "softmax, or name another column by --target",
                    first.source, first.target_name, first.levels[0], name(p.model)));
  if (classifier) {
    if (classes.values.size() < 2)
      throw InvalidInput(fmt::format("{}: every row has the label '{}': a classifier needs two classes",
                                     first.source, classes.names.empty() ? "" : classes.names[0]));
    if (p.model != Model::softmax && classes.values.size() > 2)
      throw InvalidInput(
          fmt::format("{}: the target has {} values, {} takes two; use --model softmax (or ridge for "
                      "numbers)",
                      first.source, classes.values.size(), name(p.model)));
    if (classes.values.size() > 1000)
      throw InvalidInput(
          fmt::format("{}: the target has {} distinct values, more than a classifier's 1000; use "
                      "--model ridge for numbers",
                      first.source, classes.values.size()));
    p.classes = classes.names;
    p.outputs = p.model == Model::softmax ? static_cast<Index>(classes.values.size()) : 1;
  }
  if (task.penalty == Penalty::per_class && p.model != Model::softmax)
    throw InvalidInput(fmt::format("--penalty per-class is for softmax, and the model is {}", name(p.model)));

  Layout layout = lay_out(task, files, validation_file, test_file, classifier && task.stratify);
  p.intercept = task.intercept;
  p.held_out = layout.held_out;
  p.has_test = !layout.test.empty();
  p.refits = !p.held_out || task.refit;
  p.splitting = layout.text;
  p.validation_rows = static_cast<Index>(layout.validation.size());
  p.test_rows = static_cast<Index>(layout.test.size());

  // Rows: the folds one after another, then validation, then test.
  std::vector<Place> rows;
  std::vector<RowRange> fold_ranges;
  const auto append = [&](const std::vector<Place>& places) {
    const RowRange range{static_cast<Index>(rows.size()), static_cast<Index>(rows.size() + places.size())};
    rows.insert(rows.end(), places.begin(), places.end());
    return range;
  };
  for (const auto& fold : layout.folds) {
    if (fold.empty()) throw InvalidInput("a fold has no rows: use fewer folds");
    fold_ranges.push_back(append(fold));
    p.training_rows += static_cast<Index>(fold.size());
  }
  const RowRange validation = append(layout.validation), test = append(layout.test);
  for (const Place& place : rows) p.source_rows.push_back(place.row + 1);

  // Missing cells get the mean of the training rows.
  const std::vector<Index> pool = rows_of(others(layout, layout.folds.size()));
  data::ColumnMoments moments = data::column_moments(first, pool);
  p.imputed = moments.mean;
  p.imputes = task.reading.missing == data::Missing::mean;
  if (p.imputes) {
    for (Dataset& file : files) data::impute(file, moments.mean);
    moments = data::column_moments(first, pool);
  }

  for (Index j = 0; j < first.features(); ++j)
    if (!std::isfinite(moments.mean[j]) || !std::isfinite(moments.deviation[j]))
      throw InvalidInput(
          fmt::format("{}: the values of '{}' are too large to be averaged; rescale that column, or leave it "
                      "out by --ignore",
                      first.source, first.names[static_cast<std::size_t>(j)]));
  std::vector<Index> kept;
  for (Index j = 0; j < first.features(); ++j)
    if (task.standardize && moments.deviation[j] == 0)
      p.constant.push_back(first.names[static_cast<std::size_t>(j)]);
    else
      kept.push_back(j);
  if (kept.empty())
    throw InvalidInput(fmt::format("{}: every feature is constant on the training rows", first.source));
  p.columns = kept;
  const auto d = static_cast<Index>(kept.size());
  for (const Index j : kept) p.names.push_back(first.names[static_cast<std::size_t>(j)]);

  const auto pick = [&](const Vec& all) {
    Vec some(d);
    for (Index j = 0; j < d; ++j) some[j] = all[kept[static_cast<std::size_t>(j)]];
    return some;
  };
  // Shifts change nothing but the intercept's value, so they are made wherever there is one: curvature is
  // better conditioned.
  const bool centre = task.intercept || task.standardize;
  const auto shift_of = [&](const data::ColumnMoments& m) {
    return centre ? pick(m.mean) : Vec(Vec::Zero(d));
  };
  const auto scale_of = [&](const data::ColumnMoments& m) {
    return task.standardize ? pick(m.deviation) : Vec(Vec::Ones(d));
  };
  const Vec pool_shift = shift_of(moments), pool_scale = scale_of(moments);
  const std::optional<Vec> common =
      task.reading.storage == data::Storage::dense ? std::nullopt : common_values(first, kept, pool_shift);
  if (common) p.storage = "sparse";
  p.stored_shift = first.sparse() ? Vec(Vec::Zero(d)) : common ? *common : pool_shift;
  p.stored_scale = first.sparse() ? Vec(Vec::Ones(d)) : pool_scale;
  const auto standardisation = [&](const Vec& shift, const Vec& scale) {
    Standardisation s{(shift - p.stored_shift).cwiseQuotient(p.stored_scale), Vec(d)};
    for (Index j = 0; j < d; ++j) s.inverse_scale[j] = scale[j] > 0 ? p.stored_scale[j] / scale[j] : 0;
    return s;
  };
  for (std::size_t k = 0; k < fold_ranges.size(); ++k) {
    Part part;
    if (p.held_out) {
      part.training = {fold_ranges[k]};
      part.validation = {validation};
      part.standardisation = standardisation(pool_shift, pool_scale);
    } else {
      part.training = joined({{0, fold_ranges[k].first}, {fold_ranges[k].second, fold_ranges.back().second}});
      part.validation = {fold_ranges[k]};
      const data::ColumnMoments own = data::column_moments(first, rows_of(others(layout, k)));
      part.standardisation = standardisation(shift_of(own), scale_of(own));
    }
    p.folds.push_back(std::move(part));
  }
  p.final.training =
      p.held_out && !task.refit ? p.folds[0].training : joined({{0, fold_ranges.back().second}, validation});
  p.final.standardisation = standardisation(pool_shift, pool_scale);
  p.final.validation = p.has_test ? std::vector<RowRange>{test} : p.folds[0].validation;

  // Targets, weights and offsets in the order of the rows.
  Vec labels(static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    labels[static_cast<Index>(i)] = files[static_cast<std::size_t>(rows[i].file)].target[rows[i].row];
  if (classifier) {
    auto numbers = std::make_shared<std::vector<int>>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int c = classes.of(labels[static_cast<Index>(i)]);
      if (c < 0)
        throw InvalidInput(fmt::format("{}: row {} has the label '{}', which the training file does not have",
                                       files[static_cast<std::size_t>(rows[i].file)].source, rows[i].row + 1,
                                       labels[static_cast<Index>(i)]));
      (*numbers)[i] = c;
      if (p.outputs == 1) labels[static_cast<Index>(i)] = c == 0 ? -1 : 1;
    }
    for (std::size_t k = 0; k < p.folds.size(); ++k)
      require_classes(*numbers, p.folds[k].training, p.classes.size(), p.classes,
                      p.held_out ? "the training rows" : fmt::format("the training rows of fold {}", k + 1));
    p.samples.classes = numbers;
  } else {
    const auto train = labels.head(p.training_rows).array();
    const problems::LossKind& kind = p.model.loss_kind();
    if (kind.target == problems::LossKind::Target::positive) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (!kind.takes(labels[static_cast<Index>(i)]))
          throw InvalidInput(fmt::format("{}: row {} has the target {}; {} wants {}",
                                         files[static_cast<std::size_t>(rows[i].file)].source,
                                         rows[i].row + 1, labels[static_cast<Index>(i)], kind.model,
                                         kind.wants));
      if (train.maxCoeff() == 0)
        throw InvalidInput(fmt::format("{}: every count of the training rows is 0", kind.model));
      // The margin is the logarithm of the mean, and begins at 0.
      if (const double mean = train.mean(); !(mean > 1e-12 && mean < 1e12))
        throw InvalidInput(fmt::format("{}: the mean of the target is {:.3g}; rescale it to be nearer to 1",
                                       p.source, mean));
      p.loss_parameter = task.loss_parameter > 0 ? task.loss_parameter : kind.usual_parameter(1);
    } else {
      const double mean = train.mean(), deviation = std::sqrt((train - mean).square().mean());
      if (!std::isfinite(deviation))
        throw InvalidInput(
            fmt::format("{}: the values of the target are too large to be averaged; rescale them", p.source));
      if (deviation == 0)
        throw InvalidInput(fmt::format(
            "{}: the target is {} in every training row: there is nothing to learn", p.source, mean));
      p.target_shift = task.intercept ? mean : 0;
      p.target_scale = deviation;
      p.loss_parameter = task.loss_parameter > 0 ? task.loss_parameter : kind.usual_parameter(deviation);
      labels = (labels.array() - p.target_shift) / p.target_scale;
    }
  }
  p.samples.labels = std::make_shared<const Vec>(std::move(labels));
  const auto optional_column = [&](Vec Dataset::*member, double factor) -> std::shared_ptr<const Vec> {
    if ((files[0].*member).size() == 0) return nullptr;
    Vec column(static_cast<Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Vec& from = files[static_cast<std::size_t>(rows[i].file)].*member;
      if (from.size() == 0) throw InvalidInput("a further file lacks the column of weights or offsets");
      column[static_cast<Index>(i)] = from[rows[i].row] / factor;
    }
    return std::make_shared<const Vec>(std::move(column));
  };
  p.samples.weights = optional_column(&Dataset::weights, 1);
  if (p.samples.weights) {
    std::vector<const Part*> parts{&p.final};
    for (const Part& part : p.folds) parts.push_back(&part);
    for (const Part* part : parts)
      for (const auto* ranges : {&part->training, &part->validation}) {
        double total = 0;
        for (const auto& [from, to] : *ranges) total += p.samples.weights->segment(from, to - from).sum();
        if (!(total > 0))
          throw InvalidInput(fmt::format(
              "{}: all rows of a part have weight 0 in the column of --weights: give some of them "
              "a positive weight, or use fewer folds",
              p.source));
      }
  }
  p.samples.offsets = optional_column(&Dataset::offsets, p.target_scale);
  if (p.samples.offsets && p.model == Model::softmax)
    throw InvalidInput("--offset is not offered for softmax");

  const auto by_group = [&] {
    const std::vector<Index> group = groups_of(task, first, kept, p.hyperparameters);
    p.penalties =
        problems::PenaltyMap::per_group(group, static_cast<Index>(p.hyperparameters.size()), p.outputs);
  };
  switch (task.penalty) {
    case Penalty::global:
      p.penalties = problems::PenaltyMap::global(d, p.outputs);
      p.hyperparameters = {"all"};
      break;
    case Penalty::automatic:
      if (task.grouped()) {
        by_group();
        break;
      }
      [[fallthrough]];
    case Penalty::per_feature:
      p.penalties = problems::PenaltyMap::per_feature(d, p.outputs);
      p.hyperparameters = p.names;
      break;
    case Penalty::per_class:
      p.penalties = problems::PenaltyMap::per_class(d, p.outputs);
      p.hyperparameters = p.classes;
      break;
    case Penalty::per_group:
      by_group();
      break;
  }
  p.samples.matrix =
      gather(files, rows, kept, p.stored_shift, p.stored_scale, common.has_value(), p.nonzeros);
  return p;
}

}  // namespace bilevel::models
