// A system of your own that only settles: two carts that nobody has opened, learned by turning knobs and
// looking where they stop. No derivative and no energy is handed to the library.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/inner/spring_controlled.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

/// Two carts φ on a rail, tied to the walls and to each other by springs K. A spring of stiffness k_i pulls
/// cart i towards a hook at θ_i, and the hook hangs on the knob u_i by a cord of compliance ε:
///   F = ½φᵀKφ + ½Σ k_i(φ_i − θ_i)² + ‖θ − u‖²/(2ε) + β·½‖φ − marks‖²
class Carts final : public bilevel::ControlledSystem<Vec> {
 public:
  Vec initial_phi() const override { return Vec::Zero(2); }
  Vec initial_control() const override { return Vec::Zero(2); }
  double compliance() const override { return cord_; }
  double outer(const Vec& phi, const Vec&) override { return 0.5 * (phi - marks_).squaredNorm(); }

  // Turn the knobs, lean on the carts with force β·(marks − φ), wait, look. A real bench would measure here.
  bilevel::Rest<Vec> settle(const Vec& knobs, double beta, const Vec&) override {
    // Cord and spring in series pull cart i towards its knob with stiffness k_i/(1 + ε·k_i).
    const Vec pull = spring_.array() / (1 + cord_ * spring_.array());
    Eigen::Matrix2d stiffness = rail_;
    stiffness.diagonal() += pull + Vec::Constant(2, beta);
    bilevel::Rest<Vec> rest;
    rest.phi = stiffness.llt().solve(pull.cwiseProduct(knobs) + beta * marks_);
    rest.extension = cord_ * pull.cwiseProduct(rest.phi - knobs);  // θ − u, how far the cords gave way
    rest.status = bilevel::Status::converged;
    return rest;
  }

 private:
  Eigen::Matrix2d rail_{{3, -1}, {-1, 2}};
  Vec spring_ = Eigen::Vector2d(2, 4), marks_ = Eigen::Vector2d(1, 2.5);
  double cord_ = 0.1;
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  Carts carts;
  bilevel::Agnostic<Vec> estimator(carts, {.beta = 1e-2});
  auto optimizer = bilevel::make_optimizer("lbfgs");
  const bilevel::Summary s = bilevel::solve<Vec>(estimator, *optimizer, carts.initial_control(), {});
  fmt::print("{}: knobs at {:.4f} and {:.4f} bring the carts to {:.4f} and {:.4f}; gradient {}\n",
             name(s.status), s.theta[0], s.theta[1], s.phi[0], s.phi[1], name(s.certificate.verdict));
  // The forces balance at the marks m where pull_i·(u_i − m_i) = (K·m)_i: u = (1 + 0.5·0.6, 2.5 + 4·0.35).
}
