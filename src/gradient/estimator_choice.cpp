#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/gradient/implicit.hpp>

#include <cmath>

namespace bilevel {
namespace {

/// More points gain a digit or two where phases are accurate to the last ones: no row of bench/automatic.md
/// has such a stencil as the cheapest.
constexpr int most_listed_points = 4;

struct KnownEstimator {
  std::string name;
  EstimatorChoice choice;
  bool listed;
};

const std::vector<KnownEstimator>& known_estimators() {
  static const std::vector<KnownEstimator> all = [] {
    std::vector<KnownEstimator> known;
    const auto add = [&](EstimatorChoice choice, bool listed = true) {
      std::string its_name = name(choice);
      known.push_back({std::move(its_name), std::move(choice), listed});
    };
    add(AutomaticOptions{});
    add(ExactMethod{});
    for (const std::string_view adjoint : adjoint_solver_names())
      add(ImplicitMethod{.adjoint = adjoint_solver_named(adjoint)});
    add(ImplicitMethod{.adjoint = StochasticOptions{}}, false);
    for (int points = Stencil::least_points; points <= Stencil::most_points; ++points)
      add(EquilibriumPropagationOptions{.points = points}, points <= most_listed_points);
    add(EquilibriumPropagationOptions{.nudge = Nudge::central});
    add(EquilibriumPropagationOptions{.nudge = Nudge::random_sign});
    add(HolomorphicOptions{});
    add(AgnosticOptions{}, false);
    add(UnrolledOptions{});
    add(UnrolledOptions{.truncate = EstimatorOptions{}.truncate});
    add(UnrolledOptions{.checkpointed = true});
    add(ForwardModeOptions{});
    add(FiniteDifferenceOptions{});
    add(RandomDifferenceOptions{});
    add(RandomDifferenceOptions{.directions = Directions::rademacher});
    return known;
  }();
  return all;
}

std::vector<std::string> names_where(bool listed) {
  std::vector<std::string> names;
  for (const KnownEstimator& each : known_estimators())
    if (each.listed == listed) names.push_back(each.name);
  return names;
}

struct EstimatorName {
  std::string operator()(const AutomaticOptions&) const { return "auto"; }
  std::string operator()(const ExactMethod&) const { return "exact"; }
  std::string operator()(const ImplicitMethod& o) const { return estimator_name(name(o.adjoint)); }
  std::string operator()(const EquilibriumPropagationOptions& o) const { return name(o); }
  std::string operator()(const HolomorphicOptions&) const { return "ep-holomorphic"; }
  std::string operator()(const AgnosticOptions&) const { return "ep-agnostic"; }
  std::string operator()(const UnrolledOptions& o) const { return std::string(name(o)); }
  std::string operator()(const ForwardModeOptions&) const { return "forward-mode"; }
  std::string operator()(const FiniteDifferenceOptions&) const { return "finite-difference"; }
  std::string operator()(const RandomDifferenceOptions& o) const { return std::string(name(o.directions)); }
};

/// Hands the common options to what the estimator calls them.
struct Told {
  const EstimatorOptions& o;

  void operator()(AutomaticOptions& a) const {
    a.common = common();
    a.adjoint = o.adjoint;
    a.memory_limit = o.memory_limit;
    a.beta = o.beta;
  }
  void operator()(ExactMethod& e) const { e.common = common(); }
  void operator()(ImplicitMethod& i) const {
    i.common = common();
    shared(i.adjoint) = o.adjoint;
  }
  void operator()(EquilibriumPropagationOptions& e) const {
    e.beta = o.beta;
    e.seed = o.seed;
    e.certificate = o.certificate.enabled;
    e.outer_tolerance = o.outer_tolerance;
    e.trust = o.certificate.trust;
  }
  void operator()(HolomorphicOptions& h) const {
    h.beta = std::abs(o.beta);
    judged(h);
  }
  void operator()(AgnosticOptions& a) const {
    if (o.beta != 0) a.beta = std::abs(o.beta);
    judged(a);
  }
  void operator()(UnrolledOptions& u) const {
    if (u.truncate > 0) {
      Violations("estimator").at_least("truncate", o.truncate, 1).throw_if_any();
      u.truncate = o.truncate;
    }
    if (u.checkpointed) u.memory_budget = o.memory_budget;
    steps(u);
  }
  void operator()(ForwardModeOptions& f) const {
    f.memory_limit = o.memory_limit;
    f.adjoint_tolerance = o.adjoint.relative_tolerance;
    steps(f);
  }
  void operator()(FiniteDifferenceOptions& f) const {
    f.outer_tolerance = o.outer_tolerance;
    f.trust = o.certificate.trust;
  }
  void operator()(RandomDifferenceOptions& r) const {
    r.seed = o.seed;
    r.outer_tolerance = o.outer_tolerance;
    r.trust = o.certificate.trust;
  }

 private:
  ImplicitOptions common() const { return {o.certificate, o.outer_tolerance}; }
  void judged(auto& options) const {
    options.certificate = o.certificate;
    options.outer_tolerance = o.outer_tolerance;
  }
  void steps(auto& options) const {
    options.run.max_steps = o.max_steps;
    options.step = inner_solver_named(o.step);
    judged(options);
  }
};

}  // namespace

std::string name(const EstimatorChoice& choice) {
  return std::visit(EstimatorName{}, choice);
}

Violations validate(const EstimatorChoice& choice) {
  return std::visit([](const auto& options) { return options.validate(); }, choice);
}

bool nudges(const EstimatorChoice& choice) {
  return std::holds_alternative<EquilibriumPropagationOptions>(choice) ||
         std::holds_alternative<HolomorphicOptions>(choice) ||
         std::holds_alternative<AgnosticOptions>(choice);
}

bool differentiates_steps(const EstimatorChoice& choice) {
  return std::holds_alternative<UnrolledOptions>(choice) ||
         std::holds_alternative<ForwardModeOptions>(choice);
}

const std::vector<std::string>& estimator_names() {
  static const std::vector<std::string> names = names_where(true);
  return names;
}

const std::vector<std::string>& unlisted_estimator_names() {
  static const std::vector<std::string> names = names_where(false);
  return names;
}

const EstimatorChoice* find_estimator(std::string_view name) {
  for (const KnownEstimator& each : known_estimators())
    if (each.name == name) return &each.choice;
  return nullptr;
}

EstimatorChoice estimator_named(std::string_view name) {
  if (const EstimatorChoice* found = find_estimator(name)) return *found;
  for (const RemovedAdjointSolver& gone : removed_adjoint_solvers())
    if (name == estimator_name(gone.name))
      throw InvalidInput(fmt::format("{} was removed in 0.1.0: it was never the cheapest; use {}", name,
                                     estimator_name(gone.instead)));
  throw InvalidInput(fmt::format("there is no estimator '{}'; there are: {}; and, never the cheapest: {}",
                                 name, fmt::join(estimator_names(), ", "),
                                 fmt::join(unlisted_estimator_names(), ", ")));
}

EstimatorChoice with_options(EstimatorChoice choice, const EstimatorOptions& options) {
  std::visit(Told{options}, choice);
  return choice;
}

bool differentiable_step(std::string_view name) {
  const InnerChoice* inner = find_inner_solver(name);
  return inner && differentiable(*inner);
}

}  // namespace bilevel
