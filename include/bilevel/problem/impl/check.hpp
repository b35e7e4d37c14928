#pragma once

#include <bilevel/problem/check.hpp>
#include <bilevel/problem/impl/check_constants.hpp>

namespace bilevel {

template <Vector V>
CheckReport check_derivatives(Equilibrium<V>& equilibrium, const std::type_identity_t<V>& phi,
                              const std::type_identity_t<V>& theta, const CheckOptions& options) {
  options.validate().throw_if_any();
  require_shapes<V>(equilibrium, &phi, &theta, "check_derivatives");
  return DerivativeCheck<V>(equilibrium, phi, theta, options).run();
}

}  // namespace bilevel
