#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/models/prepared.hpp>
#include <bilevel/models/tune.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problem/units.hpp>

namespace bilevel::models {

/// The model of one fold, as solvers and estimators see it.
struct PosedFold {
  std::unique_ptr<bilevel::Equilibrium<Vec>> equilibrium;
  bilevel::Problem<Vec>* problem = nullptr;  ///< the same; null for lasso and elastic net, which have no smooth loss
  /// The same: its variable is ψ = φ/units, φ the coefficients of the standardised features; null where that is φ.
  bilevel::Units<Vec>* units = nullptr;
  /// What settles it, where nothing else can: coordinate descent of lasso and elastic net.
  std::unique_ptr<bilevel::InnerSolver<Vec>> inner;
};

/// What is believed of the penalties beforehand: ½·precision·Σ_j (θ_j − centre)² over the first `parts` of θ
/// is added to the mean validation loss. Precision 0: nothing.
struct LogPrior {
  double precision = 0, centre = 0;
  Index parts = 0;

  Vec apart(const Vec& theta) const;  ///< θ_j − centre
  double value(const Vec& theta) const;
};

/// What `tune` solves: min over θ = log λ of the mean over the folds of the validation loss at φ*(θ), plus the
/// prior; in units in which the target's deviation is one.
struct Posed {
  std::vector<PosedFold> folds;  ///< one with a hold-out; all share θ and count alike
  LogPrior prior;
  Vec initial;  ///< the θ that the model has before anything is known
  Vec start;    ///< where tune begins: all penalties at the best single λ, where that was looked for
  double lower = -10, upper = 10;  ///< of every θ
  /// Whether the prior is known: looking for its centre, the best single λ, may have been ended.
  bilevel::Status status = bilevel::Status::converged;
  double seconds = 0;  ///< that looking for it took
};

/// Many penalties with a prior (TuneOptions::prior_width, finite) need the best single λ and so the fits of a
/// grid, as `tune` makes them; one penalty, and many without a prior, need none. Throws InvalidInput for
/// Penalty::automatic, whose family the data choose while they are tuned. The folds share the data with
/// `prepared`, which need not outlive them.
Posed pose(const Prepared& prepared, const TuneOptions& options, const TuneControl& control = {});

/// An estimator of the gradient for one fold, in true units of φ. `inner` is the fold's own solver, where it
/// has one; both must outlive it. Throws InvalidInput with the reason where the method does not apply.
std::unique_ptr<bilevel::Estimator<Vec>> make_estimator(std::string_view method, PosedFold& fold,
                                                        bilevel::InnerSolver<Vec>& inner,
                                                        const bilevel::EstimatorOptions& options = {});
/// The same with the prior added to value and gradient.
std::unique_ptr<bilevel::Estimator<Vec>> with_prior(std::unique_ptr<bilevel::Estimator<Vec>> estimator,
                                                    const LogPrior& prior);

/// The smooth problems of the folds alone, without a prior. Their variable is φ/units (see bilevel::Units and
/// InUnits; PenalisedModel and Perceptron, which they are, have `standardised_coefficients`). Throws InvalidInput for lasso and
/// elastic net, which `pose` takes.
std::vector<std::unique_ptr<bilevel::Problem<Vec>>> make_problems(const Prepared& prepared);

/// The one problem of a hold-out (TuneOptions::validation, or rows that the data bring for it).
std::unique_ptr<bilevel::Problem<Vec>> make_problem(TuningData data, const TuneOptions& options);

}  // namespace bilevel::models
