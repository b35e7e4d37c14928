#pragma once

#include <bilevel/gradient/impl/automatic.hpp>
#include <bilevel/gradient/impl/checked_by_solver.hpp>
#include <bilevel/gradient/impl/exact.hpp>
#include <bilevel/gradient/impl/spring_agnostic.hpp>
#include <bilevel/gradient/make_estimator.hpp>

namespace bilevel {

namespace detail {

[[noreturn]] void refuse_residual(const EstimatorChoice& choice);

/// What can be made of P, an Equilibrium or a Problem.
template <Vector V, class P>
struct EstimatorMaker {
  using Made = std::unique_ptr<Estimator<V>>;
  P& problem;
  InnerSolver<V>& inner;

  /// auto, over whichever of the two overloads fits P.
  Made operator()(const AutomaticOptions& o) const {
    const EstimatorOptions told{.adjoint = o.adjoint,
                                .certificate = o.common.certificate,
                                .outer_tolerance = o.common.outer_tolerance,
                                .beta = o.beta,
                                .memory_limit = o.memory_limit};
    const auto make = [&at = problem, told](const EstimatorChoice& choice, InnerSolver<V>& solver) {
      return make_estimator<V>(with_options(choice, told), at, solver);
    };
    return std::make_unique<Automatic<V>>(problem, inner, std::is_base_of_v<Problem<V>, P>, make, o);
  }
  Made operator()(const ExactMethod& o) const { return std::make_unique<Exact<V>>(problem, inner, o.common); }
  Made operator()(const ImplicitMethod& o) const {
    return std::make_unique<Implicit<V>>(problem, inner, make_adjoint_solver<V>(o.adjoint), o.common);
  }
  Made operator()(const FiniteDifferenceOptions& o) const {
    return std::make_unique<FiniteDifference<V>>(problem, inner, o);
  }
  Made operator()(const RandomDifferenceOptions& o) const {
    return std::make_unique<RandomDifference<V>>(problem, inner, o);
  }
  /// The others need an inner loss.
  template <class Options>
  Made operator()(const Options& o) const {
    if constexpr (std::is_base_of_v<Problem<V>, P>) {
      return with_loss(o);
    } else {
      refuse_residual(o);
    }
  }

 private:
  Made with_loss(const EquilibriumPropagationOptions& o) const {
    return std::make_unique<EquilibriumPropagation<V>>(problem, inner, o);
  }
  Made with_loss(const HolomorphicOptions& o) const {
    return std::make_unique<HolomorphicPropagation<V>>(problem, inner, o);
  }
  Made with_loss(const AgnosticOptions& o) const {
    return checked(std::make_unique<SpringAgnostic<V>>(problem, o), o.certificate);
  }
  Made with_loss(const UnrolledOptions& o) const {
    return checked(std::make_unique<Unrolled<V>>(problem, make_step<V>(o.step), o), o.certificate);
  }
  Made with_loss(const ForwardModeOptions& o) const {
    return checked(std::make_unique<ForwardMode<V>>(problem, make_step<V>(o.step), o), o.certificate);
  }
  /// These settle by themselves: the solver that was given has a second look.
  Made checked(Made made, const CertificateOptions& certificate) const {
    if (!certificate.enabled) return made;
    return std::make_unique<CheckedBySolver<V>>(problem, inner, std::move(made));
  }
};

}  // namespace detail

template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice& choice, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner) {
  return std::visit(detail::EstimatorMaker<V, Equilibrium<V>>{problem, inner}, choice);
}

template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice& choice, Problem<V>& problem,
                                             InnerSolver<V>& inner) {
  return std::visit(detail::EstimatorMaker<V, Problem<V>>{problem, inner}, choice);
}

}  // namespace bilevel
