#include <bilevel/problems/log_cosh.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include <bilevel/problem/gamma.hpp>

#include "dense_matrices.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

double tangent(double x) {
  return std::tanh(x);
}

struct LogCoshCurvature final : Curvature<Vec> {
  void times(const Vec& v, Vec& out) override {
    out.noalias() = *h * v;
    out.array() += added.array() * v.array();
  }
  void cross_times(const Vec& v, Vec& out) override {
    scratch = weight.cwiseProduct(v);
    out.noalias() = -(j->transpose() * scratch);
    if (nudged) {
      scratch = outer_weight.cwiseProduct(v);
      out.noalias() -= k->transpose() * scratch;
    }
  }
  void cross_apply(const Vec& u, Vec& out) override {
    out.noalias() = -(*j * u);
    out.array() *= weight.array();
    if (nudged) {
      scratch.noalias() = *k * u;
      out.array() -= outer_weight.array() * scratch.array();
    }
  }
  bool dense(Mat& out) override {
    out = *h;
    out.diagonal() += added;
    return true;
  }
  bool diagonal(Vec& out) override {
    out = h->diagonal() + added;
    return true;
  }
  double cross_norm() override { return norm_of_cross; }

  const Mat *h = nullptr, *j = nullptr, *k = nullptr;
  Vec weight, outer_weight;  ///< ε·s(a) and β·s(c)
  Vec added;                 ///< their sum: what is added to H's diagonal
  Vec scratch;
  bool nudged = false;
  double norm_of_cross = unknown;
};

}  // namespace

double log_cosh(double x) {
  const double size = std::abs(x);
  // Below 1 the second form would subtract nearly equal numbers; above, sinh would soon overflow.
  if (size < 1) return 0.5 * std::log1p(std::sinh(size) * std::sinh(size));
  return size + std::log1p(std::exp(-2 * size)) - std::numbers::ln2;
}

double sech_squared(double x) {
  const double q = std::exp(-2 * std::abs(x));
  return 4 * q / ((1 + q) * (1 + q));
}

Violations LogCoshOptions::validate() const {
  Violations v("log_cosh");
  v.at_least("phi", phi, 1).at_least("theta", theta, 1);
  v.require(phi <= 20000 && theta <= 20000, "phi", phi,
            "and theta may be at most 20000: H is a dense matrix");
  v.require(condition >= 1 && std::isfinite(condition), "condition", condition, "must be at least 1");
  v.positive("epsilon", epsilon);
  return v;
}

LogCosh::LogCosh(Mat h, Mat j, Vec y, Mat k, double epsilon)
    : h_(std::move(h)), j_(std::move(j)), k_(std::move(k)), y_(std::move(y)), epsilon_(epsilon) {
  const Index n = h_.rows();
  if (n == 0 || h_.cols() != n || j_.rows() != n || j_.cols() == 0 || y_.size() != n || k_.rows() != n ||
      k_.cols() != j_.cols())
    throw InvalidInput(fmt::format("log_cosh: H is {}x{}, J {}x{}, y {}, K {}x{}: they do not fit together",
                                   n, h_.cols(), j_.rows(), j_.cols(), y_.size(), k_.rows(), k_.cols()));
  Violations v("log_cosh");
  v.positive("epsilon", epsilon).throw_if_any();
  if (!is_symmetric(h_)) throw InvalidInput("log_cosh: H is not symmetric");
  const Extremes spectrum = extreme_eigenvalues(h_);
  mu_ = spectrum.least;
  if (!(mu_ > 0)) throw InvalidInput("log_cosh: H is not positive definite");
  smoothness_ = (spectrum.largest + epsilon_) * (1 + 0x1p-52);
  coupling_norm_ = spectral_norm_above(j_);
  outer_coupling_norm_ = spectral_norm_above(k_);
  argument_ = tangent_ = product_ = Vec::Zero(n);
}

