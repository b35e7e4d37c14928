#include <algorithm>
#include <cmath>

#include <bilevel/networks/circuit_equations.hpp>

#include "diode_law.hpp"

namespace bilevel::networks {

using Vec = Eigen::VectorXd;

namespace {

/// In units of Newton's step.
constexpr double farthest = 0x1p40;

}  // namespace

/// E at x but for a constant.
double CircuitEquations::content(In x) {
  product_.noalias() = linear_ * x;
  double total = 0.5 * x.dot(product_) - push_.dot(x);
  for (const Diode& d : circuit_.diodes)
    total += DiodeLaw(d, circuit_.gmin).content(volts(d.anode, x) - volts(d.cathode, x));
  return total;
}

/// Of ∂²E, shifted until it is positive definite: only a pull of negative siemens or a node that floats makes
/// that necessary.
bool CircuitEquations::factor() {
  const double largest = hessian_.diagonal().cwiseAbs().maxCoeff();
  shift_ = 0;
  for (int attempt = 0; attempt < 60; ++attempt) {
    factor_.compute(hessian_);
    if (factor_.info() == Eigen::Success) return true;
    const double next = shift_ == 0 ? 1e-12 : 4 * shift_;
    hessian_.diagonal().array() += (next - shift_) * (largest > 0 ? largest : 1);
    shift_ = next;
  }
  return false;
}

bool CircuitEquations::curves_upwards() {
  return size() == 0 || (hessian_.allFinite() && factor() && shift_ == 0);
}

/// How far to go along direction_: to where E has all but stopped falling. Newton's step t = 1 nearly always;
/// less where it would drive a diode up its exponential, more where it would only crawl down one. E along the
/// line is convex and known but for the diodes, so that points cost no more than those.
double CircuitEquations::search(double linear_slope) {
  product_.noalias() = linear_ * direction_;
  const double curvature = direction_.dot(product_);
  struct At {
    double slope, change, size;
  };
  const auto at = [&](double t) {
    At a{linear_slope + t * curvature, t * (linear_slope + 0.5 * t * curvature), 0};
    a.size = std::abs(t * linear_slope) + 0.5 * t * t * std::abs(curvature);
    for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
      const double here = diode_volts_[static_cast<Index>(k)], step = diode_step_[static_cast<Index>(k)];
      if (step == 0) continue;
      const DiodeLaw law(circuit_.diodes[k], circuit_.gmin);
      const double before = law.content(here), after = law.content(here + t * step);
      a.slope += law.current(here + t * step) * step;
      a.change += after - before;
      a.size += std::abs(after) + std::abs(before);
    }
    return a;
  };
  const double steepness = -at(0).slope;
  // Near the end differences of E are rounding, and slopes alone decide (Hager and Zhang 2005).
  const auto good = [&](const At& a) {
    return std::abs(a.slope) <= 0.5 * steepness && a.change <= 1e-13 * a.size;
  };
  double low = 0, t = 1;
  At here = at(t);
  while (here.slope < -0.5 * steepness && t < farthest) {
    low = t;
    t *= 2;
    here = at(t);
  }
  for (double high = t; !good(here) && high - low > 1e-15 * high;) {
    t = 0.5 * (low + high);
    here = at(t);
    (here.slope < 0 && here.change <= 0 ? low : high) = t;
  }
  return t;
}

/// A start for Newton's method. Where a diode is to carry current its voltage follows like a logarithm, and
/// Newton's steps in voltages climb down the exponential by V at a time. Here each diode has a voltage u of
/// its own to be linearised at, and what the linear circuit predicts for it is taken as a current, i(u) +
/// i′(u)Δ, where it conducts (the idea of SPICE's junction limiting, Nagel 1975). A few such steps settle
/// nearly every circuit, but none needs to: x moves only if E falls.
long CircuitEquations::predict(Eigen::Ref<Vec> x) {
  const double before = content(x);
  for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
    const Diode& d = circuit_.diodes[k];
    const DiodeLaw law(d, circuit_.gmin);
    // Where the slope reaches that of a milliohm a start says more about the start than about the diode.
    const double knee = law.v * std::log1p(1e3 * law.v / law.is);
    diode_volts_[static_cast<Index>(k)] = std::min(volts(d.anode, x) - volts(d.cathode, x), knee);
  }
  long iterations = 1;
  for (bool moved = true; moved && iterations <= 50; ++iterations) {
    gradient_ = -push_;
    hessian_ = linear_;
    for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
      const Diode& d = circuit_.diodes[k];
      const DiodeLaw law(d, circuit_.gmin);
      const double u = diode_volts_[static_cast<Index>(k)], slope = law.slope(u);
      // The tangent at u in terms of the free ends' voltages: what a given end has enters the constant.
      const double held = given_volts(d.anode) - given_volts(d.cathode);
      add_diode(d, law.current(u) + slope * (held - u), slope);
    }
    if (!gradient_.allFinite() || !hessian_.allFinite() || !factor() || shift_ > 0) return iterations;
    factor_.solveInPlace(gradient_);
    direction_ = -gradient_;
    moved = false;
    for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
      const Diode& d = circuit_.diodes[k];
      const DiodeLaw law(d, circuit_.gmin);
      double& u = diode_volts_[static_cast<Index>(k)];
      const double wanted = volts(d.anode, direction_) - volts(d.cathode, direction_);
      const double current = law.current(u) + law.slope(u) * (wanted - u) - law.shunt * wanted;
      const double next = wanted > 0 ? law.v * std::log1p(std::max(current, 0.0) / law.is) : wanted;
      moved = moved || std::abs(wanted - next) > 0.1 * law.v;
      u = next;
    }
  }
  if (content(direction_) < before) x = direction_;
  return iterations;
}

