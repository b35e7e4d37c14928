// Patrols and an attacker: a security game. The defender spreads its patrols over targets (θ); the attacker
// sees how likely each of them is covered and answers with the mixed strategy φ that is best for it, nearly.
//   security_game [--report FILE]
#include <bilevel/bilevel.hpp>

#include "pages.hpp"

using Vec = Eigen::VectorXd;
using pages::Json;

/// Target i is covered with probability cᵢ, Σc = patrols. An attack on it earns the attacker
/// uᵢ = gainᵢ(1 − cᵢ) − riskᵢcᵢ and costs the defender lossᵢ(1 − cᵢ) − caughtᵢcᵢ:
///   L_in = −φ·u + ½ε‖φ‖² over Σφ = 1, φ ≥ 0,   L_out = φ·cost.
/// The term with ε makes the answer unique and continuous: as ε falls it is concentrated on the best targets.
/// θ is the coverage of all targets but the first, the most valuable, which gets what is left.
struct Game {
  Vec gain, risk, loss, caught;
  double patrols = 2, smooth = 0.1;

  Eigen::Index size() const { return gain.size(); }
  Vec coverage(const Vec& theta) const {
    Vec c(size());
    c << patrols - theta.sum(), theta;
    return c;
  }
  Vec to_attacker(const Vec& c) const { return gain - (gain + risk).cwiseProduct(c); }
  Vec to_defender(const Vec& c) const { return loss - (loss + caught).cwiseProduct(c); }
  void by_theta(const Vec& by_coverage, Vec& out) const {
    out = by_coverage.tail(size() - 1).array() - by_coverage[0];
  }

  Vec initial_phi() const { return Vec::Constant(size(), 1.0 / static_cast<double>(size())); }
  Vec initial_theta() const { return Vec::Constant(size() - 1, patrols / static_cast<double>(size())); }
  bilevel::PhiConstraints phi_constraints() const { return bilevel::PhiConstraints::simplex(size()); }
  double inner(const Vec& a, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const Vec earns = to_attacker(coverage(theta));
    if (wanted.phi) *wanted.phi = smooth * a - earns;
    if (wanted.theta) by_theta((gain + risk).cwiseProduct(a), *wanted.theta);
    return 0.5 * smooth * a.squaredNorm() - earns.dot(a);
  }
  double outer(const Vec& a, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const Vec costs = to_defender(coverage(theta));
    if (wanted.phi) *wanted.phi = costs;
    if (wanted.theta) by_theta(-(loss + caught).cwiseProduct(a), *wanted.theta);
    return costs.dot(a);
  }
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const { out = smooth * v; }
  Vec both(double beta) const { return gain + risk - beta * (loss + caught); }
  void cross_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    by_theta(both(beta).cwiseProduct(v), out);
  }
  void cross_apply(const Vec&, const Vec&, double beta, const Vec& u, Vec& out) const {
    Vec c(size());
    c << -u.sum(), u;
    out = both(beta).cwiseProduct(c);
  }
  /// The coverage at which every target that is covered is worth the same to the attacker, but for `chosen`,
  /// which is worth `margin` more, and no other is worth more. With no margin this is the equilibrium:
  /// whatever the attacker is to choose cannot be covered better, for then another would be worth more to it.
  Vec level(double margin = 0, Eigen::Index chosen = 0) const {
    double low = -100, high = 100;
    Vec c;
    for (int i = 0; i < 200; ++i) {
      const double worth = 0.5 * (low + high);
      Vec each = Vec::Constant(size(), worth - margin);
      each[chosen] += margin;
      c = ((gain - each).array() / (gain + risk).array()).cwiseMax(0.0);
      (c.sum() > patrols ? low : high) = worth;
    }
    return c;
  }
  /// Of those that the attacker is indifferent between, the one that costs the defender least: it can be made
  /// the best for the attacker by as little as it takes (the strong equilibrium).
  Eigen::Index least_costly(const Vec& c) const {
    Eigen::Index least = 0;
    (c.array() > 0).select(to_defender(c), 1e9).minCoeff(&least);
    return least;
  }
  /// Where one's gain is the other's loss v, the best coverage against the smoothed answer. With k targets
  /// covered a = (earned − mean)/ε + 1/k; the slope v_i(2a_i − 1/k) of the loss is the same for all of them:
  ///   a_i = (ν/v_i + 1/k)/2,  ν = 1/Σ 1/v_i,  c_i = 1 − (τ + εa_i)/v_i,  τ so that Σc_i = patrols.
  Vec smoothed_zero_sum() const {
    const Vec v = gain, one = (level().array() > 0).cast<double>(), inverse = one.cwiseQuotient(v);
    const Vec a = 0.5 * (inverse / inverse.sum() + one / one.sum());
    const double tau = (one.sum() - patrols - smooth * a.dot(inverse)) / inverse.sum();
    return one - tau * inverse - smooth * a.cwiseProduct(inverse);
  }
};

