#pragma once

// Situations in which an estimate of the error has been wrong, and healthy ones beside them.

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "written_losses.hpp"

namespace bilevel::written {

enum class Form {
  fork,
  network,
  biased_network,
  factors,
  ridge_of_saddle,
  rotated_saddle,
  huber,
  outer_hinge,
  inner_ramp,
  clamped,
  many_ramps,
  outer_ramp,
  crossed_ramp,
  small_features,
  scaled,
  quartic,
  two_scales,
  soft,
  wavy,
  two_wells,
  nearest,
  absolute,
  drawn,
};

/// All of them in one type: derivatives of it are compiled once.
struct Losses {
  Form form = Form::fork;
  std::vector<double> c = {};  // constants of the form
  Mat features = {}, coupling = {};
  Vec shift = {};

  template <class T>
  T inner(const std::vector<T>& p, const std::vector<T>& t) const {
    const auto x = [&](double at) { return tanh(at * p[0]); };
    T sum(0.0);
    switch (form) {
      case Form::fork:
        return square(square(p[0])) - t[0] * square(p[0]);
      case Form::network:
      case Form::biased_network: {
        for (const double at : {0.5, 1.0, 2.0}) {
          T out = p[1] * x(at) - std::sin(at) * c[0];
          if (form == Form::biased_network) out = out + p[2] - 0.3;
          sum = sum + 0.5 * square(out);
        }
        return sum + 0.5 * exp(t[0]) * (square(p[0]) + square(p[1]));
      }
      case Form::factors:
        return 0.5 * square(p[0] * p[1] - t[0]) + 0.5 * c[0] * (square(p[0]) + square(p[1]));
      case Form::ridge_of_saddle:
        return 0.5 * square(p[0] - t[0]) - 0.5 * c[0] * square(p[1]) + 0.25 * square(square(p[1]));
      case Form::rotated_saddle: {  // a reflection at (1, …, 1); c[0] is the curvature of the first
        T mean(0.0);
        for (const T& e : p) mean = mean + e;
        for (std::size_t i = 0; i < p.size(); ++i) {
          const T y = p[i] - 2.0 / static_cast<double>(p.size()) * mean;
          const double weight = i == 0 ? -c[0] : 1 + static_cast<double>(i);
          sum = sum + 0.5 * weight * square(y) + (i == 0 ? 0.25 * square(square(y)) : T(-1.0) * y * t[0]);
        }
        return sum;
      }
      case Form::huber: {
        const T r = p[0] - t[0];
        return 0.5 * square(r) - 0.5 * square(ramp(ramp(r) + ramp(-1.0 * r) - 1.0)) +
               0.5 * c[0] * square(p[0]);
      }
      case Form::outer_hinge:
      case Form::outer_ramp:
        return 0.5 * square(p[0] - t[0]) + 0.1 * log_cosh(p[0]);
      case Form::inner_ramp:
        return 0.5 * square(p[0] - t[0]) + 0.5 * c[0] * square(ramp(p[0] - c[1]));
      case Form::clamped:
        return 0.5 * square(p[0] - ramp(t[0] - c[1]) - c[1]);
      case Form::many_ramps:
        for (std::size_t i = 0; i < p.size(); ++i)
          sum = sum + 0.5 * square(p[i] - t[i]) + 0.5 * c[0] * square(ramp(p[i] - c[1])) +
                0.1 * log_cosh(3.0 * p[i] - t[i]);
        return sum;
      case Form::crossed_ramp:
        return 0.5 * square(p[0] - t[0]) + 0.5 * square(p[1] - t[1]) +
               0.5 * c[0] * square(ramp(p[0] + p[1] - c[1])) + 0.2 * log_cosh(p[0] - p[1]);
      case Form::scaled:
        return 0.5 * c[0] * square(p[0] - c[1] * t[0]) + c[4] * log_cosh(p[0]);
      case Form::small_features:
        return 0.5 * square(c[0] * p[0] - 1.0) + 0.5 * exp(t[0]) * square(p[0]);
      case Form::quartic:
        return 0.25 * square(square(p[0])) - t[0] * p[0];
      case Form::two_scales:
        return 0.5 * c[0] * square(p[0] - t[0]) + 0.5 / c[0] * square(p[1] - t[1]) + log_cosh(p[0] - p[1]);
      case Form::soft:
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double weight = std::pow(c[0], static_cast<double>(i) / static_cast<double>(p.size() - 1));
          sum = sum + 0.5 * weight * square(p[i]) + 0.1 * weight * log_cosh(p[i] - 1.0) -
                weight * p[i] * t[i % t.size()];
        }
        return sum;
      case Form::wavy:
        return 0.5 * square(p[0] - c[0] * sin(1 / c[0] * t[0]));
      case Form::two_wells:
        return 0.25 * square(square(p[0]) - 1.0) + 0.2 * t[0] * p[0];
      case Form::nearest:
        for (std::size_t i = 0; i < p.size(); ++i) sum = sum + 0.5 * square(p[i] - t[i]);
        return sum;
      case Form::absolute:  // whose slope at zero is zero
        for (std::size_t i = 0; i < p.size(); ++i)
          sum = sum + 0.5 * square(p[i] - t[i]) + c[0] * (ramp(p[i]) + ramp(-1.0 * p[i])) +
                0.1 * log_cosh(p[i]);
        return sum;
      case Form::drawn:
        return drawn(p, t, 0);
    }
    return sum;
  }

