// What a device would feel: how often elements of vectors cross to the host and back.

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/minimiser.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/problem/adapter.hpp>
#include <conformance/crossing_vector.hpp>

namespace bilevel {
namespace crossings_test {

using conformance::CrossingVector;

/// A chain of springs, each held by one of three penalties e^θ, that is to come to rest halfway:
///   L_in = ½Σ(φ_i − 1)² + ½Σ e^θ_(i mod 3) φ_i² + ½c·Σ(φ_i − φ_(i+1))²,   L_out = ½Σ(φ_i − t_i)².
/// No constants and no matrix: certificates need Lanczos.
template <class V>
struct SpringChain {
  static constexpr Index links = 300;  // more than CertificateOptions::dense_limit
  static constexpr double coupling = 0.5;

  static const Eigen::VectorXd& of(const V& x) {
    if constexpr (requires { x.elements; })
      return x.elements;
    else
      return x;
  }
  static Eigen::VectorXd& of(V& x) { return const_cast<Eigen::VectorXd&>(of(std::as_const(x))); }

  V initial_phi() const { return V(Eigen::VectorXd(Eigen::VectorXd::Zero(links))); }
  V initial_theta() const { return V(Eigen::VectorXd(Eigen::VectorXd::Constant(3, -1))); }
  static double target(Index i) { return 0.5 + 0.1 * std::sin(static_cast<double>(i)); }
  static double held(const V& theta, Index i) { return std::exp(of(theta)[i % 3]); }

