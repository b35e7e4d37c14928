#pragma once

#include <memory>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>
#include <conformance/block_vector.hpp>

namespace bilevel::conformance {

/// A problem on Eigen double vectors, offered on another vector type V: everything crosses through host
/// memory. Its constants hold, its rounding bounds do not (V may be float), so certificates are estimated
/// ones.
template <Vector V>
class Translated final : public Problem<V> {
  using E = Eigen::VectorXd;

 public:
  explicit Translated(Problem<E>& original)
      : original_(original),
        phi_(original.initial_phi()),
        theta_(original.initial_theta()),
        phi_like_(shaped<V>(phi_.size())),
        theta_like_(shaped<V>(theta_.size())) {}

  static E host(const V& x) { return host_copy(x); }
  static V translate(const E& e, const V& like) {
    V x = Space<V>::zeros_like(like);
    Space<V>::from_host(e.data(), x);
    return x;
  }

  V initial_phi() const override { return translate(phi_, phi_like_); }
  V initial_theta() const override { return translate(theta_, theta_like_); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    return call(wanted, [&](Wanted<E> w) { return original_.inner(host(phi), host(theta), w); });
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    return call(wanted, [&](Wanted<E> w) { return original_.outer(host(phi), host(theta), w); });
  }
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if (!reuse) reuse = std::make_unique<TranslatedCurvature>(phi_, theta_);
    original_.linearise(host(phi), host(theta), beta, static_cast<TranslatedCurvature&>(*reuse).original);
  }
  Capabilities capabilities() const override { return original_.capabilities(); }
  Constants constants(const V& theta, const V& center, double radius) override {
    return original_.constants(host(theta), host(center), radius);
  }
  Holomorphic* holomorphic() override { return original_.holomorphic(); }

 private:
  template <class F>
  double call(Wanted<V> wanted, F f) {
    E phi = phi_, theta = theta_;
    const double value =
        f(Wanted<E>{.phi = wanted.phi ? &phi : nullptr, .theta = wanted.theta ? &theta : nullptr});
    if (wanted.phi) Space<V>::from_host(phi.data(), *wanted.phi);
    if (wanted.theta) Space<V>::from_host(theta.data(), *wanted.theta);
    return value;
  }

  struct TranslatedCurvature final : Curvature<V> {
    TranslatedCurvature(const E& phi, const E& theta) : phi_out(phi), theta_out(theta) {}
    void times(const V& v, V& out) override {
      original->times(host(v), phi_out);
      Space<V>::from_host(phi_out.data(), out);
    }
    void transpose_times(const V& v, V& out) override {
      original->transpose_times(host(v), phi_out);
      Space<V>::from_host(phi_out.data(), out);
    }
    void cross_times(const V& v, V& out) override {
      original->cross_times(host(v), theta_out);
      Space<V>::from_host(theta_out.data(), out);
    }
    void cross_apply(const V& u, V& out) override {
      original->cross_apply(host(u), phi_out);
      Space<V>::from_host(phi_out.data(), out);
    }
    bool dense(Eigen::MatrixXd& out) override { return original->dense(out); }
    double cross_norm() override { return original->cross_norm(); }

    std::unique_ptr<Curvature<E>> original;
    E phi_out, theta_out;
  };

  Problem<E>& original_;
  E phi_, theta_;
  V phi_like_, theta_like_;
};

}  // namespace bilevel::conformance
