#include <bilevel/problems/ridge.hpp>

#include <cmath>
#include <random>
#include <utility>

#include <Eigen/Cholesky>

#include <bilevel/problem/gamma.hpp>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// XᵀX/n and Xᵀt/n, by Eigen alone: the answers owe nothing to the kernels that they judge.
Mat mean_gram(const auto& x) {
  return (x.transpose() * x) / static_cast<double>(x.rows());
}
Vec mean_product(const auto& x, const Vec& t) {
  return (x.transpose() * t) / static_cast<double>(x.rows());
}

}  // namespace

Ridge::Ridge(RowMajor x, Vec t, RowMajor validation_x, Vec validation_t, Penalty penalty)
    : Ridge(Data{.x = std::move(x),
                 .y = std::move(t),
                 .validation_x = std::move(validation_x),
                 .validation_y = std::move(validation_t)},
            penalty) {}

Ridge Ridge::random(const LinearModelOptions& options) {
  std::uint64_t seed = 0;
  Data data = draw(options, seed);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  for (Vec* y : {&data.y, &data.validation_y})
    for (double& each : *y) each += options.noise * normal(engine);
  return Ridge(std::move(data), options.penalty);
}

Vec Ridge::penalties_at(const Vec& theta) const {
  return Vec::NullaryExpr(features(), [&](Index k) { return std::exp(penalties().log_lambda(k, theta)); });
}

Vec Ridge::settled(const Vec& theta, double beta) const {
  Mat system = mean_gram(x());
  Vec right = mean_product(x(), labels());
  system.diagonal() += penalties_at(theta);
  if (beta == 0) return Eigen::LLT<Mat>(system).solve(right);
  system += beta * mean_gram(validation_x());
  right += beta * mean_product(validation_x(), validation_labels());
  return Eigen::LDLT<Mat>(system).solve(right);
}

std::optional<Vec> Ridge::outer_gradient(const Vec& theta) const {
  const Vec lambda = penalties_at(theta);
  Mat system = mean_gram(x());
  system.diagonal() += lambda;
  const Eigen::LLT<Mat> factor(system);
  const Vec phi = factor.solve(mean_product(x(), labels()));
  const Vec pi = factor.solve(mean_product(validation_x(), validation_x() * phi - validation_labels()));
  Vec gradient = Vec::Zero(theta.size());
  for (Index j = 0; j < phi.size(); ++j) penalties().add(j, -lambda[j] * phi[j] * pi[j], gradient);
  return gradient;
}

Constants Ridge::constants(const Vec& theta, const Vec& center, double radius) {
  Constants c = LinearModel::constants(theta, center, radius);
  if (!std::isfinite(radius)) return c;
  // ‖∂φ L_out‖ at the centre, and from there at most L_out·radius more. Without π the adjoint's residual is
  // that gradient.
  Vec gradient(center.size());
  outer(center, theta, {.phi = &gradient});
  const double off = rounding(center, theta, Vec::Zero(center.size())).adjoint;
  c.outer_lipschitz = (gradient.norm() + off + c.outer_smoothness * radius) *
                      (1 + gamma(static_cast<double>(center.size()) + 8));
  return c;
}

}  // namespace bilevel::problems
