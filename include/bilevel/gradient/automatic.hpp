#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <bilevel/gradient/automatic_choice.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>

namespace bilevel {

/// Hands out the free state that was found once at a θ, so that a second method need not find it again.
template <Vector V>
class RememberedSolver final : public InnerSolver<V> {
 public:
  explicit RememberedSolver(InnerSolver<V>& solver) : solver_(solver) {}

  std::string_view name() const override { return solver_.name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override {
    if (beta != 0 || (free_ && !same(theta))) return solver_.solve(theta, beta, start);
    const bool again = free_.has_value();
    if (!again) {
      free_ = solver_.solve(theta, 0, start);
      theta_ = duplicate(theta);
      tolerance_ = free_->tolerance;
    }
    Solution<V> solution = *free_;
    solution.phi = duplicate(free_->phi);
    if (again) solution.cost = {};
    return solution;
  }
  InverseApproximation<V>* inverse_hessian() override { return solver_.inverse_hessian(); }
  /// Another tolerance, another state.
  void set_tolerance(double tolerance) override {
    if (tolerance == tolerance_) return;
    solver_.set_tolerance(tolerance);
    tolerance_ = tolerance;
    free_.reset();
  }
  void forget() { free_.reset(); }
  /// What the solver was last asked to reach; NaN where it does not say.
  double tolerance() const { return tolerance_; }

 private:
  bool same(const V& theta) const {
    V difference = duplicate(theta);
    Space<V>::axpy(-1, theta_, difference);
    return Space<V>::max_abs(difference) == 0;
  }

  InnerSolver<V>& solver_;
  std::optional<Solution<V>> free_;
  V theta_;
  double tolerance_ = unknown;
};

/// Chooses the method: by size, capabilities and memory at first, by what phase 2 reported after that. A
/// method whose phase 2 fails hands over to the next that copes with the reason; one whose gradient was
/// trusted stays the first choice of the next estimate. The message says what was chosen and why.
template <Vector V>
class Automatic final : public Estimator<V> {
 public:
  /// Makes the estimator, where a choice is more than an adjoint solver.
  using Factory = std::function<std::unique_ptr<Estimator<V>>(const EstimatorChoice&, InnerSolver<V>&)>;

  /// `loss` says whether the equilibrium is a Problem. The problem and the inner solver must outlive this.
  Automatic(Equilibrium<V>& problem, InnerSolver<V>& inner, bool loss, Factory make,
            AutomaticOptions options = {});

  std::string_view name() const override { return "auto"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    remembered_.set_tolerance(inner);
    options_.adjoint.relative_tolerance = adjoint;
  }
  void set_outer_tolerance(double tolerance) override {
    options_.common.outer_tolerance = options_.common.good_enough = tolerance;
    for (Method& m : methods_)
      if (m.estimator) m.estimator->set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  /// What serves a choice, made when first needed: an adjoint solver on the state that is there, or an
  /// estimator with phases of its own.
  struct Method {
    std::unique_ptr<AdjointSolver<V>> adjoint;
    std::unique_ptr<Estimator<V>> estimator;
  };
  /// A phase 2 that is not the last word.
  struct Attempt {
    LinearSolution<V> solution;
    V gradient;
    std::string method;
  };

  void look_around();
  void prepare(std::size_t i);
  double matched_tolerance(const V& theta, const V& phi);
  bool try_adjoint(std::size_t i, double tolerance, const V* warm, Attempt& attempt);
  void conclude(const V& theta, Attempt attempt, Estimate<V>& e);

  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  bool loss_;
  Factory make_;
  AutomaticOptions options_;
  RememberedSolver<V> remembered_;
  SettleAndCertify<V> settled_;
  Sensitivity<V> sensitivity_;
  std::vector<Choice> choices_;
  std::vector<Method> methods_;
  std::size_t preferred_ = 0;
  double smallest_ritz_ = unknown, largest_ritz_ = unknown;  // of all attempts at one state
};

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

extern template class Automatic<Eigen::VectorXd>;
extern template class Automatic<Eigen::VectorXf>;

}  // namespace bilevel