/// The best θ at two strengths of smoothing, and what its course towards none leads to.
Json play(const char* what, Game game, bool zero_sum) {
  const Vec equilibrium = game.level();
  const auto target = game.least_costly(equilibrium), free = game.size() - 1;
  Vec coverage[2], attack;
  Json runs = Json::array();
  fmt::print("{}\n", what);
  for (int i = 0; i < 2; ++i) {
    game.smooth = 0.2 / (1 + i);
    const bilevel::Summary s = bilevel::minimise(
        game, {.outer = {.gradient_tolerance = 1e-7, .box = {Vec::Zero(free), Vec::Ones(free)}}});
    coverage[i] = game.coverage(s.theta), attack = s.phi;
    const Vec expected = zero_sum ? game.smoothed_zero_sum() : game.level(game.smooth, target);
    fmt::print("  smoothing {}: {}{}, {}; the coverage of its closed form to 1e-6: {}\n", game.smooth,
               name(s.status), s.at_kink ? " at a kink" : "", name(s.certificate.verdict),
               (coverage[i] - expected).norm() <= 1e-6);
    runs.push_back({game.smooth,
                    s.outer_value,
                    (coverage[i] - equilibrium).norm(),
                    s.evaluations,
                    {{"status", name(s.certificate.verdict)}}});
  }
  // Both closed forms are linear in the smoothing.
  const Vec without = 2 * coverage[1] - coverage[0];
  fmt::print("  without smoothing: the equilibrium to 1e-6: {}\n", (without - equilibrium).norm() <= 1e-6);

  const Vec mixed = (equilibrium.array() > 0).cast<double>() / game.gain.array();
  const Vec surest = zero_sum ? Vec(mixed / mixed.sum()) : Vec(Vec::Unit(game.size(), target));
  const std::vector<std::string> names{"target 1", "2", "3", "4", "5", "6"};
  const auto list = [](const Vec& x) { return Json(std::vector<double>(x.begin(), x.end())); };
  return pages::section(
      what,
      {pages::chart("Coverage", "", "share of the time",
                    {{"learned, smoothing 0.1", list(coverage[1]), "bars"},
                     {"without smoothing", list(without), "bars"},
                     {"equilibrium", list(equilibrium), "bars"}},
                    {}, names),
       pages::chart("Attack", "", "probability",
                    {{"answer, smoothing 0.1", list(attack), "bars"}, {"equilibrium", list(surest), "bars"}},
                    {}, names),
       pages::table(
           {"smoothing", "loss of the defender", "distance to the equilibrium", "gradients", "verdict"},
           runs)});
}

int guard(const arguments::Told& told) {
  const Vec value = Eigen::Vector<double, 6>(10, 8, 6, 5, 2, 1), nothing = Vec::Zero(6);
  const Json same = play("One's gain is the other's loss", {value, nothing, value, nothing}, true);
  const Json other =
      play("Values of their own",
           {value, Eigen::Vector<double, 6>(2, 1, 3, 1, 1, 1), Eigen::Vector<double, 6>(6, 9, 4, 7, 1, 1),
            Eigen::Vector<double, 6>(1, 2, 0, 1, 1, 1)},
           false);
  pages::write(told, {},
               {{"title", "Patrols and an attacker"},
                {"lead", "Two patrols guard six targets; the attacker knows how often each is guarded."},
                {"sections", {same, other}}});
  return 0;
}

int main(int argc, char** argv) {
  return arguments::run(argc, argv, {{"--json", ""}, {"--report", ""}}, guard);
}
