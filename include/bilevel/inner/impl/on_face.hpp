#pragma once

#include <bilevel/inner/on_face.hpp>

namespace bilevel {

/// The constraints that hold a state with this gradient, and an orthonormal basis of their normals.
Face face_of(const NamedConstraints& constraints, const Eigen::VectorXd& phi, const Eigen::VectorXd& gradient,
             Eigen::MatrixXd& basis);

template <Vector V>
OnFace<V>::OnFace(Problem<V>& problem) : problem_(problem) {
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
}

template <Vector V>
void OnFace<V>::project(V& x) const {
  if (across_basis_.cols() == 0) return;
  Eigen::VectorXd host = host_copy(x);
  // Twice: what was large across the face leaves rounding behind.
  for (int pass = 0; pass < 2; ++pass) host -= (across_basis_ * (across_basis_.transpose() * host)).eval();
  Space<V>::from_host(host.data(), x);
}

template <Vector V>
double OnFace<V>::inner(const V& phi, const V& theta, Wanted<V> wanted) {
  const double value = problem_.inner(phi, theta, wanted);
  if (wanted.phi) project(*wanted.phi);
  return value;
}

template <Vector V>
double OnFace<V>::outer(const V& phi, const V& theta, Wanted<V> wanted) {
  const double value = problem_.outer(phi, theta, wanted);
  if (wanted.phi) project(*wanted.phi);
  return value;
}

template <Vector V>
struct OnFace<V>::AlongFace final : Curvature<V> {
  AlongFace(OnFace& from, const V& like) : owner(from), along(Space<V>::zeros_like(like)) {}

  void times(const V& v, V& out) override {
    Space<V>::copy(v, along);
    owner.project(along);
    wrapped->times(along, out);
    owner.project(out);
    Space<V>::axpy(owner.across_, v, out);
    Space<V>::axpy(-owner.across_, along, out);
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
    out += owner.across_ * (q * q.transpose());
    return true;
  }
  double cross_norm() override { return wrapped->cross_norm(); }
  double least_eigenvalue() override { return std::min(wrapped->least_eigenvalue(), owner.across_); }
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

  OnFace& owner;
  V along;
  std::unique_ptr<Curvature<V>> wrapped;
};

template <Vector V>
void OnFace<V>::linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) {
  if (!reuse) reuse = std::make_unique<AlongFace>(*this, phi);
  auto& curvature = static_cast<AlongFace&>(*reuse);
  problem_.linearise(phi, theta, beta, curvature.wrapped);
  V probe = Space<V>::zeros_like(phi), product = Space<V>::zeros_like(phi);
  Space<V>::random(1, probe);
  project(probe);
  const double size = norm(probe);
  if (!(size > 1e-8)) return;  // a vertex: there is nothing along the face
  curvature.wrapped->times(probe, product);
  if (const double typical = norm(product) / size; typical > 0 && std::isfinite(typical)) across_ = typical;
}

}  // namespace bilevel
