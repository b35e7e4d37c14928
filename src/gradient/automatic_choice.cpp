#include <bilevel/gradient/automatic_choice.hpp>

#include <fmt/format.h>

namespace bilevel {
namespace {

/// Up to this many variables a factorization costs less than starting an iteration would save.
constexpr Index factor_at_once = 32;
/// Vectors of φ's shape that an iterative solver holds, GMRES's basis left aside.
constexpr Index vectors_of_a_krylov_solver = 10;
/// Parameters that are differenced one by one where equilibrium propagation did not do, and where it cannot.
constexpr Index few_parameters = 50, many_parameters = 1000;

}  // namespace

std::vector<Choice> rank_methods(const Situation& s) {
  std::vector<Choice> choices;
  const auto add = [&](Choice choice) { choices.push_back(std::move(choice)); };
  const auto bytes = [](Index numbers) { return static_cast<std::size_t>(numbers) * sizeof(double); };
  // J, and its factor.
  const bool dense_fits = bytes(s.phi) * static_cast<std::size_t>(2 * s.phi) <= s.memory_limit;
  const bool vectors_fit = bytes(vectors_of_a_krylov_solver * s.phi) <= s.memory_limit;
  const std::string size = fmt::format("|φ| = {}", s.phi);

  if (s.curvature) {
    const Choice direct{.method = ImplicitMethod{DirectOptions{}},
                        .indefinite = true,
                        .stiff = true,
                        .reason = fmt::format("a {0} by {0} matrix is factored in no time", s.phi)};
    if (dense_fits && s.phi <= factor_at_once) add(direct);
    // Until the products cost what the matrix would; see rank_methods.
    const AdjointOptions rented{.max_iterations = dense_fits ? static_cast<long>(s.phi) : 0};
    if (vectors_fit && s.symmetric) {
      ConjugateGradientOptions cg{rented};
      if (s.inherits) cg.preconditioner = Preconditioner::inherited;
      add({.method = ImplicitMethod{cg},
           .reason = size + (s.inherits ? ", symmetric: the inner solver's own factor is a few products from "
                                          "the adjoint's"
                                        : ", symmetric: products are cheaper than the matrix unless it is "
                                          "ill-conditioned")});
      add({.method = ImplicitMethod{MinresOptions{rented}},
           .indefinite = true,
           .reason = "MINRES does not mind negative curvature"});
    } else if (vectors_fit) {
      add({.method = ImplicitMethod{GmresOptions{rented}},
           .indefinite = true,
           .reason = size + ", not symmetric: GMRES takes the fewest products"});
    }
    if (dense_fits && s.phi > factor_at_once) {
      Choice last = direct;
      last.reason = "the matrix fits into memory, and a factorization does not mind the condition number";
      add(last);
    }
    if (vectors_fit && !s.symmetric)
      add({.method = ImplicitMethod{BicgstabOptions{}},
           .indefinite = true,
           .stiff = true,
           .reason = "BiCGSTAB needs no basis to be kept, so it need not begin again"});
    if (vectors_fit && !dense_fits && s.symmetric) {
      ConjugateGradientOptions sketched;
      sketched.preconditioner = Preconditioner::nystrom;
      add({.method = ImplicitMethod{sketched},
           .stiff = true,
           .reason = "a low-rank sketch takes the largest eigenvalues out of the way"});
    }
    if (vectors_fit)
      add({.method = ImplicitMethod{NeumannOptions{}},
           .reason = "recurrent backpropagation asks only for a contraction"});
  }
  // Three points on one side judge themselves by two of them; central ones need a second strength for that.
  if (s.loss && !s.curvature)
    add({.method = EquilibriumPropagationOptions{.points = 3},
         .indefinite = true,
         .stiff = true,
         .reason = "first derivatives only, and a loss: equilibrium propagation, whose cost does not depend "
                   "on |θ|"});
  if (s.loss && s.curvature)
    add({.method = EquilibriumPropagationOptions{.nudge = Nudge::central},
         .indefinite = true,
         .stiff = true,
         .reason = "equilibrium propagation asks for first derivatives only"});
  if (!s.curvature && s.theta <= (s.loss ? few_parameters : many_parameters))
    add({.method = FiniteDifferenceOptions{},
         .indefinite = true,
         .stiff = true,
         .reason = fmt::format("no curvature{}: 2|θ| = {} more solves", s.loss ? "" : " and no inner loss",
                               2 * s.theta)});
  add({.method = ImplicitMethod{ZeroOptions{}},
       .indefinite = true,
       .stiff = true,
       .reason = "nothing better worked: ∂θ L_out alone, for what it is worth"});
  return choices;
}

std::size_t next_choice(const std::vector<Choice>& choices, std::size_t failed, Status why) {
  for (std::size_t i = failed + 1; i < choices.size(); ++i) {
    if (why == Status::negative_curvature && !choices[i].indefinite) continue;
    if ((why == Status::iteration_limit || why == Status::stalled) && !choices[i].stiff) continue;
    return i;
  }
  return choices.size();
}

}  // namespace bilevel
