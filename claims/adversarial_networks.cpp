#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

namespace claims {
namespace {
namespace of_adversarial_networks {

double logistic(double s) {
  return 1 / (1 + std::exp(-s));
}

/// −ln σ(s).
double surprise(double s) {
  return s > 0 ? std::log1p(std::exp(-s)) : std::log1p(std::exp(s)) - s;
}

using Feature = Eigen::Vector3d;

/// `sign` = 1 minimises the negative of the printed objective, −1 the printed one.
struct Game {
  Vec data, noise;
  double sign = 1;

  static Feature feature(double x) { return {1, x, x * x}; }
  static Feature slope_of_feature(double x) { return {0, 1, 2 * x}; }
  double generated(const Vec& theta, Index j) const { return theta[0] + std::exp(theta[1]) * noise[j]; }
  Eigen::Vector2d moved(const Vec& theta, Index j) const { return {1, std::exp(theta[1]) * noise[j]}; }

  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const double share = sign / static_cast<double>(data.size());
    if (wanted.phi) wanted.phi->setZero();
    if (wanted.theta) wanted.theta->setZero();
    double value = 0;
    for (Index i = 0; i < data.size(); ++i) {
      const double s = phi.dot(feature(data[i])), u = generated(theta, i), t = phi.dot(feature(u));
      value += share * (surprise(s) + surprise(-t));
      if (wanted.phi) *wanted.phi += share * (logistic(t) * feature(u) - logistic(-s) * feature(data[i]));
      if (wanted.theta) *wanted.theta += share * logistic(t) * phi.dot(slope_of_feature(u)) * moved(theta, i);
    }
    return value;
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const double share = 1 / static_cast<double>(noise.size());
    if (wanted.phi) wanted.phi->setZero();
    if (wanted.theta) wanted.theta->setZero();
    double value = 0;
    for (Index j = 0; j < noise.size(); ++j) {
      const double u = generated(theta, j), t = phi.dot(feature(u));
      value += share * surprise(t);
      if (wanted.phi) *wanted.phi -= share * logistic(-t) * feature(u);
      if (wanted.theta)
        *wanted.theta -= share * logistic(-t) * phi.dot(slope_of_feature(u)) * moved(theta, j);
    }
    return value;
  }
  Mat hessian(const Vec& phi, const Vec& theta, double beta) const {
    const double share = 1 / static_cast<double>(data.size());
    Mat h = Mat::Zero(3, 3);
    for (Index i = 0; i < data.size(); ++i) {
      const Feature f = feature(data[i]), k = feature(generated(theta, i));
      const double s = phi.dot(f), t = phi.dot(k);
      h += share * (sign * logistic(s) * logistic(-s) * f * f.transpose() +
                    (sign + beta) * logistic(t) * logistic(-t) * k * k.transpose());
    }
    return h;
  }
  Mat cross(const Vec& phi, const Vec& theta, double beta) const {
    const double share = 1 / static_cast<double>(noise.size());
    Mat c = Mat::Zero(3, 2);
    for (Index j = 0; j < noise.size(); ++j) {
      const double u = generated(theta, j), t = phi.dot(feature(u));
      const Feature rise = slope_of_feature(u);
      c += share *
           ((sign + beta) * logistic(t) * logistic(-t) * phi.dot(rise) * feature(u) +
            (sign * logistic(t) - beta * logistic(-t)) * rise) *
           moved(theta, j).transpose();
    }
    return c;
  }

