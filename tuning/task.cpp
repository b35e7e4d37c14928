#include "task.hpp"

#include <array>
#include <cmath>
#include <utility>

namespace tuning {
namespace {

constexpr std::array<std::pair<Model, std::string_view>, 9> models{{{Model::automatic, "automatic"},
                                                                    {Model::ridge, "ridge"},
                                                                    {Model::logistic, "logistic"},
                                                                    {Model::softmax, "softmax"},
                                                                    {Model::poisson, "poisson"},
                                                                    {Model::huber, "huber"},
                                                                    {Model::squared_hinge, "squared-hinge"},
                                                                    {Model::lasso, "lasso"},
                                                                    {Model::elastic_net, "elastic-net"}}};
constexpr std::array<std::pair<Penalty, std::string_view>, 4> penalties{
    {{Penalty::global, "global"},
     {Penalty::per_feature, "per-feature"},
     {Penalty::per_group, "per-group"},
     {Penalty::per_class, "per-class"}}};

template <class Table>
auto find(const Table& table, std::string_view text, std::string_view what) {
  std::vector<std::string_view> names;
  for (const auto& [value, name] : table) {
    if (name == text) return value;
    names.push_back(name);
  }
  throw InvalidInput(fmt::format("there is no {} '{}'; there are: {}", what, text, fmt::join(names, ", ")));
}

}  // namespace

std::string_view name(Model model) {
  for (const auto& [value, text] : models)
    if (value == model) return text;
  return "";
}

std::string_view name(Penalty penalty) {
  for (const auto& [value, text] : penalties)
    if (value == penalty) return text;
  return "";
}

Model model_named(std::string_view text) {
  return find(models, text, "model");
}

Penalty penalty_named(std::string_view text) {
  return find(penalties, text, "penalty");
}

bool classifies(Model model) {
  return model == Model::logistic || model == Model::softmax || model == Model::squared_hinge;
}

void Task::validate() const {
  std::vector<std::string> wrong;
  const auto require = [&](bool holds, std::string_view option, const auto& value,
                           std::string_view constraint) {
    if (!holds) wrong.push_back(fmt::format("--{} {} {}", option, value, constraint));
  };
  require(folds >= 2, "cv", folds, "must be at least 2");
  require(grid >= 2 && grid <= 10000, "grid", grid, "must be 2 to 10000");
  const std::string bounds = fmt::format("{}:{}", lower, upper);
  require(std::isfinite(lower) && std::isfinite(upper) && lower < upper, "bounds", bounds,
          "must be two finite numbers LO:HI with LO < HI");
  require(lower >= -300 && upper <= 300, "bounds", bounds, "are logarithms: keep them within -300:300");
  require(tolerance > 0 && std::isfinite(tolerance), "tolerance", tolerance, "must be positive and finite");
  require(iterations >= 0, "iterations", iterations, "must be zero or more");
  require(huber_threshold >= 0 && std::isfinite(huber_threshold), "huber-threshold", huber_threshold,
          "must be zero or more and finite");
  require(penalty != Penalty::per_class || model == Model::softmax || model == Model::automatic, "penalty",
          "per-class", "is for softmax");
  if (!wrong.empty()) throw InvalidInput(fmt::format("{}", fmt::join(wrong, "; ")));
}

}  // namespace tuning
