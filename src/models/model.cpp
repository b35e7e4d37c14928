#include <bilevel/models/model.hpp>

#include <algorithm>
#include <array>
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
                             {Model::elastic_net, "elastic-net", "an elastic net"},
                             {Model::mlp, "mlp", "a multilayer perceptron"}});
    return list;
  }();
  return all;
}

const Named& entry_of(Model model) {
  return *std::find_if(models().begin(), models().end(),
                       [&](const Named& each) { return each.model == model; });
}

constexpr std::array<std::pair<Penalty, std::string_view>, 7> penalties{
    {{Penalty::automatic, "auto"},
     {Penalty::global, "global"},
     {Penalty::per_feature, "per-feature"},
     {Penalty::per_group, "per-group"},
     {Penalty::per_class, "per-class"},
     {Penalty::per_layer, "per-layer"},
     {Penalty::per_parameter, "per-parameter"}}};

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

}  // namespace bilevel::models
