#pragma once

#include <span>

#include <bilevel/space/space.hpp>

namespace bilevel {

/// out[i] = ⟨x, ys[i]⟩. A space that has `dots` fetches them together: on a device each fetch waits for
/// everything that was asked of it before.
template <Vector V>
void dots(const V& x, std::span<const V* const> ys, double* out) {
  if constexpr (requires { Space<V>::dots(x, ys, out); }) {
    Space<V>::dots(x, ys, out);
  } else {
    for (const V* y : ys) *out++ = Space<V>::dot(x, *y);
  }
}

/// How often this thread has fetched numbers of such vectors, where the space counts that; else 0.
template <Vector V>
long synchronisations() {
  if constexpr (requires { Space<V>::synchronisations(); })
    return Space<V>::synchronisations();
  else
    return 0;
}

}  // namespace bilevel
