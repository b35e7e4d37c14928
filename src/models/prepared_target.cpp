#include <algorithm>
#include <cmath>

#include "preparation.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
namespace problems = bilevel::problems;

Model model_for(const TuneOptions& options, const data::Dataset& d, const Classes& classes,
                std::vector<std::string>& notes) {
  const Model asked = options.model == Model::mlp ? options.last_layer : options.model;
  const std::string_view field = options.model == Model::mlp ? "last_layer" : "model";
  if (asked != Model::automatic) return asked;
  const bool labels = !d.levels.empty() || d.format == data::Format::idx;
  const std::size_t count = classes.values.size();
  const Model model = count == 2 ? Model::logistic : labels ? Model::softmax : Model::ridge;
  const bool whole = std::all_of(classes.values.begin(), classes.values.end(),
                                 [](double value) { return value == std::floor(value); });
  notes.push_back(fmt::format("{} {} was chosen because the target {}; TuneOptions.{} takes another{}",
                              options.model == Model::mlp ? "the last layer" : "model", name(model),
                              count == 2 ? "has two values"
                              : labels   ? fmt::format("has {} classes", count)
                                         : std::string("is a number"),
                              field,
                              model == Model::ridge && whole && count <= 20
                                  ? fmt::format(" (softmax, if its {} whole numbers are classes)", count)
                                  : ""));
  return model;
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
          fmt::format("class '{}' does not occur in {}: use fewer folds, another TuneOptions.seed, or leave "
                      "that class out of the file",
                      names[c], where));
}

}  // namespace

void Preparation::choose_model() {
  classes_ = classes_of(first());
  p_.model = model_for(options_, first(), classes_, p_.notes);
  if (options_.model == Model::mlp) {
    p_.layers = options_.layers.empty() ? std::vector<Index>{usual_layer} : options_.layers;
    p_.activation = options_.activation;
    p_.start_seed = options_.seed;
  }
  const bool classifier = p_.model.classifies();
  const std::size_t count = classes_.values.size();
  if (!classifier && !first().levels.empty())
    throw InvalidInput(fmt::format(
        "{}: the target '{}' is text ('{}', …): {} wants numbers; use TuneOptions.model = logistic or "
        "softmax, or name another column by ReadOptions.target",
        first().source, first().target_name, first().levels[0], name(p_.model)));
  if (classifier) {
    if (count < 2)
      throw InvalidInput(fmt::format("{}: every row has the label '{}': a classifier needs two classes",
                                     first().source, classes_.names.empty() ? "" : classes_.names[0]));
    if (p_.model != Model::softmax && count > 2)
      throw InvalidInput(
          fmt::format("{}: the target has {} values, {} takes two; use TuneOptions.model = softmax (or ridge "
                      "for numbers)",
                      first().source, count, name(p_.model)));
    if (count > 1000)
      throw InvalidInput(
          fmt::format("{}: the target has {} distinct values, more than a classifier's 1000; use "
                      "TuneOptions.model = ridge for numbers",
                      first().source, count));
    p_.classes = classes_.names;
    p_.outputs = p_.model == Model::softmax ? static_cast<Index>(count) : 1;
  }
  if (options_.penalty == Penalty::per_class && (p_.model != Model::softmax || p_.network()))
    throw InvalidInput(
        fmt::format("TuneOptions.penalty = per-class is for softmax, and the model is {}", name(p_.kind())));
}

/// Targets in the order of the rows.
void Preparation::set_targets() {
  Vec labels(static_cast<Index>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const data::Dataset& file = file_of(rows_[i]);
    if (file.target.size() != file.rows())
      throw InvalidInput(fmt::format("{}: there is no target to judge by", file.source));
    labels[static_cast<Index>(i)] = file.target[rows_[i].row];
  }
  if (p_.model.classifies())
    number_classes(labels);
  else
    scale_targets(labels);
  p_.samples.labels = std::make_shared<const Vec>(std::move(labels));
}

void Preparation::number_classes(Vec& labels) {
  auto numbers = std::make_shared<std::vector<int>>(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int c = classes_.of(labels[static_cast<Index>(i)]);
    if (c < 0)
      throw InvalidInput(fmt::format("{}: row {} has the label '{}', which the training file does not have",
                                     file_of(rows_[i]).source, rows_[i].row + 1,
                                     labels[static_cast<Index>(i)]));
    (*numbers)[i] = c;
    if (p_.outputs == 1) labels[static_cast<Index>(i)] = c == 0 ? -1 : 1;
  }
  for (std::size_t k = 0; k < p_.folds.size(); ++k)
    require_classes(*numbers, p_.folds[k].training, p_.classes.size(), p_.classes,
                    p_.held_out ? "the training rows" : fmt::format("the training rows of fold {}", k + 1));
  p_.samples.classes = numbers;
}

/// So that losses are of order one; logarithms of means stay as they are.
void Preparation::scale_targets(Vec& labels) {
  const auto train = labels.head(p_.training_rows).array();
  const problems::LossKind& kind = p_.model.loss_kind();
  if (kind.target == problems::LossKind::Target::positive) {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (!kind.takes(labels[static_cast<Index>(i)]))
        throw InvalidInput(fmt::format("{}: row {} has the target {}; {} wants {}", file_of(rows_[i]).source,
                                       rows_[i].row + 1, labels[static_cast<Index>(i)], kind.model,
                                       kind.wants));
    if (train.maxCoeff() == 0)
      throw InvalidInput(fmt::format("{}: every count of the training rows is 0", kind.model));
    // The margin is the logarithm of the mean, and begins at 0.
    if (const double mean = train.mean(); !(mean > 1e-12 && mean < 1e12))
      throw InvalidInput(
          fmt::format("{}: the mean of the target is {:.3g}; rescale it to be nearer to 1", p_.source, mean));
    p_.loss_parameter = options_.loss_parameter > 0 ? options_.loss_parameter : kind.usual_parameter(1);
    return;
  }
  const double mean = train.mean(), deviation = std::sqrt((train - mean).square().mean());
  if (!std::isfinite(deviation))
    throw InvalidInput(
        fmt::format("{}: the values of the target are too large to be averaged; rescale them", p_.source));
  if (deviation == 0)
    throw InvalidInput(fmt::format("{}: the target is {} in every training row: there is nothing to learn",
                                   p_.source, mean));
  p_.target_shift = options_.intercept ? mean : 0;
  p_.target_scale = deviation;
  p_.loss_parameter = options_.loss_parameter > 0 ? options_.loss_parameter : kind.usual_parameter(deviation);
  labels = (labels.array() - p_.target_shift) / p_.target_scale;
}

}  // namespace bilevel::models
