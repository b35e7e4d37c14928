#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>
#include <bilevel/adjoint/make_adjoint_solver.hpp>

/// One suite for every solver of phase 2 on every vector type. A solver is tested by joining
/// `conforming_solvers`, a vector type by specialising HostTraits and instantiating AdjointConformance.
namespace bilevel::testing {

using Statuses = std::vector<Status>;

struct ConformingSolver {
  std::string name;  ///< as make_adjoint_solver knows it
  bool symmetric_only = false;
  bool approximate = false;                        ///< deliberately solves nothing and ignores warm starts
  std::function<Statuses(const System&)> may_end;  ///< with these, and no others
};

inline std::vector<ConformingSolver> conforming_solvers() {
  using enum Status;
  const auto indefinite = [](const System& s) { return s.symmetric && !s.definite; };
  const auto easy = [](const System& s) { return s.condition <= 100; };
  const auto positive_definite_only = [=](const System& s) -> Statuses {
    if (indefinite(s)) return {negative_curvature, breakdown};
    if (!s.consistent) return {singular, stalled, iteration_limit, breakdown};
    if (easy(s)) return {converged};
    return {converged, stalled, iteration_limit};
  };
  const auto direct = [=](const System& s) -> Statuses {
    if (s.singular) return {singular};
    if (indefinite(s)) return {negative_curvature};
    if (s.condition <= 1e4) return {converged};
    return {converged, stalled};
  };
  const auto minres = [=](const System& s) -> Statuses {
    if (!s.consistent) return {singular, stalled};
    if (easy(s)) return {converged};
    return {converged, stalled, iteration_limit};
  };
  const auto gmres = [=](const System& s) -> Statuses {
    if (!s.consistent) return {singular, stalled};
    if (easy(s)) return {converged};
    return {converged, stalled};
  };
  const auto bicgstab = [=](const System& s) -> Statuses {
    if (!s.consistent) return {singular, stalled, iteration_limit, breakdown};
    if (easy(s) && !indefinite(s)) return {converged};
    return {converged, stalled, iteration_limit, breakdown};
  };
  const auto neumann = [=](const System& s) -> Statuses {
    if (indefinite(s)) return {diverged};
    if (!s.consistent) return {stalled, iteration_limit};
    if (easy(s)) return {converged};
    return {iteration_limit};
  };
  const auto approximation = [](const System&) -> Statuses { return {approximate}; };
  return {
      {"direct", false, false, direct},
      {"cg", true, false, positive_definite_only},
      {"cg-jacobi", true, false, positive_definite_only},
      {"cg-preconditioned", true, false, positive_definite_only},
      {"cg-inherited", true, false, positive_definite_only},
      {"cg-nystrom", true, false, positive_definite_only},
      {"minres", true, false, minres},
      {"gmres", false, false, gmres},
      {"bicgstab", false, false, bicgstab},
      {"neumann", false, false, neumann},
      {"identity", false, true, approximation},
      {"zero", false, true, approximation},
  };
}

inline std::vector<System> conformance_systems(std::uint64_t seed) {
  Draw draw(seed);
  const Eigen::Index n = 30;
  std::vector<System> systems;
  const auto add = [&](std::string name, Mat a, Vec b, double condition) -> System& {
    System s;
    s.name = std::move(name);
    s.a = std::move(a);
    s.b = std::move(b);
    s.condition = condition;
    systems.push_back(std::move(s));
    return systems.back();
  };
  add("positive definite", draw.with_spectrum(log_spectrum(n, 20)), draw.vector(n), 20);
  {
    Vec spectrum = log_spectrum(n, 20);
    for (Eigen::Index i = 0; i < n; i += 3) spectrum[i] = -spectrum[i];
    add("indefinite", draw.with_spectrum(spectrum), draw.vector(n), 20).definite = false;
  }
  {
    // Eigenvalues in a disc around 1 of radius about 0.5.
    const Mat a = Mat::Identity(n, n) + 0.5 / std::sqrt(static_cast<double>(n)) * draw.matrix(n, n);
    System& s = add("not symmetric", a, draw.vector(n), 10);
    s.symmetric = false;
    s.definite = false;
  }
  for (const double condition : {1e4, 1e6, 1e8})
    add(fmt::format("condition {:.0e}", condition), draw.with_spectrum(log_spectrum(n, condition)),
        draw.vector(n), condition);
  {
    Vec spectrum = log_spectrum(n, 10);
    spectrum.head(3).setZero();
    const Mat a = draw.with_spectrum(spectrum);
    add("singular, consistent", a, a * draw.vector(n), 10).singular = true;
    System& s = add("singular, inconsistent", a, draw.vector(n), 10);
    s.singular = true;
    s.consistent = false;
  }
  {
    const Mat a = (Mat(3, 3) << 2, 1, 0, 1, 2, 0, 0, 0, 0).finished();
    System& s = add("a zero row, inconsistent", a, Vec::Constant(3, 1.0), 3);
    s.singular = true;
    s.consistent = false;
  }
  add("1x1", Mat::Constant(1, 1, 3.0), Vec::Constant(1, -2.0), 1);
  {
    Vec diagonal(n);
    for (Eigen::Index i = 0; i < n; ++i) diagonal[i] = static_cast<double>(1 + i % 3);
    add("repeated eigenvalues", diagonal.asDiagonal(), draw.vector(n), 3);
  }
  add("large numbers", 1e12 * draw.with_spectrum(log_spectrum(n, 20)), 1e-9 * draw.vector(n), 20);
  return systems;
}

template <class V>
class AdjointConformance : public ::testing::Test {
 protected:
  static constexpr double u = unit_roundoff<V>();
  /// Reachable for a condition number of 100: a few thousand times the unit roundoff.
  static constexpr double tolerance = u < 1e-10 ? 1e-10 : 1e-4;

