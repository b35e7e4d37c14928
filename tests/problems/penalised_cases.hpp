#pragma once

// Penalised models of every family on random data, and references for them in long double, written from the
// definitions: an explicit standardised matrix with a column of ones, and Newton's method on all
// coefficients.

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <Eigen/Cholesky>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/problems/penalised_model.hpp>

#include "linear_model_checks.hpp"

namespace bilevel::problems::cases {

using checks::gaussian;
using checks::LongMat;
using checks::LongVec;
using checks::Mat;
using checks::Vec;
using kernels::Loss;
using Real = long double;

enum class Family { squared, logistic, poisson, huber, squared_hinge, gamma, negative_binomial, softmax };
/// Every family, beside whatever else a seed stands for.
inline Family family_of(std::uint64_t seed) {
  return static_cast<Family>((seed + seed / 8) % 8);
}
enum class Map { global, per_feature, per_group, per_class, spread };

inline constexpr double threshold = 0.8;

inline bool kinked(Family family) {
  return family == Family::huber || family == Family::squared_hinge;
}

struct Settings {
  Family family = Family::squared;
  Map map = Map::per_feature;
  bool sparse = false, weights = false, offsets = false, intercept = true, standardise = true;
  bool folds = false;  ///< validate on rows in the middle: the training rows are two ranges
  Index rows = 60, features = 7, classes = 3;
  double far = 0;  ///< columns lie that far from zero
  std::uint64_t seed = 1;

  std::string text() const {
    return fmt::format(
        "family {} map {} sparse {} weights {} offsets {} intercept {} standardise {} folds {} seed {}",
        static_cast<int>(family), static_cast<int>(map), sparse, weights, offsets, intercept, standardise,
        folds, seed);
  }
};

struct Data {
  explicit Data(const Settings& setup) : s(setup), engine(setup.seed) {
    const Index n = s.rows, d = s.features;
    outputs = s.family == Family::softmax ? s.classes : 1;
    std::uniform_real_distribution<double> uniform;
    x = Mat::NullaryExpr(n, d, [&] {
      const double value = gaussian(1, engine)[0];
      return s.sparse ? (uniform(engine) < 0.4 ? value + 0.5 : 0) : value + s.far;
    });
    for (Index j = 0; j < d; ++j) x.col(j) *= std::exp(0.7 * gaussian(1, engine)[0]);
    const Vec truth = gaussian(d, engine);
    y = x * truth / std::sqrt(static_cast<double>(d)) + gaussian(n, engine, 0.5);
    y.array() -= y.mean();
    const Vec latent = y;
    classes.resize(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      if (s.family == Family::logistic || s.family == Family::squared_hinge) y[i] = latent[i] > 0 ? 1 : -1;
      const double positive = std::exp(std::min(2.0, 0.5 * latent[i]));
      if (s.family == Family::gamma) y[i] = positive;
      if (s.family == Family::poisson || s.family == Family::negative_binomial)
        y[i] = std::floor(positive + 0.5);
      classes[static_cast<std::size_t>(i)] =
          static_cast<int>(uniform(engine) < 0.7 ? (latent[i] > 0 ? 1 : 0) : i % outputs);
    }
    // A count beyond all others, among the rows that train or among those that judge.
    if (s.family == Family::negative_binomial && s.seed % 3 < 2) y[s.seed % 3 == 0 ? 0 : n - 1] = 40;
    if (s.weights) {
      w = Vec::NullaryExpr(n, [&] { return 0.2 + uniform(engine); });
      w[n / 2] = w[n - 2] = 0;
    }
    if (s.offsets) o = gaussian(n, engine, 0.3);
    if (s.folds) {
      training = {{0, n / 3}, {2 * n / 3, n}};
      validation = {{n / 3, 2 * n / 3}};
    } else {
      training = {{0, 2 * n / 3}};
      validation = {{2 * n / 3, n}};
    }
    standardisation = Standardisation::none(d);
    if (s.standardise)
      for (Index j = 0; j < d; ++j) {
        double sum = 0, square = 0, count = 0;
        each_row(training, [&](Index i) { sum += x(i, j), ++count; });
        each_row(training, [&](Index i) { square += std::pow(x(i, j) - sum / count, 2); });
        standardisation.shift[j] = sum / count;
        standardisation.inverse_scale[j] = square > 0 ? 1 / std::sqrt(square / count) : 0;
      }
    std::vector<Index> group;
    for (Index j = 0; j < d; ++j) group.push_back(j % 3);
    map = s.map == Map::global        ? PenaltyMap::global(d, outputs)
          : s.map == Map::per_feature ? PenaltyMap::per_feature(d, outputs)
          : s.map == Map::per_group   ? PenaltyMap::per_group(group, 3, outputs)
          : s.map == Map::per_class   ? PenaltyMap::per_class(d, outputs)
                                      : PenaltyMap::global(d, outputs);
    if (s.map == Map::spread) {
      map.offset = gaussian(d * outputs, engine);
      map.slope = gaussian(d * outputs, engine);
    }
  }

