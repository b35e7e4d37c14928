// Losses over ranges of rows against sums written from the definitions, in long double.

#include <bilevel/problems/data_loss.hpp>

#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/Eigenvalues>

#include "linear_model_checks.hpp"

namespace bilevel::problems {
namespace data_loss_test {

using checks::gaussian;
using checks::LongMat;
using checks::LongVec;
using checks::Mat;
using checks::Vec;
using kernels::Loss;
using Real = long double;

constexpr double threshold = 0.7;
constexpr int softmax = 7;  // beside the scalar losses
constexpr Loss scalar[] = {Loss::squared,       Loss::logistic, Loss::poisson,          Loss::huber,
                           Loss::squared_hinge, Loss::gamma,    Loss::negative_binomial};
static_assert(std::size(scalar) == softmax);

struct Case {
  explicit Case(std::uint64_t seed)
      : engine(seed),
        kind(static_cast<int>((seed + seed / 8) % 8)),
        c(kind == softmax ? 4 : 1),
        sparse(seed / 8 % 2) {
    std::uniform_real_distribution<double> uniform;
    n = 20 + static_cast<Index>(seed % 50);
    d = 1 + static_cast<Index>(seed % 11);
    x = Mat::NullaryExpr(n, d,
                         [&] { return sparse && uniform(engine) < 0.6 ? 0.0 : gaussian(1, engine)[0]; });
    y = gaussian(n, engine);
    classes.resize(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      if (kind == 1 || kind == 4) y[i] = y[i] > 0 ? 1 : -1;
      if (kind == 2 || kind == 6) y[i] = std::floor(3 * std::abs(y[i]));
      if (kind == 5) y[i] = 0.1 + std::abs(y[i]);
      classes[static_cast<std::size_t>(i)] = static_cast<int>(i % c);
    }
    samples.matrix = sparse ? std::make_shared<ModelMatrix>(ModelMatrix::Sparse(x.sparseView()))
                            : std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(x));
    w = Vec::Ones(n);
    o = Vec::Zero(n);
    if (seed % 4 == 1) {
      w = Vec::NullaryExpr(n, [&] { return uniform(engine); });
      w[3] = 0;
      samples.weights = std::make_shared<Vec>(w);
    }
    if (seed % 5 == 2 && kind != softmax) {
      o = gaussian(n, engine);
      samples.offsets = std::make_shared<Vec>(o);
    }
    samples.labels = std::make_shared<Vec>(y);
    samples.classes = std::make_shared<std::vector<int>>(classes);
    ranges =
        seed % 3 == 0 ? std::vector<RowRange>{{0, n}} : std::vector<RowRange>{{1, n / 3}, {n / 2, n - 1}};
    loss = kind == softmax ? make_softmax_loss(c, samples, ranges)
                           : make_scalar_loss(scalar[kind], samples, ranges, threshold);
    for (const auto& [first, last] : ranges)
      for (Index i = first; i < last; ++i) rows.push_back(i);
  }

