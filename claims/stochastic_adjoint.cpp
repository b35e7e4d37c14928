#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/LU>

#include <bilevel/problems/ridge.hpp>

namespace claims {
namespace {
namespace of_stochastic_adjoint {

constexpr Index features = 4, batch = 2, rows = 40;
constexpr int runs = 40;
constexpr double penalty = 0.3;

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

/// Ridge regression at its φ*, the adjoint there, and its samples.
struct Regression {
  explicit Regression(const Laboratory& lab)
      : problem(bilevel::problems::Ridge::random({.rows = rows,
                                                  .validation_rows = 40,
                                                  .features = features,
                                                  .strong = 2,
                                                  .group = 2,
                                                  .penalty = bilevel::problems::Penalty::global,
                                                  .seed = lab.seed(1)})),
        phi(*problem.settled(theta)),
        g(features),
        curvature(lab.curvature(problem, phi, theta)),
        h(bilevel::dense_matrix(*curvature, phi)),
        samples{problem.x(), penalty},
        mean(Mat::Zero(features, features)),
        noise(Mat::Zero(features * features, features * features)) {
    problem.outer(phi, theta, {.phi = &g});
    bilevel::CurvatureOperator<Vec> full(*curvature, true, false);
    pi = lab.adjoint("direct")->solve(full, g, nullptr).x;
    for (Index i = 0; i < rows; ++i) mean += samples.hessian(i) / rows;
    for (Index i = 0; i < rows; ++i)
      noise += kronecker(samples.hessian(i) - mean, samples.hessian(i) - mean) / rows / batch;
    largest = samples.x.rowwise().squaredNorm().maxCoeff() + penalty;
  }

  /// πH_B − g with a batch of its own.
  Vec residual(std::mt19937_64& engine, const Vec& x) const { return samples.product(engine, x) - g; }

  Vec theta = Vec::Constant(1, std::log(penalty));
  bilevel::problems::Ridge problem;
  Vec phi, g, pi;
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  Mat h;
  Samples samples;
  Mat mean, noise;  ///< of the samples' Hessians: E h and E[N⊗N] of a batch
  double largest;   ///< L, a bound for every batch, so that no step overshoots
};

/// Mean square distances from π* with constant steps.
struct ConstantSteps {
  ConstantSteps(const Laboratory& lab, const Regression& ridge, std::uint64_t stream) {
    for (const double factor : geometric(0.02, 0.32, 5)) {
      const double alpha = factor / ridge.largest;
      double sum = 0;
      for (int repeat = 0; repeat < runs; ++repeat) {
        auto engine = lab.engine(stream++);
        Vec x = ridge.pi;
        for (int k = 0; k < 4000; ++k) {
          x -= alpha * ridge.residual(engine, x);
          if (k >= 1000) sum += (x - ridge.pi).squaredNorm() / (3000 * runs);
        }
      }
      alphas.push_back(alpha);
      floors.push_back(sum);
      theory.push_back(floor_of(ridge.h, ridge.noise, ridge.pi, alpha));
      keep_worst(worst_floor, std::abs(sum / theory.back() - 1));
    }
  }
  double order() const { return slope(alphas, floors); }
  void check(Outcome& outcome) const {
    outcome.at_most("mean square distance against the stationary covariance", 0.2, worst_floor);
    outcome.near("order in α of the mean square distance", 1, order(), 0.15);
  }
  void show(Outcome& outcome) const {
    outcome.show(Chart("Constant steps: distance from π*")
                     .x("step α", true)
                     .y("mean ‖π − π*‖²", true)
                     .dots("measured, 40 runs", alphas, floors)
                     .line("stationary covariance", alphas, theory, true));
  }

