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
constexpr std::array<std::pair<Penalty, std::string_view>, 5> penalties{
    {{Penalty::automatic, "auto"},
     {Penalty::global, "global"},
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
  WrongOptions wrong;
  wrong.require(folds >= 2, "cv", folds, "must be at least 2");
  wrong.require(grid >= 2 && grid <= 10000, "grid", grid, "must be 2 to 10000");
  const std::string bounds = fmt::format("{}:{}", lower, upper);
  wrong.require(std::isfinite(lower) && std::isfinite(upper) && lower < upper, "bounds", bounds,
                "must be two finite numbers LO:HI with LO < HI");
  wrong.require(lower >= -300 && upper <= 300, "bounds", bounds, "are logarithms: keep them within -300:300");
  wrong.require(tolerance > 0 && std::isfinite(tolerance), "tolerance", tolerance,
                "must be positive and finite");
  wrong.require(prior_width > 0, "prior-width", prior_width, "must be positive; inf for no prior");
  wrong.require(iterations >= 0, "iterations", iterations, "must be zero or more");
  wrong.require(huber_threshold >= 0 && std::isfinite(huber_threshold), "huber-threshold", huber_threshold,
                "must be zero or more and finite");
  wrong.require(penalty != Penalty::per_class || model == Model::softmax || model == Model::automatic,
                "penalty", "per-class", "is for softmax");
  wrong.throw_if_any();
}

}  // namespace tuning
