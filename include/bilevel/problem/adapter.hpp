#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problem/oracles.hpp>

namespace bilevel {

/// A plain struct in a place of its own, or a reference to one. Moving hands the place on, so that whoever
/// looks there still finds it; a copy owns a copy, and a copy of a reference refers to the same.
template <class T>
class Held {
  using Plain = std::remove_reference_t<T>;
  static constexpr bool refers = std::is_reference_v<T>;

 public:
  explicit Held(T held) : at_(place(std::forward<T>(held))) {}
  Held(const Held& other) requires(refers || std::copy_constructible<Plain>) : at_(other.copied()) {}
  Held& operator=(const Held& other) requires(refers || std::copy_constructible<Plain>) {
    at_ = other.copied();
    return *this;
  }
  Held(Held&&) noexcept = default;
  Held& operator=(Held&&) noexcept = default;

  Plain& operator*() const { return *at_; }
  Plain* operator->() const { return at_.get(); }
  const std::shared_ptr<Plain>& share() const { return at_; }

 private:
  static std::shared_ptr<Plain> place(T held) {
    if constexpr (refers)
      return {std::shared_ptr<void>(), &held};  // owns nothing
    else
      return std::make_shared<Plain>(std::move(held));
  }
  std::shared_ptr<Plain> copied() const {
    if constexpr (refers)
      return at_;
    else
      return at_ ? std::make_shared<Plain>(*at_) : nullptr;  // a copy of what was moved from is moved from
  }

  std::shared_ptr<Plain> at_;
};

/// The part of an adapter that a problem and an equilibrium share. T is a plain struct (owned) or a
/// reference to one (which must then outlive the adapter).
template <class T, Vector V, class Base>
class AdapterOf : public Base {
  using Plain = std::remove_reference_t<T>;
  static constexpr bool minimises = std::is_base_of_v<Problem<V>, Base>;

  static_assert(
      OffersHessianTimes<T, V> == OffersCrossTimes<T, V> &&
          OffersHessianTimes<T, V> == OffersCrossApply<T, V>,
      "bilevel: hessian_times, cross_times and cross_apply are offered together: all three or none");
  static_assert(minimises || !OffersSecondOrder<T, V> || OffersHessianTransposeTimes<T, V>,
                "bilevel: a residual's Jacobian need not be symmetric, so its products need "
                "hessian_transpose_times too");
  // A member that exists but cannot be called would otherwise be taken for one that is not offered.
  static_assert(
      OffersHessianTimes<T, V> || !requires { &Plain::hessian_times; },
      "bilevel: hessian_times cannot be called as (phi, theta, double beta, v, V& out)");
  static_assert(
      OffersHessianTransposeTimes<T, V> || !requires { &Plain::hessian_transpose_times; },
      "bilevel: hessian_transpose_times cannot be called as (phi, theta, double beta, v, V& out)");
  static_assert(
      OffersCrossTimes<T, V> || !requires { &Plain::cross_times; },
      "bilevel: cross_times cannot be called as (phi, theta, double beta, v, V& out)");
  static_assert(
      OffersCrossApply<T, V> || !requires { &Plain::cross_apply; },
      "bilevel: cross_apply cannot be called as (phi, theta, double beta, u, V& out)");
  static_assert(
      OffersDense<T, V> || !requires { &Plain::dense; },
      "bilevel: dense cannot be called as (phi, theta, double beta, Eigen::MatrixXd& out)");
  static_assert(
      OffersCrossNorm<T, V> || !requires { &Plain::cross_norm; },
      "bilevel: cross_norm cannot be called as double (phi, theta, double beta)");
  static_assert(
      OffersConstants<T, V> || !requires { &Plain::constants; },
      "bilevel: constants cannot be called as Constants (theta, center, double radius)");
  static_assert(
      OffersRounding<T, V> || !requires { &Plain::rounding; },
      "bilevel: rounding cannot be called as Rounding (phi, theta, pi)");
  static_assert(
      OffersPhiConstraints<T, V> || !requires { &Plain::phi_constraints; },
      "bilevel: phi_constraints cannot be called as PhiConstraints () const");

 public:
  explicit AdapterOf(T oracles) : oracles_(std::forward<T>(oracles)) {
    if constexpr (requires(const Plain& plain) { plain.validate().throw_if_any(); })
      std::as_const(*oracles_).validate().throw_if_any();
  }