LogCosh LogCosh::random(const LogCoshOptions& options) {
  options.validate().throw_if_any();
  std::mt19937_64 engine(options.seed);
  const Index n = options.phi, m = options.theta;
  const Mat h = random_symmetric(engine, log_spaced(n, options.condition));
  // J and K scaled so that (Jθ)_i and (Kθ)_i are of size 1 for θ of size 1, where tanh bends.
  const double scale = 1 / std::sqrt(static_cast<double>(m));
  const Mat j = scale * gaussian(engine, n, m);
  const Vec y = gaussian(engine, n, 1);
  const Mat k = scale * gaussian(engine, n, m);
  return LogCosh(h, j, y, k, options.epsilon);
}

double LogCosh::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  argument_ = phi;
  argument_.noalias() -= j_ * theta;
  product_.noalias() = h_ * phi;
  double value = 0.5 * phi.dot(product_);
  for (Index i = 0; i < phi.size(); ++i) value += epsilon_ * log_cosh(argument_[i]);
  if (wanted.phi || wanted.theta) tangent_ = epsilon_ * argument_.unaryExpr(&tangent);
  if (wanted.phi) *wanted.phi = product_ + tangent_;
  if (wanted.theta) wanted.theta->noalias() = -(j_.transpose() * tangent_);
  return value;
}

double LogCosh::outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  argument_ = phi - y_;
  argument_.noalias() -= k_ * theta;
  double value = 0;
  for (Index i = 0; i < phi.size(); ++i) value += log_cosh(argument_[i]);
  if (wanted.phi || wanted.theta) tangent_ = argument_.unaryExpr(&tangent);
  if (wanted.phi) *wanted.phi = tangent_;
  if (wanted.theta) wanted.theta->noalias() = -(k_.transpose() * tangent_);
  return value;
}

void LogCosh::linearise(const Vec& phi, const Vec& theta, double beta,
                        std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<LogCoshCurvature>();
  auto& curvature = static_cast<LogCoshCurvature&>(*reuse);
  curvature.h = &h_;
  curvature.j = &j_;
  curvature.k = &k_;
  curvature.nudged = beta != 0;
  argument_ = phi;
  argument_.noalias() -= j_ * theta;
  curvature.weight = epsilon_ * argument_.unaryExpr(&sech_squared);
  curvature.added = curvature.weight;
  // ‖diag(s)·J‖ ≤ max s·‖J‖, where s is at most 1 and at most what was computed and its error: 12u of
  // itself and 4/(3√3) < 0.77 of the argument's, |â − a| ≤ γ(|φ| + |J||θ|) ≤ γ(max|φ| + ‖J‖‖θ‖).
  const double m = static_cast<double>(j_.cols()), largest_phi = phi.cwiseAbs().maxCoeff(),
               size = theta.norm();
  const auto slope_above = [&](double computed, double magnitude) {
    return std::min(1.0, computed * (1 + gamma(16)) + gamma(m + 8) * magnitude);
  };
  curvature.norm_of_cross =
      epsilon_ * coupling_norm_ *
      slope_above(curvature.weight.maxCoeff() / epsilon_, largest_phi + coupling_norm_ * size);
  if (curvature.nudged) {
    argument_ = phi - y_;
    argument_.noalias() -= k_ * theta;
    curvature.outer_weight = argument_.unaryExpr(&sech_squared);
    curvature.norm_of_cross +=
        std::abs(beta) * outer_coupling_norm_ *
        slope_above(curvature.outer_weight.maxCoeff(),
                    largest_phi + y_.cwiseAbs().maxCoeff() + outer_coupling_norm_ * size);
    curvature.outer_weight *= beta;
    curvature.added += curvature.outer_weight;
  }
  curvature.norm_of_cross *= 1 + gamma(8);
  if (curvature.scratch.size() != phi.size()) curvature.scratch = Vec::Zero(phi.size());
}

Constants LogCosh::constants(const Vec&, const Vec&, double) {
  constexpr double up = 1 + 0x1p-50;
  Constants c;
  c.mu = mu_;
  c.smoothness = smoothness_;
  c.hessian_lipschitz = 4 * epsilon_ / (3 * std::numbers::sqrt3) * up;
  c.cross_lipschitz = c.hessian_lipschitz * coupling_norm_ * up;
  c.cross_norm = epsilon_ * coupling_norm_ * up;
  c.outer_lipschitz = std::sqrt(static_cast<double>(h_.rows())) * up;
  c.outer_smoothness = 1;
  c.outer_cross_lipschitz = outer_coupling_norm_;
  return c;
}