  template <class T>
  T outer(const std::vector<T>& p, const std::vector<T>& t) const {
    T sum(0.0);
    switch (form) {
      case Form::network:
        return 0.5 * square(p[1] * tanh(0.7 * p[0]) - 0.5) + c[1] * p[0];
      case Form::biased_network:
        return 0.5 * square(p[1] * tanh(0.7 * p[0]) + p[2] - 0.5);
      case Form::factors:
        return 0.5 * square(p[0] - 1.0) + c[1] * square(p[1]);
      case Form::ridge_of_saddle:
        return 0.5 * square(p[0] - 2.0) + c[1] * p[1];
      case Form::outer_hinge:
        return 0.5 * square(p[0]) + c[0] * ramp(p[0] - c[1]);
      case Form::outer_ramp:
        return 0.5 * square(p[0]) + c[0] * square(ramp(p[0] - c[1]));
      case Form::clamped:
        return 0.5 * square(p[0] - 3.0);
      case Form::small_features:
        return 0.5 * square(0.9 * c[0] * p[0] - 1.0);
      case Form::scaled:
        return 0.5 * c[2] * square(p[0] - c[3]);
      case Form::soft:
        for (const T& e : p) sum = sum + 0.5 * square(e - 1.0);
        return sum;
      case Form::wavy:
        return 0.5 * square(1 / c[0] * p[0] - 2.0) + 0.1 * t[0];
      case Form::two_wells:
        return 0.5 * square(p[0] - 2.0);
      case Form::fork:
        return 0.5 * square(p[0] - c[0]);
      case Form::drawn:
        return drawn(p, t, 1);
      default:
        for (const T& e : p) sum = sum + 0.5 * square(e + 1.0) + 0.1 * log_cosh(e);
        return sum;
    }
  }

  /// c = {strength of what is not convex, scale of φ, scale of θ, scale of the loss} and a term for each row
  /// of `features`; the second loss uses the second half of them.
  template <class T>
  T drawn(const std::vector<T>& p, const std::vector<T>& t, int which) const {
    const Index rows = features.rows() / 2, n = static_cast<Index>(p.size());
    T sum(0.0);
    for (Index k = which * rows; k < (which + 1) * rows; ++k) {
      T z(shift[k]);
      for (Index i = 0; i < n; ++i) z = z + features(k, i) / c[1] * p[static_cast<std::size_t>(i)];
      for (Index j = 0; j < static_cast<Index>(t.size()); ++j)
        z = z + coupling(k, j) / c[2] * t[static_cast<std::size_t>(j)];
      switch (k % 4) {
        case 0:
          sum = sum + log_cosh(z);
          break;
        case 1:
          sum = sum + 0.5 * square(z);
          break;
        case 2:
          sum = sum + softplus(z);
          break;
        default:
          sum = sum + c[0] * sin(z);
          break;
      }
    }
    if (which == 0)
      for (Index i = 0; i < n; ++i)
        sum = sum +
              0.5 * c[4 + static_cast<std::size_t>(i)] * square(1 / c[1] * p[static_cast<std::size_t>(i)]);
    return c[3] * sum;
  }
};

