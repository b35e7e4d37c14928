// A solver of your own, here one that settles badly: the certificate measures what it left behind and says
// so.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

/// Gradient descent that gives up after a few steps and claims to be done. What a solver has to minimise is
/// L_in + β·L_out: implicit differentiation asks for β = 0 only, equilibrium propagation for other β too. A
/// solver that ignored β would settle in the same place each time, and whatever θ does through φ would be
/// missing from the gradient.
class Hasty final : public bilevel::InnerSolver<Vec> {
 public:
  Hasty(bilevel::Problem<Vec>& problem, int steps) : problem_(problem), steps_(steps) {}
  std::string_view name() const override { return "hasty"; }
  bilevel::Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    bilevel::Solution<Vec> s;
    s.phi = start;
    Vec gradient = start, nudge = start;
    for (int i = 0; i < steps_; ++i) {
      problem_.inner(s.phi, theta, {.phi = &gradient});
      if (beta != 0) {
        problem_.outer(s.phi, theta, {.phi = &nudge});
        gradient += beta * nudge;
      }
      s.phi -= 0.3 * gradient;
    }
    s.status = bilevel::Status::converged;
    s.message = fmt::format("{} steps", steps_);
    return s;
  }

 private:
  bilevel::Problem<Vec>& problem_;
  int steps_;
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  auto problem = bilevel::problems::Quadratic::random({.phi = 10, .theta = 3, .condition = 9, .seed = 3});
  const Vec theta = problem.initial_theta(), truth = *problem.outer_gradient(theta);
  const auto report = [&](const char* method, int steps) {
    Hasty inner(problem, steps);
    const auto e = bilevel::make_estimator<Vec>(method, problem, inner)->estimate(theta, {});
    const bool holds = (e.gradient - truth).norm() <= e.certificate.bound;
    fmt::print("{}, {:>3} steps: {} {}, bound {}\n", method, steps, name(e.certificate.kind),
               name(e.certificate.verdict), holds ? "holds" : "fails");
  };
  for (const int steps : {5, 20, 80, 320}) report("implicit-cg", steps);
  report("ep-central", 320);
}
