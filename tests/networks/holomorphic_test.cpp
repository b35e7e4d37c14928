#include "network_cases.hpp"

#include <gtest/gtest.h>

#include <bilevel/gradient/exact.hpp>
#include <bilevel/networks/propagation.hpp>
#include <bilevel/problems/kernels.hpp>

#include <refusal.hpp>

namespace holomorphic_test {

using namespace network_cases;

PropagationOptions on_a_circle(const Architecture& a, int points, double beta) {
  PropagationOptions o{.circle = points, .beta = beta};
  o.free = o.nudged = tight(a);
  o.free.tolerance = o.nudged.tolerance = 1e-13;
  return o;
}

template <class S>
Vec gradient_of(const NetworkProblem& network, Propagation<S>& propagation) {
  const Eigen::Matrix<S, Eigen::Dynamic, 1> theta = network.initial_theta().cast<S>();
  const Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic> inputs = network.samples().inputs.cast<S>(),
                                                         targets = network.samples().targets.cast<S>();
  Eigen::Matrix<S, Eigen::Dynamic, 1> gradient(theta.size());
  EXPECT_TRUE(
      propagation
          .gradient(theta.data(), inputs.data(), targets.data(), network.batch(), nullptr, gradient.data())
          .finite);
  return gradient.template cast<double>();
}

Vec exact(NetworkProblem& network) {
  Relaxation relaxation(network, tight(network.architecture()));
  return bilevel::Exact<Vec>(network, relaxation).estimate(network.initial_theta(), {}).gradient;
}

/// Whether kernels have left registers in use in which others compute with long double.
bool long_double_is_free() {
#if defined(__x86_64__) && defined(__GNUC__)
  struct {
    unsigned control, status, tags, rest[4];
  } state{};
  __asm__ volatile("fnstenv %0\n\tfldenv %0" : "+m"(state));
  return (state.tags & 0xffff) == 0xffff;
#else
  return true;
#endif
}

TEST(HolomorphicPropagation, IsTheExactGradientOnEveryTarget) {
  namespace kernels = bilevel::problems::kernels;
  const kernels::Target before = kernels::chosen();
  for (const Architecture& a : architectures()) {
    if (!a.smooth()) continue;
    SCOPED_TRACE(label(a));
    // More than one block, and units that fill no vector.
    NetworkProblem network = problem(a, 70, 7);
    const Vec truth = exact(network);
    for (const auto target : {kernels::Target::baseline, kernels::Target::avx2, kernels::Target::avx512}) {
      if (!kernels::available(target)) continue;
      kernels::use(target);
      Propagation<double> fast(a, on_a_circle(a, 16, 0.05));
      EXPECT_LE((gradient_of(network, fast) - truth).norm(), 1e-9 * truth.norm()) << kernels::name(target);
      PropagationOptions rough = on_a_circle(a, 8, 0.1);
      rough.free.tolerance = rough.nudged.tolerance = 1e-6;
      rough.free.max_steps = rough.nudged.max_steps = 200;
      Propagation<float> single(a, rough);
      EXPECT_LE((gradient_of(network, single) - truth).norm(), 5e-4 * truth.norm()) << kernels::name(target);
      EXPECT_TRUE(long_double_is_free()) << kernels::name(target);
    }
  }
  kernels::use(before);
}

TEST(HolomorphicPropagation, TheBiasFallsWithThePowerOfThePoints) {
  for (const Energy energy : {Energy::hopfield, Energy::predictive_coding}) {
    const Architecture a{.energy = energy,
                         .layers = {5, 7, 6, 3},
                         .activation = Activation::tanh,
                         .read_out = ReadOut::squared};
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 6, 3);
    const Vec truth = exact(network);
    for (const int points : {2, 4, 6}) {
      const auto error = [&](double beta) {
        Propagation<double> fast(a, on_a_circle(a, points, beta));
        return (gradient_of(network, fast) - truth).norm();
      };
      EXPECT_NEAR(std::log2(error(0.04) / error(0.02)), points, 0.5) << points << " points";
    }
  }
}

TEST(HolomorphicPropagation, EverySchedulesEndIsTheSame) {
  for (const Energy energy : {Energy::hopfield, Energy::predictive_coding})
    for (const ReadOut read_out : {ReadOut::squared, ReadOut::cross_entropy}) {
      const Architecture a{
          .energy = energy, .layers = {5, 7, 6, 3}, .activation = Activation::sigmoid, .read_out = read_out};
      NetworkProblem network = problem(a, 9, 4);
      const Vec truth = exact(network);
      for (const Schedule schedule :
           {Schedule::even_odd, Schedule::sweep, Schedule::synchronous, Schedule::gradient}) {
        SCOPED_TRACE(fmt::format("{} {}", label(a), name(schedule)));
        PropagationOptions o = on_a_circle(a, 16, 0.05);
        o.free.schedule = o.nudged.schedule = schedule;
        o.free.step = o.nudged.step = 0.4;
        Propagation<double> fast(a, o);
        EXPECT_LE((gradient_of(network, fast) - truth).norm(), 1e-9 * truth.norm());
      }
    }
}

TEST(HolomorphicPropagation, ThreadsChangeNothing) {
  const int before = bilevel::problems::kernels::threads();
  const Architecture a{.energy = Energy::hopfield,
                       .layers = {70, 150, 40, 10},
                       .activation = Activation::tanh,
                       .read_out = ReadOut::cross_entropy};
  NetworkProblem network = problem(a, 300, 5);
  ASSERT_GT(300 * a.parameters(), Propagation<double>::least_divided);
  PropagationOptions o = on_a_circle(a, 6, 0.3);
  o.free.max_steps = o.nudged.max_steps = 8;
  o.noise = 0.01;
  Vec first;
  for (const int threads : {1, 2, 3}) {
    bilevel::problems::kernels::set_threads(threads);
    Propagation<double> fast(a, o);
    const Vec gradient = gradient_of(network, fast);
    if (first.size() == 0) first = gradient;
    EXPECT_EQ(gradient, first) << threads << " threads";
  }
  bilevel::problems::kernels::set_threads(before);
}

TEST(HolomorphicPropagation, UnitsThatAreNotAnalyticAreRefused) {
  const Architecture clipped{.energy = Energy::hopfield, .layers = {5, 3}};
  EXPECT_NE(refusal([&] { Propagation<float>(clipped, {.circle = 4}); }).find("clip units are not analytic"),
            std::string::npos);
  Architecture smooth = clipped;
  smooth.activation = Activation::tanh;
  EXPECT_EQ(refusal([&] { Propagation<float>(smooth, {.circle = 4}); }), "accepted");
  for (const int points : {-2, 3, 66})
    EXPECT_NE(refusal([&] { Propagation<float>(smooth, {.circle = points}); }).find("circle"),
              std::string::npos);
}

}  // namespace holomorphic_test
