#include <gtest/gtest.h>

#include <adjoint/systems.hpp>
#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <conformance/allocation_counter.hpp>

namespace bilevel::testing {
namespace allocation_test {

using conformance::allocations;

/// Diagonal, so that a product needs no memory.
struct DiagonalOperator final : LinearOperator<Vec> {
  explicit DiagonalOperator(Vec d) : elements(std::move(d)) {}
  void apply(const Vec& x, Vec& out) override { out.noalias() = elements.cwiseProduct(x); }
  bool diagonal(Vec& out) override {
    out.setOnes();  // the true one would solve the system in one step
    return true;
  }
  bool precondition(const Vec& r, Vec& out) override {
    out = r;
    return true;
  }
  InverseApproximation<Vec>* inherited() override { return &nothing; }
  struct Nothing final : InverseApproximation<Vec> {
    void apply(const Vec& b, Vec& out) override { out = b; }
    Index rank() const override { return 0; }
  } nothing;
  Vec elements;
};

long allocations_of(std::string_view name, long iterations) {
  DiagonalOperator a(log_spectrum(400, 1e6));
  const Vec b = Vec::Ones(400);
  AdjointOptions options;
  options.relative_tolerance = 1e-14;
  options.max_iterations = iterations;
  std::unique_ptr<AdjointSolver<Vec>> solver;
  if (name == "gmres") {
    GmresOptions gmres{options};
    gmres.restart = 10;
    solver = std::make_unique<Gmres<Vec>>(gmres);
  } else {
    solver = make_adjoint_solver<Vec>(name, options);
  }
  const long before = allocations;
  const auto solution = solver->solve(a, b, nullptr);
  const long after = allocations;
  EXPECT_EQ(solution.iterations, iterations) << solution.message;
  return after - before;
}

TEST(Allocation, DoesNotGrowWithTheIterations) {
  if (!BILEVEL_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const std::string_view name : {"cg", "cg-jacobi", "cg-preconditioned", "cg-inherited", "cg-nystrom",
                                      "minres", "gmres", "bicgstab", "neumann"}) {
    const long few = allocations_of(name, 20);
    EXPECT_GT(few, 0) << name << ": nothing is being counted";
    EXPECT_EQ(allocations_of(name, 120), few) << name;
  }
}

}  // namespace allocation_test
}  // namespace bilevel::testing
