#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/LU>

#include <bilevel/problems/ridge.hpp>

namespace claims {

static void run(Laboratory& lab, Outcome& outcome);

const Claim stochastic_adjoint{
    .name = "stochastic-adjoint",
    .title = "Stochastic updates on the quadratic form",
    .place = "Section 3.1, “Some practical considerations”",
    .statement =
        "Where L_in is an average over samples, phase 2 may take a random subset of the data for each "
        "step. With constant steps π then hovers around π* at a mean square distance proportional to the "
        "step; with decreasing steps, or averaged, it converges to π*.",
    .protocol =
        "Ridge regression with 4 features and 40 samples, one penalty. Steps π ← π − α(πH_B − g) with H_B "
        "from 2 samples drawn with replacement. 40 runs of 4000 steps for 5 constant α from 0.02/L to "
        "0.32/L, mean square distance over the last 3000; averages of the iterates and steps c/(k + k₀) "
        "over 40 runs of 16384 steps.",
    .truth =
        "π* = gH⁻¹; the stationary covariance Σ = E[(I − αH_B)Σ(I − αH_B)] + α²Cov(π*H_B), a linear "
        "system solved with the exact expectation over the samples; order −½ in the number of steps; ∇θ "
        "in closed form.",
    .slip = "",
    .expected = "floor ∝ α; averages converge like k^(−1/2)",
    .run = run};

namespace {

constexpr Index features = 4, batch = 2;

/// The samples of the training part as Hessians, h_i = x_i x_iᵀ + Λ.
struct Samples {
  Mat x;
  double penalty;
  Mat hessian(Index i) const {
    Mat h = x.row(i).transpose() * x.row(i);
    h.diagonal().array() += penalty;
    return h;
  }
  Vec product(std::mt19937_64& engine, const Vec& pi) const {
    Vec sum = penalty * pi;
    for (Index k = 0; k < batch; ++k) {
      const auto i = Index(engine() % std::uint64_t(x.rows()));
      sum += x.row(i).dot(pi) / double(batch) * x.row(i).transpose();
    }
    return sum;
  }
};

Mat kronecker(const Mat& a, const Mat& b) {
  Mat out(a.rows() * b.rows(), a.cols() * b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < a.cols(); ++j)
      out.block(i * b.rows(), j * b.cols(), b.rows(), b.cols()) = a(i, j) * b;
  return out;
}

/// tr Σ of the stationary distribution. With H_B = H + N, E N = 0: vec Σ = (P⊗P + α²E[N⊗N]) vec Σ + α²E[N⊗N]
/// vec(π*π*ᵀ), P = I − αH.
double floor_of(const Mat& h, const Mat& noise, const Vec& pi, double alpha) {
  const Mat p = Mat::Identity(features, features) - alpha * h, outer = pi * pi.transpose();
  const Mat a =
      Mat::Identity(features * features, features * features) - kronecker(p, p) - alpha * alpha * noise;
  const Vec sigma =
      a.fullPivLu().solve(alpha * alpha * noise * Eigen::Map<const Vec>(outer.data(), outer.size()));
  return Eigen::Map<const Mat>(sigma.data(), features, features).trace();
}

}  // namespace

static void run(Laboratory& lab, Outcome& outcome) {
  auto problem = bilevel::problems::Ridge::random({.rows = 40,
                                                   .validation_rows = 40,
                                                   .features = features,
                                                   .strong = 2,
                                                   .group = 2,
                                                   .penalty = bilevel::problems::Penalty::global,
                                                   .seed = lab.seed(1)});
  const Vec theta = Vec::Constant(1, std::log(0.3)), phi = *problem.settled(theta);
  const auto curvature = lab.curvature(problem, phi, theta);
  const Mat h = bilevel::dense_matrix(*curvature, phi);
  Vec g(features);
  problem.outer(phi, theta, {.phi = &g});
  bilevel::CurvatureOperator<Vec> full(*curvature, true, false);
  const Vec pi = lab.adjoint("direct")->solve(full, g, nullptr).x;
  const Samples samples{problem.x(), 0.3};
  Mat mean = Mat::Zero(features, features), noise = Mat::Zero(features * features, features * features);
  for (Index i = 0; i < 40; ++i) mean += samples.hessian(i) / 40;
  for (Index i = 0; i < 40; ++i)
    noise += kronecker(samples.hessian(i) - mean, samples.hessian(i) - mean) / 40 / batch;
  outcome.at_most("mean of the samples' Hessians against ∂φ²L_in", 1e-12, (mean - h).norm() / h.norm());

  // Constant steps. L is a bound for every batch, so that no step overshoots.
  const double largest = samples.x.rowwise().squaredNorm().maxCoeff() + 0.3;
  const std::vector<double> factors = geometric(0.02, 0.32, 5);
  std::vector<double> alphas, floors, theory;
  double worst_floor = 0;
  std::uint64_t stream = 100;
  for (const double factor : factors) {
    const double alpha = factor / largest;
    double sum = 0;
    for (int repeat = 0; repeat < 40; ++repeat) {
      auto engine = lab.engine(stream++);
      Vec x = pi;
      for (int k = 0; k < 4000; ++k) {
        x -= alpha * (samples.product(engine, x) - g);
        if (k >= 1000) sum += (x - pi).squaredNorm() / (3000 * 40);
      }
    }
    alphas.push_back(alpha);
    floors.push_back(sum);
    theory.push_back(floor_of(h, noise, pi, alpha));
    keep_worst(worst_floor, std::abs(sum / theory.back() - 1));
  }
  outcome.at_most("mean square distance against the stationary covariance", 0.2, worst_floor);
  outcome.near("order in α of the mean square distance", 1, slope(alphas, floors), 0.15);

  // Averages and decreasing steps.
  const std::vector<long> marks{256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<double> x, averaged(marks.size(), 0), decreasing(marks.size(), 0), constant(marks.size(), 0);
  const double mu = bilevel::dense_spectrum(h, true).smallest, alpha = alphas.back();
  const double gain = 2 / mu, delay = gain * largest;
  double gradient_error = 0;
  const Vec truth = *problem.outer_gradient(theta);
  for (int repeat = 0; repeat < 40; ++repeat) {
    auto engine = lab.engine(stream++);
    Vec plain = Vec::Zero(features), slower = plain, sum = plain;
    std::size_t mark = 0;
    for (long k = 1; k <= marks.back(); ++k) {
      plain -= alpha * (samples.product(engine, plain) - g);
      slower -= gain / (double(k) + delay) * (samples.product(engine, slower) - g);
      // The first iterates only remember the start.
      if (k > 128) sum += plain;
      if (k != marks[mark]) continue;
      constant[mark] += (plain - pi).squaredNorm() / 40;
      averaged[mark] += (sum / double(k - 128) - pi).squaredNorm() / 40;
      decreasing[mark] += (slower - pi).squaredNorm() / 40;
      ++mark;
    }
    Vec product(1), outer_theta(1);
    problem.outer(phi, theta, {.theta = &outer_theta});
    curvature->cross_times(sum / double(marks.back() - 128), product);
    gradient_error += (outer_theta - product - truth).squaredNorm() / 40;
  }
  std::vector<double> law;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    x.push_back(double(marks[i]));
    for (auto* curve : {&averaged, &decreasing, &constant}) (*curve)[i] = std::sqrt((*curve)[i]) / pi.norm();
  }
  for (const double k : x) law.push_back(averaged[2] * std::sqrt(x[2] / k));
  const auto late = [&](const std::vector<double>& y) {
    return slope({x.begin() + 2, x.end()}, {y.begin() + 2, y.end()});
  };
  outcome.near("order in k of the averaged iterates' distance", -0.5, late(averaged), 0.2);
  outcome.near("order in k of the distance with steps c/(k + k₀)", -0.5, late(decreasing), 0.2);
  outcome.near("order in k of the distance with constant steps", 0, late(constant), 0.15);
  outcome.at_most("averaged over constant after 16384 steps", 0.25, averaged.back() / constant.back());
  outcome.at_most("gradient from averaged π, relative root mean square error", 0.2,
                  std::sqrt(gradient_error) / truth.norm());

  outcome.show(Chart("Constant steps: distance from π*")
                   .x("step α", true)
                   .y("mean ‖π − π*‖²", true)
                   .dots("measured, 40 runs", alphas, floors)
                   .line("stationary covariance", alphas, theory, true));
  outcome.show(Chart("Batches of 2 of 40 samples")
                   .x("steps k", true)
                   .y("root mean square ‖π − π*‖ / ‖π*‖", true)
                   .line("constant step", x, constant)
                   .line("its average", x, averaged)
                   .line("steps c/(k + k₀)", x, decreasing)
                   .line("k^(−1/2)", x, law, true));
  outcome.measured = fmt::format("floor ∝ α^{:.2f}; k^{:.2f}, k^{:.2f}", slope(alphas, floors),
                                 late(averaged), late(decreasing));
}

}  // namespace claims
