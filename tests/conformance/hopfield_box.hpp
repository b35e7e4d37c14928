#pragma once

#include <cmath>
#include <memory>
#include <random>

#include <bilevel/inner/controlled_system.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::conformance {

struct HopfieldBoxOptions {
  Index hidden = 6;
  double compliance = 0.01;
  std::uint64_t seed = 1;
};

/// A small network that settles as physics does: one element after the other gives way until none moves, each
/// to where its own energy is lowest with the others held. Nobody outside sees an energy or a derivative, and
/// none is computed inside. It is shown the four patterns of XOR at once, x = ±1, target o = −x₁x₂/2. With G′
/// = tanh⁻¹ and θ = (W, b, v, c):
///   energy = Σ_p [Σ_k G(h_k) + ½s·o² − h·(Wx + b) − o·(v·h + c)] + ‖θ − u‖²/2ε + β·½Σ_p(o − target)²
///   h_k = tanh((Wx + b)_k + v_k·o),   o = (v·h + c + β·target)/(s + β),   θ = u + ε·Σ_p (products of the
///   ends)
/// φ holds h and o of each pattern; while Σ v_k² < s = 4 the energy is convex in them (G″ ≥ 1),
/// so `largest_control` keeps the feedback from making memories of its own.
class HopfieldBox final : public ControlledSystem<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;

 public:
  explicit HopfieldBox(const HopfieldBoxOptions& options)
      : hidden_(options.hidden), compliance_(options.compliance), start_(4 * options.hidden + 1) {
    std::mt19937_64 engine(options.seed);
    std::normal_distribution<double> normal;
    for (double& each : start_) each = 0.4 * normal(engine);
    start_ = start_.cwiseMin(largest_control()).cwiseMax(-largest_control());
  }

  Vec initial_phi() const override { return Vec::Zero(4 * (hidden_ + 1)); }
  Vec initial_control() const override { return start_; }
  double compliance() const override { return compliance_; }
  double outer(const Vec& phi, const Vec&) override {
    double loss = 0;
    for (int p = 0; p < 4; ++p) loss += 0.5 * std::pow(phi[(p + 1) * (hidden_ + 1) - 1] - target(p), 2);
    return loss;
  }

  Rest<Vec> settle(const Vec& control, double beta, const Vec& start) override {
    Rest<Vec> rest{
        .phi = start, .extension = Vec::Zero(control.size()), .status = {}, .message = {}, .cost = {}};
    const Index n = hidden_;
    Vec theta = control, products(control.size());
    for (int sweep = 1; sweep <= 20000; ++sweep) {
      double moved = 0;
      const auto give_way = [&](double& element, double to) {
        moved = std::max(moved, std::abs(to - element));
        element = to;
      };
      products.setZero();
      for (int p = 0; p < 4; ++p) {
        double* const h = rest.phi.data() + p * (n + 1);
        double& o = h[n];
        for (Index k = 0; k < n; ++k)
          give_way(h[k], std::tanh(theta[2 * k] * x1(p) + theta[2 * k + 1] * x2(p) + theta[2 * n + k] +
                                   theta[3 * n + k] * o));
        double drive = theta[4 * n];
        for (Index k = 0; k < n; ++k) drive += theta[3 * n + k] * h[k];
        give_way(o, (drive + beta * target(p)) / (stiffness + beta));
        for (Index k = 0; k < n; ++k) {
          products[2 * k] += h[k] * x1(p);
          products[2 * k + 1] += h[k] * x2(p);
          products[2 * n + k] += h[k];
          products[3 * n + k] += h[k] * o;
        }
        products[4 * n] += o;
      }
      for (Index i = 0; i < theta.size(); ++i) {
        give_way(rest.extension[i], compliance_ * products[i]);
        theta[i] = control[i] + rest.extension[i];
      }
      if (moved <= 1e-15) {
        rest.status = Status::converged;
        rest.message = fmt::format("at rest after {} sweeps", sweep);
        return rest;
      }
    }
    rest.status = Status::iteration_limit;
    rest.message = "still moving after 20000 sweeps";
    return rest;
  }

  /// Weights into the output within ±¾, the others within ±4.
  Vec largest_control() const {
    Vec largest = Vec::Constant(start_.size(), 4);
    largest.segment(3 * hidden_, hidden_).setConstant(0.75);
    return largest;
  }
  static double target(int p) { return -0.5 * x1(p) * x2(p); }

 private:
  static constexpr double stiffness = 4;
  static double x1(int p) { return p % 2 == 0 ? -1 : 1; }
  static double x2(int p) { return p < 2 ? -1 : 1; }

  Index hidden_;
  double compliance_;
  Vec start_;
};

}  // namespace bilevel::conformance
