// Oracles, adjoint solvers and whole hypergradients on the ready-made problems, by Google Benchmark.
//   bench_estimators --benchmark_filter=hypergradient

#include <benchmark/benchmark.h>

#include <bilevel/bilevel.hpp>

namespace {

using Vec = Eigen::VectorXd;
using namespace bilevel;

std::unique_ptr<problems::ReferenceProblem> make(const std::string& family, Index size) {
  problems::Settings settings;
  settings.phi = size;
  if (family == "ridge" || family == "logistic") settings.samples = 50 * size;
  return problems::make(family, settings);
}

void value_with_gradient(benchmark::State& state, const std::string& family) {
  const auto problem = make(family, state.range(0));
  const Vec theta = problem->initial_theta();
  Vec phi = problem->initial_phi(), gradient = phi;
  Space<Vec>::random(1, phi);
  for (auto _ : state) benchmark::DoNotOptimize(problem->inner(phi, theta, {.phi = &gradient}));
}

void hessian_product(benchmark::State& state, const std::string& family) {
  const auto problem = make(family, state.range(0));
  const Vec theta = problem->initial_theta();
  Vec phi = problem->initial_phi(), product = phi;
  Space<Vec>::random(1, phi);
  std::unique_ptr<Curvature<Vec>> curvature;
  problem->linearise(phi, theta, 0, curvature);
  for (auto _ : state) {
    curvature->times(phi, product);
    benchmark::DoNotOptimize(product.data());
  }
}

void adjoint(benchmark::State& state, const std::string& family, const std::string& solver) {
  const auto problem = make(family, state.range(0));
  const Vec theta = problem->initial_theta();
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  const Vec phi = inner->solve(theta, 0, problem->initial_phi()).phi;
  Vec g = phi, gradient = theta;
  problem->outer(phi, theta, {.phi = &g});
  const auto adjoint_solver = make_adjoint_solver<Vec>(solver, {.relative_tolerance = 1e-8});
  Sensitivity<Vec> sensitivity(*problem);
  sensitivity.move_to(phi, theta);
  long iterations = 0;
  for (auto _ : state) iterations = sensitivity.pullback(g, *adjoint_solver, gradient).iterations;
  state.counters["iterations"] = static_cast<double>(iterations);
}

void hypergradient(benchmark::State& state, const std::string& family, const std::string& inner_name,
                   const std::string& method) {
  const auto problem = make(family, state.range(0));
  const Vec theta = problem->initial_theta();
  MinimiserOptions options;
  options.gradient_tolerance = 1e-8;
  const auto inner = make_inner_solver<Vec>(inner_name, *problem, options);
  const auto estimator =
      make_estimator<Vec>(method, *problem, *inner, {.adjoint = {.relative_tolerance = 1e-8}});
  Estimate<Vec> e;
  for (auto _ : state) e = estimator->estimate(theta, {});
  state.counters["gradient_equivalents"] = e.cost.gradient_equivalents();
  state.counters["bound"] = e.certificate.bound;
  state.counters["certificate_share"] = e.cost.seconds_certificate / e.cost.seconds();
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string family : {"log-cosh", "ridge", "logistic"}) {
    benchmark::RegisterBenchmark(("value_with_gradient/" + family).c_str(), value_with_gradient, family)
        ->Arg(20)
        ->Arg(200);
    benchmark::RegisterBenchmark(("hessian_product/" + family).c_str(), hessian_product, family)
        ->Arg(20)
        ->Arg(200);
    for (const std::string solver : {"direct", "cg", "minres", "gmres", "bicgstab", "neumann"})
      benchmark::RegisterBenchmark(("adjoint/" + family + "/" + solver).c_str(), adjoint, family, solver)
          ->Arg(20)
          ->Arg(200);
    for (const auto& [inner, method] :
         std::vector<std::pair<std::string, std::string>>{{"newton", "implicit-direct"},
                                                          {"trust-region", "implicit-cg"},
                                                          {"lbfgs", "implicit-cg"},
                                                          {"lbfgs", "implicit-neumann"}})
      benchmark::RegisterBenchmark(("hypergradient/" + family + "/" + inner + "/" + method).c_str(),
                                   hypergradient, family, inner, method)
          ->Arg(20)
          ->Arg(200);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
