#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problems/lasso.hpp>

namespace lasso_cases {

using bilevel::Index;
using bilevel::problems::Lasso;
using bilevel::problems::ModelMatrix;
using bilevel::problems::PenaltyMap;
using bilevel::problems::RowRange;
using bilevel::problems::Samples;
using bilevel::problems::Standardisation;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using Long = long double;

/// Data as a person would write them down; the first `training` rows train, the others validate.
struct Case {
  Mat x;
  Vec y, weights, offsets;
  Index training = 0;
  Standardisation standardisation;
  bool sparse = false, elastic = false, intercept = true;
  PenaltyMap penalties;

  Index features() const { return x.cols(); }
  double weight(Index i) const { return weights.size() ? weights[i] : 1; }

  Lasso make() const {
    Samples samples;
    if (sparse)
      samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::Sparse(x.sparseView()));
    else
      samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(x));
    samples.labels = std::make_shared<Vec>(y);
    if (weights.size()) samples.weights = std::make_shared<Vec>(weights);
    if (offsets.size()) samples.offsets = std::make_shared<Vec>(offsets);
    return Lasso(samples, {RowRange{0, training}}, {RowRange{training, x.rows()}}, standardisation, penalties,
                 elastic, intercept);
  }

  double lambda(const Vec& theta, Index j) const {
    return std::exp(theta[penalties.of[static_cast<std::size_t>(j)]]);
  }
  double lambda2(const Vec& theta) const { return elastic ? std::exp(theta[penalties.count]) : 0; }

  /// Mean and deviation of the training rows, by weight.
  void standardise() {
    standardisation = Standardisation::none(features());
    double total = 0;
    for (Index i = 0; i < training; ++i) total += weight(i);
    for (Index j = 0; j < features(); ++j) {
      double mean = 0, square = 0;
      for (Index i = 0; i < training; ++i) mean += weight(i) * x(i, j) / total;
      for (Index i = 0; i < training; ++i) square += weight(i) * (x(i, j) - mean) * (x(i, j) - mean) / total;
      standardisation.shift[j] = mean;
      standardisation.inverse_scale[j] = square > 0 ? 1 / std::sqrt(square) : 0;
    }
  }

  /// The slopes of the mean ½r² of some rows in long double, straight from the definition; the intercept's
  /// last.
  Eigen::Matrix<Long, Eigen::Dynamic, 1> slopes(const Vec& phi, Index first, Index last) const {
    Eigen::Matrix<Long, Eigen::Dynamic, 1> g = Eigen::Matrix<Long, Eigen::Dynamic, 1>::Zero(features() + 1);
    std::vector<Long> row(static_cast<std::size_t>(features()));
    Long total = 0;
    for (Index i = first; i < last; ++i) {
      Long r = (offsets.size() ? Long(offsets[i]) : 0) - Long(y[i]) + (intercept ? Long(phi[features()]) : 0);
      for (Index j = 0; j < features(); ++j) {
        const Long each =
            (Long(x(i, j)) - Long(standardisation.shift[j])) * Long(standardisation.inverse_scale[j]);
        row[static_cast<std::size_t>(j)] = each;
        r += each * Long(phi[j]);
      }
      total += Long(weight(i));
      r *= Long(weight(i));
      for (Index j = 0; j < features(); ++j) g[j] += r * row[static_cast<std::size_t>(j)];
      g[features()] += r;
    }
    return g / total;
  }

  /// The largest violation of the optimality conditions, in long double.
  double violation(const Vec& phi, const Vec& theta) const {
    const auto g = slopes(phi, 0, training);
    Long worst = intercept ? std::abs(g[features()]) : 0;
    for (Index j = 0; j < features(); ++j) {
      const Long l = std::exp(Long(theta[penalties.of[static_cast<std::size_t>(j)]]));
      const Long l2 = elastic ? std::exp(Long(theta[penalties.count])) : 0;
      const Long each = phi[j] != 0 ? std::abs(g[j] + l2 * Long(phi[j]) + (phi[j] > 0 ? l : -l))
                                    : std::max(Long(0), std::abs(g[j]) - l);
      worst = std::max(worst, each);
    }
    return static_cast<double>(worst);
  }
};

