#pragma once

#include <functional>
#include <limits>
#include <vector>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::inner_tests {

/// A problem put together from functions, with L_out = ½‖φ − target‖², and with oracles that can be
/// told to fail: call number k (from 1) of the value, the gradient or the Hessian product gives NaN.
template <Vector V>
class Made : public Problem<V> {
 public:
  using Loss = std::function<double(const V& phi, const V& theta, V* gradient)>;
  using Product = std::function<void(const V& phi, const V& theta, const V& v, V& out)>;

  Made(V phi, V theta, Loss loss, Product product = nullptr)
      : target(Space<V>::zeros_like(phi)),
        phi_(phi),
        theta_(theta),
        loss_(std::move(loss)),
        product_(std::move(product)) {}

  V initial_phi() const override { return phi_; }
  V initial_theta() const override { return theta_; }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    double value = loss_(phi, theta, wanted.phi);
    if (wanted.phi && ++gradients == failing_gradient) Space<V>::axpy(unknown, phi, *wanted.phi);
    if (++values == failing_value || (fails_on && failing_value > 0 && values > failing_value))
      value = failure;
    return value;
  }
  double outer(const V& phi, const V&, Wanted<V> wanted) override {
    ++outers;
    double value =
        0.5 * (Space<V>::dot(phi, phi) - 2 * Space<V>::dot(phi, target) + Space<V>::dot(target, target));
    if (wanted.phi) {
      Space<V>::copy(phi, *wanted.phi);
      Space<V>::axpy(-1, target, *wanted.phi);
    }
    if (wanted.theta) Space<V>::scale(0, *wanted.theta);
    if (outers == failing_outer) value = unknown;
    return value;
  }
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if (!reuse) reuse = std::make_unique<MadeCurvature>(*this);
    auto& curvature = static_cast<MadeCurvature&>(*reuse);
    Space<V>::copy(phi, curvature.phi);
    Space<V>::copy(theta, curvature.theta);
    curvature.beta = beta;
  }
  Capabilities capabilities() const override { return {.curvature = product_ != nullptr}; }

  V target;
  double failure = unknown;
  bool fails_on = false;  // at failing_value and ever after
  long failing_value = 0, failing_gradient = 0, failing_outer = 0, failing_product = 0;
  long values = 0, gradients = 0, outers = 0, products = 0;

 private:
  struct MadeCurvature final : Curvature<V> {
    explicit MadeCurvature(Made& problem)
        : made(problem),
          phi(Space<V>::zeros_like(problem.phi_)),
          theta(Space<V>::zeros_like(problem.theta_)) {}
    void times(const V& v, V& out) override {
      made.product_(phi, theta, v, out);
      Space<V>::axpy(beta, v, out);
      if (++made.products == made.failing_product) Space<V>::axpy(unknown, v, out);
    }
    void cross_times(const V&, V& out) override { Space<V>::scale(0, out); }
    void cross_apply(const V&, V& out) override { Space<V>::scale(0, out); }
    Made& made;
    V phi, theta;
    double beta = 0;
  };

  V phi_, theta_;
  Loss loss_;
  Product product_;
};

using Vec = Eigen::VectorXd;
using MadeD = Made<Vec>;

/// Rosenbrock's valley in pairs: Σ (1 − x)² + 100(y − x²)². Minimum 0 at ones.
inline MadeD rosenbrock(Index pairs, bool curvature = true) {
  const auto loss = [](const Vec& p, const Vec&, Vec* g) {
    double value = 0;
    for (Index i = 0; i + 1 < p.size(); i += 2) {
      const double x = p[i], r = p[i + 1] - x * x;
      value += (1 - x) * (1 - x) + 100 * r * r;
      if (g) {
        (*g)[i] = -2 * (1 - x) - 400 * x * r;
        (*g)[i + 1] = 200 * r;
      }
    }
    return value;
  };
  const auto product = [](const Vec& p, const Vec&, const Vec& v, Vec& out) {
    for (Index i = 0; i + 1 < p.size(); i += 2) {
      const double x = p[i], y = p[i + 1];
      out[i] = (2 - 400 * (y - 3 * x * x)) * v[i] - 400 * x * v[i + 1];
      out[i + 1] = -400 * x * v[i] + 200 * v[i + 1];
    }
  };
  Vec start(2 * pairs);
  for (Index i = 0; i < pairs; ++i) start.segment<2>(2 * i) << -1.2, 1;
  return curvature ? MadeD(start, Vec::Zero(1), loss, product) : MadeD(start, Vec::Zero(1), loss);
}

