#include <bilevel/outer/impl/minimise.hpp>

#include <bilevel/outer/impl/search.hpp>

namespace bilevel {
namespace {

/// Up to here Newton's factor costs less than the iterations that it saves.
constexpr Index small_enough_for_newton = 500;

/// The object, or that of the name; `find` looks names up and `refusal` says what is wrong with one.
template <class Choice, class Find, class Refusal>
const Choice* resolve(const Method<Choice>& method, std::string_view field, Violations& v, const Find& find,
                      const Refusal& refusal) {
  const Choice* choice = method.name() ? find(*method.name()) : method.object();
  if (choice)
    v.add(validate(*choice));
  else
    v.require(false, field, fmt::format("\"{}\"", *method.name()), refusal(*method.name()));
  return choice;
}

/// What a function that throws for a name has to say about it.
template <class Named>
auto complaint_of(const Named& named) {
  return [&named](std::string_view name) -> std::string {
    try {
      named(name);
    } catch (const InvalidInput& refusal) {
      return fmt::format("will not do: {}", refusal.what());
    }
    return {};
  };
}

struct Resolved {
  const InnerChoice* inner = nullptr;
  const EstimatorChoice* estimator = nullptr;
  const OptimizerChoice* optimizer = nullptr;
};

bool settles_itself(const EstimatorChoice& choice) {
  return differentiates_steps(choice) || std::holds_alternative<AgnosticOptions>(choice);
}

/// What an estimator that settles by itself would leave unread.
void refuse_unused(const MinimiseOptions& o, const Resolved& found, Violations& v) {
  const std::string estimator = name(*found.estimator);
  const bool steps = differentiates_steps(*found.estimator);
  v.require(o.phase_1 == MinimiserOptions{}, "phase_1", "given",
            fmt::format("is not read by {}: {}", estimator,
                        steps ? "say its limits in the estimator's own `run`"
                              : "it settles by springs; make the four objects to set their limits"));
  if (!found.inner) return;
  const auto inner = name(*found.inner);
  if (!steps)
    v.require(false, "inner", inner, fmt::format("is not used by {}, which settles by springs", estimator));
  else if (!o.estimator.name())
    v.require(
        false, "inner", inner,
        fmt::format("is not used by {}: it differentiates the `step` among its own options", estimator));
  else
    v.require(
        !validate(*found.inner).empty() || differentiable(*found.inner), "inner", inner,
        fmt::format("has no derivative that {} could take; choose gradient-descent, heavy-ball, nesterov "
                    "or adam",
                    estimator));
}

Violations resolve_all(const MinimiseOptions& o, Resolved& found) {
  Violations v("minimise");
  if (o.inner)
    found.inner = resolve(*o.inner, "inner", v, find_inner_solver, complaint_of(inner_solver_named));
  found.estimator = resolve(o.estimator, "estimator", v, find_estimator, complaint_of(estimator_named));
  found.optimizer = resolve(o.optimizer, "optimizer", v, find_optimizer, [](const std::string& name) {
    if (is_search(name)) return std::string("is a search of values, not an optimiser: call search()");
    return complaint_of(optimizer_named)(name);
  });
  v.require(o.start.allFinite(), "start", "a vector", "must hold neither NaN nor infinity");
  if (found.estimator && settles_itself(*found.estimator)) refuse_unused(o, found, v);
  return v.add(o.phase_1.validate()).add(o.outer.validate());
}

}  // namespace

Violations MinimiseOptions::validate() const {
  Resolved ignored;
  return resolve_all(*this, ignored);
}

namespace detail {

MinimiseChoices choose(const MinimiseOptions& options, const MinimisedProblem& problem) {
  Resolved found;
  const Index size = options.start.size();
  resolve_all(options, found)
      .require(size == 0 || size == problem.parameters, "start", fmt::format("a vector of {}", size),
               fmt::format("must have as many elements as theta, {}", problem.parameters))
      .throw_if_any();
  MinimiseChoices choices{FixedPointOptions{}, *found.estimator, *found.optimizer};
  // An estimator that differentiates steps takes these; its second look is by another solver then.
  const bool steps = differentiates_steps(choices.estimator);
  if (found.inner && steps) {
    if (auto* unrolled = std::get_if<UnrolledOptions>(&choices.estimator)) unrolled->step = *found.inner;
    if (auto* forward = std::get_if<ForwardModeOptions>(&choices.estimator)) forward->step = *found.inner;
  }
  if (found.inner && !steps) {
    choices.inner = *found.inner;
  } else if (problem.loss) {
    if (problem.curvature && problem.inner_variables <= small_enough_for_newton)
      choices.inner = NewtonOptions{};
    else
      choices.inner = LbfgsOptions{};
  }
  return choices;
}

}  // namespace detail

template Summary minimise(Problem<Eigen::VectorXd>&, const MinimiseOptions&);
template Summary minimise(Equilibrium<Eigen::VectorXd>&, const MinimiseOptions&);
template Summary minimise(Problem<Eigen::VectorXf>&, const MinimiseOptions&);
template Summary minimise(Equilibrium<Eigen::VectorXf>&, const MinimiseOptions&);

}  // namespace bilevel
