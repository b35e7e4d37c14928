#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <bilevel/problem/check.hpp>
#include <bilevel/problem/impl/check_constants.hpp>
#include <bilevel/problem/impl/check_ladder.hpp>

namespace bilevel {

/// Compares what the oracles of a problem claim with differences of what they compute, and with each other,
/// at one point. Use check_derivatives().
template <Vector V>
class DerivativeCheck {
  using S = Space<V>;

 public:
  DerivativeCheck(Equilibrium<V>& equilibrium, const V& phi, const V& theta, const CheckOptions& options)
      : equilibrium_(equilibrium),
        problem_(dynamic_cast<Problem<V>*>(&equilibrium)),
        options_(options),
        phi_(phi),
        theta_(theta),
        moved_phi_(S::zeros_like(phi)),
        moved_theta_(S::zeros_like(theta)),
        field_(S::zeros_like(phi)),
        outer_phi_(S::zeros_like(phi)),
        tolerance_(options.tolerance > 0 ? options.tolerance : std::pow(unit_roundoff<V>(), 0.4)),
        algebraic_(equilibrium.capabilities().differenced ? tolerance_ : std::sqrt(unit_roundoff<V>())) {}

  CheckReport run() {
    finite();
    if (problem_) {
      gradients("inner-phi", "inner-theta", inner());
    } else {
      skip("inner-phi", "inner-theta");
    }
    gradients("outer-phi", "outer-theta", outer());
    value_consistent();
    residual();
    if (equilibrium_.capabilities().curvature) {
      try {
        curvature();
      } catch (const InvalidInput& refusal) {
        Tally tally("hessian-difference", tolerance_);
        tally.fail(fmt::format("capabilities() promises curvature, linearise() refuses: {}", refusal.what()));
        report_.findings.push_back(tally.finding());
      }
    } else {
      skip("hessian-difference", "hessian-symmetric", "nudged", "cross-adjoint", "cross-difference",
           "cross-norm", "dense", "diagonal", "constants");
    }
    return std::move(report_);
  }

 private:
  auto inner() {
    return [this](const V& phi, const V& theta, Wanted<V> wanted) {
      return problem_->inner(phi, theta, wanted);
    };
  }
  auto outer() {
    return [this](const V& phi, const V& theta, Wanted<V> wanted) {
      return equilibrium_.outer(phi, theta, wanted);
    };
  }
  V draw(const V& like) {
    V x = S::zeros_like(like);
    S::random((options_.seed << 20) + ++draws_, x);
    return x;
  }
  template <class... Names>
  void skip(Names... names) {
    (report_.not_offered.push_back(names), ...);
  }
  void record(const Tally& tally) { report_.findings.push_back(tally.finding()); }

  /// Steps are relative to the root mean square of the elements, as a random direction's elements are of
  /// size 1.
  static double step_scale(const V& x) {
    return std::max(1.0, norm(x) / std::sqrt(static_cast<double>(S::size(x))));
  }
  /// The root mean square of ⟨g, d⟩ over random d: what a directional derivative is typically as large as.
  static double typical_dot(const V& g, const V& d) {
    return norm(g) * norm(d) / std::sqrt(static_cast<double>(S::size(g)));
  }

  // Every output vector is filled with random numbers beforehand (by draw), so that an oracle that adds to
  // what it finds instead of overwriting it is found out.

  void finite() {
    Tally tally("finite", 0);
    const auto look = [&](const char* what, bool is_finite) {
      if (!is_finite)
        tally.fail(fmt::format("{} is NaN or infinite, or holds such an element, at the point", what));
    };
    V over_phi = draw(phi_), over_theta = draw(theta_);
    const auto look_at = [&](auto&& loss, const char* value, const char* by_phi, const char* by_theta) {
      look(value, std::isfinite(loss(phi_, theta_, Wanted<V>{&over_phi, &over_theta})));
      look(by_phi, all_finite(over_phi));
      look(by_theta, all_finite(over_theta));
    };
    if (problem_) look_at(inner(), "the inner loss", "its derivative by phi", "its derivative by theta");
    look_at(outer(), "the outer loss", "the outer derivative by phi", "the outer derivative by theta");
    equilibrium_.residual(phi_, theta_, over_phi);
    look("the residual", all_finite(over_phi));
    tally.pass("values and first derivatives are finite at the point");
    record(tally);
  }

