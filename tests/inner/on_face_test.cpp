// A problem on the face of its active constraints: its gradients, values and curvatures belong together.
#include <bilevel/inner/on_face.hpp>

#include <gtest/gtest.h>
#include <Eigen/LU>

#include <bilevel/inner/impl/on_face.hpp>
#include <random_matrix.hpp>

namespace bilevel {
namespace on_face_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// L_in = ½φᵀHφ − φᵀBθ + ¼Σφ⁴, L_out = ½‖φ − t‖².
struct Bowl final : Problem<Vec> {
  Mat h, b;
  Vec target;
  PhiConstraints held;

  Bowl(std::uint64_t seed, Index n)
      : b(random_matrix(seed + 1, n, 2)), target(random_matrix(seed + 2, n, 1)) {
    const Mat a = random_matrix(seed, n, n);
    h = a * a.transpose() + Mat::Identity(n, n);
  }
  Vec initial_phi() const override { return Vec::Zero(h.rows()); }
  Vec initial_theta() const override { return Vec::Ones(2); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = h * phi - b * theta + phi.array().cube().matrix();
    if (wanted.theta) *wanted.theta = -(b.transpose() * phi);
    return 0.5 * phi.dot(h * phi) - phi.dot(b * theta) + 0.25 * phi.array().pow(4).sum();
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi - target;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi - target).squaredNorm();
  }
  Mat hessian(const Vec& phi, double beta) const {
    Mat all = h;
    all.diagonal().array() += beta + 3 * phi.array().square();
    return all;
  }
  struct Here final : Curvature<Vec> {
    Mat j, chi;
    void times(const Vec& v, Vec& out) override { out = j * v; }
    void cross_times(const Vec& v, Vec& out) override { out = chi.transpose() * v; }
    void cross_apply(const Vec& u, Vec& out) override { out = chi * u; }
  };
  void linearise(const Vec& phi, const Vec&, double beta, std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Here>();
    static_cast<Here&>(*reuse).j = hessian(phi, beta);
    static_cast<Here&>(*reuse).chi = -b;
  }
  Capabilities capabilities() const override { return {.sparse = true}; }
  std::string kink(const Vec& phi, const Vec&) override { return phi[0] == 0 ? "there is a kink" : ""; }
  PhiConstraints phi_constraints() const override { return held; }
};

/// Two bounds and a plane through a point; the gradient there is made to press on all three.
struct Held {
  explicit Held(std::uint64_t seed) : problem(seed, 6), at(random_matrix(seed + 3, 6, 1)), theta(2) {
    PhiConstraints& c = problem.held;
    c.lower = at.array() - 1;
    c.lower[1] = at[1];
    c.upper = at.array() + 1;
    c.upper[4] = at[4];
    c.below = random_matrix(seed + 4, 1, 6);
    c.below_to = c.below * at;
    normals = Mat::Zero(6, 3);
    normals(1, 0) = 1;
    normals(4, 1) = -1;
    normals.col(2) = -c.below.row(0).transpose();
    theta << 0.3, -0.7;
    // g = N·u, by choice of what pulls at φ.
    const Vec wanted = normals * Vec((Vec(3) << 0.8, 1.1, 0.6).finished());
    Vec now(6);
    problem.inner(at, theta, {.phi = &now});
    problem.b.col(0) += (now - wanted) / theta[0];
  }
  Mat along() const {
    return Mat::Identity(6, 6) - normals * (normals.transpose() * normals).inverse() * normals.transpose();
  }
  Bowl problem;
  Vec at, theta;
  Mat normals;
};