  auto problem() const {
    bilevel::Functions<Vec> f;
    f.initial_phi = []() -> Vec { return Vec::Zero(3); };
    f.initial_theta = []() -> Vec { return Vec::Zero(2); };
    f.inner = [*this](const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> w) {
      return inner(phi, theta, w);
    };
    f.outer = [*this](const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> w) {
      return outer(phi, theta, w);
    };
    f.hessian_times = [*this](const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) {
      out = hessian(phi, theta, beta) * v;
    };
    f.cross_times = [*this](const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) {
      out = cross(phi, theta, beta).transpose() * v;
    };
    f.cross_apply = [*this](const Vec& phi, const Vec& theta, double beta, const Vec& u, Vec& out) {
      out = cross(phi, theta, beta) * u;
    };
    return bilevel::make_problem<Vec>(f);
  }
};

double deviation(const Vec& x) {
  return std::sqrt((x.array() - x.mean()).square().mean());
}

void run(Laboratory& lab, Outcome& outcome) {
  Game game{(1 + 1.2 * lab.vector(60, 1).array()).matrix(), lab.vector(60, 2)};
  const Vec start = (Vec(2) << 0.2, -0.3).finished();

  // As printed.
  Game printed = game;
  printed.sign = -1;
  auto wrong = printed.problem();
  Vec far = Vec::Zero(3);
  far[0] = -1000;
  outcome.near("printed objective at φ = (−t, 0, 0), over t = 1000", -1, wrong.inner(far, start, {}) / 1000,
               1e-3);
  const auto descended = [&](long steps) {
    bilevel::Minimiser<Vec> descent(
        wrong, std::make_unique<bilevel::GradientDescent<Vec>>(bilevel::GradientDescentOptions{1}),
        {.gradient_tolerance = 1e-6, .max_iterations = steps});
    return descent.solve(start, 0, Vec::Zero(3));
  };
  const auto early = descended(1000), late = descended(10000);
  outcome.near("printed objective after 10⁴ steps of gradient descent over after 10³", 10,
               late.value / early.value, 1);
  outcome.check("status of that descent", "not converged", std::string(bilevel::name(late.status)),
                !succeeded(late.status));

  // Its negative.
  auto problem = game.problem();
  const auto newton = settler("newton", problem, 1e-13);
  const Vec discriminator = settled(problem, start);
  double spread = 0;
  for (std::uint64_t k = 0; k < 20; ++k)
    keep_worst(spread,
               (settler("lbfgs", problem, 1e-12)->solve(start, 0, lab.vector(3, 10 + k)).phi - discriminator)
                   .norm());
  outcome.at_most("negated: distance between the minimisers from 20 starts", 1e-9, spread);
  double implicit_error = 0, nudged_error = 0;
  bilevel::EstimatorOptions options{.beta = 1e-3};
  const auto implicit = lab.estimator("implicit-cg", problem, *newton, options),
             nudged = lab.estimator("ep-central", problem, *newton, options);
  for (std::uint64_t k = 0; k < 10; ++k) {
    const Vec theta = start + 0.2 * lab.vector(2, 40 + k);
    Vec truth(2);
    for (Index i = 0; i < 2; ++i) {
      const double h = 1e-3;
      const auto value = [&](double shift) {
        Vec at = theta;
        at[i] += shift;
        return problem.outer(settled(problem, at), at, {});
      };
      truth[i] = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
    }
    keep_worst(implicit_error, (implicit->estimate(theta, {}).gradient - truth).norm() / truth.norm());
    keep_worst(nudged_error, (nudged->estimate(theta, {}).gradient - truth).norm() / truth.norm());
  }
  outcome.at_most("implicit differentiation against differences of the solve, relative", 1e-8,
                  implicit_error);
  outcome.at_most("equilibrium propagation, ±β, against the same, relative", 1e-4, nudged_error);

  // Learning.
  Vec goal(2);
  goal[1] = std::log(deviation(game.data) / deviation(game.noise));
  goal[0] = game.data.mean() - std::exp(goal[1]) * game.noise.mean();
  options.certificate.enabled = false;
  const auto learner = lab.estimator("implicit-cg", problem, *newton, options);
  Vec theta = start;
  bilevel::Warm<Vec> warm;
  std::vector<double> steps, mean, spread_of_generated;
  for (int step = 0; step <= 2000; ++step) {
    if (step <= 100 || step % 50 == 0) {
      steps.push_back(step + 1);
      mean.push_back(theta[0] + std::exp(theta[1]) * game.noise.mean());
      spread_of_generated.push_back(std::exp(theta[1]) * deviation(game.noise));
    }
    const auto e = learner->estimate(theta, warm);
    warm.phi = e.phi;
    theta -= 0.5 * e.gradient;
  }
  outcome.at_most("‖θ − moment matching‖ after learning", 1e-6, (theta - goal).norm());
  outcome.show(
      Chart("What the generator makes while it learns")
          .x("step of gradient descent on θ, plus 1", true)
          .y("moment")
          .line("mean of generated samples", steps, mean)
          .line("mean of the data", {1, 2001}, {game.data.mean(), game.data.mean()}, true)
          .line("deviation of generated samples", steps, spread_of_generated)
          .line("deviation of the data", {1, 2001}, {deviation(game.data), deviation(game.data)}, true));
  outcome.note(
      "The printed objective is concave in φ. Gradient descent on it walks away in a straight line, its "
      "value "
      "falling in proportion to the steps; a solver that is asked for a small gradient never stops.");
  outcome.measured =
      fmt::format("unbounded; gradient {:.0e}; θ to {:.0e}", implicit_error, (theta - goal).norm());
}

}  // namespace of_adversarial_networks
}  // namespace

const Claim adversarial_networks{
    .name = "adversarial-networks",
    .title = "A generator against its best discriminator",
    .place = "Appendix A.3",
    .statement =
        "The generator minimises −E log D(g(z)) subject to the discriminator maximising E log D(x) + E "
        "log(1 − D(g(z))). With the inner maximisation written as the minimisation of its negative the "
        "problem is a bilevel one, whose outer gradient implicit differentiation and equilibrium "
        "propagation give.",
    .protocol =
        "D(x) = σ(φ₀ + φ₁x + φ₂x²) on 60 samples, g(z) = θ₀ + exp(θ₁)z on 60 others. The objective as "
        "printed is followed along a ray and by 10³ and 10⁴ steps of gradient descent. Its negative is "
        "minimised from 20 random starts; the outer gradient is taken at 10 random θ; gradient descent on "
        "θ with the step ½ runs 2000 steps.",
    .truth =
        "Central differences of fourth order of the whole solve. Where the generated samples have the "
        "mean and the variance of the data, D = ½ everywhere and the outer gradient vanishes: θ₁ = ln(sd "
        "x/sd z), θ₀ = x̄ − exp(θ₁)z̄.",
    .slip =
        "The inner problem is printed as a minimisation of E log D(x) + E log(1 − D(g(z))), which has no "
        "minimum: it must be maximised, or its negative minimised.",
    .expected = "printed: unbounded; negated: θ → the data",
    .run = of_adversarial_networks::run};

}  // namespace claims