  template <class Loss>
  void gradients(std::string_view name_phi, std::string_view name_theta, Loss&& loss) {
    V over_phi = draw(phi_), over_theta = draw(theta_);
    loss(phi_, theta_, Wanted<V>{.phi = &over_phi});
    loss(phi_, theta_, Wanted<V>{.theta = &over_theta});
    Tally by_phi(name_phi, tolerance_), by_theta(name_theta, tolerance_);
    for (int i = 0; i < options_.directions; ++i) {
      const std::string what = fmt::format("along random direction {}", i + 1);
      const V d = draw(phi_), e = draw(theta_);
      difference(by_phi, S::dot(over_phi, d), typical_dot(over_phi, d), step_scale(phi_), what,
                 [&](double t) { return loss(shifted(phi_, t, d, moved_phi_), theta_, Wanted<V>{}); });
      difference(by_theta, S::dot(over_theta, e), typical_dot(over_theta, e), step_scale(theta_), what,
                 [&](double t) { return loss(phi_, shifted(theta_, t, e, moved_theta_), Wanted<V>{}); });
    }
    record(by_phi);
    record(by_theta);
  }

  template <class Function>
  void difference(Tally& tally, double claimed, double size, double scale, std::string_view what,
                  Function&& f) {
    const LadderDerivative measured = differentiate_on_ladder(f, scale, unit_roundoff<V>());
    if (std::isnan(measured.value)) return tally.fail(fmt::format("{}: not finite near the point", what));
    if (!std::isfinite(claimed))
      return tally.fail(fmt::format("{}: the claimed derivative is not finite", what));
    tally.compare(claimed, measured.value, std::max({size, std::abs(claimed), std::abs(measured.value)}),
                  measured.noise, measured.step, what);
  }

  static const V& shifted(const V& x, double t, const V& direction, V& out) {
    S::copy(x, out);
    S::axpy(t, direction, out);
    return out;
  }

  /// ∂φ(L_in + β·L_out), the field whose derivatives the curvature claims.
  const V& force(const V& phi, const V& theta, double beta) {
    equilibrium_.residual(phi, theta, field_);
    if (beta != 0) {
      equilibrium_.outer(phi, theta, {.phi = &outer_phi_});
      S::axpy(beta, outer_phi_, field_);
    }
    return field_;
  }

  void value_consistent() {
    Tally tally("value-consistent", std::sqrt(unit_roundoff<V>()));
    const auto look = [&](const char* name, auto&& loss) {
      V phi_alone = draw(phi_), phi_both = draw(phi_), theta_alone = draw(theta_), theta_both = draw(theta_);
      const double bare = loss(phi_, theta_, Wanted<V>{});
      const double with_phi = loss(phi_, theta_, Wanted<V>{.phi = &phi_alone});
      const double with_theta = loss(phi_, theta_, Wanted<V>{.theta = &theta_alone});
      const double with_both = loss(phi_, theta_, Wanted<V>{.phi = &phi_both, .theta = &theta_both});
      // A value that is a small rest of large terms may differ by their rounding: Euler's φ·∂φL + θ·∂θL is
      // the size of those terms.
      const double size = std::abs(bare) + norm(phi_alone) * norm(phi_) + norm(theta_alone) * norm(theta_);
      tally.compare(bare, with_phi, size, 0, unknown, fmt::format("{} alone and with phi", name));
      tally.compare(bare, with_theta, size, 0, unknown, fmt::format("{} alone and with theta", name));
      tally.compare(bare, with_both, size, 0, unknown, fmt::format("{} alone and with both", name));
      same(tally, phi_alone, phi_both, fmt::format("{}'s derivative by phi, alone and with theta", name),
           [&](const V& phi, V& out) { loss(phi, theta_, Wanted<V>{.phi = &out}); });
      same(tally, theta_alone, theta_both, fmt::format("{}'s derivative by theta, alone and with phi", name),
           [&](const V& phi, V& out) { loss(phi, theta_, Wanted<V>{.theta = &out}); });
    };
    if (problem_) look("the inner loss", inner());
    look("the outer loss", outer());
    record(tally);
  }

  static double slight(const V& x) { return std::sqrt(unit_roundoff<V>()) * step_scale(x); }

  /// Two vectors that should be one. Near a stationary point a gradient is the small rest of large terms;
  /// what it changes by when φ moves by √u of its size is a disagreement that rounding can explain.
  /// `evaluate(phi, out)` computes the vector at another φ.
  template <class Evaluate>
  void same(Tally& tally, const V& one, const V& other, std::string_view what, Evaluate&& evaluate) {
    // Both start from the same contents, so that an oracle that adds to them does not widen the margin.
    V here = draw(one), moved = S::zeros_like(one);
    S::copy(here, moved);
    evaluate(phi_, here);
    evaluate(shifted(phi_, slight(phi_), draw(phi_), moved_phi_), moved);
    tally.compare(0, apart(one, other), norm(one), apart(here, moved), unknown, what);
  }
  static double apart(const V& x, const V& y) {
    V difference = S::zeros_like(x);
    S::copy(x, difference);
    S::axpy(-1, y, difference);
    return norm(difference);
  }

