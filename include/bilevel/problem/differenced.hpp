#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <bilevel/problem/difference_steps.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// A problem whose products are central differences of its first derivatives, for what has no second
/// ones. With F = ∂φ(L_in + β·L_out) and E = ∂θ(L_in + β·L_out), u the unit roundoff of V:
///
///   J·v  ≈ [F(φ + hv, θ) − F(φ − hv, θ)] / 2h      h = 1 / max_j |v_j| / t_j
///   χᵀ·v ≈ [E(φ + hv, θ) − E(φ − hv, θ)] / 2h      the same h
///   χ·w  ≈ [F(φ, θ + hw) − F(φ, θ − hw)] / 2h      h likewise, with the t of θ
///
/// so that no element moves by more than its own t_j = 3·∛u·ℓ_j, where ℓ_j is the length over which the
/// derivatives bend along it (difference_step). The error is O(t²/ℓ²) from the third derivatives and O(uℓ/t)
/// from rounding: a relative error of about u^⅔, ten digits in double, four in float. A product costs two
/// gradients of each loss (of L_in only where β = 0).
///
/// The lengths are looked for at the first point that is linearised at, and again where φ or θ have gone far
/// from there: six gradients for each length tried, three or four of them as a rule, for every element where
/// there are at most `probed_limit` of them. Beyond, elements are taken to be as long as their size says (the
/// mean size where one is zero), times one factor that is looked for along one direction.
///
/// The wrapped problem's constants describe the losses, not these products: constants and rounding are
/// unknown, so that no certificate built on them is called rigorous. What the differences do to the two
/// products of a certificate is estimated from three step sizes and rounding (times_error). The problem must
/// outlive this object and this object the curvatures that it prepared.
template <Vector V>
class Differenced final : public Problem<V> {
 public:
  explicit Differenced(Problem<V>& problem) : problem_(problem) {}

  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    return problem_.inner(phi, theta, wanted);
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    return problem_.outer(phi, theta, wanted);
  }
  void residual(const V& phi, const V& theta, V& out) override { problem_.residual(phi, theta, out); }
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Products>(*this, phi, theta);
    static_cast<Products&>(*reuse).move_to(phi, theta, beta);
  }
  Capabilities capabilities() const override {
    return {.curvature = true, .symmetric = true, .differenced = true};
  }
  std::string kink(const V& phi, const V& theta) override { return problem_.kink(phi, theta); }
  Holomorphic* holomorphic() override { return problem_.holomorphic(); }
  void obey(const StopToken* stop) override { problem_.obey(stop); }
  const StopToken* stop_token() const override { return problem_.stop_token(); }
  PhiConstraints phi_constraints() const override { return problem_.phi_constraints(); }

  static constexpr Index probed_limit = 200;

 private:
  /// Of φ or of θ: the longest step of each element, and where these were found.
  struct Steps {
    V longest, found_at;
  };

  class Products final : public Curvature<V> {
   public:
    // zeros_like and not the copy constructor: a vector type may share its elements between copies.
    Products(Differenced& owner, const V& phi, const V& theta)
        : owner_(owner),
          problem_(owner.problem_),
          phi_(Space<V>::zeros_like(phi)),
          moved_phi_(Space<V>::zeros_like(phi)),
          below_phi_(Space<V>::zeros_like(phi)),
          outer_phi_(Space<V>::zeros_like(phi)),
          ratio_phi_(Space<V>::zeros_like(phi)),
          theta_(Space<V>::zeros_like(theta)),
          moved_theta_(Space<V>::zeros_like(theta)),
          below_theta_(Space<V>::zeros_like(theta)),
          outer_theta_(Space<V>::zeros_like(theta)),
          ratio_theta_(Space<V>::zeros_like(theta)) {}

    void move_to(const V& phi, const V& theta, double beta) {
      Space<V>::copy(phi, phi_);
      Space<V>::copy(theta, theta_);
      beta_ = beta;
      // φ before θ, whose lengths are measured by what moves φ.
      if (stale(owner_.phi_steps_, phi_, ratio_phi_)) find_phi_steps();
      theta_looked_at_ = false;
    }
    void times(const V& v, V& out) override { differ_phi(step(owner_.phi_steps_, v, ratio_phi_), v, out); }
    void cross_times(const V& v, V& out) override {
      differ_theta_gradient(step(owner_.phi_steps_, v, ratio_phi_), v, out);
    }
    void cross_apply(const V& w, V& out) override {
      if (!theta_looked_at_ && stale(owner_.theta_steps_, theta_, ratio_theta_)) find_theta_steps();
      theta_looked_at_ = true;
      differ_theta(step(owner_.theta_steps_, w, ratio_theta_), w, out);
    }
    double times_error(const V& v) override {
      return quotient_error(v, phi_, [&](double h, const V& direction, V& out) {
        differ_phi(h, direction, out);
        return norm(below_phi_);
      });
    }
    double cross_times_error(const V& v) override {
      return quotient_error(v, theta_, [&](double h, const V& direction, V& out) {
        differ_theta_gradient(h, direction, out);
        return norm(below_theta_);
      });
    }

   private:
    /// From three steps: what bends is a third more than the first two disagree by, rounding grows as they
    /// shrink. And by luck they may agree: added is what a few roundings of the gradients and of φ ± hv come
    /// to.
    template <class Differ>
    double quotient_error(const V& v, const V& like, const Differ& differ) {
      const double h = step(owner_.phi_steps_, v, ratio_phi_);
      if (h == 0) return 0;
      V whole = Space<V>::zeros_like(like), part = Space<V>::zeros_like(like);
      const double size = differ(h, v, whole);
      double apart = 0;
      for (const double shorter : {0.5, 0.25}) {
        differ(shorter * h, v, part);
        Space<V>::axpy(-1, whole, part);
        apart = std::max(apart, norm(part));
      }
      V direction = Space<V>::zeros_like(phi_);
      Space<V>::random(1, direction);
      Space<V>::multiply(phi_, direction);
      differ(step(owner_.phi_steps_, direction, ratio_phi_), direction, part);
      return 2 * apart + 4 * unit_roundoff<V>() / h * (size + norm(part));
    }
    void differ_phi(double h, const V& v, V& out) {
      if (h == 0) return Space<V>::scale(0, out);
      shift(phi_, -h, v, moved_phi_);
      phi_gradient(moved_phi_, theta_, below_phi_);
      shift(phi_, h, v, moved_phi_);
      phi_gradient(moved_phi_, theta_, out);
      divide_difference(below_phi_, h, out);
    }
    void differ_theta_gradient(double h, const V& v, V& out) {
      if (h == 0) return Space<V>::scale(0, out);
      shift(phi_, -h, v, moved_phi_);
      theta_gradient(moved_phi_, below_theta_);
      shift(phi_, h, v, moved_phi_);
      theta_gradient(moved_phi_, out);
      divide_difference(below_theta_, h, out);
    }
    void differ_theta(double h, const V& w, V& out) {
      if (h == 0) return Space<V>::scale(0, out);
      shift(theta_, -h, w, moved_theta_);
      phi_gradient(phi_, moved_theta_, below_phi_);
      shift(theta_, h, w, moved_theta_);
      phi_gradient(phi_, moved_theta_, out);
      divide_difference(below_phi_, h, out);
    }

    /// 0 for a zero direction, whose product is zero without any difference.
    static double step(const Steps& steps, const V& direction, V& ratio) {
      Space<V>::copy(direction, ratio);
      Space<V>::divide(steps.longest, ratio);
      const double most = Space<V>::max_abs(ratio);
      return most > 0 ? 1 / most : most;
    }
    /// Never looked for, or so many lengths from there that the loss may bend otherwise.
    static bool stale(const std::optional<Steps>& steps, const V& x, V& ratio) {
      if (!steps) return true;
      Space<V>::copy(x, ratio);
      Space<V>::axpy(-1, steps->found_at, ratio);
      Space<V>::divide(steps->longest, ratio);
      return Space<V>::max_abs(ratio) > 10 / std::cbrt(unit_roundoff<V>());
    }
    static double step(const std::optional<Steps>& steps, const V& direction, V& ratio) {
      return step(*steps, direction, ratio);
    }

    /// Where to begin to look for the length of an element: well below its size, and far below one where it
    /// is zero, since nothing says how long that is.
    static Eigen::VectorXd shortest(const V& x) {
      const double u = unit_roundoff<V>();
      const Eigen::ArrayXd size = host_copy(x).array().abs();
      const double some = static_cast<double>((size > 0).count());
      if (size.size() > probed_limit) return (size > 0).select(size, some > 0 ? size.sum() / some : 1);
      return (size > 0).select(std::cbrt(u) * size, std::pow(u, 0.75));
    }
    /// `change(h, direction)` is how the quotient changes along one element, or one direction for all.
    template <class Change>
    static void find_steps(const V& x, std::optional<Steps>& steps, const Change& change) {
      Eigen::VectorXd longest = shortest(x);
      if (steps && longest.size() <= probed_limit) longest = host_copy(steps->longest);
      V direction = Space<V>::zeros_like(x);
      if (longest.size() <= probed_limit) {
        for (Index j = 0; j < longest.size(); ++j) {
          Space<V>::unit(j, direction);
          longest[j] =
              difference_step([&](double h) { return change(h, direction); }, longest[j], unit_roundoff<V>());
        }
      } else {
        V lengths = Space<V>::zeros_like(x);
        Space<V>::from_host(longest.data(), lengths);
        Space<V>::random(1, direction);
        Space<V>::scale(1 / Space<V>::max_abs(direction), direction);
        Space<V>::multiply(lengths, direction);
        longest *= difference_step([&](double h) { return change(h, direction); },
                                   std::cbrt(unit_roundoff<V>()), unit_roundoff<V>());
      }
      if (!steps) steps = Steps{Space<V>::zeros_like(x), Space<V>::zeros_like(x)};
      Space<V>::from_host(longest.data(), steps->longest);
      Space<V>::copy(x, steps->found_at);
    }
    static double relative(double a, double b) {
      const double size = std::max(std::abs(a), std::abs(b));
      return size == 0 ? 0 : std::abs(a - b) / size;  // NaN where one is not finite
    }
    /// By the curvature vᵀJv, which is the same in whatever units φ is.
    void find_phi_steps() {
      V out = Space<V>::zeros_like(phi_);
      find_steps(phi_, owner_.phi_steps_, [&](double h, const V& v) {
        const auto curvature = [&](double length) {
          differ_phi(length, v, out);
          return Space<V>::dot(v, out);
        };
        const double wide = curvature(h), middle = curvature(h / 8), narrow = curvature(h / 64);
        if (wide == 0 && middle == 0 && narrow == 0) return QuotientChange::nothing();
        return QuotientChange{relative(wide, middle), relative(middle, narrow)};
      });
    }
    /// By the whole of χ·w, with each element in the units of φ that are known by now.
    void find_theta_steps() {
      V wide = Space<V>::zeros_like(phi_), middle = Space<V>::zeros_like(phi_),
        narrow = Space<V>::zeros_like(phi_);
      const auto change = [](double before, double after, V& difference, const V& other) {
        Space<V>::axpy(-1, other, difference);
        const double size = std::max(before, after);
        return size == 0 ? 0 : norm(difference) / size;
      };
      find_steps(theta_, owner_.theta_steps_, [&](double h, const V& w) {
        const auto quotient = [&](double length, V& out) {
          differ_theta(length, w, out);
          Space<V>::multiply(owner_.phi_steps_->longest, out);
          return norm(out);
        };
        const double a = quotient(h, wide), b = quotient(h / 8, middle), c = quotient(h / 64, narrow);
        if (a == 0 && b == 0 && c == 0) return QuotientChange::nothing();
        const double first = change(a, b, wide, middle);
        return QuotientChange{first, change(b, c, middle, narrow)};
      });
    }
    static void shift(const V& x, double h, const V& direction, V& out) {
      Space<V>::copy(x, out);
      Space<V>::axpy(h, direction, out);
    }
    static void divide_difference(const V& below, double h, V& above) {
      Space<V>::axpy(-1, below, above);
      Space<V>::scale(1 / (2 * h), above);
    }
    void phi_gradient(const V& phi, const V& theta, V& out) {
      problem_.residual(phi, theta, out);
      if (beta_ == 0) return;
      problem_.outer(phi, theta, {.phi = &outer_phi_});
      Space<V>::axpy(beta_, outer_phi_, out);
    }
    void theta_gradient(const V& phi, V& out) {
      problem_.inner(phi, theta_, {.theta = &out});
      if (beta_ == 0) return;
      problem_.outer(phi, theta_, {.theta = &outer_theta_});
      Space<V>::axpy(beta_, outer_theta_, out);
    }

    Differenced& owner_;
    Problem<V>& problem_;
    V phi_, moved_phi_, below_phi_, outer_phi_, ratio_phi_;
    V theta_, moved_theta_, below_theta_, outer_theta_, ratio_theta_;
    double beta_ = 0;
    bool theta_looked_at_ = false;
  };

  Problem<V>& problem_;
  std::optional<Steps> phi_steps_, theta_steps_;
};

template <Vector V>
Differenced<V> with_difference_products(Problem<V>& problem) {
  return Differenced<V>(problem);
}

}  // namespace bilevel
