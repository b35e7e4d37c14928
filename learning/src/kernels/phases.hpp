#pragma once

#include "small_products.hpp"

// Both phases of tasks that share a center, a processor's lanes taking a task each: with layers this small
// every task's numbers stay in the cache from its first step to its share of the outer gradient. Once for
// each target, and with no Eigen and no standard library, as small products are.

namespace bilevel::learning::kernels {

/// Layers of tanh units whose weights are w = center + φ·allowed, elementwise (learner.hpp), and what is asked
/// of the tasks: at most `steps` of descent on L_in = mean squared error of the support rows + ½‖φ‖² from φ = 0, and
/// conjugate gradients for π of H·π = ∂φ share·(mean squared error of the query rows).
template <class S>
struct Phases {
  const Count* sizes;  ///< layers + 1 of them
  Count layers;
  Count support, query;  ///< rows
  const S *center, *allowed;
  Count steps;
  S rate;         ///< of a step; of the first one, in lengths of the gradient, where `taskwise`
  S settled;      ///< they end where the gradient of no task is longer; 0: all of them
  bool taskwise;  ///< step lengths of Barzilai and Borwein, of each task its own (TaskwiseDescent)
  S agree, growth;  ///< its numbers
  Count products;
  S tolerance;  ///< of π's residual, relative to the right-hand side
  S level;      ///< curvature below so much of the largest one is none to rounding
  S share;
};

/// Tasks one after the other, as the batch has them, and where their results go.
template <class S>
struct PhaseTasks {
  Count count;  ///< at most the lanes
  const S *support_x, *support_y, *query_x, *query_y;
  S *phi, *pi;               ///< count × parameters
  S* loss;                   ///< of each, its part of L_out
  S* residual;               ///< of each, ‖∂φ L_in‖² where it ended
  S* left;                   ///< of each, the residual of π relative to the right-hand side, squared
  S *by_center, *by_allowed;  ///< parameters: sums over these tasks of ∂L_out/∂center and ∂L_out/∂allowed
  S* room;                   ///< room(…) numbers, at a multiple of 64 bytes
};

template <class S>
struct PhaseLoops {
  Count lanes;
  Count (*room)(const Phases<S>&);
  void (*run)(const Phases<S>&, const PhaseTasks<S>&);
};
struct PhaseTarget {
  PhaseLoops<float> single;
  PhaseLoops<double> whole;
};
extern const PhaseTarget baseline_phases, avx2_phases, avx512_phases;

template <class S>
const PhaseLoops<S>& phase_loops();

}  // namespace bilevel::learning::kernels