  LongVec margins(Index i, const Vec& u) const {
    LongVec m = LongVec::Constant(c, o[i]);
    for (Index j = 0; j <= d; ++j)
      m += (j < d ? static_cast<Real>(x(i, j)) : Real(1)) * u.segment(j * c, c).cast<Real>();
    return m;
  }
  /// One row: its loss, slope and curvature.
  Real row(Index i, const LongVec& m, LongVec& slope, LongMat& curvature) const {
    const Real y_i = y[i], one = m[0], k = threshold;
    slope.resize(c), curvature.resize(c, c);
    switch (kind) {
      case 0:
        slope[0] = one - y_i, curvature(0, 0) = 1;
        return slope[0] * slope[0] / 2;
      case 1:
        slope[0] = -y_i / (1 + std::exp(y_i * one));
        curvature(0, 0) = 1 / ((1 + std::exp(one)) * (1 + std::exp(-one)));
        return std::log(1 + std::exp(-y_i * one));
      case 2:
        slope[0] = std::exp(one) - y_i, curvature(0, 0) = std::exp(one);
        return std::exp(one) - y_i * one;
      case 3: {
        const Real r = one - y_i;
        slope[0] = std::max(-k, std::min(k, r)), curvature(0, 0) = std::abs(r) <= k;
        return std::abs(r) <= k ? r * r / 2 : k * std::abs(r) - k * k / 2;
      }
      case 4: {
        const Real missing = std::max<Real>(0, 1 - y_i * one);
        slope[0] = -y_i * missing, curvature(0, 0) = missing > 0;
        return missing * missing / 2;
      }
      case 5:
        curvature(0, 0) = y_i * std::exp(-one), slope[0] = 1 - curvature(0, 0);
        return curvature(0, 0) + one;
      case 6: {
        const Real mean = std::exp(one), all = 1 + k * mean;
        slope[0] = (mean - y_i) / all, curvature(0, 0) = mean * (1 + k * y_i) / (all * all);
        return (y_i + 1 / k) * std::log(all) - y_i * (one + std::log(k));
      }
      default: {
        LongVec p = m.array().exp();
        const Real sum = p.sum();
        p /= sum;
        const int own = classes[static_cast<std::size_t>(i)];
        slope = p;
        slope[own] -= 1;
        curvature = -p * p.transpose();
        curvature.diagonal() += p;
        return std::log(sum) - m[own];
      }
    }
  }