/// Settles where it is told.
class Told final : public InnerSolver<Vec> {
 public:
  using Where = std::function<Vec(const Vec& theta, double beta, const Vec& start)>;
  explicit Told(Where where) : where_(std::move(where)) {}
  std::string_view name() const override { return "told"; }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    Solution<Vec> s;
    s.phi = where_(theta, beta, start);
    s.status = Status::converged;
    return s;
  }

 private:
  Where where_;
};

struct Trial {
  std::string kind = {}, name = {};
  Losses losses = {};
  Vec phi = {}, theta = {};
  std::vector<std::string> solvers = {"lbfgs", "newton"};
  double tolerance = 1e-10;
  bool minimum = true;            ///< false: it settles at a saddle, and no gradient is right
  Told::Where own = {};           ///< a solver of the user's
  std::optional<Vec> truth = {};  ///< where the losses alone do not say
};

inline Vec vec(std::initializer_list<double> x) {
  return Eigen::Map<const Vec>(x.begin(), static_cast<Index>(x.size()));
}

inline Losses drawn_losses(std::mt19937_64& engine, Index n, Index m, double wild, double condition,
                           double phi_scale = 1, double theta_scale = 1, double loss_scale = 1) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  Losses l{Form::drawn, {wild, phi_scale, theta_scale, loss_scale}};
  for (Index i = 0; i < n; ++i) l.c.push_back(std::pow(condition, -uniform(engine)));
  const Index rows = 16;
  const double size = 1 / std::sqrt(static_cast<double>(n));
  l.features = Mat::NullaryExpr(rows, n, [&] { return size * normal(engine); });
  l.coupling = Mat::NullaryExpr(rows, m, [&] { return normal(engine) / std::sqrt(static_cast<double>(m)); });
  l.shift = Vec::NullaryExpr(rows, [&] { return normal(engine); });
  return l;
}

inline std::vector<Trial> saddles() {
  std::vector<Trial> all;
  const auto add = [&](std::string name, Losses l, Vec phi, Vec theta) {
    all.push_back({.kind = "saddle",
                   .name = std::move(name),
                   .losses = std::move(l),
                   .phi = std::move(phi),
                   .theta = std::move(theta),
                   .minimum = false});
  };
  for (const double y : {0.0, 0.3}) {
    add("network at zero", {Form::network, {1.5, 0}}, vec({0, 0}), vec({-3 - y}));
    add("network with bias, other weights at zero", {Form::biased_network, {1.5}}, vec({0, 0, y}), vec({-4}));
    add("product of factors at zero", {Form::factors, {0.1, y}}, vec({0, 0}), vec({1}));
    add("fork at zero", {Form::fork, {0}}, vec({0}), vec({1 - y}));
    add("ridge of a saddle", {Form::ridge_of_saddle, {0.5 + y, 0}}, vec({1, 0}), vec({0.7}));
    add("flat ridge of a saddle", {Form::ridge_of_saddle, {1e-3, 0}}, vec({y, 0}), vec({0.7}));
  }
  for (const Index n : {5, 12, 30})
    add("saddle in many dimensions", {Form::rotated_saddle, {0.5}}, Vec::Constant(n, 0), vec({0.5}));
  // Newton's method goes to a saddle that is near.
  add("pushed by the outer loss", {Form::ridge_of_saddle, {0.5, 0.1}}, vec({1, 0}), vec({0.7}));
  all.back().solvers = {"newton"};
  return all;
}

inline std::vector<Trial> kinks() {
  std::vector<Trial> all;
  const auto add = [&](std::string name, double d, Losses l, Vec phi, Vec theta) {
    all.push_back({.kind = "kink",
                   .name = fmt::format("{} at {:.0e}", name, d),
                   .losses = std::move(l),
                   .phi = std::move(phi),
                   .theta = std::move(theta)});
  };
  for (const double size : {1e-3, 1e-4, 1e-6, 1e-9})
    for (const double d : {size, -size}) {
      add("Huber", d, {Form::huber, {1}}, vec({0}), vec({2 * (1 - d)}));
      add("outer hinge", d, {Form::outer_hinge, {1, 0.5}}, vec({0}), vec({0.5 + 0.1 * std::tanh(0.5) + d}));
      add("inner ramp", d, {Form::inner_ramp, {5, 0.3}}, vec({0}), vec({0.3 + d}));
      add("θ at a bound", d, {Form::clamped, {0, 0.3}}, vec({0}), vec({0.3 + d}));
      add("outer ramp", d, {Form::outer_ramp, {20, 0.5}}, vec({0}), vec({0.5 + 0.1 * std::tanh(0.5) + d}));
      add("ramps of all", d, {Form::many_ramps, {4, 0}}, Vec::Zero(6), Vec::Constant(6, d));
      add("crossed ramps", d, {Form::crossed_ramp, {6, 0.4}}, vec({0, 0}), vec({0.2 + d, 0.2}));
    }
  return all;
}

