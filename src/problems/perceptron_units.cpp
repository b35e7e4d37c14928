#include "problems/perceptron_units.hpp"

#include <cmath>

#include "problems/row_major_product.hpp"
#include "threads/one_blas_thread.hpp"

extern "C" void dsyevd_(const char* vectors, const char* half, const int* n, double* a, const int* stride,
                        double* values, double* work, const int* work_size, int* integers,
                        const int* integers_size, int* info);

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;

/// a becomes its eigenvectors, columns; values that rounding has made negative are zero. False where LAPACK
/// gives up.
bool decompose(Eigen::MatrixXd& a, Vec& values) {
  const OneBlasThread one;
  const int n = static_cast<int>(a.rows()), query = -1;
  values.resize(n);
  if (n == 0) return true;
  double size = 0;
  int integers_size = 0, info = 0;
  dsyevd_("V", "L", &n, a.data(), &n, values.data(), &size, &query, &integers_size, &query, &info);
  Vec work(static_cast<Index>(size));
  std::vector<int> integers(static_cast<std::size_t>(integers_size));
  const int work_size = static_cast<int>(work.size());
  dsyevd_("V", "L", &n, a.data(), &n, values.data(), work.data(), &work_size, integers.data(), &integers_size,
          &info);
  values = values.cwiseMax(0.0);
  return info == 0;
}

}  // namespace

void LayerMoments::standardise(const Vec& shift, const Vec& inverse_scale) {
  const Index count = shift.size();
  const double one = squares[count];
  Vec scale(count + 1), moved = Vec::Zero(count + 1);
  scale << inverse_scale, 1;
  moved.head(count) = shift;
  squares = scale.array().square() *
            (squares.array() - 2 * moved.array() * mean.array() + one * moved.array().square());
  if (inputs.size() > 0) {
    inputs -= moved * mean.transpose() + mean * moved.transpose() - one * moved * moved.transpose();
    inputs = (scale.asDiagonal() * inputs * scale.asDiagonal()).eval();
  }
  mean = scale.cwiseProduct(mean - one * moved);
}

void PerceptronUnits::adopt(const Vec& units) {
  elements_ = units;
  layers_.clear();
}

void PerceptronUnits::adopt(const Vec& lambda, const std::vector<LayerMoments>& moments) {
  layers_.clear();
  for (Index l = 0; l < shape_.layers(); ++l) {
    const LayerMoments& own = moments[static_cast<std::size_t>(l)];
    const bool last = l + 1 == shape_.layers();
    Layer& layer = layers_.emplace_back();
    layer.place = shape_.place(l);
    layer.units = shape_.units(l);
    layer.inputs = shape_.inputs(l) + (last ? 0 : 1);
    // The geometric means of rows and columns.
    const Rows logs =
        Eigen::Map<const Rows>(lambda.data() + layer.place, layer.inputs, layer.units).array().log();
    const Vec r = logs.rowwise().mean();
    layer.row = (-0.5 * r.array()).exp();
    layer.column = (-0.5 * (logs.colwise().mean().transpose().array() - r.mean())).exp();

    Vec spread = own.squares.head(layer.inputs);
    if (last && biases_ > 0) spread -= own.mean.head(layer.inputs).cwiseAbs2();
    spread = spread.cwiseMax(0.0).cwiseProduct(layer.row.cwiseAbs2());
    if (own.inputs.size() > 0) {
      for (Index j = 0; j < layer.inputs; ++j)
        if (spread[j] > 0) layer.alive.push_back(j);
      const auto count = static_cast<Index>(layer.alive.size());
      Eigen::MatrixXd a(count, count);
      for (Index k = 0; k < count; ++k) {
        const Index of = layer.alive[static_cast<std::size_t>(k)];
        for (Index j = k; j < count; ++j) {
          const Index from = layer.alive[static_cast<std::size_t>(j)];
          const double centre = last && biases_ > 0 ? own.mean[from] * own.mean[of] : 0;
          a(j, k) = layer.row[from] * layer.row[of] * (own.inputs(from, of) - centre);
        }
      }
      Vec values;
      if (decompose(a, values)) {
        layer.vectors = a;
        for (Index k = 0; k < count; ++k) spread[layer.alive[static_cast<std::size_t>(k)]] = values[k];
      } else {
        layer.alive.clear();
      }
    }
    layer.turn = layer.column.asDiagonal() * own.slopes * layer.column.asDiagonal();
    Vec turned;
    if (!decompose(layer.turn, turned)) {
      turned = layer.column.cwiseAbs2().cwiseProduct(own.slopes.diagonal());
      layer.turn.setIdentity(layer.units, layer.units);
    }
    layer.shrink = ((spread * turned.transpose()).array() + 1).rsqrt();
    if (!last || biases_ == 0) continue;
    mean_ = own.mean.head(layer.inputs);
    Eigen::MatrixXd block = own.slopes.topLeftCorner(biases_, biases_);
    block.diagonal().array() += 1e-6 * block.trace() / static_cast<double>(biases_) + 1e-12;
    last_.compute(block);
  }
}

