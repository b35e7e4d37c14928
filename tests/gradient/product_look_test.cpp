// The second look at products: a Hessian or a cross derivative that is not the derivative, and states at
// kinks, lose their trust; what is right keeps it, in any units, whatever the condition.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>

#include "trust_battery.hpp"

namespace bilevel {
namespace product_look_test {

using namespace written;

const std::vector<std::string> methods = {"implicit-direct", "implicit-cg", "exact", "auto"};

enum class Lie { none, scaled, one_entry, one_row, absolute, cross_sign, cross_scaled, cross_entry };

/// Products that are not the derivatives of the losses.
struct Lying : Curved<Losses> {
  Lie lie;
  Lying(const Trial& trial, Lie what) : Curved<Losses>(trial.losses, trial.phi, trial.theta), lie(what) {}
  void hessian_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    Curved<Losses>::hessian_times(phi, theta, beta, v, out);
    if (lie == Lie::scaled) out *= 1.3;
    if (lie == Lie::one_entry) out[0] += 0.5 * out.norm() / v.norm() * v[0];
    if (lie == Lie::one_row) out[v.size() - 1] += 2 * v[v.size() - 1];
    if (lie == Lie::absolute) out += 2 * v;
  }
  void cross_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    Curved<Losses>::cross_times(phi, theta, beta, v, out);
    if (lie == Lie::cross_sign) out = -out;
    if (lie == Lie::cross_scaled) out *= 1.3;
    if (lie == Lie::cross_entry) out[0] += 0.5 * v[0];
  }
};

TEST(ProductLook, LiesAreNotTrusted) {
  long asked = 0, trusted = 0, far = 0;
  for (const Trial& trial : healthy())
    for (const Lie lie :
         {Lie::scaled, Lie::one_row, Lie::absolute, Lie::cross_sign, Lie::cross_scaled, Lie::cross_entry})
      for (const std::string& method : methods) {
        auto problem = make_problem<Vec>(Lying(trial, lie));
        const auto inner = make_inner_solver<Vec>("lbfgs", problem, {.gradient_tolerance = trial.tolerance});
        const auto e = make_estimator<Vec>(method, problem, *inner)->estimate(trial.theta, {});
        const auto truth = Both<Losses>(trial.losses, trial.phi, trial.theta).gradient(e.phi, trial.theta);
        ASSERT_TRUE(truth);
        const double error = (e.gradient - *truth).norm();
        ++asked;
        far += error > 0.1 * e.gradient.norm();
        trusted += e.certificate.verdict == Verdict::trusted;
        EXPECT_TRUE(e.certificate.verdict != Verdict::trusted || error <= e.certificate.bound)
            << trial.name << ", lie " << static_cast<int>(lie) << ", " << method << ": error " << error
            << ", bound " << e.certificate.bound << ", ‖∇̂‖ " << e.gradient.norm() << "; "
            << e.certificate.reason;
      }
  std::cout << "[ numbers  ] " << asked << " gradients by products that are wrong, " << far
            << " of them off by a tenth, " << trusted << " trusted\n";
  EXPECT_GT(far, asked / 2);
}

/// w|φ| + ½(φ − θ)², which rests at its kink at θ = 0; its problem says nothing of it.
struct AtAKink {
  double weight = 1;
  double sign(double x) const { return x > 0 ? 1 : x < 0 ? -1 : 0; }
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec& p, const Vec& t, Wanted<Vec> wanted) const {
    const double r = p[0] - t[0];
    if (wanted.phi) *wanted.phi = Vec::Constant(1, weight * sign(p[0]) + r);
    if (wanted.theta) *wanted.theta = Vec::Constant(1, -r);
    return weight * std::abs(p[0]) + 0.5 * r * r;
  }
  double outer(const Vec& p, const Vec&, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = Vec::Constant(1, p[0] - 2);
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (p[0] - 2) * (p[0] - 2);
  }
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = (1 + beta) * v;
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const { out = -v; }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -u; }
};

