// An actor and its critic as a bilevel problem: the critic settles where Bellman's equation holds for the
// policy θ, the actor moves θ to what it is worth then. The outer gradient is the policy gradient, found
// without that theorem and compared with it; the best policy is that of value iteration.
//   actor_critic [--report FILE]
#include <bilevel/bilevel.hpp>

#include "grid.hpp"
#include "pages.hpp"

using pages::Json;

/// π(a|s) ∝ exp θ_sa; φ = V settles where F(V) = V − Σ_a π(a|s)(r + 0.95·P_a V) is zero, which no loss
/// minimises; L_out = −start·V.
struct ActorCritic {
  Grid grid;

  static Mat policy(const Vec& theta) {
    Mat p = Eigen::Map<const Mat>(theta.data(), Grid::states, Grid::actions);
    p = (p.colwise() - p.rowwise().maxCoeff()).array().exp();
    return p.array().colwise() / p.rowwise().sum().array();
  }
  Mat moves(const Vec& theta) const {
    const Mat p = policy(theta);
    Mat sum = Mat::Zero(Grid::states, Grid::states);
    for (int a = 0; a < Grid::actions; ++a)
      sum += p.col(a).asDiagonal() * grid.move[static_cast<std::size_t>(a)];
    return sum;
  }
  /// π(a|s)·(what a earns − what π earns).
  Mat advantage(const Vec& v, const Vec& theta) const {
    const Mat p = policy(theta), q = grid.earned(v);
    return p.array() * (q.colwise() - p.cwiseProduct(q).rowwise().sum()).array();
  }
  Vec initial_phi() const { return Vec::Zero(Grid::states); }
  Vec initial_theta() const { return Vec::Zero(Grid::states * Grid::actions); }
  void residual(const Vec& v, const Vec& theta, Vec& out) const {
    out = v - policy(theta).cwiseProduct(grid.earned(v)).rowwise().sum();
  }
  double outer(const Vec& v, const Vec&, bilevel::Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = -grid.start;
    if (wanted.theta) wanted.theta->setZero();
    return -grid.start.dot(v);
  }
  void hessian_times(const Vec&, const Vec& theta, double, const Vec& v, Vec& out) const {
    out = v - Grid::discount * (moves(theta) * v);
  }
  void hessian_transpose_times(const Vec&, const Vec& theta, double, const Vec& v, Vec& out) const {
    out = v - Grid::discount * (moves(theta).transpose() * v);
  }
  void cross_times(const Vec& v, const Vec& theta, double, const Vec& w, Vec& out) const {
    out = -(w.asDiagonal() * advantage(v, theta)).reshaped();
  }
  void cross_apply(const Vec& v, const Vec& theta, double, const Vec& u, Vec& out) const {
    out = -advantage(v, theta).cwiseProduct(u.reshaped(Grid::states, Grid::actions)).rowwise().sum();
  }

  /// Of −start·V by the policy-gradient theorem: how often each cell is seen times the advantage there.
  Vec policy_gradient(const Vec& theta) const {
    const Mat system = Mat::Identity(Grid::states, Grid::states) - Grid::discount * moves(theta);
    const Vec earned = policy(theta).cwiseProduct(grid.reward).rowwise().sum();
    const Vec seen = system.transpose().lu().solve(grid.start);
    return -(seen.asDiagonal() * advantage(system.lu().solve(earned), theta)).reshaped();
  }
};

/// What the policy does in each cell and what that is worth, as the grid lies.
Json drawn(const Vec& theta, const Vec& v) {
  const Mat p = ActorCritic::policy(theta);
  Json rows = Json::array();
  for (int s = 0; s < Grid::states; ++s) {
    if (s % Grid::columns == 0) rows.push_back(Json::array());
    Eigen::Index way = 0;
    const double sure = p.row(s).maxCoeff(&way);
    constexpr std::array arrows{"↑", "→", "↓", "←"};
    rows.back().push_back(
        s == Grid::goal  ? "goal, 1"
        : s == Grid::pit ? "pit, −1"
        : s == Grid::wall
            ? "wall"
            : fmt::format("{} {:.0f} %, {:.3f}", arrows[static_cast<std::size_t>(way)], 100 * sure, v[s]));
  }
  return rows;
}

int play(const arguments::Told& told) {
  const ActorCritic losses;
  auto problem = bilevel::make_problem(losses);

  Vec theta(problem.initial_theta());
  bilevel::Space<Vec>::random(1, theta);
  const auto inner = bilevel::make_inner_solver<Vec>("newton-krylov", problem, {.gradient_tolerance = 1e-12});
  const auto e = bilevel::make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(theta, {});
  fmt::print("gradient {}, the policy gradient to 1e-8: {}\n", name(e.certificate.verdict),
             (e.gradient - losses.policy_gradient(theta)).norm() <= 1e-8);

  // A policy that is sure of itself lies infinitely far away: θ is kept within 12.
  Json returns = Json::array(), steps = Json::array();
  const Vec far = Vec::Constant(theta.size(), 12);
  const bilevel::Summary s = bilevel::minimise(
      problem,
      {.outer = {
           .box = {-far, far}, .callback = [&](const bilevel::HistoryEntry& h) {
             if (h.accepted) returns.push_back({h.iteration, -h.outer_value});
             steps.push_back(
                 {h.iteration, -h.outer_value, h.gradient_norm, h.bound, {{"status", name(h.verdict)}}});
             return true;
           }}});

  Vec best = Vec::Zero(Grid::states);
  for (int i = 0; i < 1000; ++i) best = losses.grid.earned(best).rowwise().maxCoeff();
  const double optimum = losses.grid.start.dot(best), gap = optimum + s.outer_value;
  fmt::print("{}, {}; the return of value iteration to 1e-3: {}, and not beyond: {}\n", name(s.status),
             name(s.certificate.verdict), gap <= 1e-3, gap >= -1e-12);

  const Json level{{0, optimum}, {s.iterations, optimum}};
  pages::write(
      told, {},
      {{"title", "An actor and its critic"},
       {"lead", fmt::format("Return {:.6f}; that of the best policy is {:.6f}. {}: {}.", -s.outer_value,
                            optimum, name(s.status), s.message)},
       {"sections",
        {pages::section(
             "Learning",
             {pages::chart("Return of the policy", "iteration", "return",
                           {{"the policy", returns}, {"the best, by value iteration", level, "dashed"}}),
              pages::table({"iteration", "return", "norm of the gradient", "bound of its error", "verdict"},
                           steps)}),
         pages::section(
             "The policy",
             {pages::text(
                  "In each cell: where it goes, how surely, and what the critic says that this is worth."),
              pages::table({"1", "2", "3", "4"}, drawn(s.theta, s.phi))})}}});
  return 0;
}

int main(int argc, char** argv) {
  return arguments::run(argc, argv, {{"--json", ""}, {"--report", ""}}, play);
}
