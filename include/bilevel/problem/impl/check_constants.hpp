#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include <bilevel/problem/check_report.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/impl/lanczos.hpp>

namespace bilevel {

/// Tries claimed constants on random points of a ball: a counterexample refutes a claim, none proves nothing.
template <Vector V>
class ConstantsCheck {
  using S = Space<V>;

 public:
  ConstantsCheck(Equilibrium<V>& equilibrium, const V& phi, const V& theta, const CheckOptions& options)
      : equilibrium_(equilibrium),
        phi_(phi),
        theta_(theta),
        options_(options),
        engine_(options.seed),
        slack_(64 * static_cast<double>(S::size(phi) + S::size(theta)) * unit_roundoff<V>()),
        tally_("constants", slack_) {}

  void run(CheckReport& report) {
    const bool on_ball = try_ball(options_.radius, options_.radius);
    const bool anywhere = try_ball(everywhere, 10 * options_.radius);
    if (on_ball || anywhere) {
      report.findings.push_back(tally_.finding());
    } else {
      report.not_offered.push_back("constants");
    }
  }

 private:
  /// What is measured at a point: products with fixed directions, and derivatives of L_out.
  struct Sample {
    V point, hessian_product, cross_product, residual, outer_phi, outer_theta;
  };

  V draw(const V& like) {
    V x = S::zeros_like(like);
    S::random(engine_(), x);
    return x;
  }

  bool try_ball(double claimed_radius, double radius) {
    const Constants c = equilibrium_.constants(theta_, phi_, claimed_radius);
    const double all[] = {c.mu,         c.smoothness,      c.hessian_lipschitz, c.cross_lipschitz,
                          c.cross_norm, c.outer_lipschitz, c.outer_smoothness,  c.outer_cross_lipschitz};
    if (std::ranges::all_of(all, [](double x) { return std::isnan(x); })) return false;
    where_ = std::isinf(claimed_radius) ? "claimed everywhere"
                                        : fmt::format("claimed within {} of phi", claimed_radius);
    const V v = draw(phi_), u = draw(theta_);
    Sample previous = take(at_distance(0), v, u, c);
    for (int i = 1; i <= options_.points; ++i) {
      // Every other point on the sphere, where the extremes of a ball mostly are.
      const double share = i % 2 == 1 ? 1 : std::uniform_real_distribution<double>()(engine_);
      Sample sample = take(at_distance(share * radius), v, u, c);
      secants(previous, sample, v, u, c);
      previous = std::move(sample);
    }
    return true;
  }

  V at_distance(double distance) {
    const V direction = draw(phi_);
    V x = S::zeros_like(phi_);
    S::copy(phi_, x);
    // A hair inside the ball, so that rounding does not put the point outside.
    S::axpy(distance * (1 - 8 * unit_roundoff<V>()) / norm(direction), direction, x);
    return x;
  }

  Sample take(V point, const V& v, const V& u, const Constants& c) {
    Sample s{std::move(point), draw(phi_), draw(phi_), draw(phi_), draw(phi_), draw(theta_)};
    equilibrium_.residual(s.point, theta_, s.residual);
    equilibrium_.outer(s.point, theta_, {.phi = &s.outer_phi, .theta = &s.outer_theta});
    equilibrium_.linearise(s.point, theta_, 0, curvature_);
    curvature_->times(v, s.hessian_product);
    curvature_->cross_apply(u, s.cross_product);
    order(norm(s.outer_phi), c.outer_lipschitz, "outer_lipschitz", 0);
    spectrum(c);
    cross(c);
    return s;
  }

  void order(double met, double claimed, std::string_view name, double blur) {
    if (std::isnan(claimed)) return;
    tally_.order(met, claimed, claimed, blur, fmt::format("{} {}, met and claimed", name, where_));
  }

  void spectrum(const Constants& c) {
    if (std::isnan(c.mu) && std::isnan(c.smoothness)) return;
    const LanczosOptions once{.basis = std::min<Index>(S::size(phi_), 30), .sweeps = 1};
    double smallest, largest, blur;
    if (equilibrium_.capabilities().symmetric) {
      const RitzEnds ends =
          Lanczos<V>([&](const V& x, V& out) { curvature_->times(x, out); }, draw(phi_), once).run();
      smallest = ends.smallest;
      largest = ends.largest;
      blur = slack_ * std::max(std::abs(smallest), std::abs(largest));
    } else {
      V image = draw(phi_);
      const RitzEnds ends = Lanczos<V>(
                                [&](const V& x, V& out) {
                                  curvature_->times(x, image);
                                  curvature_->transpose_times(image, out);
                                },
                                draw(phi_), once)
                                .run();
      // An error of slack·σ_max² in σ_min² is one of √slack·σ_max at most in σ_min.
      smallest = std::sqrt(std::max(0.0, ends.smallest));
      largest = std::sqrt(std::max(0.0, ends.largest));
      blur = std::min(std::sqrt(slack_) * largest, slack_ * largest * largest / smallest);
    }
    if (!std::isnan(c.mu))
      tally_.order(c.mu, smallest, std::abs(c.mu), blur, fmt::format("mu {}, claimed and met", where_));
    order(std::max(std::abs(smallest), std::abs(largest)), c.smoothness, "smoothness", blur);
  }

  void cross(const Constants& c) {
    if (std::isnan(c.cross_norm)) return;
    V u = draw(theta_), image = draw(phi_);
    for (int i = 0; i < 3 && norm(u) > 0; ++i) {
      S::scale(1 / norm(u), u);
      curvature_->cross_apply(u, image);
      order(norm(image), c.cross_norm, "cross_norm", 0);
      curvature_->cross_times(image, u);
    }
  }

  void secants(const Sample& a, const Sample& b, const V& v, const V& u, const Constants& c) {
    const auto apart = [](const V& x, const V& y) {
      V difference = S::zeros_like(x);
      S::copy(x, difference);
      S::axpy(-1, y, difference);
      return norm(difference);
    };
    const double distance = apart(a.point, b.point);
    if (distance == 0) return;
    const auto secant = [&](const V& x, const V& y, double length, double claimed, std::string_view name) {
      order(apart(x, y) / (length * distance), claimed, name,
            slack_ * (norm(x) + norm(y)) / (length * distance));
    };
    secant(a.hessian_product, b.hessian_product, norm(v), c.hessian_lipschitz, "hessian_lipschitz");
    secant(a.cross_product, b.cross_product, norm(u), c.cross_lipschitz, "cross_lipschitz");
    secant(a.outer_phi, b.outer_phi, 1, c.outer_smoothness, "outer_smoothness");
    secant(a.outer_theta, b.outer_theta, 1, c.outer_cross_lipschitz, "outer_cross_lipschitz");
    secant(a.residual, b.residual, 1, c.smoothness, "smoothness");
  }

  Equilibrium<V>& equilibrium_;
  const V& phi_;
  const V& theta_;
  CheckOptions options_;
  std::mt19937_64 engine_;
  double slack_;
  Tally tally_;
  std::unique_ptr<Curvature<V>> curvature_;
  std::string where_;
};

template <Vector V>
void check_constants(Equilibrium<V>& equilibrium, const V& phi, const V& theta, const CheckOptions& options,
                     CheckReport& report) {
  ConstantsCheck<V>(equilibrium, phi, theta, options).run(report);
}

}  // namespace bilevel