TEST(ProductLook, AStateAtAKinkThatNobodyNamesIsNotTrusted) {
  for (const double weight : {1e-6, 1e-3, 1.0, 1e3})
    for (const std::string& method : methods) {
      SCOPED_TRACE(testing::Message() << method << ", kink of " << weight);
      auto problem = make_problem(AtAKink{weight});
      const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
      const auto e = make_estimator<Vec>(method, problem, *inner)->estimate(Vec::Zero(1), {});
      EXPECT_NE(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      EXPECT_NE(e.certificate.doubt.find("kink"), std::string::npos) << e.certificate.reason;
    }
}

/// A residual with a Jacobian that is not symmetric: tanh(Wφ + Uθ) − φ, up to a lie.
struct Net {
  Mat w, u;
  double of_product = 1, of_transpose = 1, of_cross = 1;
  bool kinked = false;
  Vec initial_phi() const { return Vec::Zero(w.rows()); }
  Vec initial_theta() const { return Vec::Zero(u.cols()); }
  void residual(const Vec& p, const Vec& t, Vec& out) const {
    out = p - ((w * p + u * t).array().tanh()).matrix();
    if (kinked) out += p.array().sign().matrix();
  }
  double outer(const Vec& p, const Vec&, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = (p.array() - 1).matrix();
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (p.array() - 1).square().sum();
  }
  Mat slope(const Vec& p, const Vec& t) const {
    return (1 - (w * p + u * t).array().tanh().square()).matrix().asDiagonal();
  }
  Mat jacobian(const Vec& p, const Vec& t) const {
    return Mat::Identity(p.size(), p.size()) - slope(p, t) * w;
  }
  void hessian_times(const Vec& p, const Vec& t, double, const Vec& v, Vec& out) const {
    out = of_product * (jacobian(p, t) * v);
  }
  void hessian_transpose_times(const Vec& p, const Vec& t, double, const Vec& v, Vec& out) const {
    out = of_transpose * (jacobian(p, t).transpose() * v);
  }
  void cross_times(const Vec& p, const Vec& t, double, const Vec& v, Vec& out) const {
    out = -of_cross * (u.transpose() * (slope(p, t) * v));
  }
  void cross_apply(const Vec& p, const Vec& t, double, const Vec& v, Vec& out) const {
    out = -of_cross * (slope(p, t) * (u * v));
  }
};

TEST(ProductLook, OfEquilibria) {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  for (const Index n : {1, 3, 8}) {
    const Mat w = Mat::NullaryExpr(n, n, [&] { return 0.4 / std::sqrt(double(n)) * normal(engine); }),
              u = Mat::NullaryExpr(n, 2, [&] { return normal(engine); });
    const auto verdict = [&](Net net, Vec theta) {
      auto problem = make_problem<Vec>(net);
      const auto inner = make_inner_solver<Vec>("anderson", problem, {.gradient_tolerance = 1e-10});
      return make_estimator<Vec>("implicit-gmres", problem, *inner)->estimate(theta, {}).certificate;
    };
    const Vec theta = vec({0.7, -0.4});
    Certificate c = verdict({w, u}, theta);
    EXPECT_EQ(c.verdict, Verdict::trusted) << n << ": " << c.reason;
    c = verdict({w, u, 1, 1.3}, theta);
    EXPECT_NE(c.verdict, Verdict::trusted) << n << ": " << c.reason;
    c = verdict({w, u, 1, 1, 1.3}, theta);
    EXPECT_NE(c.verdict, Verdict::trusted) << n << ": " << c.reason;
    c = verdict({.w = w, .u = u, .kinked = true}, Vec::Zero(2));
    EXPECT_NE(c.verdict, Verdict::trusted) << n << ": " << c.reason;
  }
}

/// ½Σ h_i (φ_i − s_iθ)² + a Σ log cosh(φ_i/s_i), in units s_i, with the derivatives in V's precision.
template <class S>
struct Scaled {
  using V = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  V stiffness, unit;
  S bend = 1;
  long* gradients = nullptr;
  V initial_phi() const { return V::Zero(unit.size()); }
  V initial_theta() const { return V::Constant(1, S(0.5)); }
  V pulled(const V& p, const V& t) const { return (p - t[0] * unit).cwiseProduct(stiffness); }
  double inner(const V& p, const V& t, Wanted<V> wanted) const {
    if (gradients && wanted.phi) ++*gradients;
    const V z = p.cwiseQuotient(unit), r = pulled(p, t);
    if (wanted.phi) *wanted.phi = r + bend * z.array().tanh().matrix().cwiseQuotient(unit);
    if (wanted.theta) *wanted.theta = V::Constant(1, -r.dot(unit));
    return double(S(0.5) * (p - t[0] * unit).dot(r)) + double(bend * z.array().cosh().log().sum());
  }
  double outer(const V& p, const V&, Wanted<V> wanted) const {
    const V z = p.cwiseQuotient(unit) - V::Constant(p.size(), 2);
    if (wanted.phi) *wanted.phi = z.cwiseQuotient(unit);
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * double(z.squaredNorm());
  }
  void hessian_times(const V& p, const V&, double beta, const V& v, V& out) const {
    const auto t = p.cwiseQuotient(unit).array().tanh();
    const V bends = (bend * (1 - t.square()) + S(beta)).matrix().cwiseQuotient(unit).cwiseQuotient(unit);
    out = (stiffness + bends).cwiseProduct(v);
  }
  void cross_times(const V&, const V&, double, const V& v, V& out) const {
    out = V::Constant(1, -unit.cwiseProduct(stiffness).dot(v));
  }
  void cross_apply(const V&, const V&, double, const V& u, V& out) const {
    out = -u[0] * unit.cwiseProduct(stiffness);
  }
};

/// What the look would take from what is right: nothing.
template <class S>
void expect_trusted(double unit, double condition, Index n) {
  using V = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  Scaled<S> losses{V(n), V(n)};
  for (Index i = 0; i < n; ++i) {
    const double share = n > 1 ? static_cast<double>(i) / static_cast<double>(n - 1) : 0;
    // Units that differ from element to element as well.
    losses.unit[i] = static_cast<S>(unit * std::pow(10.0, share));
    losses.stiffness[i] = static_cast<S>(std::pow(condition, -share)) / (losses.unit[i] * losses.unit[i]);
  }
  losses.bend = static_cast<S>(1 / condition);
  auto problem = make_problem<V>(losses);
  const double force = static_cast<double>(unit_roundoff<V>()) * 100 / unit;
  const auto inner = make_inner_solver<V>("newton", problem, {.gradient_tolerance = force});
  const auto e = make_estimator<V>("implicit-direct", problem, *inner)->estimate(problem.initial_theta(), {});
  EXPECT_TRUE(e.certificate.doubt.empty())
      << "unit " << unit << ", condition " << condition << ", n " << n << ": " << e.certificate.reason;
}

TEST(ProductLook, NothingIsHeldAgainstWhatIsRight) {
  for (const double unit : {1e-6, 1e-3, 1.0, 1e3, 1e6})
    for (const double condition : {1.0, 1e2, 1e4, 1e6, 1e8, 1e10})
      for (const Index n : {1, 2, 7, 40}) {
        expect_trusted<double>(unit, condition, n);
        if (condition <= 1e4 && unit >= 1e-3 && unit <= 1e3) expect_trusted<float>(unit, condition, n);
      }
}

TEST(ProductLook, CostsTwoGradients) {
  long gradients = 0;
  auto problem = make_problem<Vec>(Scaled<double>{Vec::Ones(3), Vec::Ones(3), 1, &gradients});
  const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
  const auto counted = [&](bool certified) {
    gradients = 0;
    const auto e =
        make_estimator<Vec>("implicit-direct", problem, *inner, {.certificate = {.enabled = certified}})
            ->estimate(problem.initial_theta(), {});
    EXPECT_EQ(e.cost.inner_gradients, gradients);
    return gradients;
  };
  const long without = counted(false);
  EXPECT_EQ(counted(true), without + 2);
}

}  // namespace product_look_test
}  // namespace bilevel
