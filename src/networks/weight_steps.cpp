#include <bilevel/networks/weight_steps.hpp>

#include "kernels/table.hpp"

namespace bilevel::networks {

void descent_step(Index count, double rate, const float* g, float least, float* w) {
  kernels::table<float>().descend_weights(count, static_cast<float>(-rate), g, least, w);
}

void adam_step(Index count, double rate, double correction, double beta1, double beta2, double epsilon,
               const float* g, float* m, float* v, float least, float* w) {
  kernels::table<float>().adam(count, static_cast<float>(rate), static_cast<float>(correction),
                               static_cast<float>(beta1), static_cast<float>(beta2),
                               static_cast<float>(epsilon), g, m, v, least, w);
}

}  // namespace bilevel::networks