  static V vector(const Vec& x) { return HostTraits<V>::from_host(x); }
  static Vec host(const V& x) { return HostTraits<V>::to_host(x); }

  static MatrixOperator<V> make_operator(const System& s) {
    MatrixOperator<V> a(s.a, s.symmetric);
    // Any positive definite map is a preconditioner; this one is neither A's inverse nor a multiple of I.
    a.preconditioner = Vec::LinSpaced(s.a.rows(), 0.5, 2.0).asDiagonal();
    return a;
  }

  /// What rounding may do to a residual: u·‖A‖·‖x‖ times the growth of a sum.
  static double rounding(const System& s, const Vec& x) {
    return 4 * std::sqrt(static_cast<double>(std::max<Index>(1, x.size()))) * u *
           (s.a.norm() * x.norm() + s.b.norm());
  }

  static double residual_norm(const System& s, const Vec& x) { return (host(vector(s.b)) - s.a * x).norm(); }

  static void check(const ConformingSolver& solver, const System& s, const LinearSolution<V>& solution) {
    const Vec x = host(solution.x);
    const double independent = residual_norm(s, x);
    ASSERT_EQ(x.size(), s.b.size());
    ASSERT_TRUE(x.allFinite());
    EXPECT_NEAR(solution.residual_norm, independent, rounding(s, x));
    EXPECT_FALSE(solution.message.empty());
    const Statuses allowed = solver.may_end(s);
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), solution.status), allowed.end())
        << name(solution.status);
    if (!solver.approximate) {
      EXPECT_LE(solution.residual_norm, solution.rhs_norm);
    }
    if (solution.status == Status::converged) {
      EXPECT_LE(solution.residual_norm, solution.target);
      EXPECT_LE(independent, tolerance * s.b.norm() + rounding(s, x));
      if (s.condition <= 100 && !s.singular) {
        const Vec reference = s.a.fullPivLu().solve(s.b);
        // ‖x − A⁻¹b‖ ≤ ‖A⁻¹‖·‖r‖
        const double inverse = 1 / s.a.jacobiSvd().singularValues().minCoeff();
        EXPECT_LE((x - reference).norm(), inverse * (tolerance * s.b.norm() + 2 * rounding(s, x)));
      }
    } else {
      EXPECT_TRUE(solution.residual_norm > solution.target || solution.status == Status::negative_curvature ||
                  solution.status == Status::singular)
          << "the target was met and the status hides it";
    }
  }
};

TYPED_TEST_SUITE_P(AdjointConformance);