  std::mt19937_64 engine;
  int kind;
  Index c, n = 0, d = 0;
  bool sparse;
  Mat x;
  Vec y, w, o;
  std::vector<int> classes;
  Samples samples;
  std::vector<RowRange> ranges;
  std::vector<Index> rows;
  std::unique_ptr<DataLoss> loss;
};

TEST(DataLoss, AgreesWithItsDefinition) {
  for (std::uint64_t seed = 1; seed <= 320; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Case t(seed);
    const Index c = t.c, size = (t.d + 1) * c;
    const Vec u = gaussian(size, t.engine, 0.5), v = gaussian(size, t.engine);
    Real value = 0, total = 0, least = INFINITY;
    LongVec gradient = LongVec::Zero(size), slope;
    LongMat hessian = LongMat::Zero(size, size), curvature;
    Vec losses(static_cast<Index>(t.rows.size())), margins(static_cast<Index>(t.rows.size()) * c);
    LongVec row(t.d + 1);
    for (std::size_t k = 0; k < t.rows.size(); ++k) {
      const Index i = t.rows[k];
      const LongVec m = t.margins(i, u);
      const Real own = t.row(i, m, slope, curvature), weight = t.w[i];
      losses[static_cast<Index>(k)] = static_cast<double>(own);
      margins.segment(static_cast<Index>(k) * c, c) = m.cast<double>();
      value += weight * own;
      total += weight;
      row << t.x.row(i).transpose().cast<Real>(), 1;
      for (Index a = 0; a < c; ++a)
        for (Index j = 0; j <= t.d; ++j) {
          gradient[j * c + a] += weight * slope[a] * row[j];
          for (Index b = 0; b < c; ++b)
            for (Index l = 0; l <= t.d; ++l)
              hessian(j * c + a, l * c + b) += weight * curvature(a, b) * row[j] * row[l];
        }
      if (weight > 0 && t.kind == 3) least = std::min(least, std::abs(std::abs(m[0] - t.y[i]) - threshold));
      if (weight > 0 && t.kind == 4) least = std::min(least, std::abs(1 - t.y[i] * m[0]));
    }
    value /= total, gradient /= total, hessian /= total;
    const double scale = 1 + static_cast<double>(hessian.norm());

    DataLoss& loss = *t.loss;
    Vec out(size), squares(size), beside(size);
    EXPECT_EQ(loss.row_count(), static_cast<Index>(t.rows.size()));
    EXPECT_NEAR(loss.total_weight(), static_cast<double>(total), 1e-12 * static_cast<double>(total));
    EXPECT_NEAR(loss.value(u, nullptr), static_cast<double>(value),
                1e-13 * (1 + std::abs(static_cast<double>(value))));
    // loss″ both ways: from scratch, and as a gradient at the same place has left it.
    RowCurvature fresh, left;
    loss.curvature_at(u, fresh);
    EXPECT_NEAR(loss.value(u, &out), static_cast<double>(value),
                1e-13 * (1 + std::abs(static_cast<double>(value))));
    EXPECT_LE((out - gradient.cast<double>()).norm(), 1e-13 * scale * (1 + u.norm()));
    loss.curvature_at(u, left);
    EXPECT_EQ(fresh.weights, left.weights);
    Vec elsewhere(size);
    loss.value(v, &elsewhere);
    RowCurvature again;
    loss.curvature_at(u, again);
    ASSERT_EQ(again.weights.size(), fresh.weights.size());
    EXPECT_LE((again.weights - fresh.weights).norm(), 1e-15 * (1 + fresh.weights.norm()));

    loss.times(fresh, v, out);
    EXPECT_LE((out - (hessian * v.cast<Real>()).cast<double>()).norm(), 1e-13 * scale * v.norm());
    Mat intercepts, moments;
    loss.diagonal(fresh, squares, beside, intercepts);
    EXPECT_LE((intercepts - hessian.bottomRightCorner(c, c).cast<double>()).norm(), 1e-13 * scale);
    if (loss.second_moments(moments)) {
      LongMat expected = LongMat::Zero(t.d + 1, t.d + 1);
      for (const Index i : t.rows) {
        row << t.x.row(i).transpose().cast<Real>(), 1;
        expected += t.w[i] / total * row * row.transpose();
      }
      EXPECT_LE((moments - expected.cast<double>()).norm(), 1e-13 * moments.norm());
    }
    EXPECT_LE((squares - hessian.diagonal().cast<double>()).norm(), 1e-13 * scale);
    for (Index j = 0; j <= t.d; ++j)
      for (Index a = 0; a < c; ++a)
        EXPECT_NEAR(beside[j * c + a], static_cast<double>(hessian(j * c + a, t.d * c + a)), 1e-13 * scale);
    Mat dense;
    if (loss.dense(fresh, dense)) {
      EXPECT_LE((dense - hessian.cast<double>()).norm(), 1e-13 * scale);
    } else {
      EXPECT_TRUE(t.sparse && t.kind == softmax);
    }

    Vec got_losses, got_margins;
    loss.rows(u, &got_losses, got_margins);
    EXPECT_LE((got_losses - losses).norm(), 1e-13 * (1 + losses.norm()));
    EXPECT_LE((got_margins - margins).norm(), 1e-13 * (1 + margins.norm()));
    if (std::isfinite(static_cast<double>(least)))
      EXPECT_NEAR(loss.distance_to_kink(u), static_cast<double>(least), 1e-13);
    else
      EXPECT_EQ(loss.distance_to_kink(u), INFINITY);
  }
}

TEST(DataLoss, ShapesHoldOnRandomMargins) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Case t(seed);
    const LossShape shape = t.loss->shape();
    const Index size = (t.d + 1) * t.c;
    EXPECT_EQ(shape.kinked, t.kind == 3 || t.kind == 4);
    EXPECT_EQ(std::isfinite(shape.largest_curvature), t.kind != 2 && t.kind != 5 && t.kind != 6);
    LongVec slope, other_slope;
    LongMat curvature, other;
    double nearest = 0;
    for (int draw = 0; draw < 200; ++draw) {
      const Index i = t.rows[t.engine() % t.rows.size()];
      const LongVec m = gaussian(t.c, t.engine, 2).cast<Real>();
      const LongVec step = gaussian(t.c, t.engine, 1e-3).cast<Real>();
      t.row(i, m, slope, curvature);
      t.row(i, m + step, other_slope, other);
      const double largest = static_cast<double>(curvature.operatorNorm()),
                   third = static_cast<double>((other - curvature).operatorNorm() / step.norm());
      EXPECT_LE(largest, shape.largest_curvature * (1 + 1e-12));
      if (std::isfinite(shape.largest_slope)) {
        EXPECT_LE(static_cast<double>(slope.norm()), shape.largest_slope * (1 + 1e-12));
      }
      // ‖loss‴‖ ≤ decay·loss″, along the step.
      if (!shape.kinked)
        for (int probe = 0; probe < 3; ++probe) {
          const LongVec v = gaussian(t.c, t.engine).cast<Real>();
          EXPECT_LE(std::abs(v.dot((other - curvature) * v)),
                    std::expm1(shape.decay * step.norm()) * v.dot(curvature * v) * (1 + 1e-9L) + 1e-18L);
        }
      if (!shape.kinked) {
        EXPECT_LE(third, shape.curvature_lipschitz * (1 + 1e-9));
        nearest = std::max(nearest, third / shape.curvature_lipschitz);
      }
    }
    if (t.kind == 1 || t.kind == softmax) {
      EXPECT_GT(nearest, 0.3) << "the constant should be sharp";
    }