  /// out = H·v of the inner loss.
  static void times(const V& theta, const Eigen::VectorXd& v, Eigen::VectorXd& out) {
    for (Index i = 0; i < links; ++i) {
      out[i] = (1 + held(theta, i)) * v[i];
      if (i > 0) out[i] += coupling * (v[i] - v[i - 1]);
      if (i + 1 < links) out[i] += coupling * (v[i] - v[i + 1]);
    }
  }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) {
    const Eigen::VectorXd& x = of(phi);
    Eigen::VectorXd product(links);
    times(theta, x, product);
    if (wanted.phi) of(*wanted.phi) = product.array() - 1;
    if (wanted.theta) {
      of(*wanted.theta).setZero();
      for (Index i = 0; i < links; ++i) of(*wanted.theta)[i % 3] += 0.5 * held(theta, i) * x[i] * x[i];
    }
    return 0.5 * x.dot(product) - x.sum() + 0.5 * static_cast<double>(links);
  }
  double outer(const V& phi, const V&, Wanted<V> wanted) {
    Eigen::VectorXd off = of(phi);
    for (Index i = 0; i < links; ++i) off[i] -= target(i);
    if (wanted.phi) of(*wanted.phi) = off;
    if (wanted.theta) of(*wanted.theta).setZero();
    return 0.5 * off.squaredNorm();
  }
  void hessian_times(const V&, const V& theta, double beta, const V& v, V& out) {
    times(theta, of(v), of(out));
    of(out) += beta * of(v);
  }
  void cross_times(const V& phi, const V& theta, double, const V& v, V& out) {
    of(out).setZero();
    for (Index i = 0; i < links; ++i) of(out)[i % 3] += held(theta, i) * of(phi)[i] * of(v)[i];
  }
  void cross_apply(const V& phi, const V& theta, double, const V& u, V& out) {
    for (Index i = 0; i < links; ++i) of(out)[i] = held(theta, i) * of(phi)[i] * of(u)[i % 3];
  }
};

/// Counts estimates, and what crosses within them.
template <class V>
class WatchedEstimator final : public Estimator<V> {
 public:
  explicit WatchedEstimator(Estimator<V>& estimator) : estimator_(estimator) {}
  std::string_view name() const override { return estimator_.name(); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override {
    ++estimates;
    const long before = CrossingVector::to_host + CrossingVector::from_host;
    Estimate<V> e = estimator_.estimate(theta, warm);
    crossings_within += CrossingVector::to_host + CrossingVector::from_host - before;
    certified = certified && e.certificate.kind != Kind::none;
    return e;
  }
  void set_tolerances(double inner, double adjoint) override { estimator_.set_tolerances(inner, adjoint); }
  void set_outer_tolerance(double tolerance) override { estimator_.set_outer_tolerance(tolerance); }
  V initial_phi() const override { return estimator_.initial_phi(); }
  V initial_theta() const override { return estimator_.initial_theta(); }

  long estimates = 0, crossings_within = 0;
  bool certified = true;

 private:
  Estimator<V>& estimator_;
};

template <class V>
std::unique_ptr<Estimator<V>> estimator_on(const std::string& method, Problem<V>& problem,
                                           InnerSolver<V>& inner) {
  if (method == "implicit-cg")
    return std::make_unique<Implicit<V>>(problem, inner, std::make_unique<ConjugateGradient<V>>());
  if (method == "ep-central")
    return std::make_unique<EquilibriumPropagation<V>>(
        problem, inner, EquilibriumPropagationOptions{.nudge = Nudge::central});
  return std::make_unique<Automatic<V>>(
      problem, inner, true, [](const EstimatorChoice& choice, InnerSolver<V>&) -> std::unique_ptr<Estimator<V>> {
        throw InvalidInput(fmt::format("{} is not expected here", name(choice)));
      },
      AutomaticOptions{});
}

struct Ran {
  Summary summary;
  long estimates, within, to_host, from_host;
  bool certified;
};

template <class V>
Ran run_on(const std::string& method, const SolveOptions& options) {
  auto problem = make_problem(SpringChain<V>{});
  Minimiser<V> inner(problem, std::make_unique<Lbfgs<V>>());
  const auto estimator = estimator_on<V>(method, problem, inner);
  WatchedEstimator<V> watched(*estimator);
  const auto optimizer = make_optimizer("lbfgs");
  CrossingVector::to_host = CrossingVector::from_host = 0;
  Summary summary = solve<V>(watched, *optimizer, problem.initial_theta(), options);
  return {std::move(summary),      watched.estimates,         watched.crossings_within,
          CrossingVector::to_host, CrossingVector::from_host, watched.certified};
}

class Crossings : public ::testing::TestWithParam<const char*> {};

TEST_P(Crossings, AreThetaAndItsGradientAndTheStatesAtTheEnd) {
  const Ran ran = run_on<CrossingVector>(GetParam(), {});
  ASSERT_EQ(ran.summary.status, Status::converged) << ran.summary.message;
  ASSERT_GE(ran.summary.iterations, 3);
  EXPECT_TRUE(ran.certified);
  EXPECT_EQ(ran.within, 0) << "settling, adjoint and certificate stay where the vectors are";
  EXPECT_EQ(ran.from_host, ran.summary.evaluations) << "θ, once each evaluation";
  EXPECT_EQ(ran.to_host, 1 + ran.estimates + 2) << "the start, each gradient, φ and π of the last point";
}

TEST_P(Crossings, TheStatesAlsoCrossWithEachCheckpoint) {
  SolveOptions options;
  options.checkpoint = (std::filesystem::temp_directory_path() /
                        fmt::format("bilevel_{}_crossings_{}", ::getpid(), GetParam()))
                           .string();
  options.max_iterations = 3;
  const Ran ran = run_on<CrossingVector>(GetParam(), options);
  ASSERT_EQ(ran.summary.status, Status::iteration_limit) << ran.summary.message;
  EXPECT_EQ(ran.within, 0);
  EXPECT_EQ(ran.to_host, 1 + ran.estimates + 2 * (1 + ran.summary.iterations)) << "once each accepted point";

  // The checkpoint holds them, and the run goes on to where one without a break arrives.
  options.resume = true;
  options.max_iterations = 200;
  const Ran resumed = run_on<CrossingVector>(GetParam(), options);
  EXPECT_EQ(resumed.from_host, resumed.summary.evaluations - ran.summary.evaluations + 2);
  // Equilibrium propagation chooses its nudge anew, and arrives within the tolerance of the gradient.
  const double apart = (resumed.summary.theta - run_on<CrossingVector>(GetParam(), {}).summary.theta).norm();
  EXPECT_LE(apart, GetParam() == std::string("ep-central") ? 1e-6 : 0);
  std::filesystem::remove(options.checkpoint);
}

TEST_P(Crossings, TheNumbersAreThoseOfTheHost) {
  const Ran there = run_on<CrossingVector>(GetParam(), {}), here = run_on<Eigen::VectorXd>(GetParam(), {});
  EXPECT_EQ(there.summary.theta, here.summary.theta);
  EXPECT_EQ(there.summary.phi, here.summary.phi);
  // The bound holds secants, differences of nearly equal products.
  const double bound = here.summary.certificate.bound;
  EXPECT_NEAR(there.summary.certificate.bound, bound, 1e-6 * bound);
}

INSTANTIATE_TEST_SUITE_P(Methods, Crossings, ::testing::Values("auto", "implicit-cg", "ep-central"),
                         [](const auto& method) {
                           std::string name = method.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace crossings_test
}  // namespace bilevel