  template <class Visit>
  static void each_row(const std::vector<RowRange>& ranges, Visit&& visit) {
    for (const auto& [first, last] : ranges)
      for (Index i = first; i < last; ++i) visit(i);
  }

  std::unique_ptr<PenalisedModel> model() const {
    Samples samples;
    if (s.sparse)
      samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::Sparse(x.sparseView()));
    else
      samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(x));
    samples.labels = std::make_shared<Vec>(y);
    if (w.size()) samples.weights = std::make_shared<Vec>(w);
    if (o.size()) samples.offsets = std::make_shared<Vec>(o);
    samples.classes = std::make_shared<std::vector<int>>(classes);
    const auto loss = [&](const std::vector<RowRange>& ranges) {
      if (s.family == Family::softmax) return make_softmax_loss(outputs, samples, ranges);
      return make_scalar_loss(static_cast<Loss>(s.family), samples, ranges, threshold);
    };
    return std::make_unique<PenalisedModel>(loss(training), loss(validation), standardisation, map,
                                            s.intercept);
  }

  Settings s;
  std::mt19937_64 engine;
  Index outputs = 1;
  Mat x;
  Vec y, w, o;
  std::vector<int> classes;
  std::vector<RowRange> training, validation;
  Standardisation standardisation;
  PenaltyMap map;
};

/// The same model from its formulas. φ holds (features + 1)·outputs numbers, the intercepts last. Several
/// intercepts get ½(Σ b_c)², which moves neither the losses nor their gradients: it only chooses among
/// equals.
class Reference {
 public:
  explicit Reference(const Data& data) : data_(data), c_(data.outputs) {
    const Index d = data.s.features;
    z_ = LongMat::Ones(data.s.rows, d + 1);
    for (Index i = 0; i < data.s.rows; ++i)
      for (Index j = 0; j < d; ++j)
        z_(i, j) = (static_cast<Real>(data.x(i, j)) - data.standardisation.shift[j]) *
                   data.standardisation.inverse_scale[j];
    if (!data.s.intercept) z_.col(d).setZero();
  }

  bool spread() const { return data_.s.map == Map::spread; }
  Real slope(std::size_t k) const { return data_.map.slope[static_cast<Index>(k)]; }
  LongVec penalties(const Vec& theta) const {
    LongVec lambda = LongVec::Zero((data_.s.features + 1) * c_);
    for (std::size_t k = 0; k < data_.map.of.size(); ++k)
      lambda[static_cast<Index>(k)] = std::exp(
          static_cast<Real>(theta[data_.map.of[k]]) +
          (spread() ? Real(data_.map.offset[static_cast<Index>(k)]) + Real(theta[1]) * slope(k) : Real(0)));
    return lambda;
  }

  /// Mean loss of some rows, its gradient, and its Hessian.
  Real loss(const std::vector<RowRange>& ranges, const LongVec& phi, LongVec* gradient,
            LongMat* hessian) const {
    const Index d1 = data_.s.features + 1;
    Real sum = 0, total = 0;
    if (gradient) *gradient = LongVec::Zero(d1 * c_);
    if (hessian) *hessian = LongMat::Zero(d1 * c_, d1 * c_);
    LongVec slope(c_);
    LongMat curvature(c_, c_);
    Data::each_row(ranges, [&](Index i) {
      const Real weight = data_.w.size() ? data_.w[i] : 1;
      sum += weight * row(i, margins(i, phi), slope, curvature);
      total += weight;
      for (Index a = 0; a < c_; ++a) {
        for (Index j = 0; gradient && j < d1; ++j) (*gradient)[j * c_ + a] += weight * slope[a] * z_(i, j);
        for (Index b = 0; hessian && b < c_; ++b)
          for (Index j = 0; j < d1; ++j)
            for (Index k = 0; k < d1; ++k)
              (*hessian)(j * c_ + a, k * c_ + b) += weight * curvature(a, b) * z_(i, j) * z_(i, k);
      }
    });
    if (gradient) *gradient /= total;
    if (hessian) *hessian /= total;
    return sum / total;
  }

  LongVec margins(Index i, const LongVec& phi) const {
    LongVec m = LongVec::Constant(c_, data_.o.size() ? data_.o[i] : 0);
    for (Index j = 0; j < z_.cols(); ++j) m += z_(i, j) * phi.segment(j * c_, c_);
    return m;
  }

  Real inner(const LongVec& phi, const Vec& theta, LongVec* gradient, LongMat* hessian) const {
    const LongVec lambda = penalties(theta);
    Real value = loss(data_.training, phi, gradient, hessian) + lambda.cwiseProduct(phi).dot(phi) / 2;
    if (gradient) *gradient += lambda.cwiseProduct(phi);
    if (hessian) hessian->diagonal() += lambda;
    if (c_ > 1) {
      const Real all = phi.tail(c_).sum();
      value += all * all / 2;
      if (gradient) gradient->tail(c_).array() += all;
      if (hessian) hessian->bottomRightCorner(c_, c_).array() += 1;
    }
    if (!data_.s.intercept && hessian) hessian->bottomRightCorner(c_, c_).setIdentity();
    return value;
  }

