#pragma once

// Losses written once for any number: values and derivatives for the estimators by dual numbers in double
// precision, and the outer gradient that is meant by Newton and an adjoint in extended precision.

#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <Eigen/Dense>

#include <bilevel/bilevel.hpp>

namespace bilevel::written {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using Long = long double;

/// A number and its derivative along one direction.
template <class T>
struct Dual {
  T value, slope;
  Dual(double v = 0) : value(v), slope(0) {}
  Dual(T v, T s) : value(v), slope(s) {}
  explicit operator bool() const = delete;
};

inline double plain(double x) {
  return x;
}
inline double plain(Long x) {
  return static_cast<double>(x);
}
template <class T>
double plain(const Dual<T>& x) {
  return plain(x.value);
}
/// Whether x > 0, by all its digits.
inline bool positive(double x) {
  return x > 0;
}
inline bool positive(Long x) {
  return x > 0;
}
template <class T>
bool positive(const Dual<T>& x) {
  return positive(x.value);
}

template <class T>
Dual<T> operator+(const Dual<T>& a, const Dual<T>& b) {
  return {a.value + b.value, a.slope + b.slope};
}
template <class T>
Dual<T> operator-(const Dual<T>& a, const Dual<T>& b) {
  return {a.value - b.value, a.slope - b.slope};
}
template <class T>
Dual<T> operator*(const Dual<T>& a, const Dual<T>& b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
template <class T>
Dual<T> operator+(const Dual<T>& a, double b) {
  return a + Dual<T>(b);
}
template <class T>
Dual<T> operator+(double a, const Dual<T>& b) {
  return Dual<T>(a) + b;
}
template <class T>
Dual<T> operator-(const Dual<T>& a, double b) {
  return a - Dual<T>(b);
}
template <class T>
Dual<T> operator-(double a, const Dual<T>& b) {
  return Dual<T>(a) - b;
}
template <class T>
Dual<T> operator*(double a, const Dual<T>& b) {
  return Dual<T>(a) * b;
}

using std::exp, std::log1p, std::tanh, std::sin, std::cos;
template <class T>
Dual<T> exp(const Dual<T>& x) {
  const T e = exp(x.value);
  return {e, e * x.slope};
}
template <class T>
Dual<T> tanh(const Dual<T>& x) {
  const T y = tanh(x.value);
  return {y, (1.0 - y * y) * x.slope};
}
template <class T>
Dual<T> cos(const Dual<T>& x);
template <class T>
Dual<T> sin(const Dual<T>& x) {
  return {sin(x.value), cos(x.value) * x.slope};
}
template <class T>
Dual<T> cos(const Dual<T>& x) {
  return {cos(x.value), T(-1.0) * sin(x.value) * x.slope};
}
/// log(1 + eˣ), whose derivative is (1 + tanh(x/2))/2.
inline double softplus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
inline Long softplus(Long x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
template <class T>
Dual<T> softplus(const Dual<T>& x) {
  return {softplus(x.value), 0.5 * (1.0 + tanh(0.5 * x.value)) * x.slope};
}
/// Its derivative is tanh(x), to all digits near zero too.
template <class S>
S log_cosh_of(S x) {
  x = std::abs(x);
  return x + log1p(exp(-2 * x)) - std::log(S(2));
}
inline double log_cosh(double x) {
  return log_cosh_of(x);
}
inline Long log_cosh(Long x) {
  return log_cosh_of(x);
}
template <class T>
Dual<T> log_cosh(const Dual<T>& x) {
  return {log_cosh(x.value), tanh(x.value) * x.slope};
}
template <class T>
T square(const T& x) {
  return x * x;
}
template <class T>
T ramp(const T& x) {
  return positive(x) ? x : T(0.0);
}

/// Two losses of a few numbers. L offers inner(phi, theta) and outer(phi, theta), templates on the number.
template <class L>
class Both {
 public:
  explicit Both(L losses, Vec phi, Vec theta)
      : losses_(std::move(losses)), phi_(std::move(phi)), theta_(std::move(theta)) {}
  Vec initial_phi() const { return phi_; }
  Vec initial_theta() const { return theta_; }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) const {
    return first([&](const auto& p, const auto& t) { return losses_.inner(p, t); }, phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) const {
    return first([&](const auto& p, const auto& t) { return losses_.outer(p, t); }, phi, theta, wanted);
  }

  /// ∇θ L_out at the minimiser next to `start`; none where there is no minimum.
  std::optional<Vec> gradient(const Vec& start, const Vec& theta) const {
    using Vector = Eigen::Matrix<Long, Eigen::Dynamic, 1>;
    using Matrix = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;
    const Index n = start.size(), m = theta.size();
    Vector phi = start.cast<Long>();
    const Vector t = theta.cast<Long>();
    const auto in = [&](const auto& p, const auto& q) { return losses_.inner(p, q); };
    const auto out = [&](const auto& p, const auto& q) { return losses_.outer(p, q); };
    Vector slope(n), g(n), direct(m);
    Matrix hessian(n, n), cross(n, m);
    const auto evaluate = [&](const Vector& at, bool second) {
      for (Index i = 0; i < n; ++i) {
        slope[i] = derivative<Long>(in, at, t, i, -1);
        for (Index j = 0; second && j < n; ++j) hessian(i, j) = second_derivative<Long>(in, at, t, i, j);
      }
    };
    for (int k = 0; k < 100; ++k) {
      evaluate(phi, true);
      Vector step = hessian.fullPivLu().solve(slope);
      const Long before = slope.norm();
      // Steps that do not help at all are rounding: the start is settled to a few digits already.
      Long length = 1;
      for (; length > 1e-4L; length /= 2) {
        evaluate(phi - length * step, false);
        if (slope.norm() <= before) break;
      }
      if (length <= 1e-4L || before == 0) break;
      phi -= length * step;
      if (length * step.norm() <= 1e-18L * phi.norm()) break;
    }
    evaluate(phi, true);
    if (!(Eigen::SelfAdjointEigenSolver<Matrix>(hessian).eigenvalues()[0] > 0)) return {};
    for (Index i = 0; i < n; ++i) {
      g[i] = derivative<Long>(out, phi, t, i, -1);
      for (Index j = 0; j < m; ++j) cross(i, j) = second_derivative<Long>(in, phi, t, i, n + j);
    }
    for (Index j = 0; j < m; ++j) direct[j] = derivative<Long>(out, phi, t, n + j, -1);
    const Vector gradient = direct - cross.transpose() * hessian.fullPivLu().solve(g);
    return Vec(gradient.cast<double>());
  }

 protected:
  /// The derivative of f along element i of (φ, θ).
  template <class S, class F, class X>
  static S derivative(const F& f, const X& phi, const X& theta, Index i, Index) {
    return f(seeded<Dual<S>>(phi, 0, i), seeded<Dual<S>>(theta, phi.size(), i)).slope;
  }
  template <class S, class F, class X>
  static S second_derivative(const F& f, const X& phi, const X& theta, Index i, Index j) {
    using Two = Dual<Dual<S>>;
    const auto make = [&](const X& x, Index offset) {
      std::vector<Two> made;
      for (Index k = 0; k < x.size(); ++k)
        made.push_back({Dual<S>(S(x[k]), S(k + offset == i)), Dual<S>(S(k + offset == j), S(0))});
      return made;
    };
    return f(make(phi, 0), make(theta, phi.size())).slope.slope;
  }
  template <class D, class X>
  static std::vector<D> seeded(const X& x, Index offset, Index i) {
    using S = decltype(D(0.0).value);
    std::vector<D> made;
    for (Index k = 0; k < x.size(); ++k) made.push_back(D(S(x[k]), S(k + offset == i ? 1 : 0)));
    return made;
  }
  template <class F>
  static double first(const F& f, const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    for (Index i = 0; wanted.phi && i < phi.size(); ++i)
      (*wanted.phi)[i] = derivative<double>(f, phi, theta, i, -1);
    for (Index i = 0; wanted.theta && i < theta.size(); ++i)
      (*wanted.theta)[i] = derivative<double>(f, phi, theta, phi.size() + i, -1);
    return f(std::vector<double>(phi.begin(), phi.end()), std::vector<double>(theta.begin(), theta.end()));
  }

  L losses_;
  Vec phi_, theta_;
};

/// The same with second derivatives.
template <class L>
class Curved : public Both<L> {
 public:
  using Both<L>::Both;
  void hessian_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    const Index n = phi.size();
    for (Index i = 0; i < n; ++i) out[i] = along(phi, theta, beta, i, v, Vec::Zero(theta.size()));
  }
  void cross_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    for (Index i = 0; i < theta.size(); ++i)
      out[i] = along(phi, theta, beta, phi.size() + i, v, Vec::Zero(theta.size()));
  }
  void cross_apply(const Vec& phi, const Vec& theta, double beta, const Vec& u, Vec& out) const {
    for (Index i = 0; i < phi.size(); ++i) out[i] = along(phi, theta, beta, i, Vec::Zero(phi.size()), u);
  }

 private:
  /// The derivative of element i of the gradient along (v, u).
  double along(const Vec& phi, const Vec& theta, double beta, Index i, const Vec& v, const Vec& u) const {
    using Two = Dual<Dual<double>>;
    const auto make = [&](const Vec& x, const Vec& way, Index offset) {
      std::vector<Two> made;
      for (Index k = 0; k < x.size(); ++k)
        made.push_back({Dual<double>(x[k], k + offset == i ? 1.0 : 0.0), Dual<double>(way[k], 0.0)});
      return made;
    };
    const auto p = make(phi, v, 0), t = make(theta, u, phi.size());
    const double inner = this->losses_.inner(p, t).slope.slope;
    return beta == 0 ? inner : inner + beta * this->losses_.outer(p, t).slope.slope;
  }
};

}  // namespace bilevel::written
