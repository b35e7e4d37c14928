#pragma once

// Both phases of tasks that share a center: with layers this small a task's numbers stay in the cache of a
// core, or of a multiprocessor, from its first step to its share of the outer gradient. One text (phases.inc)
// for each target of a processor, whose lanes take a task each, and for a device, whose blocks do. No Eigen
// and no standard library: an inline function compiled for a wide target could become everyone's copy.

namespace bilevel::learning::kernels {

inline constexpr int most_layers = 8;

/// Of tanh units: how many it reads, how many it has, and where its weights (W row by row, then b) and its
/// units begin.
struct PhaseLayer {
  int in, out, weights, units;
};

/// Layers whose weights are w = center + φ·allowed, elementwise (learner.hpp), and what is asked of the
/// tasks: at most `steps` of descent on L_in = mean squared error of the support rows + ½‖φ‖² from φ = 0, and
/// conjugate gradients for π of H·π = ∂φ share·(mean squared error of the query rows).
template <class S>
struct Phases {
  PhaseLayer layer[most_layers];
  int layers;
  int parameters, units;  ///< in all
  int support, query;     ///< rows
  const S *center, *allowed;
  int steps;
  S rate;           ///< of a step; of the first one, in lengths of the gradient, where `taskwise`
  S settled;        ///< steps end where the gradient of no task is longer; 0: all of them; where `taskwise`
  bool taskwise;    ///< step lengths of Barzilai and Borwein, of each task its own (TaskwiseDescent)
  S agree, growth;  ///< its numbers
  int products;
  S tolerance;  ///< of π's residual, relative to the right-hand side
  S level;      ///< curvature below so much of the largest one is none to rounding
  S share;
};

/// Tasks one after the other, as the batch has them, and where their results go.
template <class S>
struct PhaseTasks {
  int count;  ///< at most the lanes
  const S *support_x, *support_y, *query_x, *query_y;
  S* phi;                     ///< count × parameters
  S* loss;                    ///< of each, its part of L_out
  S* residual;                ///< of each, ‖∂φ L_in‖² where it ended
  S* left;                    ///< of each, the residual of π relative to the right-hand side, squared
  S *by_center, *by_allowed;  ///< parameters: sums over these tasks of ∂L_out/∂center and ∂L_out/∂allowed
  S* room;                    ///< phase_room·lanes numbers, at a multiple of 64 bytes
};

/// Vectors as long as the parameters, and as the units of all rows.
inline constexpr int phase_vectors = 10, phase_traces = 6;
/// Numbers that a task is worked on in.
template <class S>
constexpr long phase_room(const Phases<S>& p) {
  const long rows = p.support > p.query ? p.support : p.query;
  return static_cast<long>(phase_vectors) * p.parameters +
         (phase_traces * p.units + p.layer[0].in + p.layer[p.layers - 1].out) * rows;
}

template <class S>
struct PhaseLoops {
  int lanes;
  void (*run)(const Phases<S>&, const PhaseTasks<S>&);
};
struct PhaseTarget {
  PhaseLoops<float> single;
  PhaseLoops<double> whole;
};
extern const PhaseTarget baseline_phases, avx2_phases, avx512_phases;

/// Those of the target that the other kernels of the library use.
template <class S>
const PhaseLoops<S>& phase_loops();

/// On so many threads at most; the same numbers on any.
template <class S>
void run_groups(const Phases<S>& phases, const PhaseTasks<S>* groups, int count, int threads);

}  // namespace bilevel::learning::kernels
