#include "posed_problem.hpp"

#include <algorithm>
#include <cmath>

namespace app {
namespace {

using Vec = Eigen::VectorXd;
using bilevel::Index;
using bilevel::models::Posed;
using bilevel::models::PosedFold;

/// All folds as one thing that settles, their states one after another, in units of their own: the mean of
/// their outer losses and the prior.
class AllFolds final : public bilevel::Equilibrium<Vec> {
 public:
  explicit AllFolds(const Posed& posed) : posed_(posed) {
    for (const PosedFold& fold : posed.folds) {
      place_.push_back(size_);
      size_ += fold.equilibrium->initial_phi().size();
    }
  }

  /// Its state of fold k; the fold takes up the units of θ.
  Vec state(std::size_t k, const Vec& phi, const Vec& theta) const {
    const PosedFold& fold = posed_.folds[k];
    const Index end = k + 1 < place_.size() ? place_[k + 1] : size_;
    Vec own = phi.segment(place_[k], end - place_[k]);
    if (!fold.units) return own;
    fold.units->adopt_units(theta);
    fold.units->to_own(own);
    return own;
  }
  void put(std::size_t k, const Vec& own, Vec& phi) const {
    const PosedFold& fold = posed_.folds[k];
    Vec its = own;
    if (fold.units) fold.units->to_true(its);
    phi.segment(place_[k], own.size()) = its;
  }

  Vec initial_phi() const override {
    Vec phi(size_);
    for (std::size_t k = 0; k < place_.size(); ++k) put(k, posed_.folds[k].equilibrium->initial_phi(), phi);
    return phi;
  }
  Vec initial_theta() const override { return posed_.initial; }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override {
    out.resize(size_);
    for (std::size_t k = 0; k < place_.size(); ++k) {
      const Vec own = state(k, phi, theta);
      Vec residual(own.size());
      posed_.folds[k].equilibrium->residual(own, theta, residual);
      out.segment(place_[k], own.size()) = residual;
    }
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec>) override {
    double sum = 0;
    for (std::size_t k = 0; k < place_.size(); ++k)
      sum += posed_.folds[k].equilibrium->outer(state(k, phi, theta), theta, {});
    return sum / static_cast<double>(place_.size()) + posed_.prior.value(theta);
  }

 private:
  const Posed& posed_;
  std::vector<Index> place_;
  Index size_ = 0;
};

/// Settles one fold after the other; says what the worst of them says.
class EachFold final : public bilevel::InnerSolver<Vec> {
 public:
  using Solvers = std::vector<bilevel::InnerSolver<Vec>*>;
  using Owned = std::vector<std::unique_ptr<bilevel::InnerSolver<Vec>>>;

  EachFold(const AllFolds& folds, Solvers solvers, Owned owned)
      : folds_(folds), solvers_(std::move(solvers)), owned_(std::move(owned)) {}

  std::string_view name() const override { return solvers_.front()->name(); }
  bilevel::Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    bilevel::Solution<Vec> all;
    all.phi = start;
    all.value = all.residual_norm = 0;
    for (std::size_t k = 0; k < solvers_.size(); ++k) {
      bilevel::Solution<Vec> one = solvers_[k]->solve(theta, beta, folds_.state(k, start, theta));
      folds_.put(k, one.phi, all.phi);
      all.value += one.value / static_cast<double>(solvers_.size());
      all.residual_norm = std::hypot(all.residual_norm, one.residual_norm);
      all.tolerance = one.tolerance;
      all.iterations += one.iterations;
      all.cost += one.cost;
      if (k == 0 || (succeeded(all.status) && !succeeded(one.status))) {
        all.status = one.status;
        all.message = std::move(one.message);
      }
    }
    return all;
  }
  void set_tolerance(double tolerance) override {
    for (auto* solver : solvers_) solver->set_tolerance(tolerance);
  }

 private:
  const AllFolds& folds_;
  Solvers solvers_;
  Owned owned_;
};

}  // namespace

PosedProblem::PosedProblem(std::unique_ptr<bilevel::problems::ReferenceProblem> ready_made)
    : reference_(ready_made.get()) {
  PosedFold only;
  only.problem = ready_made.get();
  posed_.start = posed_.initial = ready_made->initial_theta();
  only.equilibrium = std::move(ready_made);
  posed_.folds.push_back(std::move(only));
}

PosedProblem::PosedProblem(bilevel::models::Prepared prepared, Posed posed)
    : posed_(std::move(posed)), prepared_(std::move(prepared)) {}

Index PosedProblem::whole_phi_size() const {
  return static_cast<Index>(parts()) * phi_size();
}

Vec PosedProblem::state_of_part(const Vec& phi) const {
  const auto* units = posed_.folds.front().units;
  Vec own = phi.head(phi_size());
  if (units) units->to_own(own);
  return own;
}

std::optional<Vec> PosedProblem::outer_gradient(const Vec& theta) const {
  return reference_ ? reference_->outer_gradient(theta) : std::nullopt;
}

std::optional<Vec> PosedProblem::best_theta() const {
  return reference_ ? reference_->best_theta() : std::nullopt;
}

std::optional<std::pair<double, double>> PosedProblem::theta_bounds() const {
  if (reference_) return reference_->theta_bounds();
  return std::pair{posed_.lower, posed_.upper};
}

void PosedProblem::obey(const bilevel::StopToken* stop) {
  for (PosedFold& fold : posed_.folds) fold.equilibrium->obey(stop);
}

Estimation PosedProblem::estimation(std::string_view method, std::string_view inner,
                                    const bilevel::EstimatorOptions& options,
                                    const bilevel::MinimiserOptions& inner_options) {
  Estimation made;
  std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
  for (PosedFold& fold : posed_.folds) {
    if (fold.inner)
      fold.inner->set_tolerance(inner_options.gradient_tolerance);
    else
      made.inner.push_back(bilevel::make_inner_solver<Vec>(inner, *fold.problem, inner_options));
    estimators.push_back(bilevel::models::make_estimator(
        method, fold, fold.inner ? *fold.inner : *made.inner.back(), options));
  }
  if (estimators.size() == 1) {
    made.estimator = std::move(estimators.front());
  } else {
    const std::vector<double> weights(estimators.size(), 1 / static_cast<double>(estimators.size()));
    made.estimator = std::make_unique<bilevel::SumOfEstimators>(std::move(estimators), weights);
  }
  made.estimator = with_prior(std::move(made.estimator), posed_.prior);
  return made;
}

Valuation PosedProblem::valuation(std::string_view inner, double tolerance) {
  auto all = std::make_unique<AllFolds>(posed_);
  EachFold::Solvers solvers;
  EachFold::Owned owned;
  for (PosedFold& fold : posed_.folds) {
    if (!fold.inner) owned.push_back(bilevel::make_inner_solver<Vec>(inner, *fold.problem));
    solvers.push_back(fold.inner ? fold.inner.get() : owned.back().get());
  }
  auto each = std::make_unique<EachFold>(*all, std::move(solvers), std::move(owned));
  if (tolerance > 0) each->set_tolerance(tolerance);
  return {std::move(all), std::move(each)};
}

}  // namespace app
