#pragma once

// The library's algorithms on tensors are compiled into bilevel::torch: who includes this beside
// <bilevel/impl.hpp> does not compile them anew.

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/outer/minimise.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/torch/tensor.hpp>

// `WHERE` is `extern` where it is declared and empty where it is compiled.
#define BILEVEL_TORCH_ALGORITHMS(WHERE, V)                                                                   \
  WHERE template std::unique_ptr<Step<V>> make_step<V>(const InnerChoice&);                                  \
  WHERE template std::unique_ptr<Step<V>> make_step<V>(std::string_view);                                    \
  WHERE template std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice&, Problem<V>&,          \
                                                                   const MinimiserOptions&);                 \
  WHERE template std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice&, Equilibrium<V>&,      \
                                                                   const MinimiserOptions&);                 \
  WHERE template std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(const AdjointChoice&);                \
  WHERE template std::unique_ptr<AdjointSolver<V>> make_adjoint_solver(std::string_view,                     \
                                                                       const AdjointOptions&);               \
  WHERE template std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice&, Equilibrium<V>&,       \
                                                              InnerSolver<V>&);                              \
  WHERE template std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice&, Problem<V>&,           \
                                                              InnerSolver<V>&);                              \
  WHERE template class Sensitivity<V>;                                                                       \
  WHERE template CheckReport check_derivatives<V>(Equilibrium<V>&, const V&, const V&, const CheckOptions&); \
  WHERE template Summary solve<V>(Estimator<V>&, Optimizer&, const V&, const SolveOptions&);                 \
  WHERE template Summary minimise<V>(Problem<V>&, const MinimiseOptions&);                                   \
  WHERE template Summary minimise<V>(Equilibrium<V>&, const MinimiseOptions&);

namespace bilevel {
BILEVEL_TORCH_ALGORITHMS(extern, at::Tensor)
BILEVEL_TORCH_ALGORITHMS(extern, torch::SingleTensor)
}  // namespace bilevel