/// Columns of the training rows orthonormal in the mean, and orthogonal to the ones; the stored ones are
/// scaled and shifted where `standardised`.
inline Case orthogonal_case(std::uint64_t seed, bool elastic, bool intercept, bool standardised,
                            bool per_feature) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const Index n = 40, m = 25, d = 9;
  Case c;
  Mat start = Mat::NullaryExpr(n, d + 1, [&] { return normal(engine); });
  start.col(0).setOnes();
  const Mat q = Mat(Eigen::HouseholderQR<Mat>(start).householderQ() * Mat::Identity(n, d + 1)).rightCols(d) *
                std::sqrt(static_cast<double>(n));
  c.x.resize(n + m, d);
  c.x.topRows(n) = q;
  c.x.bottomRows(m) = Mat::NullaryExpr(m, d, [&] { return normal(engine); });
  const Vec truth = Vec::NullaryExpr(d, [&] { return 2 * normal(engine); });
  c.y = c.x * truth + Vec::NullaryExpr(n + m, [&] { return 0.3 * normal(engine); });
  if (intercept) c.y.array() += 1.5;
  c.training = n;
  c.standardisation = Standardisation::none(d);
  if (standardised)
    for (Index j = 0; j < d; ++j) {
      const double scale = std::exp(normal(engine)), shift = 3 * normal(engine);
      c.x.col(j) = (c.x.col(j) * scale).array() + shift;
      c.standardisation.shift[j] = shift;
      c.standardisation.inverse_scale[j] = 1 / scale;
    }
  c.elastic = elastic;
  c.intercept = intercept;
  c.penalties = per_feature ? PenaltyMap::per_feature(d, 1) : PenaltyMap::global(d, 1);
  return c;
}

/// What an orthogonal design has for an answer: soft thresholds of the correlations, shrunk by 1 + λ₂.
struct ClosedForm {
  Vec phi, gradient;
  double least_margin;  ///< how far the nearest coordinate is from entering or leaving

  ClosedForm(const Case& c, const Vec& theta) : least_margin(1e300) {
    const Index d = c.features();
    const auto zero = c.slopes(Vec::Zero(d + c.intercept), 0, c.training);
    const Long l2 = c.elastic ? std::exp(Long(theta[c.penalties.count])) : 0;
    phi = Vec::Zero(d + c.intercept);
    if (c.intercept) phi[d] = static_cast<double>(-zero[d]);
    Vec moved1 = Vec::Zero(d), moved2 = Vec::Zero(d);
    for (Index j = 0; j < d; ++j) {
      const Long l = std::exp(Long(theta[c.penalties.of[static_cast<std::size_t>(j)]])), r = -zero[j];
      least_margin = std::min(least_margin, static_cast<double>(std::abs(std::abs(r) - l)));
      if (std::abs(r) <= l) continue;
      const Long sign = r > 0 ? 1 : -1, value = (r - sign * l) / (1 + l2);
      phi[j] = static_cast<double>(value);
      moved1[j] = static_cast<double>(-sign * l / (1 + l2));
      moved2[j] = static_cast<double>(-l2 * value / (1 + l2));
    }
    const auto outer = c.slopes(phi, c.training, c.x.rows());
    gradient = Vec::Zero(theta.size());
    for (Index j = 0; j < d; ++j) {
      gradient[c.penalties.of[static_cast<std::size_t>(j)]] += static_cast<double>(outer[j]) * moved1[j];
      if (c.elastic) gradient[c.penalties.count] += static_cast<double>(outer[j]) * moved2[j];
    }
  }
};

/// Correlated columns with different scales and a few true coefficients.
inline Case random_case(std::uint64_t seed, Index training, Index validation, Index d, double density) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Case c;
  c.training = training;
  const Index n = training + validation;
  c.x = Mat::Zero(n, d);
  for (Index i = 0; i < n; ++i) {
    const double shared = normal(engine);
    for (Index j = 0; j < d; ++j)
      if (density >= 1 || uniform(engine) < density)
        c.x(i, j) = std::exp(0.02 * static_cast<double>(j % 50)) * (0.4 * shared + normal(engine)) + 0.5;
  }
  c.sparse = density < 1;
  Vec truth = Vec::Zero(d);
  for (Index j = 0; j < std::min<Index>(d, 6); ++j) truth[(7 * j) % d] = normal(engine);
  c.y = c.x * truth + Vec::NullaryExpr(n, [&] { return 0.5 * normal(engine); });
  c.y.array() += 2;
  c.penalties = PenaltyMap::global(d, 1);
  c.standardise();
  return c;
}

/// settle() as the first phase of an estimator; `disturb` is added to the non-zero coefficients.
class SettlingSolver final : public bilevel::InnerSolver<Vec> {
 public:
  explicit SettlingSolver(Lasso& problem, double tolerance = 1e-12)
      : problem_(problem), tolerance_(tolerance) {}

  std::string_view name() const override { return "coordinate-descent"; }
  bilevel::Solution<Vec> solve(const Vec& theta, double, const Vec& start) override {
    Lasso::Settled settled = problem_.settle(theta, start, tolerance_);
    if (disturb > 0) {
      std::mt19937_64 engine(7);
      std::normal_distribution<double> normal;
      for (Index j = 0; j < settled.phi.size(); ++j)
        if (settled.phi[j] != 0) settled.phi[j] += disturb * normal(engine);
    }
    bilevel::Solution<Vec> s;
    s.phi = settled.phi;
    s.value = settled.value;
    s.residual_norm = settled.kkt;
    s.tolerance = tolerance_;
    s.iterations = settled.sweeps;
    s.status = settled.converged ? bilevel::Status::converged : bilevel::Status::stalled;
    s.message = settled.message;
    return s;
  }

  double disturb = 0;

 private:
  Lasso& problem_;
  double tolerance_;
};

}  // namespace lasso_cases