  void residual() {
    if (!problem_) return skip("residual");
    Tally tally("residual", std::sqrt(unit_roundoff<V>()));
    V direct = draw(phi_), from_inner = draw(phi_);
    equilibrium_.residual(phi_, theta_, direct);
    problem_->inner(phi_, theta_, {.phi = &from_inner});
    same(tally, from_inner, direct, "norm of the residual minus the inner derivative by phi",
         [&](const V& phi, V& out) { problem_->inner(phi, theta_, {.phi = &out}); });
    record(tally);
  }

  void curvature() {
    std::unique_ptr<Curvature<V>> at_rest, nudged;
    equilibrium_.linearise(phi_, theta_, 0, at_rest);
    hessian_difference(*at_rest, 0, "hessian-difference");
    hessian_symmetric(*at_rest);
    cross_adjoint(*at_rest);
    cross_difference(*at_rest);
    cross_norm(*at_rest);
    matrix(*at_rest);
    diagonal(*at_rest);
    equilibrium_.linearise(phi_, theta_, options_.beta, nudged);
    nudge(*nudged);
    check_constants(equilibrium_, phi_, theta_, options_, report_);
  }

  void compare_hessian(Tally& tally, Curvature<V>& curvature, double beta, std::string_view what) {
    const V d = draw(phi_), w = draw(phi_);
    V product = draw(phi_);
    curvature.times(d, product);
    difference(tally, S::dot(w, product), typical_dot(product, w), step_scale(phi_), what,
               [&](double t) { return S::dot(w, force(shifted(phi_, t, d, moved_phi_), theta_, beta)); });
  }
  void compare_cross(Tally& tally, Curvature<V>& curvature, double beta, std::string_view what) {
    const V d = draw(theta_), w = draw(phi_);
    V product = draw(phi_);
    curvature.cross_apply(d, product);
    difference(tally, S::dot(w, product), typical_dot(product, w), step_scale(theta_), what,
               [&](double t) { return S::dot(w, force(phi_, shifted(theta_, t, d, moved_theta_), beta)); });
  }
  void compare_adjoint(Tally& tally, Curvature<V>& curvature, std::string_view what) {
    const V v = draw(phi_), u = draw(theta_);
    V forward = draw(phi_), backward = draw(theta_);
    curvature.cross_apply(u, forward);
    curvature.cross_times(v, backward);
    tally.compare(S::dot(v, forward), S::dot(backward, u),
                  typical_dot(forward, v) + typical_dot(backward, u) + std::abs(S::dot(v, forward)), 0,
                  unknown, what);
  }
  void compare_transpose(Tally& tally, Curvature<V>& curvature, std::string_view at) {
    const V v = draw(phi_), w = draw(phi_);
    V forward = draw(phi_), backward = draw(phi_);
    curvature.times(v, forward);
    curvature.transpose_times(w, backward);
    const double size = typical_dot(forward, w) + typical_dot(backward, v) + std::abs(S::dot(w, forward));
    tally.compare(S::dot(w, forward), S::dot(backward, v), size, 0, unknown,
                  fmt::format("w.Jv and (J'w).v{}", at));
    if (!equilibrium_.capabilities().symmetric) return;
    curvature.times(w, backward);
    tally.compare(S::dot(w, forward), S::dot(backward, v), size, 0, unknown,
                  fmt::format("w.Jv and v.Jw{}", at));
  }