    // √(mean loss′²) at the last u, or a bound of it; of u = 0 where the moments are kept.
    const Vec u = gaussian(size, t.engine, 0.5);
    Vec gradient(size);
    t.loss->value(u, &gradient);
    EXPECT_EQ(t.loss->keeps_moments(), t.kind == 0);
    const Vec where = t.loss->keeps_moments() ? Vec(Vec::Zero(size)) : u;
    Real sum = 0, total = 0;
    for (const Index i : t.rows) {
      t.row(i, t.margins(i, where), slope, curvature);
      sum += t.w[i] * slope.squaredNorm();
      total += t.w[i];
    }
    EXPECT_LE(std::sqrt(static_cast<double>(sum / total)), t.loss->slope_size() * (1 + 1e-12));

    RowCurvature at;
    t.loss->curvature_at(u, at);
    Vec least(t.d + 1);
    t.loss->least_curvatures(at, least);
    LongVec expected = LongVec::Zero(t.d + 1);
    for (const Index i : t.rows) {
      t.row(i, t.margins(i, u), slope, curvature);
      // Of one output its curvature; of several the smallest probability, see softmax.
      Real own = curvature(0, 0);
      if (t.kind == softmax) {
        LongVec p = t.margins(i, u).array().exp();
        own = p.minCoeff() / p.sum();
        for (int draw = 0; draw < 5; ++draw) {
          LongVec v = gaussian(t.c, t.engine).cast<Real>();
          v.array() -= v.mean();
          EXPECT_GE(v.dot(curvature * v), own * v.squaredNorm() * (1 - 1e-15L));
        }
      }
      EXPECT_LE(static_cast<double>(curvature.operatorNorm()),
                t.loss->largest_curvature(at) * (t.w[i] > 0 ? 1 + 1e-12 : INFINITY));
      for (Index j = 0; j < t.d; ++j) expected[j] += t.w[i] * own * t.x(i, j) / total;
      expected[t.d] += t.w[i] * own / total;
    }
    EXPECT_LE((least - expected.cast<double>()).norm(), 1e-13 * (1 + least.norm()));
  }
}

