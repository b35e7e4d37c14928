#pragma once

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>

namespace bilevel {

template <Vector V>
Automatic<V>::Automatic(Equilibrium<V>& problem, InnerSolver<V>& inner, bool loss, Factory make,
                        AutomaticOptions options)
    : problem_(problem),
      inner_(inner),
      loss_(loss),
      make_(std::move(make)),
      options_(options),
      remembered_(inner),
      settled_(problem_, remembered_),
      sensitivity_(problem_) {
  options_.validate().throw_if_any();
  require_shapes<V>(problem, nullptr, nullptr, "auto");
}

/// After phase 1, which shows what the inner solver leaves behind: a whole inverse (Newton) makes conjugate
/// gradients a matter of a few products, the few pairs of L-BFGS may as well hinder them.
template <Vector V>
void Automatic<V>::look_around() {
  if (!choices_.empty()) return;
  const Capabilities can = problem_.capabilities();
  const Index size = Space<V>::size(problem_.initial_phi());
  InverseApproximation<V>* const inverse = inner_.inverse_hessian();
  choices_ = rank_methods({.phi = size,
                           .theta = Space<V>::size(problem_.initial_theta()),
                           .curvature = can.curvature,
                           .symmetric = can.symmetric,
                           .loss = loss_,
                           .inherits = inverse && inverse->rank() == size,
                           .memory_limit = options_.memory_limit});
  methods_.resize(choices_.size());
  sensitivity_.inherit(inverse);
}

template <Vector V>
void Automatic<V>::prepare(std::size_t i) {
  Method& m = methods_[i];
  if (m.adjoint || m.estimator) return;
  const auto* implicit = std::get_if<ImplicitMethod>(&choices_[i].method);
  if (!implicit || !solves(implicit->adjoint)) {
    m.estimator = make_(choices_[i].method, remembered_);
    return;
  }
  AdjointChoice adjoint = implicit->adjoint;
  const long rented = shared(adjoint).max_iterations;
  shared(adjoint) = options_.adjoint;
  if (rented > 0) shared(adjoint).max_iterations = rented;
  m.adjoint = make_adjoint_solver<V>(adjoint);
}

/// An inner residual r moves g by about (L_out/λ)‖r‖ for some eigenvalue λ of H: a phase 2 far more accurate
/// than that gains nothing. The worst case, λ = μ, would make phase 2 rough wherever μ is tiny.
template <Vector V>
double Automatic<V>::matched_tolerance(const V& theta, const V& phi) {
  constexpr double far = 0.01, roughest = 0.01;
  const Constants c = problem_.constants(theta, phi, everywhere);
  const double ratio = c.outer_smoothness / c.mu;
  const double reached = norm(settled_.residual()) / norm(settled_.outer_phi());
  const double useful = far * (ratio > 0 ? std::min(ratio, 1.0) : 1.0) * reached;
  if (!(useful > options_.adjoint.relative_tolerance)) return options_.adjoint.relative_tolerance;
  return std::max(options_.adjoint.relative_tolerance, std::min(useful, roughest));
}

/// One adjoint solver on the settled state; true where its system is solved, whatever it found on the way. A
/// stall near the target is the end of what arithmetic can do.
template <Vector V>
bool Automatic<V>::try_adjoint(std::size_t i, double tolerance, const V* warm, Attempt& attempt) {
  AdjointSolver<V>& solver = *methods_[i].adjoint;
  solver.set_tolerance(tolerance);
  attempt.solution = sensitivity_.pullback(settled_.outer_phi(), solver, attempt.gradient, warm);
  Space<V>::axpy(1, settled_.outer_theta(), attempt.gradient);
  attempt.method = bilevel::name(choices_[i].method);
  const LinearSolution<V>& s = attempt.solution;
  smallest_ritz_ = std::fmin(smallest_ritz_, s.smallest_ritz);
  largest_ritz_ = std::fmax(largest_ritz_, s.largest_ritz);
  const double slack = s.status == Status::stalled ? 1e4 : 10;
  return all_finite(attempt.gradient) &&
         (succeeded(s.status) || s.residual_norm <= slack * tolerance * s.rhs_norm);
}

template <Vector V>
void Automatic<V>::conclude(const V& theta, Attempt attempt, Estimate<V>& e) {
  const LinearSolution<V>& s = attempt.solution;
  e.gradient = std::move(attempt.gradient);
  e.adjoint_status = s.status;
  e.adjoint_iterations = s.iterations;
  e.message += fmt::format("; phase 2 ({}): {}", attempt.method, s.message);
  e.cost.factorizations += s.factorizations;
  e.cost.bytes = std::max(e.cost.bytes, 6 * bytes_of(e.phi) + 3 * bytes_of(theta) + s.bytes);
  e.pi = std::move(attempt.solution.x);
  settled_.certify(theta, &sensitivity_.curvature(),
                   {attempt.solution.residual_norm, smallest_ritz_, largest_ritz_}, options_.common, e);
}

template <Vector V>
Estimate<V> Automatic<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  remembered_.forget();
  problem_.cost() = {};
  if (!settled_.settle(theta, warm, e)) {
    e.cost += problem_.cost();
    return e;
  }
  look_around();
  smallest_ritz_ = largest_ritz_ = unknown;
  const double tolerance = matched_tolerance(theta, e.phi);
  const V* const start = warm.pi && Space<V>::size(*warm.pi) == Space<V>::size(e.phi) ? &*warm.pi : nullptr;
  Stopwatch watch;
  bool linearised = false;
  std::optional<Attempt> nearest;
  std::optional<Estimate<V>> other;  // from a method with phases of its own
  std::string story;
  std::size_t served = 0;
  for (std::size_t i = preferred_; i < choices_.size();) {
    story += fmt::format("{} {}: {}", story.empty() ? "auto chose" : "; then",
                         bilevel::name(choices_[i].method), choices_[i].reason);
    prepare(i);
    bool accepted = false;
    Status why = Status::not_run;
    if (methods_[i].adjoint) {
      if (!linearised) sensitivity_.move_to(e.phi, theta);
      linearised = true;
      Attempt attempt{.solution = {}, .gradient = Space<V>::zeros_like(theta), .method = {}};
      accepted = try_adjoint(i, tolerance, start, attempt);
      why = attempt.solution.status;
      if (accepted || !nearest || attempt.solution.residual_norm < nearest->solution.residual_norm)
        nearest = std::move(attempt);
    } else {
      Estimator<V>& estimator = *methods_[i].estimator;
      if (!std::isnan(remembered_.tolerance())) estimator.set_tolerances(remembered_.tolerance(), tolerance);
      Estimate<V> found = estimator.estimate(theta, {.phi = e.phi, .pi = {}});
      e.cost += found.cost;
      why = found.adjoint_status;
      accepted = all_finite(found.gradient) && found.certificate.verdict == Verdict::trusted;
      const auto rank = [](const Estimate<V>& x) {
        return std::pair(static_cast<int>(x.certificate.verdict), -x.certificate.bound);
      };
      if (all_finite(found.gradient) && (accepted || !other || rank(found) > rank(*other)))
        other = std::move(found);
    }
    if (accepted) {
      served = i;
      if (methods_[i].adjoint) other.reset();
      if (methods_[i].estimator) nearest.reset();
      break;
    }
    story += fmt::format(" – it did not work out ({})", bilevel::name(why));
    if (stop_wanted(problem_.stop_token())) break;
    i = next_choice(choices_, i, why);
  }
  e.cost.seconds_adjoint += watch.seconds();
  if (nearest) conclude(theta, std::move(*nearest), e);
  // Without anything that worked, the better judged of the two.
  if (other && !(nearest && e.certificate.verdict >= other->certificate.verdict)) {
    other->cost = e.cost;
    other->message = e.message + "; " + other->message;
    e = std::move(*other);
  }
  preferred_ = e.certificate.verdict == Verdict::trusted ? served : 0;
  e.message = story + "; " + e.message;
  e.choice = std::move(story);
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
