#pragma once

// Random problems whose outer gradient is known from extended precision.

#include <cmath>
#include <memory>
#include <random>

#include <Eigen/LU>

#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/ridge.hpp>

namespace bilevel::extended {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using Long = long double;
using LongVec = Eigen::Matrix<Long, Eigen::Dynamic, 1>;
using LongMat = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;

struct Draw {
  std::unique_ptr<Problem<Vec>> problem;
  Vec theta;
  LongVec phi, gradient;
};

inline Mat gaussian(std::mt19937_64& engine, Index rows, Index columns) {
  std::normal_distribution<double> normal;
  return Mat::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

/// ∇ = Jᵀ·H⁻¹·G·(φ* − y), φ* = H⁻¹(Jθ + b).
inline Draw quadratic(std::mt19937_64& engine, Index n, Index m, double condition) {
  const Mat root = gaussian(engine, n, n);
  const Vec scale = Vec::NullaryExpr(n, [&](Index i) {
    return std::pow(condition, n == 1 ? 0 : -0.5 * static_cast<double>(i) / static_cast<double>(n - 1));
  });
  Mat h = scale.asDiagonal() * (root * root.transpose() / static_cast<double>(n) + Mat::Identity(n, n)) *
          scale.asDiagonal();
  h = (0.5 * (h + h.transpose())).eval();
  const Mat j = gaussian(engine, n, m), half = gaussian(engine, n, n);
  Mat g = half * half.transpose() / static_cast<double>(n);
  g = (0.5 * (g + g.transpose())).eval();
  const Vec b = gaussian(engine, n, 1), y = gaussian(engine, n, 1);
  Draw draw{std::make_unique<problems::Quadratic>(h, j, b, g, y), gaussian(engine, m, 1), {}, {}};
  const auto lu = LongMat(h.cast<Long>()).fullPivLu();
  draw.phi = lu.solve(LongVec(j.cast<Long>() * draw.theta.cast<Long>() + b.cast<Long>()));
  draw.gradient =
      j.cast<Long>().transpose() * lu.solve(LongVec(g.cast<Long>() * (draw.phi - y.cast<Long>())));
  return draw;
}

/// With A = XᵀX/n + diag(eᶿ): φ* = A⁻¹Xᵀt/n, ∇_j = −e^θ_j φ_j (A⁻¹X_vᵀ(X_vφ − t_v)/n_v)_j.
inline Draw ridge(std::mt19937_64& engine, Index n, Index samples) {
  const Mat x = gaussian(engine, samples, n), xv = gaussian(engine, samples, n);
  const Vec t = gaussian(engine, samples, 1), tv = gaussian(engine, samples, 1);
  Draw draw{std::make_unique<problems::Ridge>(x, t, xv, tv), gaussian(engine, n, 1), {}, {}};
  const LongMat lx = x.cast<Long>(), lv = xv.cast<Long>();
  const LongVec penalty = draw.theta.cast<Long>().unaryExpr([](Long e) { return std::exp(e); });
  LongMat a = lx.transpose() * lx / static_cast<Long>(samples);
  a.diagonal() += penalty;
  const auto lu = a.fullPivLu();
  draw.phi = lu.solve(LongVec(lx.transpose() * t.cast<Long>() / static_cast<Long>(samples)));
  const LongVec pi =
      lu.solve(LongVec(lv.transpose() * (lv * draw.phi - tv.cast<Long>()) / static_cast<Long>(samples)));
  draw.gradient = -(penalty.array() * draw.phi.array() * pi.array()).matrix();
  return draw;
}

/// Newton with halved steps until nothing changes.
inline Draw log_cosh(std::mt19937_64& engine, Index n, Index m, double condition) {
  std::uniform_real_distribution<double> uniform(0, 1);
  problems::LogCoshOptions options{.phi = n, .theta = m, .condition = condition, .seed = engine()};
  options.epsilon = std::pow(10.0, -2 + 2.5 * uniform(engine));
  auto problem = std::make_unique<problems::LogCosh>(problems::LogCosh::random(options));
  const LongMat h = problem->hessian().cast<Long>(), j = problem->coupling().cast<Long>(),
                k = problem->outer_coupling().cast<Long>();
  const LongVec y = problem->target().cast<Long>();
  const Long epsilon = problem->epsilon();
  Draw draw{std::move(problem), 2 * gaussian(engine, m, 1), LongVec::Zero(n), {}};
  const LongVec shift = j * draw.theta.cast<Long>();
  const auto tanh = [](const LongVec& x) {
    return LongVec(x.unaryExpr([](Long e) { return std::tanh(e); }));
  };
  const auto slope = [](const LongVec& x) {
    return LongVec(x.unaryExpr([](Long e) { return 1 / (std::cosh(e) * std::cosh(e)); }));
  };
  const auto residual = [&](const LongVec& phi) { return LongVec(h * phi + epsilon * tanh(phi - shift)); };
  const auto hessian = [&](const LongVec& phi) {
    LongMat matrix = h;
    matrix.diagonal() += epsilon * slope(phi - shift);
    return matrix;
  };
  for (int i = 0; i < 200; ++i) {
    const LongVec r = residual(draw.phi), step = hessian(draw.phi).partialPivLu().solve(r);
    Long length = 1;
    while (length > 1e-6L && residual(draw.phi - length * step).norm() > r.norm() * (1 - length / 4))
      length /= 2;
    draw.phi -= length * step;
    if (step.norm() <= 1e-19L * draw.phi.norm()) break;
  }
  const LongVec c = draw.phi - y - k * draw.theta.cast<Long>();
  const LongVec pi = hessian(draw.phi).partialPivLu().solve(tanh(c));
  const LongMat chi = -epsilon * (slope(draw.phi - shift).asDiagonal() * j);
  draw.gradient = -(k.transpose() * tanh(c)) - chi.transpose() * pi;
  return draw;
}

/// One of the three, by the seed.
inline Draw draw(std::uint64_t seed, std::mt19937_64& engine) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const Index n = 1 + static_cast<Index>(engine() % 8), m = 1 + static_cast<Index>(engine() % 5);
  const double condition = std::pow(10.0, 3 * uniform(engine));
  if (seed % 3 == 0) return quadratic(engine, n, m, condition);
  if (seed % 3 == 1) return ridge(engine, n, 20);
  return log_cosh(engine, n, m, condition);
}

}  // namespace bilevel::extended
