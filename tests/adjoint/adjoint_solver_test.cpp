#include <bilevel/adjoint/make_adjoint_solver.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace adjoint_solver_test {

const double nan = std::numeric_limits<double>::quiet_NaN();

/// The message of the InvalidInput that `work` throws.
template <class Work>
std::string thrown_by(const Work& work) {
  try {
    work();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_named(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

TEST(MakeAdjointSolver, KnowsItsNamesAndListsThem) {
  for (const std::string_view name : adjoint_solver_names())
    EXPECT_EQ(make_adjoint_solver<Vec>(name)->name(), name);
  const std::string message = thrown_by([] { make_adjoint_solver<Vec>("cgs"); });
  expect_named(message, {"\"cgs\"",
                         "direct, cg, cg-jacobi, cg-preconditioned, cg-inherited, cg-nystrom, minres, gmres, "
                         "bicgstab, neumann, identity, zero"});
}

TEST(MakeAdjointSolver, SaysOfWhatWasRemovedWhatToUseInstead) {
  for (const std::string_view name : {"cg-recycled", "nystrom", "inherited"}) {
    const std::string message = thrown_by([&] { make_adjoint_solver<Vec>(name); });
    expect_named(message, {name, "was removed in 0.1.0", "use cg-"});
    const std::string instead = message.substr(message.rfind(' ') + 1);
    EXPECT_NE(find_adjoint_solver(instead), nullptr) << message;
  }
}

TEST(AdjointChoice, AnObjectAndItsNameMakeTheSameSolver) {
  for (const std::string_view name : adjoint_solver_names()) {
    const AdjointChoice choice = adjoint_solver_named(name);
    EXPECT_EQ(bilevel::name(choice), name);
    EXPECT_EQ(make_adjoint_solver<Vec>(choice)->name(), name);
    EXPECT_EQ(solves(choice), name != "identity" && name != "zero");
    EXPECT_TRUE(validate(choice).empty()) << name;
  }
  AdjointChoice short_of_memory = GmresOptions{};
  std::get<GmresOptions>(short_of_memory).restart = 0;
  shared(short_of_memory).relative_tolerance = -1;
  expect_named(thrown_by([&] { make_adjoint_solver<Vec>(short_of_memory); }),
               {"gmres.restart = 0", "gmres.relative_tolerance = -1"});
}

TEST(AdjointOptions, EveryViolationIsNamedAtOnce) {
  for (const std::string_view name : adjoint_solver_names()) {
    AdjointOptions options;
    options.relative_tolerance = -1;
    options.absolute_tolerance = nan;
    options.max_iterations = -2;
    expect_named(thrown_by([&] { make_adjoint_solver<Vec>(name, options); }),
                 {"relative_tolerance = -1", "absolute_tolerance = nan", "max_iterations = -2"});
  }
  AdjointOptions both_zero;
  both_zero.relative_tolerance = 0;
  expect_named(thrown_by([&] { both_zero.validate().throw_if_any(); }), {"cannot both be zero"});
}

TEST(AdjointOptions, ASolversOwnFieldsAreNamedAfterIt) {
  const auto message = [](const auto& options) {
    return thrown_by([&] { options.validate().throw_if_any(); });
  };
  ConjugateGradientOptions cg;
  cg.ritz_steps = -1;
  cg.relative_tolerance = nan;
  expect_named(message(cg), {"cg.ritz_steps = -1 must be at least 0", "cg.relative_tolerance = nan"});
  MinresOptions minres;
  minres.ritz_steps = -3;
  expect_named(message(minres), {"minres.ritz_steps = -3"});
  GmresOptions gmres;
  gmres.restart = 0;
  expect_named(message(gmres), {"gmres.restart = 0 must be at least 1"});
  BicgstabOptions bicgstab;
  bicgstab.max_restarts = -1;
  expect_named(message(bicgstab), {"bicgstab.max_restarts = -1"});
  NeumannOptions neumann;
  neumann.step = -0.5;
  neumann.terms = -1;
  neumann.power_steps = 1;
  expect_named(message(neumann), {"neumann.step = -0.5", "neumann.terms = -1", "neumann.power_steps = 1"});
  IdentityOptions identity;
  identity.step = nan;
  expect_named(message(identity), {"identity.step = nan must be finite"});
  ConjugateGradientOptions relatives;
  relatives.preconditioner = Preconditioner::nystrom;
  relatives.sketch.rank = 0;
  relatives.sketch.damping = nan;
  expect_named(message(relatives), {"cg.rank = 0", "cg.damping = nan"});
  DirectOptions direct;
  direct.assembly_limit = 0;
  expect_named(message(direct), {"direct.assembly_limit = 0"});
}

TEST(AdjointSolver, NanFromAProductIsNamedWithItsIterationAndTheBestXSurvives) {
  Draw draw(1);
  const Mat matrix = draw.with_spectrum(log_spectrum(40, 100));
  const Vec b = draw.vector(40);
  for (const std::string_view name : {"cg", "cg-jacobi", "minres", "gmres", "bicgstab", "neumann"}) {
    Operator a(matrix);
    a.poisoned_product = 7;
    const auto solution = make_adjoint_solver<Vec>(name)->solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::not_finite) << name << ": " << solution.message;
    EXPECT_NE(solution.message.find("(product 7)"), std::string::npos) << solution.message;
    if (name != "bicgstab" && name != "neumann") {
      EXPECT_NE(solution.message.find("at iteration 7"), std::string::npos) << solution.message;
    }
    EXPECT_TRUE(solution.x.allFinite()) << name;
    EXPECT_NEAR(solution.residual_norm, (b - matrix * solution.x).norm(), 1e-13 * b.norm()) << name;
    if (name != "neumann") {
      EXPECT_LT(solution.residual_norm, b.norm()) << name;
    }
  }
}

TEST(AdjointSolver, AnOperatorOfAnotherSizeThrows) {
  struct Longer final : LinearOperator<Vec> {
    void apply(const Vec&, Vec& out) override { out = Vec::Ones(4); }
  } a;
  expect_named(thrown_by([&] { ConjugateGradient<Vec>().solve(a, Vec::Ones(3), nullptr); }),
               {"4 elements", "b has 3"});
}

TEST(AdjointSolver, ARightSideWhoseSquareOverflowsThrows) {
  Operator a(Mat::Identity(2, 2));
  expect_named(thrown_by([&] { ConjugateGradient<Vec>().solve(a, Vec::Constant(2, 1e200), nullptr); }),
               {"1e+200", "rescale"});
  expect_named(thrown_by([&] { ConjugateGradient<Vec>().solve(a, Vec::Constant(2, 1e-200), nullptr); }),
               {"1e-200", "rescale"});
}

TEST(AdjointSolver, AWarmStartWithNanIsNotUsed) {
  Operator a(2 * Mat::Identity(3, 3));
  const Vec warm = Vec::Constant(3, nan);
  const auto solution = ConjugateGradient<Vec>().solve(a, Vec::Ones(3), &warm);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_LE((solution.x - Vec::Constant(3, 0.5)).norm(), 1e-15);
}

TEST(AdjointSolver, TheAbsoluteToleranceCountsWhereItIsLarger) {
  Draw draw(2);
  Operator a(draw.with_spectrum(log_spectrum(30, 100)));
  const Vec b = draw.vector(30);
  AdjointOptions options;
  options.absolute_tolerance = 0.1;
  for (const std::string_view name : {"cg", "minres", "gmres", "bicgstab", "neumann"}) {
    const auto solution = make_adjoint_solver<Vec>(name, options)->solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_EQ(solution.target, 0.1);
    EXPECT_GT(solution.residual_norm, 1e-6 * b.norm()) << name << " did more than it was asked";
  }
}

TEST(AdjointSolver, ALaterToleranceReplacesTheFirst) {
  Draw draw(3);
  Operator a(draw.with_spectrum(log_spectrum(30, 100)));
  const Vec b = draw.vector(30);
  for (const std::string_view name : adjoint_solver_names()) {
    if (name == "cg-preconditioned") continue;
    const auto solver = make_adjoint_solver<Vec>(name);
    if (solver->inherits()) continue;
    solver->set_tolerance(0.01);
    EXPECT_EQ(solver->solve(a, b, nullptr).target, 0.01 * b.norm()) << name;
  }
}

TEST(Identity, IsAMultipleOfTheRightSide) {
  Operator a(4 * Mat::Identity(3, 3));
  IdentityOptions options;
  options.step = 0.5;
  const auto off = Identity<Vec>(options).solve(a, Vec::Ones(3), nullptr);
  EXPECT_EQ(off.status, Status::approximate);
  EXPECT_EQ(off.x, Vec::Constant(3, 0.5));
  EXPECT_NEAR(off.residual_norm, std::sqrt(3.0), 1e-15);
  EXPECT_EQ(off.products, 1);
  options.step = 0.25;
  EXPECT_EQ(Identity<Vec>(options).solve(a, Vec::Ones(3), nullptr).status, Status::converged);
}

TEST(Zero, CostsNothing) {
  Operator a(Mat::Identity(3, 3));
  const auto solution = Zero<Vec>().solve(a, Vec::Ones(3), nullptr);
  EXPECT_EQ(solution.status, Status::approximate);
  EXPECT_EQ(solution.x, Vec::Zero(3));
  EXPECT_EQ(solution.residual_norm, std::sqrt(3.0));
  EXPECT_EQ(a.products, 0);
}

}  // namespace adjoint_solver_test
}  // namespace bilevel::testing
