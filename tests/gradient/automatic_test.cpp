// The automatic choice: what it ranks first, when it hands over, and that it says so.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <conformance/recurrent_net.hpp>

namespace bilevel {
namespace automatic_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr std::size_t plenty = std::size_t{1} << 30;

std::vector<std::string> ranked(const Situation& situation) {
  std::vector<std::string> names;
  for (const Choice& c : rank_methods(situation)) names.push_back(name(c.method));
  return names;
}

TEST(AutomaticChoice, FollowsSizeCapabilitiesAndMemory) {
  EXPECT_EQ(ranked({.phi = 10, .theta = 3, .memory_limit = plenty}).front(), "implicit-direct");
  EXPECT_EQ(ranked({.phi = 1000, .theta = 3, .memory_limit = plenty}).front(), "implicit-cg");
  EXPECT_EQ(ranked({.phi = 1000, .theta = 3, .symmetric = false, .memory_limit = plenty}).front(),
            "implicit-gmres");
  EXPECT_EQ(ranked({.phi = 1000, .theta = 3, .curvature = false, .memory_limit = plenty}).front(),
            "ep-forward-3");
  EXPECT_EQ(
      ranked({.phi = 1000, .theta = 3, .curvature = false, .loss = false, .memory_limit = plenty}).front(),
      "finite-difference");
  const auto tight = ranked({.phi = 100000, .theta = 3, .memory_limit = plenty});
  EXPECT_EQ(std::count(tight.begin(), tight.end(), "implicit-direct"), 0);
  for (const bool curvature : {true, false})
    for (const bool symmetric : {true, false})
      for (const bool loss : {true, false})
        for (const Index n : {1, 100, 1000000})
          EXPECT_EQ(ranked({.phi = n,
                            .theta = 1,
                            .curvature = curvature,
                            .symmetric = symmetric,
                            .loss = loss,
                            .memory_limit = 1000})
                        .back(),
                    "first-order");
}

TEST(AutomaticChoice, HandsOverToWhatCopesWithTheReason) {
  const auto choices = rank_methods({.phi = 1000, .theta = 3, .memory_limit = plenty});
  ASSERT_EQ(name(choices[0].method), "implicit-cg");
  EXPECT_EQ(name(choices[next_choice(choices, 0, Status::negative_curvature)].method), "implicit-minres");
  EXPECT_EQ(name(choices[next_choice(choices, 0, Status::iteration_limit)].method), "implicit-direct");
  EXPECT_EQ(next_choice(choices, choices.size() - 1, Status::iteration_limit), choices.size());
  // Without room for the matrix a stiff system goes on to what does not multiply by it as often.
  const auto large = rank_methods({.phi = 100000, .theta = 3, .memory_limit = plenty});
  EXPECT_EQ(name(large[next_choice(large, 0, Status::iteration_limit)].method), "implicit-cg-nystrom");
}

/// Counts how often the free problem is settled.
class Watched final : public InnerSolver<Vec> {
 public:
  explicit Watched(InnerSolver<Vec>& solver) : solver_(solver) {}
  std::string_view name() const override { return solver_.name(); }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    free += beta == 0;
    return solver_.solve(theta, beta, start);
  }
  void set_tolerance(double tolerance) override { solver_.set_tolerance(tolerance); }
  int free = 0;

 private:
  InnerSolver<Vec>& solver_;
};

TEST(Automatic, GivesTheRightGradientOnEveryFamilyAndSaysWhatItChose) {
  for (const auto& family : problems::families()) {
    const auto problem = family.make({.seed = 3});
    const auto newton = make_inner_solver<Vec>("newton", *problem, {.gradient_tolerance = 1e-12});
    Watched inner(*newton);
    const Vec theta = problem->initial_theta();
    const auto expected = make_estimator<Vec>("exact", *problem, *newton)->estimate(theta, {});
    const auto e = make_estimator<Vec>("auto", *problem, inner)->estimate(theta, {});
    EXPECT_LE((e.gradient - expected.gradient).norm(), 1e-8 * expected.gradient.norm()) << family.name;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << family.name << e.message;
    EXPECT_TRUE(e.message.starts_with("auto chose implicit-direct: ")) << e.message;
    EXPECT_EQ(inner.free, 1) << "one settling serves all";
    EXPECT_GT(e.cost.inner_gradients, 0);
  }
}

TEST(Automatic, RentsProductsUntilTheMatrixIsCheaper) {
  // κ = 10⁸ is beyond what |φ| products of conjugate gradients resolve.
  const auto hard = problems::make("quadratic", {.phi = 60, .condition = 1e8, .seed = 4});
  const auto easy = problems::make("quadratic", {.phi = 60, .condition = 4, .seed = 4});
  const auto run = [](problems::ReferenceProblem& problem, const char* method) {
    const auto newton = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-11});
    Watched inner(*newton);  // keeps Newton's factor to itself
    return make_estimator<Vec>(method, problem, inner)->estimate(problem.initial_theta(), {});
  };
  const auto stiff = run(*hard, "auto");
  EXPECT_NE(stiff.message.find("then implicit-direct"), std::string::npos) << stiff.message;
  EXPECT_LE((stiff.gradient - *hard->outer_gradient(hard->initial_theta())).norm(),
            1e-6 * stiff.gradient.norm());
  EXPECT_LE(stiff.cost.gradient_equivalents(), 2 * run(*hard, "implicit-direct").cost.gradient_equivalents());
  const auto newton = make_inner_solver<Vec>("newton", *hard, {.gradient_tolerance = 1e-11});
  const auto inherited = make_estimator<Vec>("auto", *hard, *newton)->estimate(hard->initial_theta(), {});
  EXPECT_TRUE(inherited.message.starts_with("auto chose implicit-cg-inherited")) << inherited.message;
  EXPECT_LE(inherited.cost.hessian_products, 10);
  const auto mild = run(*easy, "auto");
  EXPECT_EQ(mild.message.find("then"), std::string::npos) << mild.message;
  EXPECT_EQ(mild.cost.factorizations, run(*easy, "implicit-cg").cost.factorizations);
}

