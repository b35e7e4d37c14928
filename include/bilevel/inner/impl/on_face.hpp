#pragma once

#include <bilevel/inner/on_face.hpp>

namespace bilevel {

/// The constraints that hold a state with this gradient, and an orthonormal basis of their normals.
Face face_of(const NamedConstraints& constraints, const Eigen::VectorXd& phi, const Eigen::VectorXd& gradient,
             Eigen::MatrixXd& basis);

template <Vector V>
OnFace<V>::OnFace(Problem<V>& problem)
    : problem_(problem),
      held_(Space<V>::zeros_like(problem.initial_phi())),
      at_(Space<V>::zeros_like(held_)),
      away_(Space<V>::zeros_like(held_)) {
  const Index n = Space<V>::size(problem.initial_phi());
  const PhiConstraints constraints = problem.phi_constraints();
  constraints.validate(n).throw_if_any();
  constraints_ = rows_of(constraints, n);
  across_basis_.resize(n, 0);
}

template <Vector V>
void OnFace<V>::hold(const V& phi, const V& theta, double beta) {
  V gradient = Space<V>::zeros_like(phi);
  problem_.inner(phi, theta, {.phi = &gradient});
  if (beta != 0) {
    V outer = Space<V>::zeros_like(phi);
    problem_.outer(phi, theta, {.phi = &outer});
    Space<V>::axpy(beta, outer, gradient);
  }
  face_ = face_of(constraints_, host_copy(phi), host_copy(gradient), across_basis_);
  Space<V>::copy(phi, held_);
  if (!measured_ && across_basis_.cols() > 0) measure(theta);
}

/// Into the feasible set from a vertex: the sum of the normals of the inequalities that hold it.
template <Vector V>
void OnFace<V>::point_inwards(V& out) const {
  const LinearConstraints& rows = constraints_.rows;
  Eigen::VectorXd inwards = Eigen::VectorXd::Zero(rows.normals.rows());
  for (const Index i : face_.active)
    if (i >= rows.equalities) inwards += rows.normals.col(i).normalized();
  Space<V>::from_host(inwards.data(), out);
}

/// The curvatures along the face in one direction, by differences: a method of first order never linearises.
/// At a vertex, where there is nothing along the face, that of the inner loss into the feasible set.
template <Vector V>
void OnFace<V>::measure(const V& theta) {
  V probe = Space<V>::zeros_like(held_), here = Space<V>::zeros_like(held_),
    there = Space<V>::zeros_like(held_);
  Space<V>::random(1, probe);
  project(probe);
  const bool vertex = !(norm(probe) > 1e-8);
  if (vertex && measured_inwards_) return;
  if (vertex) point_inwards(probe);
  const double size = norm(probe);
  if (!(size > 0)) return;
  const double length = norm(held_), step = std::sqrt(unit_roundoff<V>()) * (length > 0 ? length : 1);
  Space<V>::copy(held_, at_);
  Space<V>::axpy(step / size, probe, at_);
  const auto differences = [&] {
    Space<V>::axpy(-1, here, there);
    const double typical = norm(there) / step;
    return std::isfinite(typical) ? typical : 0;
  };
  problem_.inner(held_, theta, {.phi = &here});
  problem_.inner(at_, theta, {.phi = &there});
  if (const double typical = differences(); typical > 0) {
    across_ = typical;
    (vertex ? measured_inwards_ : measured_) = true;
  }
  if (vertex) return;
  problem_.outer(held_, theta, {.phi = &here});
  problem_.outer(at_, theta, {.phi = &there});
  outer_across_ = differences();
}

template <Vector V>
void OnFace<V>::project(V& x) const {
  if (across_basis_.cols() == 0) return;
  if (across_basis_.cols() == across_basis_.rows()) {
    Space<V>::fill(0, x);
    return;
  }
  Eigen::VectorXd host = host_copy(x);
  // Twice: what was large across the face leaves rounding behind.
  for (int pass = 0; pass < 2; ++pass) host -= (across_basis_ * (across_basis_.transpose() * host)).eval();
  Space<V>::from_host(host.data(), x);
}

template <Vector V>
const V& OnFace<V>::onto(const V& phi) {
  if (across_basis_.cols() == 0) return phi;
  Space<V>::copy(phi, away_);
  Space<V>::axpy(-1, held_, away_);
  Space<V>::copy(away_, at_);
  project(at_);
  Space<V>::axpy(-1, at_, away_);
  Space<V>::axpy(1, held_, at_);
  return at_;
}

template <Vector V>
double OnFace<V>::with_across(double value, double curvature, Wanted<V> wanted) const {
  if (across_basis_.cols() == 0) return value;
  if (wanted.phi) {
    project(*wanted.phi);
    Space<V>::axpy(curvature, away_, *wanted.phi);
  }
  return value + 0.5 * curvature * Space<V>::dot(away_, away_);
}

template <Vector V>
double OnFace<V>::inner(const V& phi, const V& theta, Wanted<V> wanted) {
  return with_across(problem_.inner(onto(phi), theta, wanted), across_, wanted);
}

template <Vector V>
double OnFace<V>::outer(const V& phi, const V& theta, Wanted<V> wanted) {
  return with_across(problem_.outer(onto(phi), theta, wanted), typical_outer_curvature(), wanted);
}

template <Vector V>
struct OnFace<V>::AlongFace final : Curvature<V> {
  AlongFace(OnFace& from, const V& like) : owner(from), along(Space<V>::zeros_like(like)) {}

