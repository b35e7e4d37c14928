// Which penalties the data ask for: the best single λ, looked at closely, and what has to beat it.

#include <cmath>
#include <numeric>

#include "tune_run.hpp"

namespace bilevel::models {
namespace {

/// Of fits that only say where a descent had best begin.
constexpr double start_tolerance = 1e-4;
/// Penalties may differ where the score test says so with this p; with the other it says "yes" outright.
constexpr double plausible = 0.2, sure = 0.05;
/// Adaptive penalties are kept where they gain this many standard errors, or as many as this where few rows
/// judge …
constexpr double convincing = 1, convincing_of_few = 2;
/// … with a γ of at least this: with less they are one λ by another name …
constexpr double least_gamma = 0.05;
/// … and, where the held-out loss is that of fewer rows than this, few hard ones or some far out, and the
/// spread of the gain that of fewer still, where the score test agrees: a mean over so few says little, and
/// its standard error too.
constexpr double enough_rows = 30, enough_gains = 10;

}  // namespace

/// Where the parabola through the best of the grid and its neighbours is least.
std::optional<double> Run::between_values() const {
  const auto& points = result_.points;
  for (std::size_t k = 1; k + 1 < points.size(); ++k) {
    if (points[k].log_lambda != best_.log_lambda) continue;
    const double before = points[k - 1].validation_loss - points[k].validation_loss,
                 after = points[k + 1].validation_loss - points[k].validation_loss;
    if (!std::isfinite(before + after) || !(before > 0 && after > 0)) return {};
    return best_.log_lambda - 0.5 * grid_step() * (before - after) / (before + after);
  }
  return {};
}

bool Run::look_at(double log_lambda, const std::vector<Vec>& warm) {
  pilot_.log_lambda = log_lambda;
  pilot_.settled = folds_.settle(constant(single_, log_lambda), warm, close(), true);
  if (Folds::cut_short(pilot_.settled)) return false;
  const Judged judged = folds_.judged(pilot_.settled);
  pilot_.losses = judged.losses();
  pilot_.weights.clear();
  // Every fold counts alike, as in the loss that is minimised. What weighs nothing has not been judged.
  for (const auto& own : folds_.row_weights()) {
    const double total = std::accumulate(own.begin(), own.end(), 0.0);
    for (const double weight : own)
      if (weight > 0) pilot_.weights.push_back(weight / total);
  }
  pilot_.rows = rows_that_count(pilot_.losses, pilot_.weights);
  return !to_end();
}

/// Where enough rows judge, the best λ between the values of the grid is what everything else has to beat;
/// else the best of the grid.
bool Run::look_closer() {
  control_.progress("looking closer at the best single λ");
  folds_.use(single_);
  if (!look_at(best_.log_lambda, best_phi_)) return false;
  const auto between = pilot_.rows >= many_rows ? between_values() : std::nullopt;
  return !between || look_at(*between, Folds::states(pilot_.settled));
}

/// λ_j = e^t·a_j^(−γ): the two numbers t and γ are found by gradient from the best of three γ, at a t that
/// leaves the penalty of the pilot as it was.
bool Run::try_adaptive(bool differ) {
  Choice& choice = result_.choice;
  ask("smaller penalties for large coefficients?");
  folds_.use(single_);
  const Folds::All alone = folds_.settle(constant(single_, options_.upper), {}, 1e-10, true);
  if (Folds::cut_short(alone)) return false;
  const std::vector<Vec> phi = folds_.coefficients(pilot_.settled);
  Family family = adaptive_family(prepared_, phi, folds_.coefficients(alone));
  set_box(family);
  folds_.use(family);
  std::vector<Vec> warm = Folds::states(pilot_.settled);
  double least = bilevel::everywhere;
  for (const double gamma : {0.25, 0.5, 0.75}) {
    Vec theta = constant(family, pilot_.log_lambda);
    theta[0] += level_shift(prepared_, family, phi, gamma);
    theta[1] = gamma;
    theta = theta.cwiseMax(family.box.lower).cwiseMin(family.box.upper);
    const Folds::All settled = folds_.settle(theta, warm, start_tolerance, false);
    const double value = folds_.value(settled);
    if (value < least) {
      least = value;
      family.start = theta;
    }
    if (to_end()) return false;
    warm = Folds::states(settled);
  }
  if (family.start.size() == 0) return true;
  bilevel::Summary summary = descend(family, family.start, ".adaptive", pilot_phi());
  if (to_end()) return false;
  choice.gamma = summary.theta[1];
  const auto [fall, error, rows] = gain_of(family, summary);
  const bool few = pilot_.rows < enough_rows && rows < enough_gains;
  const bool gained = fall > (few ? convincing_of_few : convincing) * error,
             kept = gained && (differ || !few) && *choice.gamma >= least_gamma;
  choice.answers.push_back(
      *choice.gamma < least_gamma
          ? fmt::format("Smaller ones for large coefficients? No: equal ones, γ = {:.2g}, do best",
                        *choice.gamma)
          : fmt::format(
                "Smaller ones for large coefficients? γ = {:.2g}, held-out loss {:+.2g} % ± {:.2g} %: {}",
                *choice.gamma, -100 * *choice.gain, 100 * *choice.gain_error,
                kept            ? std::string("kept")
                : gained && few ? fmt::format("not kept, about {:.0f} rows make up the loss", pilot_.rows)
                                : std::string("not kept")));
  if (kept) adaptive_ = {std::move(family), std::move(summary)};
  return true;
}

Run::Gain Run::gain_of(const Family& family, const bilevel::Summary& summary) {
  folds_.use(family);
  std::vector<double> gains = pilot_.losses, squares;
  const std::vector<double> losses =
      folds_.judged(folds_.settle(summary.theta, folds_.apart(summary.phi), grid_tolerance, false)).losses();
  for (std::size_t i = 0; i < gains.size(); ++i) {
    gains[i] -= losses[i];
    squares.push_back(pilot_.weights[i] * gains[i] * gains[i]);
  }
  const auto [fall, error] = weighted_mean(gains, pilot_.weights);
  // Losses of counts may be below zero.
  result_.choice.gain = fall / std::abs(best_.validation_loss);
  result_.choice.gain_error = error / std::abs(best_.validation_loss);
  return {fall, error, rows_that_count(squares, pilot_.weights)};
}

/// What is shown while it goes on, and said where there was no time for the answer.
void Run::ask(std::string question) {
  asking_ = std::move(question);
  control_.progress(asking_);
}

/// Of a network: one λ for each layer, as many numbers as the rows that judge can tell from noise. Steps that
/// gain less than those rows can tell are made only where the answer is yes.
bool Run::try_layers() {
  ask("do layers want different penalties?");
  Family family = layers_family(prepared_);
  set_box(family);
  family.start = constant(family, pilot_.log_lambda).cwiseMax(family.box.lower).cwiseMin(family.box.upper);
  bilevel::Summary summary = descend(family, family.start, ".asked", pilot_phi(), true);
  if (to_end()) return false;
  Gain gain = gain_of(family, summary);
  const bool kept = gain.fall > convincing * gain.error;
  if (kept) {
    summary = descend(family, summary.theta, ".adaptive", summary.phi);
    if (to_end()) return false;
    gain = gain_of(family, summary);
  }
  result_.choice.answers.push_back(
      fmt::format("Do layers want different penalties? log λ {:.2f}, held-out loss "
                  "{:+.2g} % ± {:.2g} %: {}",
                  fmt::join(summary.theta, ", "), -100 * *result_.choice.gain,
                  100 * *result_.choice.gain_error, kept ? "kept" : "not kept"));
  if (kept) adaptive_ = {std::move(family), std::move(summary)};
  return true;
}

/// Whether penalties should differ at all.
bool Run::test_score() {
  ask(options_.grouped() ? "do groups want different penalties?" : "do features want different penalties?");
  const Family base = asked_for();
  folds_.use(base);
  const auto rows = folds_.row_hypergradients(constant(base, pilot_.log_lambda), pilot_.settled);
  // The last ones of a network are those of its layers, which are asked on their own.
  const Index asked = prepared_.penalties.count - (prepared_.network() ? prepared_.shape().layers() : 0);
  const Score score = score_test(rows, folds_.row_weights(), asked, options_.seed);
  if (to_end()) return false;  // by adjoints that were cut short
  result_.choice.score = score;
  result_.choice.answers.push_back(
      std::isfinite(score.p)
          ? fmt::format("Do {} want different penalties? ρ {:.2g}, ν {:.2g}, p {:.2g}: {}",
                        options_.grouped() ? "groups" : "features", score.rho, score.nu, score.p,
                        score.p < sure        ? "yes"
                        : score.p < plausible ? "perhaps"
                                              : "no sign of it")
          : "Do features want different penalties? No row has an opinion: one λ is kept");
  return score.p < plausible;
}

Family Run::asked_for() const {
  Family family = family_of(prepared_, std::string(name(options_.penalty)), prepared_.penalties,
                            prepared_.hyperparameters);
  set_box(family);
  return family;
}

/// log λ differs by ω as a rule from that of the best single λ: minus the logarithm of that belief, in units
/// of the loss. Around their own mean instead, all penalties together would follow the rows that judge.
void Run::add_prior(Family& family) {
  if (family.prior.parts < 2 || !std::isfinite(options_.prior_width)) return;
  Choice& choice = result_.choice;
  choice.prior_width = options_.prior_width;
  choice.loss_scale = folds_.likelihood_scale(pilot_.settled);
  family.prior.centre = pilot_.log_lambda;
  family.prior.precision =
      *choice.loss_scale / (folds_.judges() * options_.prior_width * options_.prior_width);
  choice.precision = scale2_ * family.prior.precision;
  choice.loss_scale = scale2_ * *choice.loss_scale;
}

std::optional<Family> Run::asked() {
  if (!search_grid() || to_end() || !look_closer()) return {};
  Family family = asked_for();
  add_prior(family);
  family.start = constant(family, pilot_.log_lambda).cwiseMax(family.box.lower).cwiseMin(family.box.upper);
  return family;
}

/// Which penalties the data ask for; none where there was no time to ask.
Family Run::choose() {
  Family chosen = answered();
  // With an answer, or none needed, no question is open any more.
  if (!chosen.kind.empty()) asking_.clear();
  return chosen;
}

Family Run::answered() {
  if (options_.penalty != Penalty::automatic) {
    Family family = asked_for();
    add_prior(family);
    return family;
  }
  if (prepared_.penalties.count >= 3) {
    const bool differ = test_score();
    if (to_end() || !(prepared_.network() ? try_layers() : try_adaptive(differ))) return {};
    // Of features of a network the layers say nothing: where they differ for sure, they do so around the
    // layers'.
    const bool among_layers = adaptive_ && prepared_.network() && result_.choice.score->p < sure;
    if (adaptive_ && !among_layers) return adaptive_->first;
    if (differ) {
      Family family = asked_for();
      family.kind = options_.grouped() ? "per-group" : "per-feature";
      if (among_layers) {
        shift_by_layers(prepared_, family, adaptive_->second.theta.array() - pilot_.log_lambda);
        set_box(family);
        adaptive_.reset();
      }
      add_prior(family);
      return family;
    }
  }
  // Between the neighbours of the best value of the grid.
  Family family = single_;
  family.box = {constant(family, std::max(lower_, best_.log_lambda - grid_step())),
                constant(family, std::min(options_.upper, best_.log_lambda + grid_step()))};
  if (prepared_.elastic()) {
    family.box.lower[1] = lower_;
    family.box.upper[1] = options_.upper;
  }
  return family;
}

}  // namespace bilevel::models