TEST(ModelMatrix, ExtentsAreThoseOfTheStandardisedRows) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Case t(seed);
    Standardisation s{gaussian(t.d, t.engine), gaussian(t.d, t.engine).cwiseAbs()};
    if (t.d > 2) s.inverse_scale[1] = 0;
    const Extent e = measure(*t.samples.matrix, t.ranges, t.samples.weights ? t.w.data() : nullptr, s);
    Index longest = 0;
    Vec count = Vec::Zero(t.d);
    for (const Index i : t.rows) {
      Index length = 1;
      for (Index j = 0; j < t.d; ++j)
        if (!t.sparse || t.x(i, j) != 0) ++length, ++count[j];
      longest = std::max(longest, length);
    }
    EXPECT_EQ(e.longest_row, longest);
    EXPECT_EQ(e.fullest_column, static_cast<Index>(count.maxCoeff()));
    for (Index j = 0; j <= t.d; ++j) {
      Real mean = 0, largest = 0, total = 0;
      for (const Index i : t.rows) {
        const Real z =
            j < t.d ? (static_cast<Real>(t.x(i, j)) - s.shift[j]) * s.inverse_scale[j] : static_cast<Real>(1);
        mean += t.w[i] * z * z;
        largest = std::max(largest, std::abs(z));
        total += t.w[i];
      }
      mean /= total;
      // Upper bounds, and tight ones.
      EXPECT_GE(e.mean_square[j], static_cast<double>(mean) * (1 - 1e-15));
      EXPECT_LE(e.mean_square[j], static_cast<double>(mean) * (1 + 1e-12) + 1e-300);
      EXPECT_GE(e.largest[j], static_cast<double>(largest) * (1 - 1e-15));
      EXPECT_LE(e.largest[j], static_cast<double>(largest) * (1 + 1e-12));
      EXPECT_GE(e.stored_mean_square[j], e.mean_square[j] * (1 - 1e-12));
      EXPECT_GE(e.stored_largest[j], e.largest[j] * (1 - 1e-12));
    }
  }
}

TEST(ModelMatrix, DenseAndSparseHoldTheSameRows) {
  std::mt19937_64 engine(3);
  Mat x = Mat::NullaryExpr(9, 5, [&] { return engine() % 2 ? gaussian(1, engine)[0] : 0.0; });
  const ModelMatrix dense{ModelMatrix::RowMajor(x)}, sparse{ModelMatrix::Sparse(x.sparseView())};
  EXPECT_FALSE(dense.sparse());
  EXPECT_TRUE(sparse.sparse());
  for (const ModelMatrix* matrix : {&dense, &sparse}) {
    EXPECT_EQ(matrix->rows(), 9);
    EXPECT_EQ(matrix->features(), 5);
    EXPECT_GT(matrix->bytes(), 0U);
    Mat back = Mat::Zero(9, 5);
    for (Index i = 0; i < 9; ++i) matrix->for_each(i, [&](Index j, double value) { back(i, j) = value; });
    EXPECT_EQ(back, x);
  }
  EXPECT_LT(ModelMatrix(ModelMatrix::Sparse(1000, 1000)).bytes(), 10000U) << "sparse stays sparse";
}