TYPED_TEST_P(AdjointConformance, ReachesTheToleranceOrSaysWhyNot) {
  for (const std::uint64_t seed : {11u, 12u, 13u, 14u, 15u})
    for (const System& s : conformance_systems(seed))
      for (const ConformingSolver& entry : conforming_solvers()) {
        // In single precision a condition number beyond 1/u is a singular matrix.
        if (s.condition * unit_roundoff<TypeParam>() > 1e-3) continue;
        MatrixOperator<TypeParam> a = this->make_operator(s);
        AdjointOptions options;
        options.relative_tolerance = this->tolerance;
        const auto solver = make_adjoint_solver<TypeParam>(entry.name, options);
        EXPECT_EQ(solver->name(), entry.name);
        const TypeParam b = this->vector(s.b);
        SCOPED_TRACE(::testing::Message() << entry.name << " on " << s.name << ", seed " << seed);
        if (entry.symmetric_only && !s.symmetric) {
          EXPECT_THROW(solver->solve(a, b, nullptr), InvalidInput);
          continue;
        }
        const auto solution = solver->solve(a, b, nullptr);
        SCOPED_TRACE(solution.message);
        this->check(entry, s, solution);
        EXPECT_EQ(solution.products, a.products);
      }
}

TYPED_TEST_P(AdjointConformance, AWarmStartIsNeverWorse) {
  for (const std::uint64_t seed : {21u, 22u})
    for (const System& s : conformance_systems(seed))
      for (const ConformingSolver& entry : conforming_solvers()) {
        if (entry.approximate || (entry.symmetric_only && !s.symmetric)) continue;
        if (s.condition * unit_roundoff<TypeParam>() > 1e-3) continue;
        Draw draw(seed + 1000);
        const Vec reference = least_norm(s.a, s.b);
        const Vec noise = draw.vector(s.b.size());
        for (const Vec& start : {reference, Vec(reference + 1e-3 * reference.norm() * noise),
                                 Vec(1e6 * noise), Vec(-reference)}) {
          MatrixOperator<TypeParam> a = this->make_operator(s);
          AdjointOptions options;
          options.relative_tolerance = this->tolerance;
          const TypeParam b = this->vector(s.b), warm = this->vector(start);
          const auto solution = make_adjoint_solver<TypeParam>(entry.name, options)->solve(a, b, &warm);
          SCOPED_TRACE(::testing::Message()
                       << entry.name << " on " << s.name << ", seed " << seed << ": " << solution.message);
          const double at_start = this->residual_norm(s, this->host(warm));
          EXPECT_LE(solution.residual_norm, solution.rhs_norm);
          // Direct does not look at the start, and may be off by rounding where the start is exact.
          EXPECT_LE(solution.residual_norm,
                    std::max(solution.target, at_start + this->rounding(s, this->host(solution.x))));
          if (!s.singular && s.definite && s.condition <= 100) {
            EXPECT_EQ(solution.status, Status::converged);
          }
        }
      }
}

TYPED_TEST_P(AdjointConformance, AGoodWarmStartIsTakenAtOnce) {
  const System s = conformance_systems(31).front();
  for (const ConformingSolver& entry : conforming_solvers()) {
    if (entry.approximate || entry.name == "direct") continue;
    MatrixOperator<TypeParam> a = this->make_operator(s);
    AdjointOptions options;
    options.relative_tolerance = this->tolerance;
    const TypeParam b = this->vector(s.b), warm = this->vector(s.a.fullPivLu().solve(s.b));
    const auto solution = make_adjoint_solver<TypeParam>(entry.name, options)->solve(a, b, &warm);
    EXPECT_EQ(solution.status, Status::converged) << entry.name << ": " << solution.message;
    EXPECT_EQ(solution.iterations, 0) << entry.name;
    EXPECT_EQ(solution.products, 1) << entry.name;
  }
}

