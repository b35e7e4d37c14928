#include <bilevel/networks/weight_steps.hpp>

#include <algorithm>

#include "kernels/table.hpp"
#include "threads/pool.hpp"

namespace bilevel::networks {
namespace {

/// act(first, count) for pieces of the weights; few of them are not worth waking a thread for.
template <class Act>
void for_each_piece(Index count, const Act& act) {
  constexpr Index piece = 1 << 14;
  const Index pieces = (count + piece - 1) / piece;
  pool::for_each(static_cast<std::size_t>(pieces), static_cast<std::size_t>(pieces / 4), [&](std::size_t k) {
    const auto i = static_cast<Index>(k);
    act(i * piece, std::min(piece, count - i * piece));
  });
}

}  // namespace

void descent_step(Index count, double keep, double rate, const float* g, float least, float* w) {
  const auto& loops = kernels::table<float>();
  for_each_piece(count, [&](Index first, Index size) {
    loops.descend_weights(size, static_cast<float>(keep), static_cast<float>(-rate), g + first, least,
                          w + first);
  });
}

void momentum_step(Index count, double keep, double rate, double momentum, const float* g, float* velocity,
                   float least, float* w) {
  const auto& loops = kernels::table<float>();
  const auto kept = static_cast<float>(momentum);
  for_each_piece(count, [&](Index first, Index size) {
    for (Index i = first; i < first + size; ++i) velocity[i] = kept * velocity[i] + g[i];
    loops.descend_weights(size, static_cast<float>(keep), static_cast<float>(-rate), velocity + first, least,
                          w + first);
  });
}

void adam_step(Index count, double keep, double rate, double correction, double beta1, double beta2,
               double epsilon, const float* g, float* m, float* v, float least, float* w) {
  const auto& loops = kernels::table<float>();
  for_each_piece(count, [&](Index first, Index size) {
    loops.adam(size, static_cast<float>(keep), static_cast<float>(rate), static_cast<float>(correction),
               static_cast<float>(beta1), static_cast<float>(beta2), static_cast<float>(epsilon), g + first,
               m + first, v + first, least, w + first);
  });
}

}  // namespace bilevel::networks