  void hessian_difference(Curvature<V>& curvature, double beta, std::string_view name) {
    Tally tally(name, tolerance_);
    for (int i = 0; i < options_.directions; ++i)
      compare_hessian(tally, curvature, beta, fmt::format("w.Jv, random pair {}", i + 1));
    record(tally);
  }
  void hessian_symmetric(Curvature<V>& curvature) {
    Tally tally("hessian-symmetric", algebraic_);
    for (int i = 0; i < options_.directions; ++i) compare_transpose(tally, curvature, "");
    record(tally);
  }
  void cross_adjoint(Curvature<V>& curvature) {
    Tally tally("cross-adjoint", algebraic_);
    for (int i = 0; i < options_.directions; ++i)
      compare_adjoint(tally, curvature, "v.cross_apply(u) and cross_times(v).u");
    record(tally);
  }
  void cross_difference(Curvature<V>& curvature) {
    Tally tally("cross-difference", tolerance_);
    for (int i = 0; i < options_.directions; ++i)
      compare_cross(tally, curvature, 0, fmt::format("w.cross_apply(u), random pair {}", i + 1));
    record(tally);
  }
  void nudge(Curvature<V>& curvature) {
    Tally tally("nudged", tolerance_);
    const double beta = options_.beta;
    for (int i = 0; i < options_.directions; ++i) {
      compare_hessian(tally, curvature, beta, fmt::format("w.Jv at beta = {}", beta));
      compare_cross(tally, curvature, beta, fmt::format("w.cross_apply(u) at beta = {}", beta));
      compare_adjoint(tally, curvature,
                      fmt::format("v.cross_apply(u) and cross_times(v).u at beta = {}", beta));
      compare_transpose(tally, curvature, fmt::format(" at beta = {}", beta));
    }
    record(tally);
  }

  void cross_norm(Curvature<V>& curvature) {
    const double claimed = curvature.cross_norm();
    if (std::isnan(claimed)) return skip("cross-norm");
    // The power method on χᵀχ: its norms approach ‖χ‖ from below.
    Tally tally("cross-norm", 16 * static_cast<double>(S::size(phi_) + S::size(theta_)) * unit_roundoff<V>());
    V u = draw(theta_), image = draw(phi_);
    for (int i = 0; i < 2 + 2 * options_.directions; ++i) {
      const double length = norm(u);
      if (length == 0) break;
      S::scale(1 / length, u);
      curvature.cross_apply(u, image);
      const double reached = norm(image);
      tally.order(reached, claimed, claimed, 0, "reached by a product, and the claimed bound");
      curvature.cross_times(image, u);
    }
    record(tally);
  }

  void matrix(Curvature<V>& curvature) {
    Eigen::MatrixXd whole;
    if (!curvature.dense(whole)) return skip("dense");
    Tally tally("dense", algebraic_);
    const Index n = S::size(phi_);
    if (whole.rows() != n || whole.cols() != n) {
      tally.fail(fmt::format("dense() is {}x{}, phi has {} elements", whole.rows(), whole.cols(), n));
      return record(tally);
    }
    Eigen::VectorXd host(n), expected(n);
    V product = draw(phi_);
    for (int i = 0; i < options_.directions; ++i) {
      const V v = draw(phi_);
      curvature.times(v, product);
      S::to_host(v, host.data());
      S::to_host(product, expected.data());
      tally.compare(0, (whole * host - expected).norm(), expected.norm(), 0, unknown,
                    "norm of dense()v - Jv");
    }
    record(tally);
  }

  void diagonal(Curvature<V>& curvature) {
    V claimed = draw(phi_);
    if (!curvature.diagonal(claimed)) return skip("diagonal");
    Tally tally("diagonal", algebraic_);
    const Index n = S::size(phi_);
    Eigen::VectorXd host(n), column(n);
    S::to_host(claimed, host.data());
    V v = S::zeros_like(phi_), product = draw(phi_);
    // All elements of a small problem, a regular sample of a large one.
    const Index most = 8 * options_.directions, stride = std::max<Index>(1, n / most);
    for (Index i = 0; i < n; i += stride) {
      S::unit(i, v);
      curvature.times(v, product);
      S::to_host(product, column.data());
      tally.compare(host[i], column[i], column.norm(), 0, unknown,
                    fmt::format("element {} of the diagonal", i));
    }
    record(tally);
  }

  Equilibrium<V>& equilibrium_;
  Problem<V>* problem_;
  CheckOptions options_;
  const V& phi_;
  const V& theta_;
  V moved_phi_, moved_theta_, field_, outer_phi_;
  double tolerance_;  ///< of comparisons with differences
  double algebraic_;  ///< of identities between products, which only rounding disturbs
  std::uint64_t draws_ = 0;
  CheckReport report_;
};

template <Vector V>
CheckReport check_derivatives(Equilibrium<V>& equilibrium, const std::type_identity_t<V>& phi,
                              const std::type_identity_t<V>& theta, const CheckOptions& options) {
  options.validate().throw_if_any();
  require_shapes<V>(equilibrium, &phi, &theta, "check_derivatives");
  return DerivativeCheck<V>(equilibrium, phi, theta, options).run();
}

}  // namespace bilevel
