#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <type_traits>

namespace bilevel {

/// What a stage asked of the problem and what it held. Counts are of calls to the oracles; a
/// combined value-and-gradient call counts as one gradient and not as a value.
struct Cost {
  long inner_values = 0;
  long inner_gradients = 0;  ///< ∂φ and/or ∂θ of L_in, or the residual
  long outer_values = 0;
  long outer_gradients = 0;   ///< ∂φ and/or ∂θ of L_out
  long linearisations = 0;    ///< points at which curvature was prepared
  long hessian_products = 0;  ///< J·v and Jᵀ·v
  long cross_products = 0;    ///< v·∂θ∂φ L and ∂θ∂φ L·u
  long dense_hessians = 0;    ///< times the whole matrix was formed
  long dense_columns = 0;     ///< of those matrices, together
  long factorizations = 0;
  double drawn_products = 0;  ///< J·v over rows drawn at random, in units of products with all of them
  /// Times that numbers were fetched from a vector where that means waiting for a device: whole outer loops
  /// count it, for vectors that say (Space::synchronisations).
  long synchronisations = 0;
  std::size_t bytes = 0;  ///< peak of the vectors and matrices held by the method itself
  double seconds_inner = 0;
  double seconds_adjoint = 0;
  double seconds_certificate = 0;

  double seconds() const { return seconds_inner + seconds_adjoint + seconds_certificate; }

  /// Cost in units of one inner gradient, by the usual operation counts: a value is half a gradient, a
  /// Hessian or cross product two, a whole matrix as many products as it has columns (problems that form
  /// it faster do better than this says). Outer evaluations count like inner ones, linear algebra of the
  /// methods themselves not at all.
  double gradient_equivalents() const {
    return 0.5 * static_cast<double>(inner_values + outer_values) +
           static_cast<double>(inner_gradients + outer_gradients) +
           2.0 * (static_cast<double>(hessian_products + cross_products + dense_columns) + drawn_products);
  }

  /// visit(name, pointer to the member) for every field: how it is added up, shown and kept follows from
  /// here.
  template <class Visit>
  static void for_each_field(Visit&& visit) {
    visit("inner_values", &Cost::inner_values);
    visit("inner_gradients", &Cost::inner_gradients);
    visit("outer_values", &Cost::outer_values);
    visit("outer_gradients", &Cost::outer_gradients);
    visit("linearisations", &Cost::linearisations);
    visit("hessian_products", &Cost::hessian_products);
    visit("cross_products", &Cost::cross_products);
    visit("dense_hessians", &Cost::dense_hessians);
    visit("dense_columns", &Cost::dense_columns);
    visit("factorizations", &Cost::factorizations);
    visit("drawn_products", &Cost::drawn_products);
    visit("synchronisations", &Cost::synchronisations);
    visit("bytes", &Cost::bytes);
    visit("seconds_inner", &Cost::seconds_inner);
    visit("seconds_adjoint", &Cost::seconds_adjoint);
    visit("seconds_certificate", &Cost::seconds_certificate);
  }

  Cost& operator+=(const Cost& other) {
    for_each_field([&](const char*, auto field) {
      if constexpr (std::is_same_v<decltype(field), std::size_t Cost::*>)
        this->*field = std::max(this->*field, other.*field);  // a peak
      else
        this->*field += other.*field;
    });
    return *this;
  }
};

/// Seconds since construction.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace bilevel