TEST(DataLoss, RefusesDataThatDoNotFit) {
  const auto message_of = [](Loss loss, const std::function<void(Samples&)>& change,
                             std::vector<RowRange> ranges = {{0, 4}}, double huber = 1) -> std::string {
    Samples samples;
    samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(Mat::Ones(4, 2)));
    samples.labels = std::make_shared<Vec>(Vec::Ones(4));
    samples.classes = std::make_shared<std::vector<int>>(4, 0);
    change(samples);
    try {
      make_scalar_loss(loss, samples, ranges, huber);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  const auto labels = [](std::initializer_list<double> values) {
    return [v = std::vector<double>(values)](Samples& s) {
      s.labels = std::make_shared<Vec>(Eigen::Map<const Vec>(v.data(), static_cast<Index>(v.size())));
    };
  };
  const auto none = [](Samples&) {};
  for (const Loss loss : scalar) EXPECT_EQ(message_of(loss, none), "");
  EXPECT_NE(message_of(Loss::logistic, labels({1, -1, 0, 1})).find("row 2"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared_hinge, labels({1, -1, 1, 2})).find("-1 and 1"), std::string::npos);
  EXPECT_NE(message_of(Loss::poisson, labels({1, -1, 1, 2})).find("counts"), std::string::npos);
  EXPECT_NE(message_of(Loss::negative_binomial, labels({1, -1, 1, 2})).find("counts"), std::string::npos);
  EXPECT_NE(message_of(Loss::gamma, labels({1, 0, 1, 2})).find("row 1"), std::string::npos);
  EXPECT_NE(message_of(Loss::negative_binomial, none, {{0, 4}}, 1e9).find("dispersion"), std::string::npos);
  EXPECT_EQ(message_of(Loss::poisson, labels({1, -1, 1, 2}), {{2, 4}}), "") << "other rows do not matter";
  EXPECT_NE(message_of(Loss::squared, labels({1, NAN, 1, 2})).find("row 1"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, labels({1, 2})).find("2 labels for 4 rows"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, none, {{0, 5}}).find("rows 0 to 5 of 4"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, none, {{2, 2}}), "");
  EXPECT_NE(message_of(Loss::squared, none, {}).find("weigh nothing"), std::string::npos);
  EXPECT_NE(message_of(Loss::huber, none, {{0, 4}}, 0).find("threshold"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, [](Samples& s) { s.labels = nullptr; }).find("no labels"),
            std::string::npos);
  EXPECT_NE(message_of(Loss::squared, [](Samples& s) { s.matrix = nullptr; }).find("no matrix"),
            std::string::npos);
  const auto weights = [](double value) {
    return [value](Samples& s) {
      Vec w = Vec::Zero(4);
      w[1] = value;
      s.weights = std::make_shared<Vec>(w);
    };
  };
  EXPECT_NE(message_of(Loss::squared, weights(-1)).find("negative"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, weights(0)).find("weigh nothing"), std::string::npos);
  EXPECT_NE(message_of(Loss::squared, weights(1), {{2, 4}}).find("weigh nothing"), std::string::npos);

  Samples samples;
  samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(Mat::Ones(4, 2)));
  samples.classes = std::make_shared<std::vector<int>>(std::vector<int>{0, 1, 3, 2});
  EXPECT_NO_THROW(make_softmax_loss(4, samples, {{0, 4}}));
  EXPECT_THROW(make_softmax_loss(3, samples, {{0, 4}}), InvalidInput);
  EXPECT_NO_THROW(make_softmax_loss(3, samples, {{0, 2}}));
  EXPECT_THROW(make_softmax_loss(1, samples, {{0, 1}}), InvalidInput);
  samples.offsets = std::make_shared<Vec>(Vec::Ones(4));
  EXPECT_THROW(make_softmax_loss(4, samples, {{0, 4}}), InvalidInput);
}

// Dense rows have blocks and groups of them that sparse ones, which take pairs of classes one by one, have
// not.
TEST(DataLoss, TheMatrixOfSoftmaxIsTheSameFromDenseAndSparseRowsAndForAnyThreads) {
  constexpr std::uint64_t seed = 5;
  std::mt19937_64 engine(seed);
  const Index n = 1700, d = 6, c = 7;
  const Mat x = Mat::NullaryExpr(n, d, [&] { return gaussian(1, engine)[0]; });
  Samples samples;
  samples.classes = std::make_shared<std::vector<int>>(static_cast<std::size_t>(n), 1);
  samples.weights =
      std::make_shared<Vec>(Vec::NullaryExpr(n, [&] { return std::abs(gaussian(1, engine)[0]); }));
  const Vec u = gaussian((d + 1) * c, engine);
  const int before = kernels::threads();
  std::vector<Mat> found;
  for (const bool sparse : {false, true}) {
    samples.matrix = sparse ? std::make_shared<ModelMatrix>(ModelMatrix::Sparse(x.sparseView()))
                            : std::make_shared<ModelMatrix>(ModelMatrix::RowMajor(x));
    for (const int threads : {1, 3}) {
      kernels::set_threads(threads);
      const auto loss = make_softmax_loss(c, samples, {{3, 1500}, {1550, n}});
      RowCurvature curvature;
      loss->curvature_at(u, curvature);
      Mat matrix;
      ASSERT_TRUE(loss->dense(curvature, matrix));
      found.push_back(matrix);
      const Vec v = gaussian(u.size(), engine);
      Vec product(u.size());
      loss->times(curvature, v, product);
      EXPECT_LE((matrix * v - product).norm(), 1e-13 * matrix.norm() * v.norm()) << "seed " << seed;
    }
  }
  kernels::set_threads(before);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[0].transpose());
  EXPECT_LE((found[0] - found[2]).norm(), 1e-14 * found[0].norm());
}

}  // namespace data_loss_test
}  // namespace bilevel::problems
