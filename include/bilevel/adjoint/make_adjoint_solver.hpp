#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <bilevel/adjoint/bicgstab.hpp>
#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/adjoint/direct.hpp>
#include <bilevel/adjoint/gmres.hpp>
#include <bilevel/adjoint/identity.hpp>
#include <bilevel/adjoint/inherited.hpp>
#include <bilevel/adjoint/minres.hpp>
#include <bilevel/adjoint/neumann.hpp>
#include <bilevel/adjoint/nystrom.hpp>
#include <bilevel/adjoint/zero.hpp>

namespace bilevel {

/// Every name that make_adjoint_solver knows; a solver's name() is the name it was made by.
const std::vector<std::string_view>& adjoint_solver_names();

/// Columns that cg-recycled hands on: the small eigenvalues that hold CG up are rarely more, and eight
/// products are soon made good.
inline constexpr long default_recycled = 8;

/// The solver of that name with the options that all share; its own stay at their defaults. Throws
/// InvalidInput, with the list, for a name that there is not.
template <Vector V>
std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(std::string_view name,
                                                      const AdjointOptions& options = {}) {
  if (name == "direct") return std::make_unique<Direct<V>>(DirectOptions{options});
  if (name == "cg") return std::make_unique<ConjugateGradient<V>>(ConjugateGradientOptions{options});
  if (name == "cg-jacobi")
    return std::make_unique<ConjugateGradient<V>>(ConjugateGradientOptions{options, Preconditioner::jacobi});
  if (name == "cg-preconditioned")
    return std::make_unique<ConjugateGradient<V>>(ConjugateGradientOptions{options, Preconditioner::own});
  if (name == "cg-inherited")
    return std::make_unique<ConjugateGradient<V>>(
        ConjugateGradientOptions{options, Preconditioner::inherited});
  if (name == "cg-nystrom")
    return std::make_unique<ConjugateGradient<V>>(ConjugateGradientOptions{options, Preconditioner::nystrom});
  if (name == "cg-recycled") {
    ConjugateGradientOptions recycling{options};
    recycling.recycled = default_recycled;
    return std::make_unique<ConjugateGradient<V>>(recycling);
  }
  if (name == "minres") return std::make_unique<Minres<V>>(MinresOptions{options});
  if (name == "gmres") return std::make_unique<Gmres<V>>(GmresOptions{options});
  if (name == "bicgstab") return std::make_unique<Bicgstab<V>>(BicgstabOptions{options});
  if (name == "neumann") return std::make_unique<Neumann<V>>(NeumannOptions{options});
  if (name == "nystrom") return std::make_unique<Nystrom<V>>(NystromOptions{options});
  if (name == "inherited") return std::make_unique<Inherited<V>>(options);
  if (name == "identity") return std::make_unique<Identity<V>>(IdentityOptions{options});
  if (name == "zero") return std::make_unique<Zero<V>>(options);
  throw InvalidInput(fmt::format("adjoint: there is no solver \"{}\"; known are {}", name,
                                 fmt::join(adjoint_solver_names(), ", ")));
}

extern template std::unique_ptr<AdjointSolver<Eigen::VectorXd>> make_adjoint_solver(std::string_view,
                                                                                    const AdjointOptions&);
extern template std::unique_ptr<AdjointSolver<Eigen::VectorXf>> make_adjoint_solver(std::string_view,
                                                                                    const AdjointOptions&);

}  // namespace bilevel
