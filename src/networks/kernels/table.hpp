#pragma once

#include <cstddef>

// The element-wise loops of relaxation, once for each target. No Eigen and no standard library beyond types:
// an inline function compiled for a wide target could become everyone's copy.

namespace bilevel::networks::kernels {

using Count = std::ptrdiff_t;

enum class Squash { none, sigmoid, tanh };

/// One layer of a block of samples: matrices are units × samples without gaps.
template <class S>
struct LayerStep {
  Count units = 0, samples = 0;
  const S* drive = nullptr;    ///< what the neighbours send
  const S* base = nullptr;     ///< what is constant: a matrix, or a vector where base_step is 0
  Count base_step = 0;         ///< units, or 0
  const S* inverse = nullptr;  ///< 1/D of each unit, by which a state follows from its drive; null: 1
  const S* rate = nullptr;   ///< how far each unit goes towards where its energy is lowest; null: all the way
  const S* lower = nullptr;  ///< bounds of each unit; null: none
  const S* upper = nullptr;
  S* u = nullptr;         ///< states, updated
  S* s = nullptr;         ///< ρ(u), updated; unused where there is no ρ
  S* moved = nullptr;     ///< largest change of a state of each sample so far, updated; null: not wanted
  bool by_slope = false;  ///< smooth units: the rate is multiplied by ρ′(u), which makes it a gradient step
  /// What a narrow layer sends (narrow × samples) through its weights (units × narrow) is added to the drive
  /// a few samples at a time, while they are in the nearest cache; 0: the drive is complete. The sum goes to
  /// `received`: with `drive` set the two are the same, without it there is room for `most_together` samples.
  Count narrow = 0;
  const S* narrow_weights = nullptr;
  const S* narrow_states = nullptr;
  S* received = nullptr;
  static constexpr Count most_together = 4;
};

template <class S>
struct Table {
  /// u moves towards (drive + base)/D within its bounds; s = ρ(u).
  void (*settle)(Squash squash, const LayerStep<S>& step);
  /// u −= rate·(error − ρ′(u)·back), s = ρ(u): a gradient step of predictive coding. `drive` is back, `base`
  /// error.
  void (*descend)(Squash squash, const LayerStep<S>& step, S rate);
  /// The same two for smooth units in the complex plane. Every sample has two columns of u, s and drive, real
  /// and imaginary parts; `base` is real in the first and has two columns in the second.
  void (*settle_complex)(Squash squash, const LayerStep<S>& step, S rate);
  void (*descend_complex)(Squash squash, const LayerStep<S>& step, S rate);
  /// out = u − drive − base.
  void (*difference)(Count units, Count samples, const S* u, const S* drive, const S* base, Count base_step,
                     S* out);
  /// out = ρ(u).
  void (*squash)(Squash squash, Count size, const S* u, S* out);
  /// out = softmax of each column.
  void (*softmax)(Count units, Count samples, const S* u, S* out);
  /// values += deviation·(normal numbers of these keys).
  void (*add_noise)(Count size, float deviation, unsigned first_key, unsigned second_key, S* values);
  /// w = keep·w + a·g, kept at or above `least`.
  void (*descend_weights)(Count size, S keep, S a, const S* g, S least, S* w);
  /// Adam's moments and step with the bias corrections in a and b: m = β₁m + (1−β₁)g, v = β₂v + (1−β₂)g²,
  /// w = keep·w − a·m/(√(v·b) + ε), kept at or above `least`.
  void (*adam)(Count size, S keep, S a, S b, S beta1, S beta2, S epsilon, const S* g, S* m, S* v, S least,
               S* w);
};

template <class S>
const Table<S>& table();

extern const Table<float> baseline_float, avx2_float, avx512_float;
extern const Table<double> baseline_double, avx2_double, avx512_double;

}  // namespace bilevel::networks::kernels
