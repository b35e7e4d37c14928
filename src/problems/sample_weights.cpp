#include <bilevel/problems/sample_weights.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/gamma.hpp>

#include "problems/sample_weights_curvature.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

namespace {

Samples checked(Samples samples, Index classes, double lambda) {
  if (!samples.matrix) throw InvalidInput("sample weights: there is no matrix");
  if (classes < 2) throw InvalidInput(fmt::format("sample weights: {} classes, it takes two", classes));
  if (!samples.classes || static_cast<Index>(samples.classes->size()) != samples.matrix->rows())
    throw InvalidInput("sample weights: there is no class for every row");
  if (samples.weights || samples.offsets)
    throw InvalidInput("sample weights: the weights are what is learned; leave weights and offsets out");
  if (!(lambda > 0 && std::isfinite(lambda)))
    throw InvalidInput(fmt::format("sample weights: λ = {} must be positive", lambda));
  return samples;
}

RowRange fitting(const Samples& samples, Index classes, RowRange range) {
  const auto [first, last] = range;
  if (first < 0 || last > samples.matrix->rows() || last <= first)
    throw InvalidInput(
        fmt::format("sample weights: rows {} to {} of {}", first, last, samples.matrix->rows()));
  for (Index i = first; i < last; ++i)
    if (const int label = (*samples.classes)[static_cast<std::size_t>(i)]; label < 0 || label >= classes)
      throw InvalidInput(fmt::format("sample weights: row {} has class {} of {}", i, label, classes));
  return range;
}

}  // namespace

SampleWeights::SoftmaxRows::SoftmaxRows(const Samples& samples, Index count, RowRange of)
    : labels(samples.classes->data() + of.first),
      classes(count),
      rows(of.second - of.first),
      range(of),
      pass(*samples.matrix, fitting(samples, count, of), count) {
  const ModelMatrix& x = *samples.matrix;
  pass.visit([&](const auto&, const auto& w) {
    margin_depth = w.margin_depth;
    sum_depth = w.sum_depth;
  });

  const double up = 1 + gamma(static_cast<double>(rows + x.features()) + 64);
  squares.resize(rows);
  Vec means = Vec::Zero(x.features() + 1);
  means[x.features()] = 1;
  for (Index i = 0; i < rows; ++i) {
    double square = 1;
    x.for_each(range.first + i, [&](Index j, double value) {
      square += value * value;
      means[j] += std::abs(value) / static_cast<double>(rows);
    });
    squares[i] = square * up;
  }
  mean_square = squares.mean() * up;
  largest = std::sqrt(squares.maxCoeff()) * up;
  // ‖XᵀX‖ = ‖XXᵀ‖ is at most the largest row sum of |X||X|ᵀ.
  double row_sum = 0;
  for (Index i = 0; i < rows; ++i) {
    double sum = 1;
    x.for_each(range.first + i, [&](Index j, double value) { sum += means[j] * std::abs(value); });
    row_sum = std::max(row_sum, sum);
  }
  second_moment = std::min(mean_square, row_sum * up);
}

double SampleWeights::SoftmaxRows::value(const Vec& phi, const double* weights, double* gradient, double* p) {
  return pass.visit([&](const auto& x, auto& w) {
    return kernels::softmax_value_with_gradient(x, classes, phi.data(), labels, weights, gradient, p, w);
  });
}

void SampleWeights::SoftmaxRows::product(const Vec& p, const double* weights, const Vec& v, Vec& out) {
  pass.visit([&](const auto& x, auto& w) {
    kernels::softmax_product(x, classes, p.data(), weights, v.data(), out.data(), w);
  });
}

void SampleWeights::SoftmaxRows::diagonal(const Vec& p, const double* weights, Vec& out) {
  pass.visit([&](const auto& x, auto& w) {
    kernels::softmax_diagonal(x, classes, p.data(), weights, out.data(), w);
  });
}

void SampleWeights::SoftmaxRows::dots(const Vec& p, const Vec& v, Vec& out) {
  pass.visit([&](const auto& x, auto& w) {
    kernels::softmax_row_dots(x, classes, v.data(), p.data(), labels, out.data(), w);
  });
}

void SampleWeights::SoftmaxRows::margins(const Vec& phi, Vec& out) {
  pass.visit(
      [&](const auto& x, auto& w) { kernels::softmax_margins(x, classes, phi.data(), out.data(), w); });
}

SampleWeights::SampleWeights(Samples samples, Index classes, RowRange training, RowRange trusted,
                             double lambda)
    : samples_(checked(std::move(samples), classes, lambda)),
      classes_(classes),
      lambda_(lambda),
      training_(samples_, classes, training),
      trusted_(samples_, classes, trusted),
      size_((samples_.matrix->features() + 1) * classes),
      inverse_rows_(1 / static_cast<double>(training_.rows)),
      inverse_trusted_(1 / static_cast<double>(trusted_.rows)) {
  weights_ = slopes_ = rows_scratch_ = Vec::Zero(training_.rows);
  probabilities_ = Vec::Zero(training_.rows * classes_);
  scratch_ = Vec::Zero(size_);
}

SampleWeights::~SampleWeights() = default;

void SampleWeights::set_weights(const Vec& theta) {
  if (theta_.size() == theta.size() && theta_ == theta) return;
  for (Index i = 0; i < theta.size(); ++i) {
    // By exp(−|θ|), which neither overflows nor loses the small side.
    const double e = std::exp(-std::abs(theta[i]));
    weights_[i] = (theta[i] >= 0 ? 1 : e) / (1 + e);
    slopes_[i] = e / ((1 + e) * (1 + e));
  }
  theta_ = theta;
}

