// A leader and three followers who play against each other: Stackelberg's game with Cournot's among the
// followers. The leader chooses its quantity θ, the followers answer with Nash's equilibrium φ*(θ). First
// without limits; then with capacities; then with a follower whom it pays to keep out of the market.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/inner/variational_inequality.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

/// At the price p = a − b(θ + Σφ) follower i earns φᵢ(p − cᵢ) − ½dᵢφᵢ², the leader θ(p − c). None of the
/// followers can gain by changing its φᵢ where all of these are zero:
///   Fᵢ = −∂/∂φᵢ (what i earns) = −(p − cᵢ) + bφᵢ + dᵢφᵢ
/// or, where φᵢ is at one of its limits 0 ≤ φᵢ ≤ capacityᵢ, where Fᵢ pushes it outwards.
struct Market {
  double demand = 10, slope = 1, cost = 1;
  Eigen::Vector3d costs{2, 2.5, 3}, more{0.5, 0, 1}, capacity{};
  bool limits = false;

  double price(const Vec& phi, double theta) const { return demand - slope * (theta + phi.sum()); }
  Vec initial_phi() const { return Vec::Zero(3); }
  Vec initial_theta() const { return Vec::Ones(1); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) const {
    out = costs.array() - price(phi, theta[0]) + (slope + more.array()) * phi.array();
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const double margin = price(phi, theta[0]) - cost;
    if (wanted.phi) wanted.phi->setConstant(slope * theta[0]);
    if (wanted.theta) (*wanted.theta)[0] = slope * theta[0] - margin;
    return -theta[0] * margin;
  }
  // The loss of the leader is linear in φ: a nudge β changes ∂θ∂φ alone.
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = (slope * v.sum() + (slope + more.array()) * v.array()).matrix();
  }
  void hessian_transpose_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    hessian_times(phi, theta, beta, v, out);
  }
  void cross_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = Vec::Constant(1, (1 + beta) * slope * v.sum());
  }
  void cross_apply(const Vec&, const Vec&, double beta, const Vec& u, Vec& out) const {
    out = Vec::Constant(3, (1 + beta) * slope * u[0]);
  }
  bilevel::PhiConstraints phi_constraints() const {
    return limits ? bilevel::PhiConstraints::box(Vec::Zero(3), capacity) : bilevel::PhiConstraints{};
  }

  /// What the followers bring to the market at price p is ∑ min(max((p − cᵢ)/(b + dᵢ), 0), capacityᵢ), which
  /// grows with p, without the limits where there are none; so the price of a θ is the only root of
  ///   p + b·that = a − bθ.
  struct Answer {
    double price, slope;  ///< p(θ) and p′(θ) = −b/(1 + bΣ 1/(b + dᵢ)) over those who are free
  };
  Answer answer(double theta) const {
    double low = -100, high = 100;
    for (int i = 0; i < 200; ++i) {
      const double p = 0.5 * (low + high);
      (p + slope * supply(p) > demand - slope * theta ? high : low) = p;
    }
    double weight = 0;
    for (int i = 0; i < 3; ++i)
      if (!limits || (share(i, low) > 0 && share(i, low) < capacity[i])) weight += 1 / (slope + more[i]);
    return {low, -slope / (1 + slope * weight)};
  }
  double share(int i, double p) const { return (p - costs[i]) / (slope + more[i]); }
  double supply(double p) const {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += limits ? std::clamp(share(i, p), 0.0, capacity[i]) : share(i, p);
    return sum;
  }
  /// The leader's marginal loss, −(p − c) − θp′.
  double gradient(double theta) const {
    const Answer at = answer(theta);
    return -(at.price - cost) - theta * at.slope;
  }
  /// Where it changes its sign between low and high: a zero, or a kink at which a follower leaves.
  double best(double low, double high) const {
    for (int i = 0; i < 200; ++i) (gradient(0.5 * (low + high)) > 0 ? high : low) = 0.5 * (low + high);
    return low;
  }
};

void play(const char* what, const Market& market, double low, double high) {
  auto game = bilevel::make_problem(market);
  const Vec start = Vec::Constant(1, 0.5 * (low + high));
  // One gradient away from the optimum. What has limits settles as a variational inequality; minimise does
  // this by itself.
  std::optional<bilevel::VariationalInequality> limited;
  if (market.limits) limited.emplace(game);
  bilevel::Equilibrium<Vec>& equilibrium = limited ? static_cast<bilevel::Equilibrium<Vec>&>(*limited) : game;
  const bilevel::MinimiserOptions tight{.gradient_tolerance = 1e-12};
  const auto inner = limited ? limited->solver(bilevel::NewtonKrylovOptions{}, tight)
                             : bilevel::make_inner_solver<Vec>("newton-krylov", equilibrium, tight);
  const auto e = bilevel::make_estimator<Vec>("implicit-direct", equilibrium, *inner)->estimate(start, {});
  fmt::print("{}\n  gradient {}, that of the closed form to 1e-8: {}\n", what, name(e.certificate.verdict),
             std::abs(e.gradient[0] - market.gradient(start[0])) <= 1e-8);

  const bilevel::Summary s = bilevel::minimise(game, {.start = start});
  const double best = market.best(low, high);
  fmt::print("  {}{}, {}; the best quantity to 1e-6: {}; its price to 1e-6: {}\n", name(s.status),
             s.at_kink ? " at a kink" : "", name(s.certificate.verdict), std::abs(s.theta[0] - best) <= 1e-6,
             std::abs(market.price(s.phi, s.theta[0]) - market.answer(best).price) <= 1e-6);
  for (int i = 0; market.limits && i < 3; ++i)
    fmt::print("  follower {} {}\n", i + 1,
               s.phi[i] < 1e-6                        ? "sells nothing"
               : s.phi[i] > market.capacity[i] - 1e-6 ? "sells all that it can"
                                                      : "is free");
}

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  Market market;
  play("no limits", market, 0, 10);
  market.limits = true;
  market.capacity = {1, 0.8, 2};
  play("two followers at their capacity", market, 3.5, 5);
  // So much that nobody enters, and no more: the loss has a kink there, and no zero gradient.
  market.costs = {7, 6, 5};
  play("no room for others", market, 0, 8);
}