TYPED_TEST_P(AdjointConformance, EmptyAndZeroRightSides) {
  for (const ConformingSolver& entry : conforming_solvers())
    for (const Eigen::Index n : {0, 4}) {
      MatrixOperator<TypeParam> a(Mat::Identity(n, n));
      const TypeParam b = this->vector(Vec::Zero(n)), warm = this->vector(Vec::Ones(n));
      const auto solution = make_adjoint_solver<TypeParam>(entry.name)->solve(a, b, &warm);
      EXPECT_EQ(solution.status, Status::converged) << entry.name << ": " << solution.message;
      EXPECT_EQ(this->host(solution.x), Vec::Zero(n)) << entry.name;
      EXPECT_EQ(solution.residual_norm, 0) << entry.name;
      EXPECT_EQ(a.products, 0) << entry.name;
    }
}

TYPED_TEST_P(AdjointConformance, AnUnreachableToleranceIsNeverClaimed) {
  for (const std::uint64_t seed : {41u, 42u, 43u}) {
    Draw draw(seed);
    System s;
    s.a = draw.with_spectrum(log_spectrum(20, 50));
    s.b = draw.vector(20);
    for (const ConformingSolver& entry : conforming_solvers()) {
      if (entry.approximate) continue;
      MatrixOperator<TypeParam> a = this->make_operator(s);
      AdjointOptions options;
      options.relative_tolerance = this->u / 1000;
      const TypeParam b = this->vector(s.b);
      const auto solution = make_adjoint_solver<TypeParam>(entry.name, options)->solve(a, b, nullptr);
      SCOPED_TRACE(::testing::Message() << entry.name << ", seed " << seed << ": " << solution.message);
      EXPECT_EQ(solution.status, Status::stalled);
      EXPECT_LE(solution.residual_norm, 1e3 * this->u * solution.rhs_norm);
    }
  }
}

TYPED_TEST_P(AdjointConformance, TheIterationLimitHasItsOwnStatus) {
  const System s = conformance_systems(51).front();
  for (const ConformingSolver& entry : conforming_solvers()) {
    if (entry.approximate || entry.name == "direct") continue;
    MatrixOperator<TypeParam> a = this->make_operator(s);
    AdjointOptions options;
    options.relative_tolerance = this->tolerance;
    options.max_iterations = 3;
    const auto solution =
        make_adjoint_solver<TypeParam>(entry.name, options)->solve(a, this->vector(s.b), nullptr);
    EXPECT_EQ(solution.status, Status::iteration_limit) << entry.name << ": " << solution.message;
    EXPECT_EQ(solution.iterations, 3) << entry.name;
    EXPECT_LT(solution.residual_norm, solution.rhs_norm) << entry.name;
    EXPECT_NE(solution.message.find("limit of 3 iterations"), std::string::npos) << solution.message;
  }
}

TYPED_TEST_P(AdjointConformance, InputThatCannotBeUsedThrowsBeforeWork) {
  for (const ConformingSolver& entry : conforming_solvers()) {
    MatrixOperator<TypeParam> a(Mat::Identity(3, 3));
    a.preconditioner = Mat::Identity(3, 3);
    const auto solver = make_adjoint_solver<TypeParam>(entry.name);
    Vec bad = Vec::Ones(3);
    bad[1] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(solver->solve(a, this->vector(bad), nullptr), InvalidInput) << entry.name;
    bad[1] = std::numeric_limits<double>::infinity();
    EXPECT_THROW(solver->solve(a, this->vector(bad), nullptr), InvalidInput) << entry.name;
    if (!entry.approximate && entry.name != "direct") {
      const TypeParam short_warm = this->vector(Vec::Ones(2));
      EXPECT_THROW(solver->solve(a, this->vector(Vec::Ones(3)), &short_warm), InvalidInput) << entry.name;
    }
    EXPECT_EQ(a.products, 0) << entry.name;
    EXPECT_THROW(solver->set_tolerance(-1), InvalidInput) << entry.name;
  }
}

REGISTER_TYPED_TEST_SUITE_P(AdjointConformance, ReachesTheToleranceOrSaysWhyNot, AWarmStartIsNeverWorse,
                            AGoodWarmStartIsTakenAtOnce, EmptyAndZeroRightSides,
                            AnUnreachableToleranceIsNeverClaimed, TheIterationLimitHasItsOwnStatus,
                            InputThatCannotBeUsedThrowsBeforeWork);

}  // namespace bilevel::testing
