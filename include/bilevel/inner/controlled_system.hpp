#pragma once

#include <string>

#include <bilevel/outcome/cost.hpp>
#include <bilevel/outcome/status.hpp>
#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// Where a controlled system came to rest, as far as it can be observed.
template <Vector V>
struct Rest {
  V phi;
  /// θ − u: how far the parameters were pulled away from the knobs. A system can see the extension of its
  /// springs to more digits than two positions have in common; where only θ is observed, subtract u.
  V extension;
  Status status = Status::not_run;
  std::string message;
  Cost cost;
};

/// Something whose inner loss nobody knows. Its parameters θ settle together with φ, held at the knobs u by
/// springs of compliance ε; an observer can turn the knobs, add β times the outer loss, and look where it
/// rests:
///   F(φ, θ; u, β) = L_in(φ, θ) + ‖θ − u‖²/(2ε) + β·L_out(φ, θ)
template <Vector V>
class ControlledSystem {
 public:
  virtual ~ControlledSystem() = default;

  /// Where to start from and what shape things have.
  virtual V initial_phi() const = 0;
  virtual V initial_control() const = 0;
  /// ε > 0.
  virtual double compliance() const = 0;
  /// Let φ and θ come to rest together, with φ started at `start`.
  virtual Rest<V> settle(const V& control, double beta, const V& start) = 0;
  /// L_out, measured at a state of rest; most outer losses look at φ alone.
  virtual double outer(const V& phi, const V& theta) = 0;
};

}  // namespace bilevel