/// Where a state rests at a kink itself, and no gradient is right, or that of what holds it there.
inline std::vector<Trial> at_kinks() {
  std::vector<Trial> all;
  const auto add = [&](std::string name, Losses l, Vec phi, Vec theta, Vec truth) {
    all.push_back({.kind = "at a kink",
                   .name = std::move(name),
                   .losses = std::move(l),
                   .phi = std::move(phi),
                   .theta = std::move(theta),
                   .solvers = {"newton"},
                   .truth = std::move(truth)});
  };
  for (const double weight : {1e-6, 1e-3, 1.0, 1e3}) {
    add(fmt::format("{}·|φ| at zero", weight), {Form::absolute, {weight}}, vec({0}), vec({0}), vec({0}));
    add(fmt::format("{}·|φ| of three at zero", weight), {Form::absolute, {weight}}, Vec::Zero(3),
        Vec::Zero(3), Vec::Zero(3));
    if (weight >= 1e-3)  // less is no kink to speak of
      add(fmt::format("ramp of {} that begins here", weight), {Form::inner_ramp, {weight, 0.25}}, vec({0.25}),
          vec({0.25}), vec({unknown}));
  }
  return all;
}

inline std::vector<Trial> scales() {
  std::vector<Trial> all;
  const auto add = [&](std::string name, Losses l, Vec phi, Vec theta, double tolerance = 1e-10) {
    all.push_back({.kind = "scale",
                   .name = std::move(name),
                   .losses = std::move(l),
                   .phi = std::move(phi),
                   .theta = std::move(theta),
                   .tolerance = tolerance});
  };
  for (const double theta : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6})
    add(fmt::format("fork opened by {:.0e}", theta), {Form::fork, {0.3}}, vec({0.8 * std::sqrt(theta)}),
        vec({theta}));
  for (const double y : {-1.0, 0.0})
    for (const double theta : {1e-2, 1e-4})
      add(fmt::format("fork opened by {:.0e}, pulled back to {}", theta, y), {Form::fork, {y}},
          vec({std::sqrt(theta)}), vec({theta}));
  for (const double flat : {1e-2, 1e-4, 1e-6})
    add(fmt::format("bowl as flat as {:.0e}", flat), {Form::scaled, {flat, 1, 1, 2, 0}}, vec({0}),
        vec({0.5}));
  for (const double size : {1e-1, 1e-2, 1e-3, 1e-4})
    for (const double tolerance : {1e-3, 1e-6})
      add(fmt::format("features of size {:.0e}, settled to {:.0e}", size, tolerance),
          {Form::small_features, {size}}, vec({0}), vec({2 * std::log(size)}), tolerance);
  for (const double theta : {1e-3, 1e-6, 1e-9})
    add(fmt::format("quartic bowl pushed by {:.0e}", theta), {Form::quartic, {}}, vec({std::cbrt(theta)}),
        vec({theta}));
  for (const double s : {1e3, 1e6, 1e-3, 1e-6}) {
    add(fmt::format("φ of size {:.0e}", s), {Form::scaled, {1, s, 1, 0, 0.1}}, vec({0}), vec({0.5}));
    add(fmt::format("θ of size {:.0e}", s), {Form::scaled, {1, 1 / s, 1, 2, 0.1}}, vec({0}), vec({0.5 * s}));
    add(fmt::format("curvatures {:.0e} and its inverse", s), {Form::two_scales, {s}}, vec({0, 0}),
        vec({0.3, -0.4}));
    add(fmt::format("waves of length {:.0e}", s), {Form::wavy, {s}}, vec({0}), vec({0.3 * s}));
  }
  for (const double soft : {1e-2, 1e-4, 1e-6})
    for (const double tolerance : {1e-3, 1e-5, 1e-7})
      for (const Index n : {2, 6})
        add(fmt::format("{} directions down to {:.0e}, settled to {:.0e}", n, soft, tolerance),
            {Form::soft, {soft}}, Vec::Zero(n), n == 2 ? vec({0.5, -0.3}) : vec({0.5, -0.3, 0.8}), tolerance);
  return all;
}

