#pragma once

#include <cmath>
#include <memory>
#include <string>

#include <Eigen/Eigenvalues>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

/// L_in = ½φᵀHφ − φᵀJθ + ¼Σφ_i⁴ and L_out = ½‖φ − y − Kθ‖² with |φ| = |θ|, all of it right but for one
/// mistake, planted by name.
template <class S>
class Planted final : public bilevel::Problem<Eigen::Matrix<S, Eigen::Dynamic, 1>> {
 public:
  using V = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  using M = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;

  explicit Planted(std::uint64_t seed, std::string mistake = "", bilevel::Index n = 6) : mistake_(mistake) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    const auto gaussian = [&](bilevel::Index rows, bilevel::Index cols) {
      return Eigen::MatrixXd(Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return normal(engine); }));
    };
    const Eigen::MatrixXd a = gaussian(n, n);
    h_ = (a * a.transpose() / static_cast<double>(n) + Eigen::MatrixXd::Identity(n, n)).template cast<S>();
    h_ = M(S(0.5) * (h_ + h_.transpose()));
    j_ = gaussian(n, n).template cast<S>();
    k_ = gaussian(n, n).template cast<S>();
    y_ = gaussian(n, 1).template cast<S>();
    const M skew = gaussian(n, n).template cast<S>();
    skew_ = skew - skew.transpose();
  }
  bool is(const char* mistake) const { return mistake_ == mistake; }

  V initial_phi() const override { return V::Zero(h_.rows()); }
  V initial_theta() const override { return V::Zero(h_.rows()); }

  double inner(const V& phi, const V& theta, bilevel::Wanted<V> wanted) override {
    const V r = h_ * phi - j_ * theta;
    double value = 0.5 * phi.dot(V(r - j_ * theta)) + 0.25 * phi.array().pow(4).sum();
    if (wanted.phi) {
      *wanted.phi = r.array() + phi.array().cube();
      if (is("inner phi sign")) *wanted.phi *= -1;
      if (is("inner phi factor")) *wanted.phi *= 2;
      if (is("inner phi NaN")) (*wanted.phi)[0] = std::numeric_limits<S>::quiet_NaN();
      if (is("value with derivative")) value *= 2;
    }
    if (wanted.theta) {
      const V right = -(j_.transpose() * phi);
      if (is("inner theta adds")) {
        *wanted.theta += right;
      } else {
        *wanted.theta = is("inner theta sign") ? V(-right) : is("inner theta factor") ? V(2 * right) : right;
      }
      if (is("inner theta one element")) (*wanted.theta)[2] += S(0.01) * right.norm();
      if (is("inner both") && wanted.phi) *wanted.theta *= S(1.5);
    }
    return is("inner NaN") ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  void residual(const V& phi, const V& theta, V& out) override {
    out = (h_ * phi - j_ * theta).array() + phi.array().cube();
    if (is("residual")) out[1] += S(0.01);
  }
  double outer(const V& phi, const V& theta, bilevel::Wanted<V> wanted) override {
    const V d = phi - y_ - k_ * theta;
    if (wanted.phi) *wanted.phi = is("outer phi sign") ? V(-d) : is("outer phi factor") ? V(2 * d) : d;
    if (wanted.theta) {
      *wanted.theta = -(k_.transpose() * d);
      if (is("outer theta missing")) wanted.theta->setZero();
    }
    return is("outer infinite") ? bilevel::everywhere : 0.5 * d.squaredNorm();
  }

  void linearise(const V& phi, const V&, double beta,
                 std::unique_ptr<bilevel::Curvature<V>>& reuse) override {
    if (is("refuses")) throw bilevel::InvalidInput("no curvature today");
    if (!reuse) reuse = std::make_unique<Products>(*this);
    auto& c = static_cast<Products&>(*reuse);
    c.hessian = h_;
    c.hessian.diagonal() += V(3 * phi.array().square());
    const S b = static_cast<S>(is("nudge missing") ? 0 : is("nudge sign") ? -beta : beta);
    c.hessian.diagonal().array() += b;
    c.cross = -(j_ + static_cast<S>(is("nudge missing in cross") ? 0 : beta) * k_);
    c.transposed_cross = c.cross;
    if (is("cross sign")) c.transposed_cross = c.cross = -c.cross;
    if (is("cross transposed")) c.transposed_cross = c.cross = M(c.cross.transpose());
    if (is("cross transposed in one")) c.transposed_cross = M(c.cross.transpose());
    if (is("hessian factor")) c.hessian *= 2;
    if (is("hessian not symmetric")) c.hessian += skew_;
  }
  bilevel::Constants constants(const V& theta, const V& center, double radius) override {
    const Eigen::MatrixXd h = h_.template cast<double>();
    const auto eigenvalues =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(h, Eigen::EigenvaluesOnly).eigenvalues();
    const double up = 1 + 100 * bilevel::unit_roundoff<V>(),
                 largest = center.template cast<double>().norm() + radius;
    bilevel::Constants c;
    c.mu = eigenvalues[0] / up;
    c.cross_lipschitz = 0;
    c.cross_norm = static_cast<double>(j_.norm()) * up;
    c.outer_smoothness = up;
    c.outer_cross_lipschitz = static_cast<double>(k_.norm()) * up;
    if (std::isfinite(radius)) {
      c.smoothness = (eigenvalues[h.rows() - 1] + 3 * largest * largest) * up;
      c.hessian_lipschitz = 6 * largest * up;
      c.outer_lipschitz = (static_cast<double>((center - y_ - k_ * theta).norm()) + radius) * up;
    }
    if (is("mu")) c.mu = 1.1 * (eigenvalues[0] + 3 * largest * largest);
    if (is("smoothness")) c.smoothness = 0.9 * eigenvalues[h.rows() - 1];
    if (is("hessian lipschitz")) c.hessian_lipschitz = 0;
    if (is("sup of cross norm")) c.cross_norm = 0.9 * Eigen::JacobiSVD<M>(j_).singularValues()[0] * 0.5;
    if (is("outer lipschitz"))
      c.outer_lipschitz = 0.5 * static_cast<double>((center - y_ - k_ * theta).norm());
    if (is("outer smoothness")) c.outer_smoothness = 0.9;
    if (is("outer cross lipschitz")) c.outer_cross_lipschitz = 0;
    return c;
  }

 private:
  struct Products final : bilevel::Curvature<V> {
    explicit Products(const Planted& owner_) : owner(owner_) {}
    void times(const V& v, V& out) override {
      if (owner.is("hessian adds")) {
        out += hessian * v;
      } else {
        out.noalias() = hessian * v;
      }
      if (owner.is("hessian NaN")) out[0] = std::numeric_limits<S>::quiet_NaN();
    }
    void transpose_times(const V& v, V& out) override {
      out.noalias() = hessian.transpose() * v;
      if (owner.is("transpose")) out *= S(1.5);
    }
    void cross_times(const V& v, V& out) override { out.noalias() = transposed_cross.transpose() * v; }
    void cross_apply(const V& u, V& out) override { out.noalias() = cross * u; }
    bool dense(Eigen::MatrixXd& out) override {
      out = hessian.template cast<double>();
      if (owner.is("dense")) out(0, 1) += 0.1;
      if (owner.is("dense shape")) out.conservativeResize(2, 2);
      return true;
    }
    bool diagonal(V& out) override {
      out = hessian.diagonal();
      if (owner.is("diagonal")) out[3] += S(0.1);
      return true;
    }
    double cross_norm() override {
      return static_cast<double>(cross.norm()) * (owner.is("cross norm") ? 0.2 : 1.0001);
    }
    const Planted& owner;
    M hessian, cross, transposed_cross;
  };

  std::string mistake_;
  M h_, j_, k_, skew_;
  V y_;
};