CircuitEquations::Outcome CircuitEquations::settle(Eigen::Ref<Vec> x, const OperatingPointOptions& options) {
  assemble();
  if (!x.allFinite() || !(content(x) <= content(direction_.setZero()))) x.setZero();
  long predictions = 0;
  Outcome outcome;
  for (long iteration = 0;; ++iteration) {
    outcome = linearise(x, 0);
    outcome.iterations = predictions + iteration;
    const bool settled = outcome.residual <= options.tolerance;
    if (!hessian_.allFinite() || !gradient_.allFinite()) {
      outcome.status = Status::not_finite;
      return outcome;
    }
    if (size() == 0) break;
    if (!factor()) {
      outcome.status = Status::not_finite;
      return outcome;
    }
    if (settled) break;
    if (iteration == options.max_iterations) {
      outcome.status = Status::iteration_limit;
      return outcome;
    }
    direction_ = gradient_;
    factor_.solveInPlace(direction_);
    direction_ = -direction_;
    for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
      const Place &p = place(circuit_.diodes[k].anode), &q = place(circuit_.diodes[k].cathode);
      diode_step_[static_cast<Index>(k)] =
          (p.free >= 0 ? p.scale * direction_[p.free] : 0) - (q.free >= 0 ? q.scale * direction_[q.free] : 0);
    }
    product_.noalias() = linear_ * x;
    product_ -= push_;
    const double step = search(product_.dot(direction_));
    // From a warm start a few whole steps arrive. Others had better begin elsewhere.
    if (predictions == 0 && !circuit_.diodes.empty() && (step != 1 || iteration == 3)) {
      predictions = predict(x);
      continue;
    }
    if (step >= farthest) {  // E falls without end
      outcome.status = Status::negative_curvature;
      return outcome;
    }
    direction_ *= step;
    if ((direction_.array().abs() <= 0x1p-53 * x.array().abs()).all()) {
      outcome.status = shift_ > 0 ? Status::singular : Status::stalled;
      break;
    }
    x += direction_;
  }
  if (shift_ > 0) {
    // A direction in which E does not curve stands out in the solution of the shifted system.
    outcome.status = shift_ <= 1e-11 ? Status::singular : Status::negative_curvature;
    direction_.setOnes();
    factor_.solveInPlace(direction_);
    direction_.cwiseAbs().maxCoeff(&outcome.worst);
  } else if (outcome.status == Status::not_run) {
    outcome.status = Status::converged;
  }
  return outcome;
}

std::string CircuitEquations::message(const Outcome& outcome, const OperatingPointOptions& options) const {
  const int node = size() > 0 ? free_node(outcome.worst) : 0;
  switch (outcome.status) {
    case Status::converged:
      return fmt::format("at rest after {} iterations: residual {:.3g}", outcome.iterations,
                         outcome.residual);
    case Status::singular:
      return fmt::format("node {} floats: nothing determines its voltage", node);
    case Status::negative_curvature:
      return fmt::format(
          "the co-content has no minimum here: at node {} the pulls of negative siemens outweigh the "
          "conductances",
          node);
    default:
      return fmt::format("{}: residual {:.3g} at node {} after {} iterations, asked for {:.3g}",
                         sentence(outcome.status), outcome.residual, node, outcome.iterations,
                         options.tolerance);
  }
}

}  // namespace bilevel::networks
