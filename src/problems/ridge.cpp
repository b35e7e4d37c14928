#include <bilevel/problems/ridge.hpp>

#include <cmath>
#include <random>
#include <utility>

#include <Eigen/Cholesky>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

Mat gram_of(const DesignMatrix& x) {
  Mat g(x.columns(), x.columns());
  kernels::Workspace workspace(x.view());
  kernels::gram(x.view(), nullptr, g.data(), workspace);
  return g / static_cast<double>(x.rows());
}

Vec mean_product(const DesignMatrix& x, const Vec& y) {
  return (x.matrix().transpose() * y) / static_cast<double>(x.rows());
}

}  // namespace

Ridge::Ridge(Data data, Penalty penalty)
    : GeneralisedLinearModel("ridge", kernels::Loss::squared, std::move(data), penalty) {}

Ridge::Ridge(DesignMatrix x, Vec t, DesignMatrix validation_x, Vec validation_t, Penalty penalty)
    : Ridge(Data{std::move(x), std::move(t), std::move(validation_x), std::move(validation_t), {}}, penalty) {
}

Ridge Ridge::random(const LinearModelOptions& options) {
  std::uint64_t seed = 0;
  Data data = draw(options, seed);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  for (Vec* y : {&data.y, &data.validation_y})
    for (double& each : *y) each += options.noise * normal(engine);
  return Ridge(std::move(data), options.penalty);
}

Mat Ridge::system(const Vec& theta, double beta) const {
  Mat a = training_.gram.size() > 0 ? training_.gram : gram_of(training_.x);
  if (beta != 0) a += beta * (validation_.gram.size() > 0 ? validation_.gram : gram_of(validation_.x));
  for (Index j = 0; j < a.rows(); ++j) a(j, j) += std::exp(penalty_at(theta, j));
  return a;
}

Vec Ridge::settled(const Vec& theta, double beta) const {
  Vec right = mean_product(training_.x, training_.y);
  if (beta == 0) return Eigen::LLT<Mat>(system(theta, 0)).solve(right);
  right += beta * mean_product(validation_.x, validation_.y);
  return Eigen::LDLT<Mat>(system(theta, beta)).solve(right);
}

std::optional<Vec> Ridge::outer_gradient(const Vec& theta) const {
  const Eigen::LLT<Mat> factor(system(theta, 0));
  const Vec phi = factor.solve(mean_product(training_.x, training_.y));
  const Vec pi = factor.solve(mean_product(validation_.x, validation_.x.matrix() * phi - validation_.y));
  Vec each(phi.size());
  for (Index j = 0; j < phi.size(); ++j) each[j] = -std::exp(penalty_at(theta, j)) * phi[j] * pi[j];
  if (penalty() == Penalty::global) return Vec::Constant(1, each.sum());
  return each;
}

}  // namespace bilevel::problems