TEST(OnFace, GradientsAreThoseOfTheValueAndCurvaturesThoseOfTheGradient) {
  for (std::uint64_t seed = 10; seed <= 100; seed += 10) {
    SCOPED_TRACE(seed);
    Held made(seed);
    OnFace<Vec> face(made.problem);
    face.hold(made.at, made.theta, 0);
    ASSERT_EQ(face.face().active.size(), 3U);
    ASSERT_TRUE(face.face().fault.empty());
    std::unique_ptr<Curvature<Vec>> curvature;
    const Vec phi = made.at + random_matrix(seed + 5, 6, 1);  // beside the face too
    const Mat p = made.along(), q = Mat::Identity(6, 6) - p;
    const Vec onto = made.at + p * (phi - made.at);
    const double beta = 0.3;
    face.linearise(phi, made.theta, beta, curvature);
    const double c = face.typical_curvature();

    Vec gradient(6), below(6), product(6), plus(6), minus(6), outer_plus(6), outer_minus(6);
    const double value = face.inner(phi, made.theta, {.phi = &gradient}),
                 wrapped = made.problem.inner(onto, made.theta, {.phi = &below});
    EXPECT_NEAR(value, wrapped + 0.5 * c * (q * (phi - made.at)).squaredNorm(),
                1e-12 * (1 + std::abs(value)));
    EXPECT_LE((gradient - p * below - c * q * (phi - made.at)).norm(), 1e-12 * (1 + below.norm()));

    const Mat hessian =
        p * made.problem.hessian(onto, beta) * p + (c + beta * face.typical_outer_curvature()) * q;
    EXPECT_NEAR(face.typical_outer_curvature(), 1, 1e-6);
    for (Index j = 0; j < 6; ++j) {
      SCOPED_TRACE(j);
      const Vec unit = Vec::Unit(6, j);
      curvature->times(unit, product);
      EXPECT_LE((product - hessian.col(j)).norm(), 1e-12 * hessian.norm());
      constexpr double h = 1e-5;
      const double right = face.inner(phi + h * unit, made.theta, {.phi = &plus}),
                   left = face.inner(phi - h * unit, made.theta, {.phi = &minus});
      EXPECT_NEAR((right - left) / (2 * h), gradient[j], 1e-8 * (1 + gradient.norm()));
      face.outer(phi + h * unit, made.theta, {.phi = &outer_plus});
      face.outer(phi - h * unit, made.theta, {.phi = &outer_minus});
      const Vec differences = (plus - minus + beta * (outer_plus - outer_minus)) / (2 * h);
      EXPECT_LE((differences - hessian.col(j)).norm(), 1e-7 * hessian.norm());
    }
  }
}

TEST(OnFace, IsTheProblemItselfWhereNothingHolds) {
  Held made(10);
  made.problem.held = PhiConstraints::box(Vec::Constant(6, -10), Vec::Constant(6, 10));
  OnFace<Vec> face(made.problem);
  face.hold(made.at, made.theta, 0);
  const Vec phi = random_matrix(7, 6, 1);
  Vec gradient(6), expected(6);
  EXPECT_EQ(face.inner(phi, made.theta, {.phi = &gradient}),
            made.problem.inner(phi, made.theta, {.phi = &expected}));
  EXPECT_EQ(gradient, expected);
}

TEST(OnFace, KeepsKinksAndOffersNoSparseHessian) {
  Held made(10);
  OnFace<Vec> face(made.problem);
  EXPECT_EQ(face.kink(Vec::Zero(6), made.theta), "there is a kink");
  EXPECT_EQ(face.kink(Vec::Ones(6), made.theta), "");
  EXPECT_FALSE(face.capabilities().sparse);
  EXPECT_TRUE(face.capabilities().curvature);
}

TEST(OnFace, CornersThatMoreConstraintsMeetInHaveMultipliersThatBalance) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    const auto n = static_cast<Index>(3 + seed % 5), m = 1 + static_cast<Index>((seed / 5) % 14);
    PhiConstraints c;
    const auto rounded = [&](std::uint64_t more, Index rows) {
      Mat a = (random_matrix(seed + more, rows, n).array() * 0.9).round().matrix();
      for (Index i = 0; i < rows; ++i)
        if (a.row(i).isZero()) a(i, i % n) = 1;
      return a;
    };
    const Index equalities = 1 + static_cast<Index>(seed % 2);
    c.equal = rounded(100000, equalities);
    c.equal_to = Vec::Zero(equalities);
    c.below = rounded(200000, m);
    c.below_to = Vec::Zero(m);
    const NamedConstraints rows = rows_of(c, n);
    Vec u = random_matrix(seed + 300000, equalities + m, 1);
    u.tail(m) = u.tail(m).cwiseMax(0);
    const Vec gradient = rows.rows.normals * u;
    Mat basis;
    const Face face = face_of(rows, Vec::Zero(n), gradient, basis);
    ASSERT_TRUE(face.fault.empty()) << face.fault;
    const double size = 1 + gradient.norm();
    EXPECT_LE((gradient - rows.rows.normals * face.multipliers).norm(), 1e-11 * size);
    EXPECT_LE((gradient - basis * (basis.transpose() * gradient)).norm(), 1e-11 * size);
    EXPECT_LE((basis.transpose() * basis - Mat::Identity(basis.cols(), basis.cols())).norm(), 1e-13);
    EXPECT_GE(face.multipliers.tail(m).minCoeff(), 0);
  }
}

TEST(OnFace, ANumberThatIsNoneIsAFault) {
  PhiConstraints below;
  below.below = Mat::Ones(1, 2);
  below.below_to = Vec::Ones(1);
  for (const PhiConstraints& c : {PhiConstraints::simplex(2), below}) {
    Mat basis;
    EXPECT_FALSE(
        face_of(rows_of(c, 2), Vec::Unit(2, 0), Vec::Constant(2, std::nan("")), basis).fault.empty());
  }
}

}  // namespace on_face_test
}  // namespace bilevel