Rounding LogCosh::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  // The argument is a sum of m products and one number (or two): whatever the order of summation
  //   |â − a| ≤ e_a = γ_{m+1}(|φ| + |J||θ|),   |ĉ − c| ≤ e_c = γ_{m+2}(|φ| + |y| + |K||θ|).
  // Between â and a the slope of tanh is at most S = s(max(0, |â| − e)), that of s at most 2S. With tanh
  // itself good to 2 units in the last place (4u) and s, three arithmetic operations on an exponential good
  // to one, to 12u:
  //   |t̂ − t| ≤ S·e + γ_4|t̂|,   |ŝ − s| ≤ 2S·e + γ_12·ŝ.
  // Sums of n terms then add γ_n of the terms' sizes. The remaining roundings (the factor ε, one or two
  // additions, and those of the evaluation of these bounds) are in the enlarged indices.
  const double n = static_cast<double>(h_.rows()), m = static_cast<double>(j_.cols());
  const Vec abs_phi = phi.cwiseAbs(), abs_theta = theta.cwiseAbs(), abs_pi = pi.cwiseAbs();
  const Vec a = phi - j_ * theta, c = phi - y_ - k_ * theta;
  const Vec error_a = gamma(m + 5) * (abs_phi + j_.cwiseAbs() * abs_theta);
  const Vec error_c = gamma(m + 6) * (abs_phi + y_.cwiseAbs() + k_.cwiseAbs() * abs_theta);
  const auto slope = [](double x, double e) { return sech_squared(std::max(0.0, std::abs(x) - 2 * e)); };

  Vec tangent_error(a.size()), tangent_sum_error(a.size()), outer_error(a.size()), outer_sum_error(a.size()),
      weight_error(a.size()), weight_sum_error(a.size());
  for (Index i = 0; i < a.size(); ++i) {
    const double moved_a = slope(a[i], error_a[i]) * error_a[i],
                 moved_c = slope(c[i], error_c[i]) * error_c[i];
    const double t_a = std::abs(std::tanh(a[i])), t_c = std::abs(std::tanh(c[i])), s = sech_squared(a[i]);
    tangent_error[i] = moved_a + gamma(10) * t_a;
    tangent_sum_error[i] = moved_a + gamma(n + 10) * t_a;
    outer_error[i] = moved_c + gamma(10) * t_c;
    outer_sum_error[i] = moved_c + gamma(n + 10) * t_c;
    weight_error[i] = (2 * moved_a + gamma(20) * s) * abs_pi[i];
    weight_sum_error[i] = (2 * moved_a + gamma(n + 20) * s) * abs_pi[i];
  }
  Rounding r;
  // Only the diagonal is computed: ε·s(a), added to H's.
  for (Index i = 0; i < a.size(); ++i) {
    const double moved = slope(a[i], error_a[i]) * error_a[i];
    const double error =
        epsilon_ * (2 * moved + gamma(20) * sech_squared(a[i])) + gamma(4) * (std::abs(h_(i, i)) + epsilon_);
    r.curvature = i == 0 ? error : std::max(r.curvature, error);
  }
  r.residual = (gamma(n + 5) * (h_.cwiseAbs() * abs_phi) + epsilon_ * tangent_error).norm();
  r.adjoint = (gamma(n + 6) * (h_.cwiseAbs() * abs_pi) + epsilon_ * weight_error + outer_error).norm();
  r.inner_theta = epsilon_ * (j_.cwiseAbs().transpose() * tangent_sum_error).norm();
  r.gradient = (k_.cwiseAbs().transpose() * outer_sum_error +
                epsilon_ * (j_.cwiseAbs().transpose() * weight_sum_error))
                   .norm();
  return r;
}

}  // namespace bilevel::problems
