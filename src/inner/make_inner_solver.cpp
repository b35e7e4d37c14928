#include <bilevel/inner/impl/make_inner_solver.hpp>

#include <vector>

namespace bilevel {
namespace {

const std::vector<InnerChoice>& all_inner_solvers() {
  static const std::vector<InnerChoice> all{
      GradientDescentOptions{},
      BacktrackingDescentOptions{},
      HeavyBallOptions{},
      NesterovOptions{},
      AdamOptions{},
      LbfgsOptions{},
      NewtonOptions{},
      TrustRegionOptions{},
      FixedPointOptions{},
      FixedPointOptions::broyden(),
      NewtonKrylovOptions{},
  };
  return all;
}

struct InnerName {
  std::string_view operator()(const GradientDescentOptions&) const { return "gradient-descent"; }
  std::string_view operator()(const BacktrackingDescentOptions&) const {
    return "gradient-descent-backtracking";
  }
  std::string_view operator()(const HeavyBallOptions&) const { return "heavy-ball"; }
  std::string_view operator()(const NesterovOptions&) const { return "nesterov"; }
  std::string_view operator()(const AdamOptions&) const { return "adam"; }
  std::string_view operator()(const LbfgsOptions&) const { return "lbfgs"; }
  std::string_view operator()(const NewtonOptions&) const { return "newton"; }
  std::string_view operator()(const TrustRegionOptions&) const { return "trust-region"; }
  std::string_view operator()(const FixedPointOptions& o) const { return o.name(); }
  std::string_view operator()(const NewtonKrylovOptions&) const { return "newton-krylov"; }
};

}  // namespace

std::string_view name(const InnerChoice& choice) {
  return std::visit(InnerName{}, choice);
}

Violations validate(const InnerChoice& choice) {
  return std::visit([](const auto& options) { return options.validate(); }, choice);
}

bool minimises(const InnerChoice& choice) {
  return !std::holds_alternative<FixedPointOptions>(choice) &&
         !std::holds_alternative<NewtonKrylovOptions>(choice);
}

bool differentiable(const InnerChoice& choice) {
  return minimises(choice) && make_step<Eigen::VectorXd>(choice)->differentiable();
}

std::span<const std::string_view> inner_solver_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const InnerChoice& each : all_inner_solvers()) all.push_back(name(each));
    return all;
  }();
  return names;
}

const InnerChoice* find_inner_solver(std::string_view name) {
  for (const InnerChoice& each : all_inner_solvers())
    if (bilevel::name(each) == name) return &each;
  return nullptr;
}

InnerChoice inner_solver_named(std::string_view name) {
  if (const InnerChoice* found = find_inner_solver(name)) return *found;
  throw InvalidInput(fmt::format("inner solver \"{}\" is not known; choose one of {}", name,
                                 fmt::join(inner_solver_names(), ", ")));
}

namespace detail {

void refuse_unused_under_constraints(const InnerChoice& choice) {
  const auto refuse = [&](std::string_view field, auto value, auto standard) {
    if (value == standard) return;
    throw InvalidInput(fmt::format("{}: {} = {} is not used under constraints on phi; leave it at {}",
                                   name(choice), field, value, standard));
  };
  if (const auto* newton = std::get_if<NewtonOptions>(&choice)) {
    refuse("max_assembled", newton->max_assembled, NewtonOptions{}.max_assembled);
    refuse("keep_factor", newton->keep_factor, NewtonOptions{}.keep_factor);
  }
  if (const auto* lbfgs = std::get_if<LbfgsOptions>(&choice))
    refuse("memory", lbfgs->memory, LbfgsOptions{}.memory);
}

void refuse_step(const InnerChoice& choice) {
  throw InvalidInput(fmt::format("inner solver {} has no steps of a minimiser", name(choice)));
}

void refuse_residual(const InnerChoice& choice) {
  throw InvalidInput(fmt::format(
      "inner solver {}: it minimises a loss and this problem has only a residual; use anderson or broyden, "
      "or newton-krylov where there are products",
      name(choice)));
}

}  // namespace detail

template std::unique_ptr<Step<Eigen::VectorXd>> make_step(const InnerChoice&);
template std::unique_ptr<Step<Eigen::VectorXd>> make_step(std::string_view);
template std::unique_ptr<InnerSolver<Eigen::VectorXd>> make_inner_solver(const InnerChoice&,
                                                                         Problem<Eigen::VectorXd>&,
                                                                         const MinimiserOptions&);
template std::unique_ptr<InnerSolver<Eigen::VectorXd>> make_inner_solver(const InnerChoice&,
                                                                         Equilibrium<Eigen::VectorXd>&,
                                                                         const MinimiserOptions&);
template std::unique_ptr<Step<Eigen::VectorXf>> make_step(const InnerChoice&);
template std::unique_ptr<Step<Eigen::VectorXf>> make_step(std::string_view);
template std::unique_ptr<InnerSolver<Eigen::VectorXf>> make_inner_solver(const InnerChoice&,
                                                                         Problem<Eigen::VectorXf>&,
                                                                         const MinimiserOptions&);
template std::unique_ptr<InnerSolver<Eigen::VectorXf>> make_inner_solver(const InnerChoice&,
                                                                         Equilibrium<Eigen::VectorXf>&,
                                                                         const MinimiserOptions&);

}  // namespace bilevel
