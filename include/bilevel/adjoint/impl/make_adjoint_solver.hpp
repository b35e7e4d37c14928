#pragma once

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/adjoint/impl/bicgstab.hpp>
#include <bilevel/adjoint/impl/conjugate_gradient.hpp>
#include <bilevel/adjoint/impl/direct.hpp>
#include <bilevel/adjoint/impl/gmres.hpp>
#include <bilevel/adjoint/impl/identity.hpp>
#include <bilevel/adjoint/impl/minres.hpp>
#include <bilevel/adjoint/impl/neumann.hpp>
#include <bilevel/adjoint/impl/stochastic.hpp>
#include <bilevel/adjoint/impl/zero.hpp>

namespace bilevel {

namespace detail {

template <Vector V>
struct AdjointMaker {
  using Made = std::unique_ptr<AdjointSolver<V>>;
  Made operator()(const ConjugateGradientOptions& o) const { return std::make_unique<ConjugateGradient<V>>(o); }
  Made operator()(const DirectOptions& o) const { return std::make_unique<Direct<V>>(o); }
  Made operator()(const MinresOptions& o) const { return std::make_unique<Minres<V>>(o); }
  Made operator()(const GmresOptions& o) const { return std::make_unique<Gmres<V>>(o); }
  Made operator()(const BicgstabOptions& o) const { return std::make_unique<Bicgstab<V>>(o); }
  Made operator()(const NeumannOptions& o) const { return std::make_unique<Neumann<V>>(o); }
  Made operator()(const StochasticOptions& o) const { return std::make_unique<Stochastic<V>>(o); }
  Made operator()(const IdentityOptions& o) const { return std::make_unique<Identity<V>>(o); }
  Made operator()(const ZeroOptions& o) const { return std::make_unique<Zero<V>>(o); }
};

}  // namespace detail

template <Vector V>
std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(const AdjointChoice& choice) {
  return std::visit(detail::AdjointMaker<V>{}, choice);
}

template <Vector V>
std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(std::string_view name, const AdjointOptions& options) {
  AdjointChoice choice = adjoint_solver_named(name);
  shared(choice) = options;
  return make_adjoint_solver<V>(choice);
}

}  // namespace bilevel
