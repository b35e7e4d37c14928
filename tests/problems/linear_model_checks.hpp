#pragma once

// Evaluations in long double, straight from the definitions, that the families are compared with.

#include <cmath>
#include <random>

#include <Eigen/Core>

#include <bilevel/problems/linear_model.hpp>

namespace bilevel::problems::checks {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using LongVec = Eigen::Matrix<long double, Eigen::Dynamic, 1>;
using LongMat = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

inline Vec gaussian(Index size, std::mt19937_64& engine, double scale = 1) {
  std::normal_distribution<double> normal;
  return Vec::NullaryExpr(size, [&] { return scale * normal(engine); });
}

/// The model in long double; `squared` chooses the loss.
class Exact {
 public:
  Exact(const LinearModel& model, bool squared)
      : squared_(squared),
        global_(model.penalty() == Penalty::global),
        x_(model.x().cast<long double>()),
        v_(model.validation_x().cast<long double>()),
        y_(model.labels().cast<long double>()),
        w_(model.validation_labels().cast<long double>()) {}

  LongVec penalties(const Vec& theta) const {
    LongVec p(x_.cols());
    for (Index j = 0; j < p.size(); ++j) p[j] = std::exp(static_cast<long double>(theta[global_ ? 0 : j]));
    return p;
  }
  long double inner(const Vec& phi, const Vec& theta) const {
    const LongVec f = phi.cast<long double>();
    return loss(x_ * f, y_) + penalties(theta).cwiseProduct(f).dot(f) / 2;
  }
  long double outer(const Vec& phi) const { return loss(v_ * phi.cast<long double>(), w_); }
  LongVec residual(const Vec& phi, const Vec& theta) const {
    const LongVec f = phi.cast<long double>();
    return data_gradient(x_, y_, f) + penalties(theta).cwiseProduct(f);
  }
  LongVec outer_gradient(const Vec& phi) const { return data_gradient(v_, w_, phi.cast<long double>()); }
  LongVec hessian_times(const Vec& phi, const Vec& theta, const Vec& u, double beta = 0) const {
    const LongVec f = phi.cast<long double>(), t = u.cast<long double>();
    LongVec out = data_product(x_, y_, f, t) + penalties(theta).cwiseProduct(t);
    if (beta != 0) out += beta * data_product(v_, w_, f, t);
    return out;
  }
  LongVec cross_times(const Vec& phi, const Vec& theta, const Vec& u) const {
    const LongVec each =
        penalties(theta).cwiseProduct(phi.cast<long double>()).cwiseProduct(u.cast<long double>());
    return global_ ? LongVec(LongVec::Constant(1, each.sum())) : each;
  }

 private:
  long double loss(const LongVec& m, const LongVec& y) const {
    long double sum = 0;
    for (Index i = 0; i < m.size(); ++i) {
      const long double z = y[i] * m[i];
      if (squared_)
        sum += (m[i] - y[i]) * (m[i] - y[i]) / 2;
      else
        sum += std::log1p(std::exp(-std::abs(z))) + (z < 0 ? -z : 0);
    }
    return sum / static_cast<long double>(m.size());
  }
  LongVec data_gradient(const LongMat& x, const LongVec& y, const LongVec& f) const {
    LongVec s = x * f;
    for (Index i = 0; i < s.size(); ++i) s[i] = squared_ ? s[i] - y[i] : -y[i] / (1 + std::exp(y[i] * s[i]));
    return x.transpose() * s / static_cast<long double>(y.size());
  }
  LongVec data_product(const LongMat& x, const LongVec& y, const LongVec& f, const LongVec& u) const {
    LongVec s = x * f;
    const LongVec t = x * u;
    for (Index i = 0; i < s.size(); ++i) {
      const long double e = std::exp(-std::abs(s[i]));
      s[i] = (squared_ ? 1 : e / ((1 + e) * (1 + e))) * t[i];
    }
    return x.transpose() * s / static_cast<long double>(y.size());
  }

  bool squared_, global_;
  LongMat x_, v_;
  LongVec y_, w_;
};

}  // namespace bilevel::problems::checks
