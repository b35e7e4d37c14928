// Certificates of gradients whose products are finite differences, in whatever units φ and θ are.
#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problem/differenced.hpp>

namespace bilevel {
namespace differenced_trust_test {

using Vec = Eigen::VectorXd;

/// A problem in other units: φ = s∘x and θ = t∘y.
class Rescaled final : public Problem<Vec> {
 public:
  Rescaled(Problem<Vec>& problem, Vec s, Vec t) : problem_(problem), s_(std::move(s)), t_(std::move(t)) {}
  Vec initial_phi() const override { return s_.cwiseProduct(problem_.initial_phi()); }
  Vec initial_theta() const override { return t_.cwiseProduct(problem_.initial_theta()); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return told(wanted, problem_.inner(phi.cwiseQuotient(s_), theta.cwiseQuotient(t_), wanted));
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return told(wanted, problem_.outer(phi.cwiseQuotient(s_), theta.cwiseQuotient(t_), wanted));
  }
  Capabilities capabilities() const override { return {.curvature = false}; }

 private:
  double told(Wanted<Vec> wanted, double value) const {
    if (wanted.phi) wanted.phi->array() /= s_.array();
    if (wanted.theta) wanted.theta->array() /= t_.array();
    return value;
  }
  Problem<Vec>& problem_;
  Vec s_, t_;
};

Vec scales(double from, double to, Index size) {
  return Vec::LinSpaced(size, from, to).unaryExpr([](double power) { return std::pow(10, power); });
}

TEST(DifferencedTrust, GradientsAreRightAndSaidToBeInAnyUnits) {
  auto original = problems::make("log-cosh", {.phi = 6, .theta = 4, .condition = 10, .seed = 3});
  const auto exact_inner = make_inner_solver<Vec>("newton", *original, {.gradient_tolerance = 1e-14});
  const Vec truth =
      make_estimator<Vec>("exact", *original, *exact_inner)->estimate(original->initial_theta(), {}).gradient;
  int trusted = 0;
  for (const auto& [phi_from, phi_to] : std::vector<std::pair<double, double>>{
           {-8, -8}, {-6, -6}, {-3, -3}, {0, 0}, {3, 3}, {6, 6}, {8, 8}, {-2, 2}, {8, -8}})
    for (const auto& [theta_from, theta_to] : std::vector<std::pair<double, double>>{
             {-8, -8}, {-6, -6}, {0, 0}, {6, 6}, {8, 8}, {-8, 8}, {1, -1}}) {
      SCOPED_TRACE(testing::Message() << "phi in 1e" << phi_from << " to 1e" << phi_to << ", theta in 1e"
                                      << theta_from << " to 1e" << theta_to);
      const Vec t = scales(theta_from, theta_to, 4);
      Rescaled problem(*original, scales(phi_from, phi_to, 6), t);
      auto differenced = with_difference_products(problem);
      // A residual in units of 1/s, down to ten digits of it.
      const double size = std::pow(10, -std::min(phi_from, phi_to));
      const auto inner = make_inner_solver<Vec>("newton", differenced, {.gradient_tolerance = 1e-11 * size});
      for (const char* method : {"implicit-direct", "implicit-cg"}) {
        SCOPED_TRACE(method);
        const auto e =
            make_estimator<Vec>(method, differenced, *inner, {.adjoint = {.relative_tolerance = 1e-8}})
                ->estimate(problem.initial_theta(), {});
        const bool mixed = phi_from != phi_to;
        if (std::string_view(method) == "implicit-direct" || !mixed) {
          EXPECT_LE((t.cwiseProduct(e.gradient) - truth).norm(), 1e-5 * truth.norm()) << e.message;
        }
        const Vec error = e.gradient - truth.cwiseQuotient(t);
        if (e.certificate.verdict != Verdict::trusted) continue;
        ++trusted;
        EXPECT_LE(error.norm(), e.certificate.bound) << e.certificate.reason;
        EXPECT_EQ(e.certificate.kind, Kind::estimated);
        EXPECT_NE(e.certificate.reason.find("differenced products"), std::string::npos);
      }
    }
  EXPECT_GE(trusted, 60);
}

}  // namespace differenced_trust_test
}  // namespace bilevel
