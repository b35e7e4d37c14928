#include <bilevel/problems/quadratic.hpp>

#include <cmath>

#include <bilevel/problem/gamma.hpp>

#include "dense_matrices.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

struct QuadraticCurvature final : Curvature<Vec> {
  void times(const Vec& v, Vec& out) override { out.noalias() = matrix * v; }
  void cross_times(const Vec& v, Vec& out) override { out.noalias() = -(coupling->transpose() * v); }
  void cross_apply(const Vec& u, Vec& out) override { out.noalias() = -(*coupling * u); }
  bool dense(Mat& out) override {
    out = matrix;
    return true;
  }
  bool diagonal(Vec& out) override {
    out = matrix.diagonal();
    return true;
  }
  double cross_norm() override { return norm_of_coupling; }

  Mat matrix;
  const Mat* coupling = nullptr;
  double norm_of_coupling = unknown;
};

}  // namespace

Violations QuadraticOptions::validate() const {
  Violations v("quadratic");
  v.at_least("phi", phi, 1).at_least("theta", theta, 1);
  v.require(phi <= 20000 && theta <= 20000, "phi", phi,
            "and theta may be at most 20000: H is a dense matrix");
  v.require(condition >= 1 && std::isfinite(condition), "condition", condition, "must be at least 1");
  return v;
}

Quadratic::Quadratic(Mat h, Mat j, Vec b, Mat g, Vec y)
    : h_(std::move(h)), j_(std::move(j)), g_(std::move(g)), b_(std::move(b)), y_(std::move(y)), factor_(h_) {
  const Index n = h_.rows();
  if (n == 0 || h_.cols() != n || j_.rows() != n || j_.cols() == 0 || b_.size() != n || g_.rows() != n ||
      g_.cols() != n || y_.size() != n)
    throw InvalidInput(
        fmt::format("quadratic: H is {}x{}, J {}x{}, b {}, G {}x{}, y {}: they do not fit together", n,
                    h_.cols(), j_.rows(), j_.cols(), b_.size(), g_.rows(), g_.cols(), y_.size()));
  if (factor_.info() != Eigen::Success) throw InvalidInput("quadratic: H is not positive definite");
  if (!is_symmetric(h_) || !is_symmetric(g_))
    throw InvalidInput("quadratic: H and G must be symmetric, to the last bit");
  const Extremes inner = extreme_eigenvalues(h_), outer = extreme_eigenvalues(g_);
  if (!(inner.least > 0)) throw InvalidInput("quadratic: H is singular to working precision");
  if (outer.least < -1e-8 * outer.largest) throw InvalidInput("quadratic: G is not positive semidefinite");
  mu_ = inner.least;
  smoothness_ = inner.largest;
  outer_smoothness_ = outer.largest;
  cross_norm_ = spectral_norm_above(j_);
  scratch_ = Vec::Zero(n);
  difference_ = Vec::Zero(n);
}

Quadratic Quadratic::random(const QuadraticOptions& options) {
  options.validate().throw_if_any();
  std::mt19937_64 engine(options.seed);
  const Index n = options.phi, m = options.theta;
  const Mat h = random_symmetric(engine, log_spaced(n, options.condition));
  const Mat g = random_symmetric(engine, Vec::LinSpaced(n, 0.5, 1.5));
  const double scale = 1 / std::sqrt(static_cast<double>(n));
  const Mat j = scale * gaussian(engine, n, m);
  const Vec b = scale * gaussian(engine, n, 1);
  const Vec y = gaussian(engine, n, 1);
  return Quadratic(h, j, b, g, y);
}

double Quadratic::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  // ½ φᵀHφ − φᵀc = ½ φᵀ(r − c) with r = Hφ − c, so one product with H serves value and gradient.
  Vec& c = scratch_;
  c.noalias() = j_ * theta;
  c += b_;
  Vec& r = wanted.phi ? *wanted.phi : difference_;
  r.noalias() = h_ * phi;
  r -= c;
  const double value = 0.5 * (phi.dot(r) - phi.dot(c));
  if (wanted.theta) wanted.theta->noalias() = -(j_.transpose() * phi);
  return value;
}

double Quadratic::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  difference_ = phi - y_;
  Vec& g = wanted.phi ? *wanted.phi : scratch_;
  g.noalias() = g_ * difference_;
  if (wanted.theta) wanted.theta->setZero();
  return 0.5 * difference_.dot(g);
}

void Quadratic::linearise(const Vec&, const Vec&, double beta, std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<QuadraticCurvature>();
  auto& curvature = static_cast<QuadraticCurvature&>(*reuse);
  curvature.matrix = h_;
  if (beta != 0) curvature.matrix += beta * g_;
  curvature.coupling = &j_;
  curvature.norm_of_coupling = cross_norm_;
}

Constants Quadratic::constants(const Vec&, const Vec& center, double radius) {
  Constants c;
  c.mu = mu_;
  c.smoothness = smoothness_;
  c.hessian_lipschitz = 0;
  c.cross_lipschitz = 0;
  c.cross_norm = cross_norm_;
  c.outer_smoothness = outer_smoothness_;
  c.outer_cross_lipschitz = 0;
  if (std::isfinite(radius)) c.outer_lipschitz = outer_smoothness_ * ((center - y_).norm() + radius);
  return c;
}

Rounding Quadratic::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  const double n = static_cast<double>(h_.rows()), m = static_cast<double>(j_.cols());
  const Vec abs_phi = phi.cwiseAbs(), abs_pi = pi.cwiseAbs();
  Rounding r;
  r.residual =
      gamma(n + m + 4) * (h_.cwiseAbs() * abs_phi + j_.cwiseAbs() * theta.cwiseAbs() + b_.cwiseAbs()).norm();
  r.adjoint = gamma(2 * n + 6) * (g_.cwiseAbs() * (abs_phi + y_.cwiseAbs()) + h_.cwiseAbs() * abs_pi).norm();
  r.curvature = 0;  // at β = 0 the matrix is H itself
  r.inner_theta = gamma(n + 4) * (j_.cwiseAbs().transpose() * abs_phi).norm();
  r.gradient = gamma(n + 4) * (j_.cwiseAbs().transpose() * abs_pi).norm();
  return r;
}

Vec Quadratic::settled(const Vec& theta, double beta) const {
  if (beta == 0) return factor_.solve(j_ * theta + b_);
  return Eigen::LLT<Mat>(h_ + beta * g_).solve(j_ * theta + b_ + beta * (g_ * y_));
}

std::optional<Vec> Quadratic::outer_gradient(const Vec& theta) const {
  return Vec(j_.transpose() * factor_.solve(g_ * (settled(theta, 0) - y_)));
}

std::optional<Vec> Quadratic::best_theta() const {
  // φ*(θ) = Sθ + s, so θ solves the normal equations SᵀGS θ = SᵀG(y − s).
  const Mat s = factor_.solve(j_);
  const Mat normal = s.transpose() * g_ * s;
  const Eigen::LLT<Mat> factor(normal);
  if (factor.info() != Eigen::Success || factor.rcond() < 1e-12) return {};
  return Vec(factor.solve(s.transpose() * (g_ * (y_ - factor_.solve(b_)))));
}

}  // namespace bilevel::problems