inline std::vector<Trial> other_minimisers() {
  std::vector<Trial> all;
  for (const double theta : {0.3, -0.3, 0.05})
    for (const double side : {-1.0, 1.0})
      all.push_back({.kind = "minimiser",
                     .name = fmt::format("the well on the side {} with θ = {}", side, theta),
                     .losses = {Form::two_wells, {}},
                     .phi = vec({-0.2 * side}),
                     .theta = vec({theta}),
                     .solvers = {"told"},
                     .own = [side](const Vec& t, double beta, const Vec&) {
                       double p = side;
                       for (int k = 0; k < 100; ++k)
                         p -= (p * (p * p - 1) + 0.2 * t[0] + beta * (p - 2)) / (3 * p * p - 1 + beta);
                       return vec({p});
                     }});
  for (const double d : {0.4, 1e-3, 1e-9, 0.0, -1e-9, -1e-3, -0.4})
    all.push_back({.kind = "minimiser",
                   .name = fmt::format("a solver that projects onto φ ≥ 0, θ = {}", d),
                   .losses = {Form::nearest, {}},
                   .phi = vec({0, 0}),
                   .theta = vec({d, 0.5}),
                   .solvers = {"told"},
                   .own =
                       [](const Vec& t, double beta, const Vec&) {
                         Vec p(2);
                         for (Index i = 0; i < 2; ++i) {
                           double x = t[i];
                           for (int k = 0; k < 60; ++k)
                             x -= (x - t[i] + beta * (x + 1 + 0.1 * std::tanh(x))) /
                                  (1 + beta * (1 + 0.1 / (std::cosh(x) * std::cosh(x))));
                           p[i] = std::max(x, 0.0);
                         }
                         return p;
                       },
                   .truth = vec({d > 0   ? d + 1 + 0.1 * std::tanh(d)
                                 : d < 0 ? 0.0
                                         : unknown,
                                 1.5 + 0.1 * std::tanh(0.5)})});
  return all;
}

inline std::vector<Trial> healthy() {
  std::vector<Trial> all;
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  for (const double tolerance : {1e-6, 1e-8, 1e-10})
    for (const double condition : {3.0, 30.0, 300.0})
      for (const Index n : {1, 2, 4, 8}) {
        const Index m = n == 8 ? 5 : n == 4 ? 2 : 1;
        Losses l = drawn_losses(engine, n, m, 0.3, condition);
        all.push_back({.kind = "healthy",
                       .name = fmt::format("{}×{}, κ ~ {}, settled to {:.0e}", n, m, condition, tolerance),
                       .losses = std::move(l),
                       .phi = Vec::Zero(n),
                       .theta = Vec::NullaryExpr(m, [&] { return normal(engine); }),
                       .tolerance = tolerance});
      }
  all.push_back({.kind = "healthy",
                 .name = "network",
                 .losses = {Form::network, {1.5, 0}},
                 .phi = vec({1, 1}),
                 .theta = vec({-3})});
  all.push_back({.kind = "healthy",
                 .name = "network with bias",
                 .losses = {Form::biased_network, {1.5}},
                 .phi = vec({1, 1, 0}),
                 .theta = vec({-3})});
  all.push_back({.kind = "healthy",
                 .name = "factors",
                 .losses = {Form::factors, {0.1, 0.3}},
                 .phi = vec({1, 0.7}),
                 .theta = vec({1})});
  all.push_back({.kind = "healthy",
                 .name = "fork",
                 .losses = {Form::fork, {0.3}},
                 .phi = vec({0.7}),
                 .theta = vec({1})});
  all.push_back({.kind = "healthy",
                 .name = "Huber, far from its kinks",
                 .losses = {Form::huber, {1}},
                 .phi = vec({0}),
                 .theta = vec({0.6})});
  all.push_back({.kind = "healthy",
                 .name = "ramps, far from their kinks",
                 .losses = {Form::many_ramps, {4, 0}},
                 .phi = Vec::Zero(6),
                 .theta = vec({0.6, -0.5, 0.7, 1, -1, 0.4})});
  return all;
}

}  // namespace bilevel::written