  LongVec settle(const Vec& theta) const {
    LongVec phi = LongVec::Zero((data_.s.features + 1) * c_), gradient;
    LongMat hessian;
    Real value = inner(phi, theta, &gradient, &hessian);
    for (int k = 0; k < 200 && gradient.norm() > 1e-17L; ++k) {
      // Flat where no sample is curved (Huber): a little of the identity, gone at the end.
      hessian.diagonal().array() += gradient.norm() / 1000;
      const LongVec step = hessian.ldlt().solve(gradient);
      Real share = 1, next = 0;
      LongVec moved;
      for (;; share /= 2) {
        moved = phi - share * step;
        next = inner(moved, theta, nullptr, nullptr);
        if (next <= value - share * gradient.dot(step) / 10000 || share < 1e-6L) break;
      }
      if (share < 1e-6L) {
        moved = phi - step;  // the decrease is below rounding: Newton's own step is the best there is
        next = inner(moved, theta, nullptr, nullptr);
        if (k > 100) break;
      }
      phi = moved;
      value = inner(phi, theta, &gradient, &hessian);
    }
    return phi;
  }

  /// ∇θ at φ, by the implicit function theorem.
  LongVec gradient(const LongVec& phi, const Vec& theta) const {
    LongVec unused, outer;
    LongMat hessian;
    inner(phi, theta, &unused, &hessian);
    loss(data_.validation, phi, &outer, nullptr);
    const LongVec pi = hessian.ldlt().solve(outer), lambda = penalties(theta);
    LongVec out = LongVec::Zero(theta.size());
    for (std::size_t k = 0; k < data_.map.of.size(); ++k) {
      const auto i = static_cast<Index>(k);
      out[data_.map.of[k]] -= lambda[i] * phi[i] * pi[i];
      if (spread()) out[1] -= slope(k) * lambda[i] * phi[i] * pi[i];
    }
    return out;
  }

  const LongMat& rows() const { return z_; }

 private:
  Real row(Index i, const LongVec& m, LongVec& slope, LongMat& curvature) const {
    const Real y = data_.y[i], k = threshold;
    switch (data_.s.family) {
      case Family::squared:
        slope[0] = m[0] - y, curvature(0, 0) = 1;
        return slope[0] * slope[0] / 2;
      case Family::logistic: {
        const Real p = 1 / (1 + std::exp(y * m[0]));
        slope[0] = -y * p, curvature(0, 0) = p * (1 - p);
        return std::log1p(std::exp(-std::abs(m[0]))) + std::max<Real>(0, -y * m[0]);
      }
      case Family::poisson:
        slope[0] = std::exp(m[0]) - y, curvature(0, 0) = std::exp(m[0]);
        return std::exp(m[0]) - y * m[0];
      case Family::huber: {
        const Real r = m[0] - y;
        const bool inside = std::abs(r) <= k;
        slope[0] = inside ? r : std::copysign(k, r), curvature(0, 0) = inside ? 1 : 0;
        return inside ? r * r / 2 : k * (std::abs(r) - k / 2);
      }
      case Family::squared_hinge: {
        const Real missing = 1 - y * m[0];
        slope[0] = missing > 0 ? -y * missing : 0, curvature(0, 0) = missing > 0 ? 1 : 0;
        return missing > 0 ? missing * missing / 2 : 0;
      }
      case Family::gamma:
        curvature(0, 0) = y * std::exp(-m[0]), slope[0] = 1 - curvature(0, 0);
        return curvature(0, 0) + m[0];
      case Family::negative_binomial: {
        const Real mean = std::exp(m[0]), all = 1 + k * mean;
        slope[0] = (mean - y) / all, curvature(0, 0) = mean * (1 + k * y) / (all * all);
        return (y + 1 / k) * std::log(all) - y * (m[0] + std::log(k));
      }
      case Family::softmax: {
        const Real top = m.maxCoeff();
        LongVec p = (m.array() - top).exp();
        const Real sum = p.sum();
        p /= sum;
        const int own = data_.classes[static_cast<std::size_t>(i)];
        slope = p, slope[own] -= 1;
        curvature = -p * p.transpose();
        curvature.diagonal() += p;
        return top + std::log(sum) - m[own];
      }
    }
    return 0;
  }

  const Data& data_;
  Index c_;
  LongMat z_;
};

inline Estimate<Vec> estimate(PenalisedModel& model, const Vec& theta, double tolerance,
                              std::string_view inner = "newton", std::string_view method = "implicit-direct",
                              const EstimatorOptions& options = {}) {
  const auto solver = make_inner_solver<Vec>(inner, model);
  InUnits<Vec> estimator(make_estimator<Vec>(method, model, *solver, options), model);
  estimator.set_tolerances(tolerance, std::max(tolerance, 1e-12));
  return estimator.estimate(theta, {});
}

inline double apart(const Vec& x, const LongVec& truth) {
  return static_cast<double>((x.cast<Real>() - truth).norm());
}

/// φ of the model in the layout of the reference.
inline LongVec whole(const PenalisedModel& model, const Vec& phi) {
  return model.standardised_coefficients(phi).cast<Real>();
}

}  // namespace bilevel::problems::cases
