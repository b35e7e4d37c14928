#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/gradient/forwarding.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/outer/box.hpp>

#include <bilevel/models/prepared.hpp>
#include <bilevel/models/problem.hpp>

namespace bilevel::models {

using bilevel::problems::PenaltyMap;

/// A set of penalties to choose from, as a function of few or many θ, with what is believed of them
/// beforehand.
struct Family {
  std::string kind;
  std::vector<PenaltyMap> folds;   ///< one for each fold: adaptive penalties come from its own training rows
  PenaltyMap final;                ///< of the model that is kept
  std::vector<std::string> names;  ///< of the penalties that are reported
  Vec start;
  bilevel::Box box;
  LogPrior prior;  ///< of precision 0 until the data have said how wide it is
};

/// γ lies between 0 and this: at 1 a coefficient of half the size is penalised twice as much. Beyond,
/// penalties follow the noise of the coefficients that they are made from.
inline constexpr double largest_gamma = 1;

/// The penalties of `prepared`, of one map for all folds.
Family family_of(const Prepared& prepared, std::string kind, const PenaltyMap& map,
                 std::vector<std::string> names);

/// λ_j = exp(t)·a_j^(−γ): θ = (t, γ). The size a_j is the geometric mean of two, each relative to the root
/// mean square over all coefficients and at least 0.02: |φ_j| at the best single λ, `phi`, and |φ_j| under a
/// penalty so strong that every feature stands for itself, `alone` (left out where nothing stands). |φ_j| is
/// the root mean square over the coefficients that share a penalty. Element k is of fold k's own training
/// rows, the last of the final model's.
Family adaptive_family(const Prepared& prepared, const std::vector<Vec>& phi, const std::vector<Vec>& alone);

/// Of a network: one penalty for each layer.
Family layers_family(const Prepared& prepared);
/// Further penalties of a network that begin where those of its layers are: log λ of layer l is larger by
/// shifts[l].
void shift_by_layers(const Prepared& prepared, Family& family, const Vec& shifts);

/// What t has to be above one λ for all so that the penalty of those coefficients stays as it was, at this γ;
/// the mean over the folds.
double level_shift(const Prepared& prepared, const Family& family, const std::vector<Vec>& phi, double gamma);

/// log λ of each penalty that is reported, in the final model.
Vec reported_penalties(const Prepared& prepared, const Family& family, const Vec& theta);

/// Adds the prior to the outer loss: log penalties follow a normal law of that precision, in units of the
/// loss.
class WithPrior final : public bilevel::Forwarding<Vec> {
 public:
  WithPrior(std::unique_ptr<bilevel::Estimator<Vec>> wrapped, const LogPrior& prior)
      : Forwarding(std::move(wrapped)), prior_(prior) {}
  bilevel::Estimate<Vec> estimate(const Vec& theta, const bilevel::Warm<Vec>& warm) override;
  void set_outer_tolerance(double tolerance) override {
    outer_tolerance_ = tolerance;
    Forwarding::set_outer_tolerance(tolerance);
  }

 private:
  LogPrior prior_;
  double outer_tolerance_ = bilevel::ImplicitOptions{}.outer_tolerance;
};

}  // namespace bilevel::models
