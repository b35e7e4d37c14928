// A problem that gives its Hessian with few entries: Newton, direct adjoints and certificates by sparse
// factors.

#include <gtest/gtest.h>
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include <bilevel/bilevel.hpp>
#include <bilevel/problem/counted.hpp>

namespace bilevel {
namespace sparse_curvature_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// ½ exp(θ)·φᵀTφ + ¼ Σ φ⁴ − 0.3 Σ φ, T = tridiag(−1, 2.5, −1); L_out = ½‖φ − 1‖²/n; less a
/// parabola of this depth, beyond which H is indefinite at zero.
class Band final : public Problem<Vec> {
 public:
  Band(Index n, double depth) : n_(n), depth_(depth) {}
  Vec initial_phi() const override { return Vec::Constant(n_, 0.01); }
  Vec initial_theta() const override { return Vec::Zero(1); }
  Capabilities capabilities() const override { return {.sparse = true}; }

  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    const Vec t = stretched(phi);
    const double k = std::exp(theta[0]);
    if (wanted.phi) *wanted.phi = (k * t.array() + phi.array().cube() - depth_ * phi.array() - 0.3).matrix();
    if (wanted.theta) (*wanted.theta)[0] = 0.5 * k * phi.dot(t);
    return 0.5 * k * phi.dot(t) + 0.25 * phi.array().pow(4).sum() - 0.5 * depth_ * phi.squaredNorm() -
           0.3 * phi.sum();
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    const auto n = static_cast<double>(n_);
    if (wanted.phi) *wanted.phi = (phi.array() - 1).matrix() / n;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi.array() - 1).square().sum() / n;
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Bands>(*this);
    auto& bands = static_cast<Bands&>(*reuse);
    bands.phi = phi;
    bands.k = std::exp(theta[0]);
    bands.beta = beta;
  }
  Vec stretched(const Vec& v) const {
    Vec t = 2.5 * v;
    t.head(n_ - 1) -= v.tail(n_ - 1);
    t.tail(n_ - 1) -= v.head(n_ - 1);
    return t;
  }

 private:
  struct Bands final : Curvature<Vec> {
    explicit Bands(const Band& of) : band(of) {}
    Vec own() const {
      return (3 * phi.array().square() - band.depth_ + beta / static_cast<double>(band.n_)).matrix();
    }
    void times(const Vec& v, Vec& out) override { out = k * band.stretched(v) + own().cwiseProduct(v); }
    void cross_times(const Vec& v, Vec& out) override {
      out = Vec::Constant(1, k * v.dot(band.stretched(phi)));
    }
    void cross_apply(const Vec& u, Vec& out) override { out = u[0] * k * band.stretched(phi); }
    long sparse(SparseMatrix& out) override {
      out = {};
      const Vec diagonal = own();
      for (Index j = 0; j < band.n_; ++j) {
        for (Index i = std::max<Index>(j - 1, 0); i < std::min(j + 2, band.n_); ++i) {
          out.rows.push_back(static_cast<int>(i));
          out.values.push_back(i == j ? 2.5 * k + diagonal[j] : -k);
        }
        out.begins.push_back(static_cast<int>(out.rows.size()));
      }
      return 3;
    }
    const Band& band;
    Vec phi;
    double k = 1, beta = 0;
  };
  Index n_;
  double depth_;
};

Mat dense_of(Problem<Vec>& problem, const Vec& phi, const Vec& theta) {
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(phi, theta, 0, curvature);
  return dense_matrix(*curvature, phi);
}

TEST(SparseCurvature, PassesTheCheck) {
  Band band(30, 0.4);
  const CheckReport report = check_derivatives<Vec>(band, Vec::Random(30), Vec::Constant(1, 0.3));
  EXPECT_TRUE(report.passed()) << report.table();
}

TEST(SparseCurvature, GradientsAreThoseOfTheDenseFactor) {
  for (const Index n : {20, 300}) {
    for (const double depth : {0.0, 0.2, 4.0}) {  // 4: indefinite at the start
      SCOPED_TRACE(testing::Message() << "n " << n << ", depth " << depth);
      Band band(n, depth);
      const Vec theta = Vec::Constant(1, -0.5);
      const auto inner = make_inner_solver<Vec>("newton", band, {.gradient_tolerance = 1e-11});
      const Solution<Vec> settled = inner->solve(theta, 0, band.initial_phi());
      ASSERT_EQ(settled.status, Status::converged) << settled.message;
      EXPECT_EQ(settled.cost.dense_hessians, 0);
      EXPECT_EQ(settled.message.find("was shifted") != std::string::npos, depth > 1) << settled.message;
      const Mat hessian = dense_of(band, settled.phi, theta);
      Vec g(n), cross(1);
      band.outer(settled.phi, theta, {.phi = &g});
      const Vec pi = hessian.llt().solve(g);
      const double expected = -std::exp(-0.5) * pi.dot(band.stretched(settled.phi));
      for (const char* method : {"implicit-direct", "implicit-cg-inherited", "auto"}) {
        const auto e =
            make_estimator<Vec>(method, band, *inner)->estimate(theta, {.phi = settled.phi, .pi = {}});
        EXPECT_NEAR(e.gradient[0], expected, 1e-9 * std::abs(expected) + 1e-12)
            << method << ": " << e.message;
        EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << method << ": " << e.certificate.reason;
        EXPECT_LE(std::abs(e.gradient[0] - expected), e.certificate.bound) << method;
        if (n <= 200) continue;
        EXPECT_EQ(e.certificate.mu_source, "a sparse factor of the shifted Hessian") << method;
        const Vec values = Eigen::SelfAdjointEigenSolver<Mat>(hessian, Eigen::EigenvaluesOnly).eigenvalues();
        EXPECT_LE(e.certificate.mu, values[0]);
        EXPECT_GE(e.certificate.mu, 0.5 * values[0]);
        EXPECT_GE(e.certificate.smoothness, values[n - 1]);
      }
    }
  }
}

TEST(SparseCurvature, DirectSaysWhereItIsNotPositiveDefinite) {
  for (const Index n : {300, 5000}) {
    Band band(n, 4);
    Sensitivity<Vec> sensitivity(band);
    sensitivity.move_to(Vec::Zero(n), Vec::Constant(1, -0.5));
    Direct<Vec> direct;
    Vec out(1);
    const LinearSolution<Vec> s = sensitivity.pullback(Vec::Ones(n), direct, out);
    EXPECT_EQ(s.status, Status::negative_curvature) << s.message;
  }
}

/// Beyond what is assembled there is no other way to solve with the matrix.
TEST(SparseCurvature, MinimiseChoosesNewtonAtAnySize) {
  Band band(6000, 0.4);
  const Summary s = minimise(band, {.outer = {.max_iterations = 30}});
  EXPECT_TRUE(succeeded(s.status)) << s.message;
  EXPECT_EQ(s.cost.dense_hessians, 0);
  EXPECT_GT(s.cost.factorizations, 0);
}

}  // namespace sparse_curvature_test
}  // namespace bilevel
