#include "model_arguments.hpp"

#include <utility>

#include <bilevel/models/example.hpp>

#include "flags.hpp"
#include "json_output.hpp"
#include "problem_arguments.hpp"

namespace app {

namespace models = bilevel::models;
using bilevel::InvalidInput;

void ModelArguments::add_to(CLI::App& command) {
  command.add_option("data", data, "The data: CSV, TSV, LIBSVM, IDX or NPY, also gzip or bzip2")
      ->type_name("DATA");
  command.add_flag("--example", example, "Use built-in data: 4 strong features among 60");
  command
      .add_option("--model", model,
                  fmt::format("{} (automatic: by the target)", fmt::join(models::model_names(), ", ")))
      ->capture_default_str();
  command.add_option("--layers", layers, "mlp: units of its hidden layers, 64-32 (default: one layer of 32)")
      ->type_name("SIZES");
  command.add_option("--activation", activation, "mlp: tanh or softplus (default: tanh)")->type_name("NAME");
  command.add_option("--last-layer", last_layer, "mlp: ridge, logistic or softmax (default: by the target)")
      ->type_name("MODEL");
  command.add_option("--groups", groups, "File with a feature's name and its group on each line")
      ->type_name("FILE");
  command.add_option("--group-separator", separator, "Groups are the parts of names before this character")
      ->type_name("C");
  folds_ = command.add_option("--cv", options.folds, "Judge by K-fold cross-validation")
               ->type_name("K")
               ->capture_default_str();
  command
      .add_option("--validation", validation.text, "Judge by a file, or by this share of the rows, instead")
      ->type_name("FILE|SHARE");
  command.add_option("--validation-labels", validation.labels, "Targets of that file, see --labels")
      ->type_name("FILE");
  command
      .add_option("--test", test.text, "Rows kept for an honest last look: a file, a share, or 0 for none")
      ->type_name("FILE|SHARE")
      ->capture_default_str();
  command.add_option("--test-labels", test.labels, "Targets of that file, see --labels")->type_name("FILE");
  command.add_flag("--no-standardize", no_standardize, "Use the features as they are");
  command.add_flag("--no-intercept", no_intercept, "Leave the intercept out");
  command.add_flag("--no-stratify", no_stratify, "Split without regard to the classes");
  for (const auto& kind : bilevel::problems::loss_kinds())
    if (!kind.parameter.empty())
      command
          .add_option(fmt::format("--{}", kind.parameter), parameters[kind.model],
                      std::string(kind.parameter_help))
          ->type_name("X")
          ->check(positive);
  reading.add_to(command, DataArguments::Purpose::tuning);
}

void ModelArguments::resolve(std::string_view command) {
  if (data.empty() != example)
    throw InvalidInput(
        example
            ? fmt::format("{}: --example brings its own data; leave the file out", command)
            : fmt::format("{0}: name a data file, or try --example; bilevel {0} --help says more", command));
  if (folds_->count() > 0 && !validation.text.empty())
    throw InvalidInput(fmt::format("{}: --cv and --validation: give one of the two", command));
  options.model = models::model_named(model);
  if (!layers.empty())
    options.layers = sizes_argument(
        layers, ": write sizes of at least 1 joined by '-', as in 64-32, for the hidden layers");
  if (!activation.empty()) options.activation = bilevel::problems::activation_named(activation);
  if (!last_layer.empty()) options.last_layer = models::model_named(last_layer);
  if (const auto parameter = parameters.find(model); parameter != parameters.end())
    options.loss_parameter = parameter->second;
  options.penalty = models::penalty_named(penalty);
  options.standardize = !no_standardize;
  options.intercept = !no_intercept;
  options.stratify = !no_stratify;
  if (separator.size() > 1)
    throw InvalidInput(fmt::format("--group-separator {}: write one character", separator));
  options.group_separator = separator.empty() ? '\0' : separator[0];
  options.validation = validation.number("--validation");
  options.test = test.number("--test").value_or(0);
  read_options = reading.read_options();
  options.missing = read_options.missing;
  options.storage = read_options.storage;
  refuse_contradictions(command);
  if (!groups.empty()) try {
      options.groups = models::read_groups(groups);
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("--groups {}", error.what()));
    }
  try {
    options.validate().throw_if_any();
  } catch (const InvalidInput& error) {
    // The flag is called as the loss calls its parameter.
    std::string text = error.what();
    const std::string field = "TuneOptions.loss_parameter =";
    if (const std::size_t place = text.find(field); place != std::string::npos)
      text.replace(place, field.size(), fmt::format("--{}", options.model.loss_kind().parameter));
    throw InvalidInput(text);
  }
}

/// Options that would change nothing: the person expects that they do.
void ModelArguments::refuse_contradictions(std::string_view command) const {
  const auto refuse = [&](bool wrong, std::string_view text) {
    if (wrong) throw InvalidInput(fmt::format("{}: {}", command, text));
  };
  for (const auto& kind : bilevel::problems::loss_kinds())
    if (const auto given = parameters.find(kind.model); given != parameters.end() && given->second > 0)
      refuse(options.model != models::Model(kind.loss),
             fmt::format("--{} is for --model {}", kind.parameter, kind.model));
  for (const auto& [flag, text] : {std::pair{"--layers", layers}, std::pair{"--activation", activation},
                                   std::pair{"--last-layer", last_layer}})
    refuse(!text.empty() && options.model != models::Model::mlp, fmt::format("{} is for --model mlp", flag));
  refuse(folds_->count() > 0 && !read_options.split.empty(),
         "--split names the folds or parts itself: leave --cv out");
  refuse(!validation.labels.empty() && validation.text.empty(),
         "--validation-labels goes with --validation FILE");
  require_not_the_data(
      command, data, {{"--validation", validation.text}, {"--test", test.text}},
      "rows that were learned from say nothing about new ones; give a share (0.2), or another file");
}

models::Prepared ModelArguments::prepare() const {
  models::TuningData all =
      example ? models::example_data(options.seed) : bilevel::data::read(data, read_options);
  all.validation = validation.read(read_options, all.data.schema, "--validation");
  all.test = test.read(read_options, all.data.schema, "--test");
  models::Prepared prepared = models::prepare(std::move(all), options);
  as_flags(prepared.notes);
  return prepared;
}

std::vector<std::string> ModelArguments::inputs() const {
  return {data, validation.text, test.text, groups, read_options.labels, validation.labels, test.labels};
}

}  // namespace app
