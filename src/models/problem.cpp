#include <bilevel/models/problem.hpp>

#include <utility>

#include "fold_model.hpp"

namespace bilevel::models {

std::vector<std::unique_ptr<bilevel::Problem<Vec>>> make_problems(const Prepared& p) {
  if (p.model == Model::lasso || p.model == Model::elastic_net)
    throw InvalidInput(fmt::format(
        "{} minimises no smooth loss, which most estimators need: bilevel tune takes it", name(p.model)));
  std::vector<std::unique_ptr<bilevel::Problem<Vec>>> problems;
  for (const Split& split : p.folds)
    problems.push_back(std::make_unique<bilevel::problems::PenalisedModel>(
        make_loss(p, split.training), make_loss(p, split.validation), split.standardisation, p.penalties,
        p.intercept));
  return problems;
}

std::unique_ptr<bilevel::Problem<Vec>> make_problem(TuningData data, const TuneOptions& options) {
  if (!options.validation && !data.validation && data.data.split.empty())
    throw InvalidInput(
        "TuneOptions.validation: one problem has one set of rows to judge by; K folds are K problems");
  auto problems = make_problems(prepare(std::move(data), options));
  if (problems.size() > 1) throw InvalidInput("the data's own split names folds, which are a problem each");
  return std::move(problems.front());
}

}  // namespace bilevel::models