  V initial_phi() const override { return std::as_const(*oracles_).initial_phi(); }
  V initial_theta() const override { return std::as_const(*oracles_).initial_theta(); }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    return oracles_->outer(phi, theta, wanted);
  }

  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if constexpr (OffersSecondOrder<T, V>) {
      if (present(*oracles_).hessian_times) {
        if (!reuse) reuse = std::make_unique<Products>(phi, theta);
        static_cast<Products&>(*reuse).move_to(oracles_.share(), phi, theta, beta);
        return;
      }
    }
    Base::linearise(phi, theta, beta, reuse);
  }
  Capabilities capabilities() const override {
    return {.curvature = OffersSecondOrder<T, V> && present(*oracles_).hessian_times, .symmetric = minimises};
  }
  Constants constants(const V& theta, const V& center, double radius) override {
    if constexpr (OffersConstants<T, V>) {
      if (present(*oracles_).constants) return oracles_->constants(theta, center, radius);
    }
    return {};
  }
  Rounding rounding(const V& phi, const V& theta, const V& pi) override {
    if constexpr (OffersRounding<T, V>) {
      if (present(*oracles_).rounding) return oracles_->rounding(phi, theta, pi);
    }
    return {};
  }

  PhiConstraints phi_constraints() const override {
    if constexpr (OffersPhiConstraints<T, V>) {
      const Plain& plain = *oracles_;
      if constexpr (requires { static_cast<bool>(plain.phi_constraints); }) {
        return plain.phi_constraints ? plain.phi_constraints() : PhiConstraints{};
      } else {
        return plain.phi_constraints();
      }
    }
    return {};
  }

  Plain& oracles() { return *oracles_; }

 private:
  struct Present {
    bool hessian_times = true, hessian_transpose_times = true, dense = true, cross_norm = true,
         constants = true, rounding = true;
  };
  /// Which of the optional members hold something: one that is a callable object, as a field of Functions<V>,
  /// may be empty. A member function cannot be asked and is always there.
  static Present present(const Plain& o) {
    Present is;
    if constexpr (requires { static_cast<bool>(o.hessian_times); })
      is.hessian_times = static_cast<bool>(o.hessian_times);
    if constexpr (requires { static_cast<bool>(o.hessian_transpose_times); })
      is.hessian_transpose_times = static_cast<bool>(o.hessian_transpose_times);
    if constexpr (requires { static_cast<bool>(o.dense); }) is.dense = static_cast<bool>(o.dense);
    if constexpr (requires { static_cast<bool>(o.cross_norm); })
      is.cross_norm = static_cast<bool>(o.cross_norm);
    if constexpr (requires { static_cast<bool>(o.constants); }) is.constants = static_cast<bool>(o.constants);
    if constexpr (requires { static_cast<bool>(o.rounding); }) is.rounding = static_cast<bool>(o.rounding);
    return is;
  }

  /// A plain struct has no place to prepare anything: the point is kept and handed to every product. It looks
  /// at the oracles themselves, not at an adapter, which may be moved.
  class Products final : public Curvature<V> {
   public:
    // zeros_like and not the copy constructor: a vector type may share its elements between copies.
    Products(const V& phi, const V& theta)
        : phi_(Space<V>::zeros_like(phi)), theta_(Space<V>::zeros_like(theta)) {}

    void move_to(std::shared_ptr<Plain> oracles, const V& phi, const V& theta, double beta) {
      oracles_ = std::move(oracles);
      Space<V>::copy(phi, phi_);
      Space<V>::copy(theta, theta_);
      beta_ = beta;
    }
    void times(const V& v, V& out) override { oracles_->hessian_times(phi_, theta_, beta_, v, out); }
    void transpose_times(const V& v, V& out) override {
      if constexpr (OffersHessianTransposeTimes<T, V>) {
        if (present(*oracles_).hessian_transpose_times)
          return oracles_->hessian_transpose_times(phi_, theta_, beta_, v, out);
      }
      times(v, out);
    }
    void cross_times(const V& v, V& out) override { oracles_->cross_times(phi_, theta_, beta_, v, out); }
    void cross_apply(const V& u, V& out) override { oracles_->cross_apply(phi_, theta_, beta_, u, out); }
    bool dense(Eigen::MatrixXd& out) override {
      if constexpr (OffersDense<T, V>) {
        if (present(*oracles_).dense) {
          oracles_->dense(phi_, theta_, beta_, out);
          return true;
        }
      }
      return false;
    }
    double cross_norm() override {
      if constexpr (OffersCrossNorm<T, V>) {
        if (present(*oracles_).cross_norm) return oracles_->cross_norm(phi_, theta_, beta_);
      }
      return unknown;
    }

   private:
    std::shared_ptr<Plain> oracles_;
    V phi_, theta_;
    double beta_ = 0;
  };

 protected:
  Held<T> oracles_;
};