/// x ← U·x, or Uᵀ·x.
void PerceptronUnits::mix(const Layer& layer, bool back, Rows& x) const {
  const auto count = static_cast<Index>(layer.alive.size());
  if (count == 0) return;
  gathered_.resize(count, layer.units);
  mixed_.resize(count, layer.units);
  for (Index j = 0; j < count; ++j) gathered_.row(j) = x.row(layer.alive[static_cast<std::size_t>(j)]);
  const OneBlasThread one;
  multiply(back ? Flipped::yes : Flipped::no, Flipped::no, count, layer.units, count, layer.vectors.data(),
           count, gathered_.data(), layer.units, 0, mixed_.data(), layer.units);
  for (Index j = 0; j < count; ++j) x.row(layer.alive[static_cast<std::size_t>(j)]) = mixed_.row(j);
}

/// The last biases move with the weights of their layer; of classes the last one's stays where it is.
void PerceptronUnits::shear(Vec& x, double sign) const {
  const Layer& layer = layers_.back();
  const Eigen::Map<const Rows> weights(x.data() + layer.place, layer.inputs, layer.units);
  const Vec moved = weights.transpose() * mean_;
  const double common = layer.units > 1 ? moved[layer.units - 1] : 0;
  x.tail(biases_).array() += sign * (moved.head(biases_).array() - common);
}

void PerceptronUnits::to_true(Vec& x) const {
  if (elementwise()) {
    x.array() *= elements_.array();
    return;
  }
  for (const Layer& layer : layers_) {
    Eigen::Map<Rows> own(x.data() + layer.place, layer.inputs, layer.units);
    scratch_ = layer.shrink.cwiseProduct(own);
    mix(layer, false, scratch_);
    own.noalias() = scratch_ * layer.turn.transpose();
    own.array().colwise() *= layer.row.array();
    own.array().rowwise() *= layer.column.transpose().array();
  }
  if (biases_ == 0) return;
  auto last = x.tail(biases_);
  last_.matrixU().solveInPlace(last);
  shear(x, -1);
}

void PerceptronUnits::to_own(Vec& x) const {
  if (elementwise()) {
    x.array() /= elements_.array();
    return;
  }
  if (biases_ > 0) {
    shear(x, 1);
    x.tail(biases_) = (last_.matrixU() * x.tail(biases_)).eval();
  }
  for (const Layer& layer : layers_) {
    Eigen::Map<Rows> own(x.data() + layer.place, layer.inputs, layer.units);
    own.array().colwise() /= layer.row.array();
    own.array().rowwise() /= layer.column.transpose().array();
    scratch_.noalias() = own * layer.turn;
    mix(layer, true, scratch_);
    own = scratch_.cwiseQuotient(layer.shrink);
  }
}

void PerceptronUnits::pull_back(Vec& g) const {
  if (elementwise()) {
    g.array() *= elements_.array();
    return;
  }
  if (biases_ > 0) {
    const Layer& layer = layers_.back();
    Eigen::Map<Rows> weights(g.data() + layer.place, layer.inputs, layer.units);
    auto last = g.tail(biases_);
    weights.leftCols(biases_) -= mean_ * last.transpose();
    if (layer.units > 1) weights.rightCols(1) += mean_ * last.sum();
    last_.matrixL().solveInPlace(last);
  }
  for (const Layer& layer : layers_) {
    Eigen::Map<Rows> own(g.data() + layer.place, layer.inputs, layer.units);
    own.array().colwise() *= layer.row.array();
    own.array().rowwise() *= layer.column.transpose().array();
    scratch_.noalias() = own * layer.turn;
    mix(layer, true, scratch_);
    own = scratch_.cwiseProduct(layer.shrink);
  }
}

double PerceptronUnits::largest(const Vec& lambda) const {
  if (elementwise()) return (lambda.array() * elements_.array().square()).maxCoeff();
  double largest = 0;
  for (const Layer& layer : layers_)
    for (Index j = 0; j < layer.inputs; ++j)
      for (Index k = 0; k < layer.units; ++k)
        largest = std::max(
            largest, lambda[layer.place + j * layer.units + k] * std::pow(layer.row[j] * layer.column[k], 2));
  return largest * (1 + 1e-9);
}

}  // namespace bilevel::problems
