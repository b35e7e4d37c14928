#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include <Eigen/Core>

#include <bilevel/outcome/stop_token.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/phi_constraints.hpp>
#include <bilevel/space/space.hpp>
#include <bilevel/space/sparse_matrix.hpp>

namespace bilevel {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double everywhere = std::numeric_limits<double>::infinity();

/// Which derivatives a caller wants, and where to: null means "not wanted". The vectors have
/// their shape already; an oracle overwrites them.
template <Vector V>
struct Wanted {
  V* phi = nullptr;
  V* theta = nullptr;
};

/// What a problem can do beyond its first derivatives.
struct Capabilities {
  bool curvature = true;     ///< `linearise` works; false for a first-order problem
  bool symmetric = true;     ///< ∂φ residual is symmetric (always so for a Problem)
  bool differenced = false;  ///< the products are finite differences, asked for by the user
  bool sparse = false;       ///< curvatures give J with few entries (Curvature::sparse)
};

/// Numbers about the losses as functions of φ that hold on a ball, at one θ. NaN is "not known".
/// Letters are those of the paper's assumptions and of docs/certificates.md.
struct Constants {
  double mu = unknown;          ///< L_in is μ-strongly convex (or σ_min(J) ≥ μ along every segment)
  double smoothness = unknown;  ///< L: ‖∂φ residual‖ ≤ L
  double hessian_lipschitz = unknown;      ///< ρ_H
  double cross_lipschitz = unknown;        ///< ρ_χ, of χ = ∂θ∂φ L_in
  double cross_norm = unknown;             ///< sup ‖χ‖
  double outer_lipschitz = unknown;        ///< B: sup ‖∂φ L_out‖
  double outer_smoothness = unknown;       ///< L_out: Lipschitz constant of ∂φ L_out
  double outer_cross_lipschitz = unknown;  ///< M_out: Lipschitz constant of ∂θ L_out
  /// R: ∂φ²L_in(φ′) ⪰ exp(−R‖φ′ − φ‖)·∂φ²L_in(φ), as for losses whose third derivative is at most a multiple
  /// of their second; 0 where the Hessian is constant. Unlike ρ_H it does not grow as the curvature vanishes.
  double curvature_decay = unknown;
  double outer_decay = unknown;  ///< the same of ∂φ²L_out, as an upper bound: ∂φ²L_out(φ′) ⪯ exp(R‖φ′ − φ‖)·…
  double cross_energy = unknown;  ///< sup ‖H^(−1/2)χ‖: small where what θ moves is what the penalties hold
};

/// Upper bounds, in the 2-norm, of the rounding errors made when the quantities of a certificate
/// are evaluated. NaN is "not known"; a certificate is then at best "estimated".
struct Rounding {
  double residual = unknown;   ///< of residual(φ, θ)
  double adjoint = unknown;    ///< of ∂φ L_out − π·∂φ residual
  double gradient = unknown;   ///< of ∂θ L_out − π·∂θ residual
  double curvature = unknown;  ///< of the matrix ∂φ residual(φ, θ) as dense() or products give it
  double inner_theta = unknown;  ///< of ∂θ L_in(φ, θ), whose differences equilibrium propagation divides by β
};

/// Curvature of L_in + β·L_out at one point, prepared once by `linearise` and multiplied many
/// times. J = ∂φ(residual + β ∂φ L_out), χ = ∂θ(residual + β ∂φ L_out), |φ|×|θ|.
template <Vector V>
class Curvature {
 public:
  virtual ~Curvature() = default;

  virtual void times(const V& v, V& out) = 0;                          ///< out = J·v
  virtual void transpose_times(const V& v, V& out) { times(v, out); }  ///< out = Jᵀ·v
  virtual void cross_times(const V& v, V& out) = 0;                    ///< out = χᵀ·v, of θ's shape
  virtual void cross_apply(const V& u, V& out) = 0;                    ///< out = χ·u, of φ's shape

  /// The whole matrix J in host memory; false where the problem has no cheaper way than |φ| products.
  virtual bool dense(Eigen::MatrixXd&) { return false; }
  /// The whole of a symmetric J, where it has few entries and they are found by few products. Returns how
  /// many products that took; 0 where there is no such way.
  virtual long sparse(SparseMatrix& /*out*/) { return 0; }
  /// The diagonal of J, for the Jacobi preconditioner.
  virtual bool diagonal(V&) { return false; }
  /// out = J_k·v, J_k that of rows of data drawn anew at each call, whose mean is J; the same draws after each
  /// linearise. Returns their share of a whole product; 0 where there are no rows to draw.
  virtual double drawn_times(const V& /*v*/, V& /*out*/) { return 0; }
  /// out ≈ J⁻¹·r, symmetric positive definite: the problem's own preconditioner.
  virtual bool precondition(const V& /*r*/, V& /*out*/) { return false; }
  /// An upper bound of ‖χ‖₂ that holds without doubt (Frobenius norm, exact diagonal); NaN if there is none.
  virtual double cross_norm() { return unknown; }
  /// A lower bound of the smallest eigenvalue of a symmetric J that holds without doubt and costs at most a
  /// few products; NaN if there is none.
  virtual double least_eigenvalue() { return unknown; }
  /// Estimates of ‖error‖₂ of times(v) and of cross_times(v) where they are approximations, such as finite
  /// differences; a certificate adds them to what it measures. 0: formulas, of which Rounding speaks.
  virtual double times_error(const V& /*v*/) { return 0; }
  virtual double cross_times_error(const V& /*v*/) { return 0; }
};

/// Something that settles: the state φ at which residual(φ, θ) = 0, and an outer loss that
/// judges it. Oracles may use storage inside the problem: one problem object, one thread.
template <Vector V>
class Equilibrium {
 public:
  virtual ~Equilibrium() = default;

