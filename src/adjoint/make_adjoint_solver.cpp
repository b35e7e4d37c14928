#include <bilevel/adjoint/impl/make_adjoint_solver.hpp>

#include <array>

namespace bilevel {
namespace {

const std::vector<AdjointChoice>& all_adjoint_solvers() {
  static const std::vector<AdjointChoice> all = [] {
    std::vector<AdjointChoice> choices{DirectOptions{}};
    for (const Preconditioner each : {Preconditioner::none, Preconditioner::jacobi, Preconditioner::own,
                                      Preconditioner::inherited, Preconditioner::nystrom}) {
      ConjugateGradientOptions cg;
      cg.preconditioner = each;
      choices.emplace_back(cg);
    }
    choices.insert(choices.end(), {MinresOptions{}, GmresOptions{}, BicgstabOptions{}, NeumannOptions{},
                                   IdentityOptions{}, ZeroOptions{}});
    return choices;
  }();
  return all;
}

struct AdjointName {
  std::string_view operator()(const ConjugateGradientOptions& o) const { return name(o); }
  std::string_view operator()(const DirectOptions&) const { return "direct"; }
  std::string_view operator()(const MinresOptions&) const { return "minres"; }
  std::string_view operator()(const GmresOptions&) const { return "gmres"; }
  std::string_view operator()(const BicgstabOptions&) const { return "bicgstab"; }
  std::string_view operator()(const NeumannOptions&) const { return "neumann"; }
  std::string_view operator()(const StochasticOptions&) const { return "sgd"; }
  std::string_view operator()(const IdentityOptions&) const { return "identity"; }
  std::string_view operator()(const ZeroOptions&) const { return "zero"; }
};

constexpr std::array<RemovedAdjointSolver, 3> removed{
    {{"cg-recycled", "cg-inherited"}, {"nystrom", "cg-nystrom"}, {"inherited", "cg-inherited"}}};

}  // namespace

std::string_view name(const ConjugateGradientOptions& options) {
  switch (options.preconditioner) {
    case Preconditioner::none:
      return "cg";
    case Preconditioner::jacobi:
      return "cg-jacobi";
    case Preconditioner::own:
      return "cg-preconditioned";
    case Preconditioner::inherited:
      return "cg-inherited";
    case Preconditioner::nystrom:
      return "cg-nystrom";
  }
  return "cg";
}

std::string_view name(const AdjointChoice& choice) {
  return std::visit(AdjointName{}, choice);
}

Violations validate(const AdjointChoice& choice) {
  return std::visit([](const auto& options) { return options.validate(); }, choice);
}

AdjointOptions& shared(AdjointChoice& choice) {
  return std::visit([](AdjointOptions& options) -> AdjointOptions& { return options; }, choice);
}

bool solves(const AdjointChoice& choice) {
  return !std::holds_alternative<IdentityOptions>(choice) && !std::holds_alternative<ZeroOptions>(choice);
}

const std::vector<std::string_view>& adjoint_solver_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const AdjointChoice& each : all_adjoint_solvers()) all.push_back(name(each));
    return all;
  }();
  return names;
}

const AdjointChoice* find_adjoint_solver(std::string_view name) {
  static const AdjointChoice sgd = StochasticOptions{};
  if (name == bilevel::name(sgd)) return &sgd;
  for (const AdjointChoice& each : all_adjoint_solvers())
    if (bilevel::name(each) == name) return &each;
  return nullptr;
}

std::span<const RemovedAdjointSolver> removed_adjoint_solvers() {
  return removed;
}

AdjointChoice adjoint_solver_named(std::string_view name) {
  if (const AdjointChoice* found = find_adjoint_solver(name)) return *found;
  for (const RemovedAdjointSolver& gone : removed)
    if (name == gone.name)
      throw InvalidInput(fmt::format("adjoint: {} was removed in 0.1.0: it was never the cheapest; use {}",
                                     name, gone.instead));
  throw InvalidInput(fmt::format("adjoint: there is no solver \"{}\"; known are {}", name,
                                 fmt::join(adjoint_solver_names(), ", ")));
}

}  // namespace bilevel
