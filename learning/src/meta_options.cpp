#include <cmath>

#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/learning/meta_learn.hpp>

namespace bilevel::learning {

Violations MetaOptions::validate() const {
  Violations v("meta");
  v.add(learner.validate()).add(adaptation.validate());
  v.require(find_estimator(estimator) != nullptr, "estimator", estimator,
            fmt::format("must be one of {}", fmt::join(estimator_names(), ", ")));
  v.require(std::isfinite(beta), "beta", beta, "must be finite");
  v.at_least("adjoint_steps", adjoint_steps, 0).not_negative("adjoint_tolerance", adjoint_tolerance);
  v.require(tasks >= 0 && tasks <= 100000, "tasks", tasks, "must lie in 0 … 100000");
  v.at_least("steps", steps, 0).not_negative("learning_rate", learning_rate).positive("clip", clip);
  v.not_negative("seconds", seconds).at_least("test_tasks", test_tasks, 2).at_least("looks", looks, 1);
  return v.at_least("probe_tasks", probe_tasks, 0).at_least("certify", certify, 0);
}

MetaOptions resolve(MetaOptions o, const TaskForm& form) {
  o.validate().throw_if_any();
  const Learner learner(o.learner, form);
  o.learner = learner.options();
  if (differentiates_steps(estimator_named(o.estimator))) {
    if (o.adaptation.inner.empty()) o.adaptation.inner = "nesterov";
    if (o.adaptation.inner_steps == 0) o.adaptation.inner_steps = 20;
  }
  o.adaptation = resolve(o.adaptation, learner);
  if (o.tasks == 0) o.tasks = form.pictures() ? 16 : 25;
  if (o.steps == 0) o.steps = form.pictures() ? 4000 : 3000;
  if (o.learning_rate == 0) o.learning_rate = form.pictures() ? 2e-3 : 3e-3;
  if (o.adjoint_steps == 0) o.adjoint_steps = 100;
  if (o.adjoint_tolerance == 0) o.adjoint_tolerance = 1e-3;
  // The outer loss is a mean over the tasks, of which each takes its share of the nudge.
  if (o.beta == 0) o.beta = 0.01 * static_cast<double>(o.tasks);
  return o;
}

}  // namespace bilevel::learning
