#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/space/lanczos.hpp>

#include <bilevel/models/prepared.hpp>

namespace bilevel::models {

/// Trust-region Newton for losses with saddles. A fit that begins at the last one's end may begin at a
/// saddle: the minimum was one at the former θ, and along the direction that has turned down since the
/// gradient is zero. Wherever it settles a few products look for such a direction; a step down along it, and
/// it settles again.
class LeavesSaddles final : public bilevel::InnerSolver<Vec> {
 public:
  explicit LeavesSaddles(bilevel::Problem<Vec>& problem)
      : problem_(problem),
        inner_(bilevel::make_inner_solver<Vec>(bilevel::TrustRegionOptions{}, problem,
                                               {.max_iterations = most_iterations})) {}

  std::string_view name() const override { return "trust-region"; }
  void set_tolerance(double tolerance) override {
    inner_->set_tolerance(tolerance);
    looks_ = tolerance < rough;
  }

  bilevel::Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    bilevel::Solution<Vec> settled = inner_->solve(theta, beta, start);
    for (int pushes = 0; looks_ && pushes < most_pushes && succeeded(settled.status); ++pushes) {
      const Vec away = beside(theta, beta, settled);
      if (away.size() == 0) break;
      bilevel::Solution<Vec> next = inner_->solve(theta, beta, away);
      const bool lower = next.value < settled.value;
      next.cost += settled.cost;
      next.iterations += settled.iterations;
      if (!lower) break;
      settled = std::move(next);
      settled.message += "; a saddle was left";
    }
    return settled;
  }

 private:
  static constexpr long most_iterations = 1000;
  static constexpr int most_pushes = 5;
  static constexpr Index products = 40;
  /// What ends with larger gradients is on its way, and not at rest.
  static constexpr double rough = 1e-4;

  /// Below the settled state along its direction of negative curvature; empty where none was found.
  Vec beside(const Vec& theta, double beta, bilevel::Solution<Vec>& settled) {
    problem_.linearise(settled.phi, theta, beta, curvature_);
    Vec random(settled.phi.size());
    bilevel::Space<Vec>::random(1, random);
    bilevel::Lanczos<Vec> lanczos([&](const Vec& x, Vec& out) { curvature_->times(x, out); }, random,
                                  {.basis = std::min(products, settled.phi.size()), .sweeps = 1});
    const bilevel::RitzEnds ends = lanczos.run();
    settled.cost.hessian_products += products;
    if (!(ends.smallest < -1e-6 * ends.largest)) return {};
    const Vec way = lanczos.smallest_vector();
    const auto value = [&](const Vec& phi) {
      const double inner = problem_.inner(phi, theta, {});
      return beta == 0 ? inner : inner + beta * problem_.outer(phi, theta, {});
    };
    for (double length = 0.1 * std::max(1.0, settled.phi.norm()); length > 1e-6; length *= 0.25)
      for (const double step : {length, -length}) {
        Vec away = settled.phi + step * way;
        if (value(away) < settled.value) return away;
      }
    return {};
  }

  bilevel::Problem<Vec>& problem_;
  bool looks_ = true;
  std::unique_ptr<bilevel::InnerSolver<Vec>> inner_;
  std::unique_ptr<bilevel::Curvature<Vec>> curvature_;
};

}  // namespace bilevel::models
