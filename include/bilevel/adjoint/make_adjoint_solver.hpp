#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <bilevel/adjoint/bicgstab.hpp>
#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/adjoint/direct.hpp>
#include <bilevel/adjoint/gmres.hpp>
#include <bilevel/adjoint/identity.hpp>
#include <bilevel/adjoint/minres.hpp>
#include <bilevel/adjoint/neumann.hpp>
#include <bilevel/adjoint/stochastic.hpp>
#include <bilevel/adjoint/zero.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// A solver of phase 2 and everything it is told: the options of one of them.
using AdjointChoice =
    std::variant<ConjugateGradientOptions, DirectOptions, MinresOptions, GmresOptions, BicgstabOptions,
                 NeumannOptions, IdentityOptions, ZeroOptions, StochasticOptions>;

/// direct, cg, cg-jacobi, …: the name() of the solver that is made of it.
std::string_view name(const AdjointChoice& choice);
Violations validate(const AdjointChoice& choice);
/// The options that all solvers share.
AdjointOptions& shared(AdjointChoice& choice);
/// Whether the system is meant to be solved: all but identity and zero, which stand for approximations.
bool solves(const AdjointChoice& choice);

/// Every name, each that of a choice with its options at their defaults. One more is known: sgd, for problems
/// that draw rows.
const std::vector<std::string_view>& adjoint_solver_names();
/// The choice of that name; null where there is none.
const AdjointChoice* find_adjoint_solver(std::string_view name);
/// The choice of that name. Throws InvalidInput, with the list, for a name that there is not.
AdjointChoice adjoint_solver_named(std::string_view name);
/// A solver that there was once, and the one to use instead.
struct RemovedAdjointSolver {
  std::string_view name, instead;
};
std::span<const RemovedAdjointSolver> removed_adjoint_solvers();

template <Vector V>
std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(const AdjointChoice& choice);

/// The solver of that name with the options that all share; its own stay at their defaults. Throws
/// InvalidInput, with the list, for a name that there is not.
template <Vector V>
std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(std::string_view name,
                                                      const AdjointOptions& options = {});

extern template std::unique_ptr<AdjointSolver<Eigen::VectorXd>> make_adjoint_solver(const AdjointChoice&);
extern template std::unique_ptr<AdjointSolver<Eigen::VectorXf>> make_adjoint_solver(const AdjointChoice&);
extern template std::unique_ptr<AdjointSolver<Eigen::VectorXd>> make_adjoint_solver(std::string_view,
                                                                                    const AdjointOptions&);
extern template std::unique_ptr<AdjointSolver<Eigen::VectorXf>> make_adjoint_solver(std::string_view,
                                                                                    const AdjointOptions&);

}  // namespace bilevel