  std::vector<double> alphas, floors, theory;
  double worst_floor = 0;
};

/// Averages of the iterates and decreasing steps, beside constant ones: root mean square distances from π*.
struct LongRuns {
  LongRuns(const Laboratory& lab, Regression& ridge, double alpha, std::uint64_t stream)
      : averaged(steps.size(), 0), decreasing(averaged), constant(averaged) {
    const Vec truth = *ridge.problem.outer_gradient(ridge.theta);
    Vec product(1), outer_theta(1);
    ridge.problem.outer(ridge.phi, ridge.theta, {.theta = &outer_theta});
    for (int repeat = 0; repeat < runs; ++repeat) {
      ridge.curvature->cross_times(walk(ridge, alpha, lab.engine(stream++)), product);
      gradient_error += (outer_theta - product - truth).squaredNorm() / runs;
    }
    gradient_error = std::sqrt(gradient_error) / truth.norm();
    for (auto* curve : {&averaged, &decreasing, &constant})
      for (double& distance : *curve) distance = std::sqrt(distance) / ridge.pi.norm();
  }
  void check(Outcome& outcome) const {
    outcome.near("order in k of the averaged iterates' distance", -0.5, late(averaged), 0.2);
    outcome.near("order in k of the distance with steps c/(k + k₀)", -0.5, late(decreasing), 0.2);
    outcome.near("order in k of the distance with constant steps", 0, late(constant), 0.15);
    outcome.at_most("averaged over constant after 16384 steps", 0.25, averaged.back() / constant.back());
    outcome.at_most("gradient from averaged π, relative root mean square error", 0.2, gradient_error);
  }
  void show(Outcome& outcome) const {
    std::vector<double> law;
    for (const double k : steps) law.push_back(averaged[2] * std::sqrt(steps[2] / k));
    outcome.show(Chart("Batches of 2 of 40 samples")
                     .x("steps k", true)
                     .y("root mean square ‖π − π*‖ / ‖π*‖", true)
                     .line("constant step", steps, constant)
                     .line("its average", steps, averaged)
                     .line("steps c/(k + k₀)", steps, decreasing)
                     .line("k^(−1/2)", steps, law, true));
  }
  /// The order in k, without the first two marks.
  double late(const std::vector<double>& y) const {
    return slope({steps.begin() + 2, steps.end()}, {y.begin() + 2, y.end()});
  }

  std::vector<double> steps{256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<double> averaged, decreasing, constant;
  double gradient_error = 0;

 private:
  static constexpr long forgotten = 128;  // the first iterates only remember the start
  /// One run; the average of its iterates.
  Vec walk(const Regression& ridge, double alpha, std::mt19937_64 engine) {
    const double gain = 2 / bilevel::dense_spectrum(ridge.h, true).smallest, delay = gain * ridge.largest;
    Vec plain = Vec::Zero(features), slower = plain, sum = plain;
    std::size_t mark = 0;
    for (long k = 1; mark < steps.size(); ++k) {
      plain -= alpha * ridge.residual(engine, plain);
      slower -= gain / (double(k) + delay) * ridge.residual(engine, slower);
      if (k > forgotten) sum += plain;
      if (double(k) != steps[mark]) continue;
      constant[mark] += (plain - ridge.pi).squaredNorm() / runs;
      averaged[mark] += (sum / double(k - forgotten) - ridge.pi).squaredNorm() / runs;
      decreasing[mark] += (slower - ridge.pi).squaredNorm() / runs;
      ++mark;
    }
    return sum / (steps.back() - double(forgotten));
  }
};

void run(Laboratory& lab, Outcome& outcome) {
  Regression ridge(lab);
  outcome.at_most("mean of the samples' Hessians against ∂φ²L_in", 1e-12, relative(ridge.mean, ridge.h));
  const ConstantSteps constant(lab, ridge, 100);
  constant.check(outcome);
  // After the 5 · 40 streams of the constant steps.
  const LongRuns long_runs(lab, ridge, constant.alphas.back(), 300);
  long_runs.check(outcome);

  constant.show(outcome);
  long_runs.show(outcome);
  outcome.measured = fmt::format("floor ∝ α^{:.2f}; k^{:.2f}, k^{:.2f}", constant.order(),
                                 long_runs.late(long_runs.averaged), long_runs.late(long_runs.decreasing));
}

}  // namespace of_stochastic_adjoint
}  // namespace

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
    .run = of_stochastic_adjoint::run};

}  // namespace claims