  /// Where a solve starts unless told otherwise; also says what shape φ and θ have.
  virtual V initial_phi() const = 0;
  virtual V initial_theta() const = 0;

  /// What is zero once it has settled.
  virtual void residual(const V& phi, const V& theta, V& out) = 0;
  /// Whether the residual is ∂φ L_in of some L_in, so that `derivatives` works.
  virtual bool minimises() const { return false; }
  /// ∂φ L_in and ∂θ L_in in one pass.
  virtual void derivatives(const V& /*phi*/, const V& /*theta*/, V& /*by_phi*/, V& /*by_theta*/) {
    throw InvalidInput("this equilibrium minimises nothing");
  }
  /// L_out, and its partial derivatives where wanted, in one pass.
  virtual double outer(const V& phi, const V& theta, Wanted<V> wanted) = 0;

  /// Prepare the curvature at a point. `reuse` is null or what an earlier call of the same
  /// problem left there; its storage is used again.
  virtual void linearise(const V& /*phi*/, const V& /*theta*/, double /*beta*/,
                         std::unique_ptr<Curvature<V>>& /*reuse*/) {
    throw InvalidInput(
        "this problem offers first derivatives only: implicit differentiation and Newton "
        "methods need linearise(); ask for with_difference_products() or use a first-order method");
  }
  virtual Capabilities capabilities() const { return {}; }
  /// Constants that hold for all φ within `radius` of `center` at this θ.
  virtual Constants constants(const V& /*theta*/, const V& /*center*/, double /*radius*/) { return {}; }
  virtual Rounding rounding(const V& /*phi*/, const V& /*theta*/, const V& /*pi*/) { return {}; }
  /// What makes derivatives at this very point one-sided (a tie of a comparison, |·| at zero), in words that
  /// follow "at the settled state"; empty where they are smooth, or where nobody looks.
  virtual std::string kink(const V& /*phi*/, const V& /*theta*/) { return {}; }

  /// What φ must satisfy while L_in is minimised, the same at every θ; empty: nothing.
  virtual PhiConstraints phi_constraints() const { return {}; }

  /// Loops over these oracles, of every stage, end early where this says so; null: never. It must outlive
  /// them.
  virtual void obey(const StopToken* stop) { stop_ = stop; }
  virtual const StopToken* stop_token() const { return stop_; }

 private:
  const StopToken* stop_ = nullptr;
};

class Holomorphic;

/// An equilibrium that minimises: the residual is ∂φ L_in.
template <Vector V>
class Problem : public Equilibrium<V> {
 public:
  /// L_in, and its partial derivatives where wanted, in one pass.
  virtual double inner(const V& phi, const V& theta, Wanted<V> wanted) = 0;

  void residual(const V& phi, const V& theta, V& out) override { inner(phi, theta, {.phi = &out}); }
  bool minimises() const override { return true; }
  void derivatives(const V& phi, const V& theta, V& by_phi, V& by_theta) override {
    inner(phi, theta, {.phi = &by_phi, .theta = &by_theta});
  }
  /// The losses continued to complex φ and β (problem/holomorphic.hpp); null where that is not offered.
  virtual Holomorphic* holomorphic() { return nullptr; }
};

/// Refuses a problem whose φ is constrained, for what settles without looking at constraints.
template <Vector V>
void require_unconstrained(const Equilibrium<V>& problem, std::string_view what) {
  if (!problem.phi_constraints().empty())
    throw InvalidInput(
        fmt::format("{}: does not obey the problem's constraints on phi; use the inner solver newton or "
                    "lbfgs, made by name, or a VariationalInequality of what minimises no loss",
                    what));
}

/// Refuses shapes that do not fit the problem, before any work starts. `what` names the caller.
template <Vector V>
void require_shapes(const Equilibrium<V>& problem, const V* phi, const V* theta, std::string_view what) {
  const Index phis = Space<V>::size(problem.initial_phi()), thetas = Space<V>::size(problem.initial_theta());
  if (phis == 0)
    throw InvalidInput(fmt::format("{}: phi has dimension 0, so there is nothing that settles", what));
  if (thetas == 0)
    throw InvalidInput(fmt::format("{}: theta has dimension 0, so there is nothing to learn", what));
  if (phi && Space<V>::size(*phi) != phis)
    throw InvalidInput(
        fmt::format("{}: phi has {} elements, the problem wants {}", what, Space<V>::size(*phi), phis));
  if (theta && Space<V>::size(*theta) != thetas)
    throw InvalidInput(
        fmt::format("{}: theta has {} elements, the problem wants {}", what, Space<V>::size(*theta), thetas));
  if (phi && !all_finite(*phi))
    throw InvalidInput(fmt::format("{}: the start phi holds NaN or infinity", what));
  if (theta && !all_finite(*theta)) throw InvalidInput(fmt::format("{}: theta holds NaN or infinity", what));
}

}  // namespace bilevel