/// L_in = ½ φᵀHφ − φᵀ(Jθ), H indefinite; L_out = ½‖φ‖². The stationary point is a saddle.
struct Saddle {
  Mat h, j;
  Vec initial_phi() const { return Vec::Zero(h.rows()); }
  Vec initial_theta() const { return Vec::Ones(j.cols()); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> w) const {
    const Vec force = h * phi - j * theta;
    if (w.phi) *w.phi = force;
    if (w.theta) *w.theta = -(j.transpose() * phi);
    return 0.5 * phi.dot(force - j * theta);
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> w) const {
    if (w.phi) *w.phi = phi;
    if (w.theta) w.theta->setZero();
    return 0.5 * phi.squaredNorm();
  }
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = h * v + beta * v;
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = -(j.transpose() * v);
  }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -(j * u); }
};

class AtRest final : public InnerSolver<Vec> {
 public:
  explicit AtRest(const Saddle& s) : s_(s) {}
  std::string_view name() const override { return "at-rest"; }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec&) override {
    Solution<Vec> r;
    r.phi = (s_.h + beta * Mat::Identity(s_.h.rows(), s_.h.rows())).partialPivLu().solve(s_.j * theta);
    r.status = Status::converged;
    return r;
  }

 private:
  const Saddle& s_;
};

TEST(Automatic, GoesOnToMinresAtASaddle) {
  const Index n = 80;
  Saddle s{Mat::Zero(n, n), Mat::Ones(n, 1)};
  for (Index i = 0; i < n; ++i) s.h(i, i) = i % 4 == 0 ? -1 - 0.01 * static_cast<double>(i) : 2.0;
  auto problem = make_problem(s);
  AtRest inner(s);
  const auto estimator = make_estimator<Vec>("auto", problem, inner);
  const auto e = estimator->estimate(problem.initial_theta(), {});
  EXPECT_NE(e.message.find("auto chose implicit-cg"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("negative-curvature"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("then implicit-minres"), std::string::npos) << e.message;
  const Vec expected = s.j.transpose() * s.h.inverse() * e.phi;
  EXPECT_LE((e.gradient - expected).norm(), 1e-8 * expected.norm());
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted)
      << "the state is no minimum, and no phase 2 mends that";
}

TEST(Automatic, ServesFirstOrderProblemsAndEquilibriaThatMinimiseNothing) {
  const auto whole = problems::make("quadratic", {.phi = 12, .theta = 4, .condition = 10, .seed = 6});
  auto first_order = make_problem(Functions<Vec>{
      .initial_phi = [&] { return whole->initial_phi(); },
      .initial_theta = [&] { return whole->initial_theta(); },
      .inner = [&](const Vec& p, const Vec& t, Wanted<Vec> w) { return whole->inner(p, t, w); },
      .outer = [&](const Vec& p, const Vec& t, Wanted<Vec> w) { return whole->outer(p, t, w); }});
  const auto inner = make_inner_solver<Vec>("lbfgs", first_order, {.gradient_tolerance = 1e-11});
  const auto e = make_estimator<Vec>("auto", first_order, *inner)->estimate(whole->initial_theta(), {});
  EXPECT_TRUE(e.message.starts_with("auto chose ep-")) << e.message;
  const Vec expected = *whole->outer_gradient(whole->initial_theta());
  EXPECT_LE((e.gradient - expected).norm(), 1e-5 * expected.norm()) << e.message;
  EXPECT_EQ(e.cost.linearisations, 0);

  std::srand(7);
  conformance::RecurrentNet net(0.05 * Mat::Random(40, 40), Mat::Random(40, 2), Vec::Ones(40));
  const auto anderson =
      make_inner_solver<Vec>("anderson", static_cast<Equilibrium<Vec>&>(net), {.gradient_tolerance = 1e-12});
  Equilibrium<Vec>& equilibrium = net;
  const auto g = make_estimator<Vec>("auto", equilibrium, *anderson)->estimate(net.initial_theta(), {});
  const auto x = make_estimator<Vec>("exact", equilibrium, *anderson)->estimate(net.initial_theta(), {});
  EXPECT_TRUE(g.message.starts_with("auto chose implicit-gmres")) << g.message;
  EXPECT_LE((g.gradient - x.gradient).norm(), 1e-8 * x.gradient.norm());
}

TEST(Automatic, DoesNotPayForDigitsThatTheStateDoesNotHave) {
  const auto problem = problems::make("log-cosh", {.phi = 100, .condition = 1000, .seed = 8});
  const auto rough = make_inner_solver<Vec>("lbfgs", *problem, {.gradient_tolerance = 1e-2});
  const auto chosen = make_estimator<Vec>("auto", *problem, *rough)->estimate(problem->initial_theta(), {});
  const auto plain =
      make_estimator<Vec>("implicit-cg", *problem, *rough)->estimate(problem->initial_theta(), {});
  EXPECT_LT(chosen.adjoint_iterations, plain.adjoint_iterations);
  EXPECT_LE((chosen.gradient - plain.gradient).norm(), 0.1 * plain.certificate.bound);
}

TEST(Automatic, RefusesBadOptions) {
  const auto problem = problems::make("quadratic", {});
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  EXPECT_THROW(make_estimator<Vec>("auto", *problem, *inner, {.memory_limit = 0}), InvalidInput);
}

}  // namespace automatic_test
}  // namespace bilevel