/// Σ φ⁴ − θφ² with θ > 0: minima ±√(θ/2), a maximum or saddle wherever an element is 0.
inline MadeD double_well(Index n, bool curvature = true) {
  const auto loss = [](const Vec& p, const Vec& theta, Vec* g) {
    if (g) *g = 4 * p.array().cube() - 2 * theta[0] * p.array();
    return (p.array().square() * (p.array().square() - theta[0])).sum();
  };
  const auto product = [](const Vec& p, const Vec& theta, const Vec& v, Vec& out) {
    out = (12 * p.array().square() - 2 * theta[0]) * v.array();
  };
  return curvature ? MadeD(Vec::Ones(n), Vec::Ones(1), loss, product)
                   : MadeD(Vec::Ones(n), Vec::Ones(1), loss);
}

/// ¼ Σ (i + 1)φ_i⁴: so flat at its minimum that every method is slow.
inline MadeD flat_quartic(Index n) {
  const Eigen::ArrayXd weight = Eigen::ArrayXd::LinSpaced(n, 1, static_cast<double>(n));
  const auto loss = [weight](const Vec& p, const Vec&, Vec* g) {
    if (g) *g = weight * p.array().cube();
    return 0.25 * (weight * p.array().square().square()).sum();
  };
  const auto product = [weight](const Vec& p, const Vec&, const Vec& v, Vec& out) {
    out = 3 * weight * p.array().square() * v.array();
  };
  return MadeD(Vec::LinSpaced(n, 0.3, 0.9), Vec::Ones(1), loss, product);
}

/// −½‖φ‖² + Σφ: unbounded below.
inline MadeD hill(Index n) {
  return MadeD(
      Vec::Ones(n), Vec::Ones(1),
      [](const Vec& p, const Vec&, Vec* g) {
        if (g) *g = 1 - p.array();
        return p.sum() - 0.5 * p.squaredNorm();
      },
      [](const Vec&, const Vec&, const Vec& v, Vec& out) { out = -v; });
}

/// ½ Σ d_i φ_i² − θ·Σφ with d from 1 to `condition`, in any vector type. φ_β = (θ + β·target)/(d + β).
template <Vector V>
Made<V> bowl(V shape, V theta, double condition, std::vector<double>& diagonal) {
  const auto n = static_cast<std::size_t>(Space<V>::size(shape));
  diagonal.resize(n);
  for (std::size_t i = 0; i < n; ++i)
    diagonal[i] = std::pow(condition, n == 1 ? 0 : static_cast<double>(i) / static_cast<double>(n - 1));
  V d = Space<V>::zeros_like(shape), ones = Space<V>::zeros_like(shape);
  Space<V>::from_host(diagonal.data(), d);
  const std::vector<double> one(n, 1.0);
  Space<V>::from_host(one.data(), ones);
  const auto loss = [d, ones](const V& p, const V& t, V* g) {
    V r = Space<V>::zeros_like(p);
    Space<V>::copy(p, r);
    Space<V>::multiply(d, r);
    std::vector<double> host(static_cast<std::size_t>(Space<V>::size(t)));
    Space<V>::to_host(t, host.data());
    const double first = host[0];
    const double value = 0.5 * Space<V>::dot(p, r) - first * Space<V>::dot(p, ones);
    Space<V>::axpy(-first, ones, r);
    if (g) Space<V>::copy(r, *g);
    return value;
  };
  const auto product = [d](const V&, const V&, const V& v, V& out) {
    Space<V>::copy(v, out);
    Space<V>::multiply(d, out);
  };
  return Made<V>(shape, theta, loss, product);
}

/// A recurrent network at rest, φ = tanh(Wφ + θ) with W far from symmetric and of norm `gain`: an
/// equilibrium that minimises nothing. L_out = ½‖φ‖².
class Recurrent : public Equilibrium<Vec> {
 public:
  Recurrent(Index n, double gain, unsigned seed) : weights_(n, n) {
    Vec entries(n * n);
    Space<Vec>::random(seed, entries);
    weights_ = Eigen::Map<Eigen::MatrixXd>(entries.data(), n, n);
    weights_ *= gain / weights_.norm();
  }
  Vec initial_phi() const override { return Vec::Zero(weights_.rows()); }
  Vec initial_theta() const override { return Vec::LinSpaced(weights_.rows(), -1, 1); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override {
    out = theta;
    out.noalias() += weights_ * phi;
    out = phi.array() - out.array().tanh();
    if (++calls == failing_call) out[0] = unknown;
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi;
    return 0.5 * phi.squaredNorm();
  }
  Capabilities capabilities() const override { return {.curvature = false, .symmetric = false}; }

  long calls = 0, failing_call = 0;

 private:
  Eigen::MatrixXd weights_;
};

}  // namespace bilevel::inner_tests
