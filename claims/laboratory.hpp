#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>

namespace claims {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using bilevel::Index;

/// A mistake that an implementation could make. A claim that holds with the mistake it is about is no check.
enum class Defect {
  none,
  cross_sign,     ///< ∂θ∂φ L_in with the wrong sign
  hessian_scale,  ///< ∂φ² L_in half as large as it is
  adjoint_scale,  ///< π twice as large as it is
  not_a_number,   ///< every gradient, π and coefficient: what refuses or fails must not pass
  nudge_scale,    ///< what equilibrium propagation of any kind gives, twice as large as it is
  stencil         ///< β·1 … β·p instead of β·0 … β·(p−1), the coefficients unchanged
};

/// Every defect by the name of --plant.
const std::vector<std::pair<std::string_view, Defect>>& defects();

/// Where f(tβ) is looked at and what it is multiplied by: β·f′(0) ≈ Σ coefficient·f(point·β).
struct Weights {
  std::vector<int> points;
  std::vector<double> coefficients;
};

/// Where a claim gets its instruments and its random numbers. What it hands out is the library's own, unless
/// a defect was planted: claims never make estimators, curvatures, adjoint solvers or stencils themselves.
class Laboratory {
 public:
  explicit Laboratory(std::uint64_t seed, Defect defect = Defect::none) : seed_(seed), defect_(defect) {}

  std::uint64_t seed() const { return seed_; }
  /// A seed of its own for draw `number` of a claim.
  std::uint64_t seed(std::uint64_t number) const;
  std::mt19937_64 engine(std::uint64_t number) const { return std::mt19937_64(seed(number)); }
  /// Normally distributed.
  Vec vector(Index size, std::uint64_t number) const;
  Mat matrix(Index rows, Index columns, std::uint64_t number) const;

  std::unique_ptr<bilevel::Estimator<Vec>> estimator(std::string_view name, bilevel::Problem<Vec>& problem,
                                                     bilevel::InnerSolver<Vec>& inner,
                                                     const bilevel::EstimatorOptions& options = {}) const;
  std::unique_ptr<bilevel::Estimator<Vec>> estimator(std::string_view name,
                                                     bilevel::Equilibrium<Vec>& problem,
                                                     bilevel::InnerSolver<Vec>& inner,
                                                     const bilevel::EstimatorOptions& options = {}) const;
  /// Implicit differentiation with a solver of phase 2 that has options of its own.
  std::unique_ptr<bilevel::Estimator<Vec>> implicit(bilevel::Equilibrium<Vec>& problem,
                                                    bilevel::InnerSolver<Vec>& inner,
                                                    std::unique_ptr<bilevel::AdjointSolver<Vec>> adjoint,
                                                    const bilevel::ImplicitOptions& options = {}) const;

  // The parts of an estimator, for claims that spell out an algorithm of the paper line by line.
  std::unique_ptr<bilevel::AdjointSolver<Vec>> adjoint(std::string_view name,
                                                       const bilevel::AdjointOptions& options = {}) const;
  std::unique_ptr<bilevel::AdjointSolver<Vec>> adjoint(
      std::unique_ptr<bilevel::AdjointSolver<Vec>> solver) const;
  std::unique_ptr<bilevel::Curvature<Vec>> curvature(bilevel::Equilibrium<Vec>& problem, const Vec& phi,
                                                     const Vec& theta, double beta = 0) const;
  Weights forward_stencil(int points) const;

 private:
  std::uint64_t seed_;
  Defect defect_;

  bool curved() const { return defect_ == Defect::cross_sign || defect_ == Defect::hessian_scale; }
};

/// An inner solver made of a function (θ, β, start) → φ: a closed form, or one with errors added on purpose.
class Settling final : public bilevel::InnerSolver<Vec> {
 public:
  using Function = std::function<Vec(const Vec& theta, double beta, const Vec& start)>;
  Settling(bilevel::Problem<Vec>& problem, Function function)
      : problem_(problem), function_(std::move(function)) {}
  std::string_view name() const override { return "function"; }
  /// Always says converged: what it returns is what the claim wants to be used.
  bilevel::Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override;

 private:
  bilevel::Problem<Vec>& problem_;
  Function function_;
};

/// The library's minimiser of that name, to that residual norm.
std::unique_ptr<bilevel::InnerSolver<Vec>> settler(std::string_view name, bilevel::Problem<Vec>& problem,
                                                   double tolerance);

/// Recurrent backpropagation with step α, cut after so many terms: what a laboratory is given as phase 2.
std::unique_ptr<bilevel::AdjointSolver<Vec>> neumann(double alpha, long terms);

/// φ* of a problem to the last digits, by Newton's method; throws where it does not get there.
Vec settled(bilevel::Problem<Vec>& problem, const Vec& theta, double beta = 0);

/// Keeps the larger error. What is not a number counts as infinite: it cannot pass for a small one, as it
/// would with std::max.
inline void keep_worst(double& worst, double error) {
  if (!(error <= worst)) worst = error > worst ? error : std::numeric_limits<double>::infinity();
}

/// ‖a − truth‖/‖truth‖; infinite where that is not finite.
double relative(const Mat& a, const Mat& truth);
/// The larger of the two in the middle where there are two; NaN of none.
double median(std::vector<double> values);
/// Least-squares slope of log y over log x; points at zero are left out, and it is NaN if one is negative or
/// not finite.
double slope(const std::vector<double>& x, const std::vector<double>& y);
/// `count` numbers from `from` to `to` with equal ratios.
std::vector<double> geometric(double from, double to, int count);

}  // namespace claims