/// A plain struct as a Problem. It can be moved, and copied where the struct can: curvatures that were
/// prepared before stay good, and belong to the oracles that prepared them. Assigning gives it other oracles,
/// in another place: a HolomorphicPropagation that was made of it, which keeps hold of the oracles, has to be
/// made again.
template <class T, Vector V>
requires Oracles<T, V>
class Adapter final : public AdapterOf<T, V, Problem<V>> {
 public:
  using AdapterOf<T, V, Problem<V>>::AdapterOf;
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    return this->oracles_->inner(phi, theta, wanted);
  }
  void residual(const V& phi, const V& theta, V& out) override {
    if constexpr (OffersResidual<T, V>) {
      this->oracles_->residual(phi, theta, out);
    } else {
      this->oracles_->inner(phi, theta, {.phi = &out});
    }
  }
  /// Offered by a struct that is a Holomorphic itself.
  Holomorphic* holomorphic() override {
    if constexpr (std::derived_from<std::remove_reference_t<T>, Holomorphic>) {
      return &*this->oracles_;
    } else {
      return nullptr;
    }
  }
};

/// A plain struct with a residual in place of an inner loss, as an Equilibrium.
template <class T, Vector V>
requires ResidualOracles<T, V>
class EquilibriumAdapter final : public AdapterOf<T, V, Equilibrium<V>> {
 public:
  using AdapterOf<T, V, Equilibrium<V>>::AdapterOf;
  void residual(const V& phi, const V& theta, V& out) override { this->oracles_->residual(phi, theta, out); }
};

template <class T>
struct HeldBy {
  using type = T;
};
template <class T>
struct HeldBy<std::reference_wrapper<T>> {
  using type = T&;
};

template <class T>
struct VectorOf {
  static_assert(
      requires(const T& t) { t.initial_phi(); },
      "bilevel: a problem needs V initial_phi() const and V initial_theta() const");
  using type = std::remove_cvref_t<decltype(std::declval<const T&>().initial_phi())>;
};

/// The vector type is that of initial_phi() unless it is given: make_problem<Eigen::VectorXd>(…).
template <class Given, class T>
using VectorFor = typename std::conditional_t<std::is_void_v<Given>, VectorOf<std::remove_reference_t<T>>,
                                              std::type_identity<Given>>::type;

/// What is a Problem or an Equilibrium already.
template <class T>
concept IsProblem = requires(std::remove_reference_t<T>& t) {
  []<class V>(Equilibrium<V>&) {}(t);
};

/// Makes a problem of a plain struct (see Oracles), or an equilibrium where it has `residual` and no
/// `inner`. The struct is moved in; std::ref(struct) refers to it instead.
template <class Given = void, class Argument>
auto make_problem(Argument oracles) {
  using T = typename HeldBy<Argument>::type;
  static_assert(!IsProblem<T>, "bilevel: this is a problem already; use it as it is");
  using V = VectorFor<Given, T>;
  static_assert(Vector<V>,
                "bilevel: Space<V> is not specialised for what initial_phi() returns; name the vector type "
                "(an expression of Eigen is none)");
  if constexpr (Vector<V>) {
    static_assert(OffersStarts<T, V>,
                  "bilevel: a problem needs V initial_phi() const and V initial_theta() const");
    static_assert(OffersOuter<T, V>, "bilevel: a problem needs double outer(phi, theta, Wanted<V>)");
    static_assert(
        OffersInner<T, V> || !requires { &std::remove_reference_t<T>::inner; },
        "bilevel: inner cannot be called as double inner(phi, theta, Wanted<V>)");
    static_assert(
        OffersInner<T, V> || OffersResidual<T, V>,
        "bilevel: a problem needs double inner(phi, theta, Wanted<V>), or void residual(phi, theta, "
        "V& out) where it minimises nothing");
    if constexpr (Oracles<T, V>) {
      return Adapter<T, V>(std::move(oracles));
    } else if constexpr (ResidualOracles<T, V>) {
      return EquilibriumAdapter<T, V>(std::move(oracles));
    }
  }
}

}  // namespace bilevel
