#include <bilevel/models/task.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace bilevel::models {
namespace {

struct Named {
  Model model;
  std::string_view name, title;
};

const std::vector<Named>& models() {
  static const std::vector<Named> all = [] {
    std::vector<Named> list{{Model::automatic, "automatic", "a model"}};
    for (const auto& kind : bilevel::problems::loss_kinds())
      list.push_back({kind.loss, kind.model, kind.title});
    list.insert(list.end(), {{Model::softmax, "softmax", "a softmax regression"},
                             {Model::lasso, "lasso", "a lasso"},
                             {Model::elastic_net, "elastic-net", "an elastic net"}});
    return list;
  }();
  return all;
}

const Named& entry_of(Model model) {
  return *std::find_if(models().begin(), models().end(),
                       [&](const Named& each) { return each.model == model; });
}

constexpr std::array<std::pair<Penalty, std::string_view>, 5> penalties{
    {{Penalty::automatic, "auto"},
     {Penalty::global, "global"},
     {Penalty::per_feature, "per-feature"},
     {Penalty::per_group, "per-group"},
     {Penalty::per_class, "per-class"}}};

[[noreturn]] void refuse(std::string_view what, std::string_view text,
                         const std::vector<std::string_view>& names) {
  throw InvalidInput(fmt::format("there is no {} '{}'; there are: {}", what, text, fmt::join(names, ", ")));
}

}  // namespace

bool Model::classifies() const {
  using Target = bilevel::problems::LossKind::Target;
  return kind == Kind::softmax || (kind == Kind::by_loss && loss_kind().target == Target::classes);
}

bool Model::probable() const {
  return kind == Kind::softmax || (kind == Kind::by_loss && loss_kind().probable);
}

std::string_view name(Model model) {
  return entry_of(model).name;
}

std::string_view title(Model model) {
  return entry_of(model).title;
}

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const Named& each : models()) names.push_back(each.name);
  return names;
}

std::string_view name(Penalty penalty) {
  for (const auto& [value, text] : penalties)
    if (value == penalty) return text;
  return "";
}

Model model_named(std::string_view text) {
  for (const Named& each : models())
    if (each.name == text) return each.model;
  refuse("model", text, model_names());
}

Penalty penalty_named(std::string_view text) {
  std::vector<std::string_view> names;
  for (const auto& [value, name] : penalties) {
    if (name == text) return value;
    names.push_back(name);
  }
  refuse("penalty", text, names);
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
  if (loss_parameter != 0) {
    const auto& kind = model.loss_kind();
    wrong.require(loss_parameter >= kind.least_parameter && loss_parameter <= kind.largest_parameter,
                  kind.parameter, loss_parameter,
                  kind.largest_parameter < 1e300 ? fmt::format("must lie within {:g} and {:g}",
                                                               kind.least_parameter, kind.largest_parameter)
                                                 : "must be positive and finite");
  }
  wrong.require(penalty != Penalty::per_class || model == Model::softmax || model == Model::automatic,
                "penalty", "per-class", "is for softmax");
  wrong.throw_if_any();
}

}  // namespace bilevel::models
