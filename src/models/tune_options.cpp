#include <bilevel/models/tune_options.hpp>

#include <cmath>
#include <fstream>

namespace bilevel::models {

Violations TuneOptions::validate() const {
  Violations v("TuneOptions");
  v.at_least("folds", folds, 2);
  v.require(grid >= 2 && grid <= 10000, "grid", grid, "must be 2 to 10000");
  v.require(std::isfinite(lower) && std::isfinite(upper) && lower < upper, "lower", lower,
            fmt::format("must be finite and below a finite upper bound, which is {}", upper));
  v.require(lower >= -300, "lower", lower, "is a logarithm: keep the bounds within -300:300");
  v.require(upper <= 300, "upper", upper, "is a logarithm: keep the bounds within -300:300");
  v.not_negative("tolerance", tolerance);
  v.require(prior_width > 0, "prior_width", prior_width, "must be positive; infinite for no prior");
  v.require(
      penalty != Penalty::global || prior_width == TuneOptions().prior_width || !std::isfinite(prior_width),
      "prior_width", prior_width, "is for many penalties, and TuneOptions.penalty = global has one");
  v.at_least("iterations", iterations, 0);
  v.not_negative("seconds", seconds);
  for (const double start : starts)
    v.require(start >= lower && start <= upper, "starts", start,
              fmt::format("must lie within the bounds {:g} and {:g}", lower, upper));
  constexpr std::string_view share = "is a share of the rows: it must be at least 0 and below 1";
  v.require(test >= 0 && test < 1, "test", test, share);
  if (validation) {
    v.require(*validation >= 0 && *validation < 1, "validation", *validation, share);
    v.require(*validation != 0, "validation", *validation,
              "leaves no rows to judge by: leave it out to judge by TuneOptions.folds");
  }
  if (loss_parameter != 0) {
    const auto& kind = model.loss_kind();
    if (model.kind != Model::Kind::by_loss || kind.parameter.empty())
      v.require(false, "loss_parameter", loss_parameter,
                fmt::format("is for models whose loss has a parameter, and {} has none", name(model)));
    else
      v.require(loss_parameter >= kind.least_parameter && loss_parameter <= kind.largest_parameter,
                "loss_parameter", loss_parameter,
                kind.largest_parameter < 1e300 ? fmt::format("must lie within {:g} and {:g}",
                                                             kind.least_parameter, kind.largest_parameter)
                                               : "must be positive and finite");
  }
  const bool network = model == Model::mlp;
  const std::string sizes = fmt::format("{}", fmt::join(layers, "-"));
  v.require(network || layers.empty(), "layers", sizes, "is for TuneOptions.model = mlp");
  v.require(layers.size() <= most_layers, "layers", sizes,
            fmt::format("must be {} layers at most", most_layers));
  for (const Index units : layers)
    if (units < 1 || units > most_parameters) {
      v.require(false, "layers", sizes, fmt::format("must be sizes of 1 to {}", most_parameters));
      break;
    }
  constexpr std::string_view ends = "must be ridge, logistic or softmax, for TuneOptions.model = mlp";
  const bool offered = last_layer == Model::softmax ||
                       (last_layer.kind == Model::Kind::by_loss && last_layer.loss_kind().continued &&
                        last_layer.loss_kind().parameter.empty());
  v.require(last_layer == Model::automatic || (network && offered), "last_layer", name(last_layer), ends);
  v.require(network || (penalty != Penalty::per_layer && penalty != Penalty::per_parameter), "penalty",
            name(penalty), "is for TuneOptions.model = mlp");
  const std::string separator = fmt::format("'{}'", group_separator),
                    listed = fmt::format("(of {} features)", groups.size());
  const bool by_group = penalty == Penalty::per_group || penalty == Penalty::automatic;
  constexpr std::string_view grouping = "is for TuneOptions.penalty = auto and per-group";
  v.require(by_group || groups.empty(), "groups", listed, grouping);
  v.require(by_group || group_separator == 0, "group_separator", separator, grouping);
  v.require(groups.empty() || group_separator == 0, "groups", listed,
            fmt::format("and TuneOptions.group_separator = {}: give one of the two", separator));
  v.require(penalty != Penalty::per_class || model == Model::softmax || model == Model::automatic, "penalty",
            "per-class", "is for softmax");
  return v;
}

std::map<std::string, std::string> read_groups(const std::string& path) {
  std::map<std::string, std::string> groups;
  std::ifstream stream(path);
  if (!stream) throw InvalidInput(fmt::format("{}: the file of groups cannot be read", path));
  std::string line;
  for (long number = 1; std::getline(stream, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.pop_back();
    if (line.empty()) continue;
    const std::size_t gap = line.find_last_of(" \t,");
    if (gap == std::string::npos || gap == 0 || gap + 1 == line.size())
      throw InvalidInput(
          fmt::format("{}: line {}: write a feature's name, a blank and its group's name", path, number));
    std::string feature = line.substr(0, line.find_last_not_of(" \t,", gap) + 1);
    if (!groups.emplace(feature, line.substr(gap + 1)).second)
      throw InvalidInput(fmt::format("{}: line {}: feature '{}' has a group already", path, number, feature));
  }
  return groups;
}

}  // namespace bilevel::models