double SampleWeights::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  set_weights(theta);
  const bool slope = wanted.phi != nullptr;
  double value = training_.value(phi, weights_.data(), slope ? wanted.phi->data() : nullptr,
                                 slope ? probabilities_.data() : nullptr);
  value = value * inverse_rows_ + 0.5 * lambda_ * phi.squaredNorm();
  if (slope) {
    point_ = phi;
    *wanted.phi = inverse_rows_ * *wanted.phi + lambda_ * phi;
  }
  if (wanted.theta) {
    // The loss of every row: not from its probability, which may underflow.
    Vec margins(training_.rows * classes_);
    training_.margins(phi, margins);
    for (Index i = 0; i < training_.rows; ++i) {
      const auto m = margins.segment(i * classes_, classes_).array();
      const double top = m.maxCoeff();
      const double loss = top - m[training_.labels[i]] + std::log((m - top).exp().sum());
      (*wanted.theta)[i] = inverse_rows_ * slopes_[i] * loss;
    }
  }
  return value;
}

double SampleWeights::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  const double value = trusted_.value(phi, nullptr, wanted.phi ? wanted.phi->data() : nullptr, nullptr);
  if (wanted.phi) *wanted.phi *= inverse_trusted_;
  if (wanted.theta) wanted.theta->setZero();
  return value * inverse_trusted_;
}

const Vec& SampleWeights::probabilities_at(const Vec& phi) {
  if (point_.size() != phi.size() || point_ != phi) {
    training_.value(phi, nullptr, scratch_.data(), probabilities_.data());
    point_ = phi;
  }
  return probabilities_;
}

void SampleWeights::linearise(const Vec& phi, const Vec& theta, double beta,
                              std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<SampleWeightsCurvature>(*this);
  auto& c = static_cast<SampleWeightsCurvature&>(*reuse);
  set_weights(theta);
  c.beta = beta;
  c.phi = phi;
  c.weights = weights_;
  c.slopes = inverse_rows_ * slopes_;
  c.probabilities = probabilities_at(phi);
  c.other.resize(size_);
  c.rows.resize(training_.rows);
  if (beta != 0) {
    c.trusted_probabilities.resize(trusted_.rows * classes_);
    trusted_.value(phi, nullptr, c.other.data(), c.trusted_probabilities.data());
  }
}

void SampleWeightsCurvature::times(const Vec& v, Vec& out) {
  SampleWeights& m = model;
  m.training_.product(probabilities, weights.data(), v, out);
  out = m.inverse_rows_ * out + m.lambda_ * v;
  if (beta == 0) return;
  m.trusted_.product(trusted_probabilities, nullptr, v, other);
  out += beta * m.inverse_trusted_ * other;
}

/// χ has a column σ′(θ_i)/n · x_i ⊗ (p_i − e_y) for each row.
void SampleWeightsCurvature::cross_times(const Vec& v, Vec& out) {
  model.training_.dots(probabilities, v, out);
  out.array() *= slopes.array();
}

void SampleWeightsCurvature::cross_apply(const Vec& u, Vec& out) {
  rows = slopes.cwiseProduct(u);
  model.training_.value(phi, rows.data(), out.data(), nullptr);
}

bool SampleWeightsCurvature::diagonal(Vec& out) {
  SampleWeights& m = model;
  m.training_.diagonal(probabilities, weights.data(), out);
  out = (m.inverse_rows_ * out).array() + m.lambda_;
  if (beta == 0) return true;
  m.trusted_.diagonal(trusted_probabilities, nullptr, other);
  out += beta * m.inverse_trusted_ * other;
  return true;
}

bool SampleWeightsCurvature::dense(Mat& out) {
  SampleWeights& m = model;
  if (!m.forms_hessian()) return false;
  out = m.lambda_ * Mat::Identity(m.size_, m.size_);
  add_dense(m.training_, probabilities, weights.data(), m.inverse_rows_, out);
  if (beta != 0) add_dense(m.trusted_, trusted_probabilities, nullptr, beta * m.inverse_trusted_, out);
  return true;
}

/// One block for each pair of classes: Xᵀ diag(w·p_a(1 − p_a)) X, and −Xᵀ diag(w·p_a·p_b) X beside it.
void SampleWeightsCurvature::add_dense(const SampleWeights::SoftmaxRows& part, const Vec& at,
                                       const double* row_weights, double factor, Mat& out) {
  const kernels::View x = model.samples_.matrix->dense_rows(part.range);
  const Index c = part.classes, n = x.columns;
  kernels::Workspace workspace(x);
  Mat block(n, n);
  Vec curvatures(part.rows);
  for (Index a = 0; a < c; ++a)
    for (Index b = 0; b <= a; ++b) {
      for (Index i = 0; i < part.rows; ++i) {
        const double* p = at.data() + i * c;
        curvatures[i] = (row_weights ? row_weights[i] : 1) * p[a] * (a == b ? 1 - p[a] : p[b]);
      }
      kernels::gram(x, curvatures.data(), block.data(), workspace);
      const double signed_factor = a == b ? factor : -factor;
      for (Index j = 0; j < n; ++j)
        for (Index i = 0; i < n; ++i) {
          out(i * c + a, j * c + b) += signed_factor * block(i, j);
          if (a != b) out(j * c + b, i * c + a) += signed_factor * block(i, j);
        }
    }
}

}  // namespace bilevel::problems
