#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <bilevel/gradient/automatic_choice.hpp>
#include <bilevel/gradient/first_phase.hpp>

namespace bilevel {

struct AutomaticOptions {
  ImplicitOptions common;
  /// Relative residual of phase 2, as in AdjointOptions. Where the inner state is less accurate than that, so
  /// is phase 2: digits that the state does not have are not paid for.
  double adjoint_tolerance = 1e-10;
  /// Bytes that a method may hold; > 0. A quarter of what a small machine has.
  std::size_t memory_limit = std::size_t{1} << 30;

  Violations validate() const {
    Violations v("auto");
    v.positive("adjoint_tolerance", adjoint_tolerance);
    v.require(memory_limit > 0, "memory_limit", memory_limit, "must be positive");
    return v.add(common.validate());
  }
};

/// Hands out the free state that was found once, so that a second method need not find it again.
template <Vector V>
class RememberedSolver final : public InnerSolver<V> {
 public:
  explicit RememberedSolver(InnerSolver<V>& solver) : solver_(solver) {}

  std::string_view name() const override { return solver_.name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override {
    if (beta != 0) return solver_.solve(theta, beta, start);
    const bool again = free_.has_value();
    if (!again) free_ = solver_.solve(theta, 0, start);
    Solution<V> solution = *free_;
    solution.phi = duplicate(free_->phi);
    if (again) solution.cost = {};
    return solution;
  }
  InverseApproximation<V>* inverse_hessian() override { return solver_.inverse_hessian(); }
  void forget() { free_.reset(); }

 private:
  InnerSolver<V>& solver_;
  std::optional<Solution<V>> free_;
};

/// Chooses the method: by size, capabilities and memory at first, by what phase 2 reported after that. A
/// method whose phase 2 fails hands over to the next that copes with the reason; the one that served stays
/// the first choice of later estimates. The message says what was chosen and why.
template <Vector V>
class Automatic final : public Estimator<V> {
 public:
  /// Makes the estimator of a choice on the given inner solver.
  using Factory = std::function<std::unique_ptr<Estimator<V>>(const Choice&, InnerSolver<V>&)>;

  /// `loss` says whether the equilibrium is a Problem. The problem and the inner solver must outlive this.
  Automatic(Equilibrium<V>& problem, InnerSolver<V>& inner, bool loss, Factory make,
            AutomaticOptions options = {});

  std::string_view name() const override { return "auto"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    inner_.set_tolerance(inner);
    inner_tolerance_ = inner;
    options_.adjoint_tolerance = adjoint;
  }
  void set_outer_tolerance(double tolerance) override {
    options_.common.outer_tolerance = tolerance;
    for (auto& method : methods_)
      if (method) method->set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  void look_around();
  double matched_tolerance(const V& theta, const V& phi);
  Estimator<V>& method(std::size_t i);

  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  bool loss_;
  Factory make_;
  AutomaticOptions options_;
  RememberedSolver<V> remembered_;
  FirstPhase<V> first_;
  std::vector<Choice> choices_;
  std::vector<std::unique_ptr<Estimator<V>>> methods_;  // made when first needed
  std::size_t preferred_ = 0;
  double inner_tolerance_ = 1e-10;  // nominal until somebody sets it: methods compare it with earlier ones
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
      first_(problem_, remembered_) {
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
}

template <Vector V>
Estimator<V>& Automatic<V>::method(std::size_t i) {
  if (!methods_[i]) {
    methods_[i] = make_(choices_[i], remembered_);
    methods_[i]->set_outer_tolerance(options_.common.outer_tolerance);
  }
  return *methods_[i];
}

/// An inner residual r moves g by up to (L_out/μ)‖r‖: a phase 2 far more accurate than that gains nothing.
template <Vector V>
double Automatic<V>::matched_tolerance(const V& theta, const V& phi) {
  constexpr double far = 0.01, roughest = 0.01;
  const Constants c = problem_.constants(theta, phi, everywhere);
  const double ratio = c.outer_smoothness / c.mu;
  const double reached = norm(first_.residual()) / norm(first_.outer_phi());
  const double useful = far * (ratio > 0 && std::isfinite(ratio) ? ratio : 1.0) * reached;
  if (!(useful > options_.adjoint_tolerance)) return options_.adjoint_tolerance;
  return std::max(options_.adjoint_tolerance, std::min(useful, roughest));
}

template <Vector V>
Estimate<V> Automatic<V>::estimate(const V& theta, const Warm<V>& warm) {
  remembered_.forget();
  problem_.cost() = {};
  Estimate<V> settled;
  const bool usable = first_.run(theta, warm, settled);
  if (!usable) {
    settled.cost += problem_.cost();
    return settled;
  }
  look_around();
  const double tolerance = matched_tolerance(theta, settled.phi);
  Cost cost = settled.cost;
  cost += problem_.cost();

  Warm<V> here{settled.phi, warm.pi};
  std::optional<Estimate<V>> best;
  std::string story;
  for (std::size_t i = preferred_; i < choices_.size();) {
    story += fmt::format("{} {}: {}", story.empty() ? "auto chose" : "; then", choices_[i].method,
                         choices_[i].reason);
    Estimator<V>& chosen = method(i);
    chosen.set_tolerances(inner_tolerance_, tolerance);
    Estimate<V> e = chosen.estimate(theta, here);
    cost += e.cost;
    const bool finite = all_finite(e.gradient);
    // A bound that is good enough, however phase 2 ended; or nothing that another phase 2 could do better,
    // since this one has converged: what is wrong then is the state itself.
    const double enough = std::max(0.1 * norm(e.gradient), options_.common.outer_tolerance);
    const bool accepted = finite && (succeeded(e.adjoint_status) ||
                                     (e.certificate.kind != Kind::none && e.certificate.bound <= enough));
    const Status why = e.adjoint_status;
    const auto rank = [](const Estimate<V>& x) {
      return std::pair(all_finite(x.gradient) ? static_cast<int>(x.certificate.verdict) : -1,
                       -x.certificate.bound);
    };
    if (accepted || !best || rank(e) > rank(*best)) {
      preferred_ = accepted ? i : preferred_;
      best = std::move(e);
    }
    if (accepted) break;
    story += fmt::format(" – it did not work out ({})", bilevel::name(why));
    i = next_choice(choices_, i, why);
  }
  best->message = story + "; " + best->message;
  best->cost = cost;
  return std::move(*best);
}

extern template class Automatic<Eigen::VectorXd>;
extern template class Automatic<Eigen::VectorXf>;

}  // namespace bilevel
