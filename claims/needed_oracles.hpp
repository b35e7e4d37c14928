#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bilevel/problems/log_cosh.hpp>

#include "laboratory.hpp"

namespace claims {

/// What a method may ask a problem for after phase 1.
enum class Oracle { none, inner_phi, inner_theta, outer_phi, outer_theta, hessian, cross };

inline const std::vector<std::pair<std::string, Oracle>>& oracles() {
  static const std::vector<std::pair<std::string, Oracle>> list{
      {"∂φ L_in", Oracle::inner_phi},    {"∂θ L_in", Oracle::inner_theta}, {"∂φ L_out", Oracle::outer_phi},
      {"∂θ L_out", Oracle::outer_theta}, {"∂φ² L_in·v", Oracle::hessian},  {"v·∂θ∂φ L_in", Oracle::cross}};
  return list;
}

/// A problem of which one oracle answers twice its value; with `first_order_only` it has no curvature.
class Doubled final : public bilevel::Problem<Vec> {
 public:
  Doubled(bilevel::Problem<Vec>& honest, Oracle oracle, bool first_order_only = false)
      : honest_(honest), oracle_(oracle), first_order_only_(first_order_only) {}

  Vec initial_phi() const override { return honest_.initial_phi(); }
  Vec initial_theta() const override { return honest_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const double value = honest_.inner(phi, theta, wanted);
    if (wanted.phi && oracle_ == Oracle::inner_phi) *wanted.phi *= 2;
    if (wanted.theta && oracle_ == Oracle::inner_theta) *wanted.theta *= 2;
    return value;
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const double value = honest_.outer(phi, theta, wanted);
    if (wanted.phi && oracle_ == Oracle::outer_phi) *wanted.phi *= 2;
    if (wanted.theta && oracle_ == Oracle::outer_theta) *wanted.theta *= 2;
    return value;
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<bilevel::Curvature<Vec>>& reuse) override {
    if (first_order_only_) return Problem::linearise(phi, theta, beta, reuse);
    if (!reuse) reuse = std::make_unique<DoubledCurvature>();
    auto& doubled = static_cast<DoubledCurvature&>(*reuse);
    honest_.linearise(phi, theta, beta, doubled.honest);
    doubled.oracle = oracle_;
  }
  bilevel::Capabilities capabilities() const override { return {.curvature = !first_order_only_}; }

 private:
  struct DoubledCurvature final : bilevel::Curvature<Vec> {
    void times(const Vec& v, Vec& out) override {
      honest->times(v, out);
      if (oracle == Oracle::hessian) out *= 2;
    }
    void cross_times(const Vec& v, Vec& out) override {
      honest->cross_times(v, out);
      if (oracle == Oracle::cross) out *= 2;
    }
    void cross_apply(const Vec& u, Vec& out) override { honest->cross_apply(u, out); }
    std::unique_ptr<bilevel::Curvature<Vec>> honest;
    Oracle oracle = Oracle::none;
  };

  bilevel::Problem<Vec>& honest_;
  Oracle oracle_;
  bool first_order_only_;
};

/// Which oracles' answers change the gradient of a method, once phase 1 is done.
inline std::vector<std::string> needed(const Laboratory& lab, std::string_view name) {
  bilevel::problems::LogCosh honest =
      bilevel::problems::LogCosh::random({.phi = 5, .theta = 3, .seed = lab.seed(77)});
  const Vec theta = lab.vector(3, 78), phi = settled(honest, theta);
  std::vector<std::string> names;
  Vec reference;
  const auto gradient = [&](Oracle oracle) -> Vec {
    Doubled problem(honest, oracle);
    bilevel::Minimiser<Vec> descent(
        problem, std::make_unique<bilevel::GradientDescent<Vec>>(bilevel::GradientDescentOptions{0.02}),
        {.gradient_tolerance = 1e-11, .max_iterations = 100000});
    const bilevel::EstimatorOptions options{.certificate = {.enabled = false}, .beta = 1e-2};
    return lab.estimator(name, problem, descent, options)->estimate(theta, {.phi = phi}).gradient;
  };
  reference = gradient(Oracle::none);
  for (const auto& [oracle_name, oracle] : oracles())
    if (!((gradient(oracle) - reference).norm() <= 1e-6 * reference.norm())) names.push_back(oracle_name);
  return names;
}

/// Whether a method gives a gradient where the problem offers first derivatives only.
inline bool does_without_curvature(const Laboratory& lab, std::string_view name) {
  bilevel::problems::LogCosh honest =
      bilevel::problems::LogCosh::random({.phi = 5, .theta = 3, .seed = lab.seed(79)});
  Doubled problem(honest, Oracle::none, true);
  const auto inner = settler("lbfgs", problem, 1e-10);
  try {
    return lab.estimator(name, problem, *inner)->estimate(lab.vector(3, 80), {}).gradient.allFinite();
  } catch (const bilevel::InvalidInput&) {
    return false;
  }
}

}  // namespace claims