  void times(const V& v, V& out) override {
    Space<V>::copy(v, along);
    owner.project(along);
    wrapped->times(along, out);
    owner.project(out);
    Space<V>::axpy(across(), v, out);
    Space<V>::axpy(-across(), along, out);
  }
  void cross_times(const V& v, V& out) override {
    Space<V>::copy(v, along);
    owner.project(along);
    wrapped->cross_times(along, out);
  }
  void cross_apply(const V& u, V& out) override {
    wrapped->cross_apply(u, out);
    owner.project(out);
  }
  bool dense(Eigen::MatrixXd& out) override {
    if (!wrapped->dense(out)) return false;
    const Eigen::MatrixXd& q = owner.across_basis_;
    if (q.cols() == 0) return true;
    out -= (q * (q.transpose() * out)).eval();
    out -= ((out * q) * q.transpose()).eval();
    out += across() * (q * q.transpose());
    return true;
  }
  double cross_norm() override { return wrapped->cross_norm(); }
  double least_eigenvalue() override { return std::min(wrapped->least_eigenvalue(), across()); }
  double times_error(const V& v) override {
    Space<V>::copy(v, along);
    owner.project(along);
    return wrapped->times_error(along);
  }
  double cross_times_error(const V& v) override {
    Space<V>::copy(v, along);
    owner.project(along);
    return wrapped->cross_times_error(along);
  }

  double across() const { return owner.across_ + beta * owner.typical_outer_curvature(); }

  OnFace& owner;
  V along;
  double beta = 0;
  std::unique_ptr<Curvature<V>> wrapped;
};

template <Vector V>
void OnFace<V>::linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) {
  if (!reuse) reuse = std::make_unique<AlongFace>(*this, phi);
  auto& curvature = static_cast<AlongFace&>(*reuse);
  curvature.beta = beta;
  problem_.linearise(onto(phi), theta, beta, curvature.wrapped);
  V probe = Space<V>::zeros_like(phi), product = Space<V>::zeros_like(phi);
  Space<V>::random(1, probe);
  project(probe);
  const double size = norm(probe);
  if (!(size > 1e-8)) return;  // a vertex: there is nothing along the face
  curvature.wrapped->times(probe, product);
  if (const double typical = norm(product) / size; typical > 0 && std::isfinite(typical)) {
    across_ = typical;
    measured_ = true;
  }
}

}  // namespace bilevel
