// What is recorded on a device and launched as one, against the same asked for one by one.

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>
#include <refusal.hpp>

namespace bilevel {
namespace graphs_test {

using at::Tensor;
using torch::Graphs;
using torch::Losses;
using torch::Tensors;

/// A small network with a decay for each layer, its data, and both losses of it.
struct Decays {
  explicit Decays(const at::Device& on) : device(on) {
    ::torch::manual_seed(3);
    for (const auto& shape : {std::pair<long, long>{4, 7}, {7, 3}})
      w.push_back(at::randn({shape.first, shape.second}, at::kDouble).to(device));
    x = at::randn({20, 4}, at::kDouble).to(device);
    y = at::randn({20, 3}, at::kDouble).to(device);
    held_out_x = at::randn({9, 4}, at::kDouble).to(device);
    held_out_y = at::randn({9, 3}, at::kDouble).to(device);
  }

  static Tensor error(const Tensors& w, const Tensor& x, const Tensor& y) {
    return (at::tanh(x.matmul(w[0])).matmul(w[1]) - y).pow(2).mean();
  }
  Losses<> losses(Graphs graphs) {
    return Losses<>(
        [this](const Tensors& phi, const Tensors& theta) {
          Tensor sum = factor * error(phi, x, y);
          if (waits) sum = sum + 0 * x.sum().item<double>();
          for (std::size_t i = 0; i < phi.size(); ++i)
            sum = sum + theta[0][static_cast<long>(i)].exp() * phi[i].pow(2).sum();
          return sum;
        },
        [this](const Tensors& phi, const Tensors&) { return error(phi, held_out_x, held_out_y); },
        {w, Tensors{at::full({2}, -3.0, at::TensorOptions().dtype(at::kDouble).device(device))}},
        {.graphs = graphs});
  }

  at::Device device;
  Tensors w;
  Tensor x, y, held_out_x, held_out_y;
  double factor = 1;   // read by the host
  bool waits = false;  // for the device
};

/// Values, gradients and products at one point after the other; each more often than what records needs.
std::vector<double> numbers(Losses<>& losses, long rounds = 5) {
  std::vector<double> all;
  const auto keep = [&](const Tensor& x) {
    const Eigen::VectorXd host = host_copy(x);
    all.insert(all.end(), host.data(), host.data() + host.size());
  };
  std::unique_ptr<Curvature<Tensor>> curvature;
  Tensor phi = losses.initial_phi(), theta = losses.initial_theta();
  for (long round = 0; round < rounds; ++round) {
    Tensor direction = at::zeros_like(phi), up = at::zeros_like(theta);
    Space<Tensor>::random(static_cast<std::uint64_t>(7 + round), direction);
    Space<Tensor>::random(static_cast<std::uint64_t>(70 + round), up);
    Space<Tensor>::axpy(0.05, direction, phi);
    Space<Tensor>::axpy(0.05, up, theta);
    Tensor by_phi = at::zeros_like(phi), by_theta = at::zeros_like(theta);
    all.push_back(losses.inner(phi, theta, {.phi = &by_phi, .theta = &by_theta}));
    keep(by_phi);
    keep(by_theta);
    all.push_back(losses.inner(phi, theta, {.phi = &by_phi}));
    keep(by_phi);
    all.push_back(losses.outer(phi, theta, {.phi = &by_phi}));
    keep(by_phi);
    all.push_back(losses.outer(phi, theta, {}));
    losses.linearise(phi, theta, round == 3 ? 0.5 : 0, curvature);
    for (long i = 0; i < 4; ++i) {
      curvature->times(direction, by_phi);
      keep(by_phi);
      curvature->cross_times(direction, by_theta);
      keep(by_theta);
      curvature->cross_apply(up, by_phi);
      keep(by_phi);
      Space<Tensor>::axpy(1, by_phi, direction);
    }
  }
  return all;
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    apart = std::max(apart, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return apart;
}

TEST(TorchGraphs, MakeNoDifferenceWithoutADevice) {
  Decays decays(at::kCPU);
  Losses<> none = decays.losses(Graphs::none);
  const std::vector<double> expected = numbers(none);
  for (const Graphs graphs : {Graphs::products, Graphs::whole}) {
    Losses<> losses = decays.losses(graphs);
    EXPECT_EQ(numbers(losses), expected);
    EXPECT_EQ(losses.autograd_cost().replays, 0);
    EXPECT_EQ(losses.autograd_cost().backward_passes, none.autograd_cost().backward_passes);
  }
}

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!::torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(OnDevice, GraphsGiveTheNumbersOfTheirParts) {
  Decays host(at::kCPU), decays(at::Device(at::kCUDA, 0));
  for (std::size_t i = 0; i < host.w.size(); ++i) EXPECT_TRUE(host.w[i].equal(decays.w[i].cpu()));
  Losses<> on_host = host.losses(Graphs::none), none = decays.losses(Graphs::none);
  const std::vector<double> expected = numbers(none);
  EXPECT_LE(furthest(expected, numbers(on_host)), 1e-12);
  EXPECT_EQ(none.autograd_cost().replays, 0);
  Losses<> products = decays.losses(Graphs::products), whole = decays.losses(Graphs::whole);
  EXPECT_LE(furthest(numbers(products), expected), 1e-14);
  // Five points, three kinds of products, all but the first of four.
  EXPECT_EQ(products.autograd_cost().replays, 5 * 3 * 3);
  EXPECT_LE(furthest(numbers(whole), expected), 1e-14);
  EXPECT_GT(whole.autograd_cost().replays, products.autograd_cost().replays);
}

TEST_F(OnDevice, ALossThatHasChangedIsNoticed) {
  Decays decays(at::Device(at::kCUDA, 0));
  Losses<> losses = decays.losses(Graphs::whole);
  Tensor phi = losses.initial_phi(), by_phi = at::zeros_like(phi);
  const Tensor theta = losses.initial_theta();
  for (int i = 0; i < 3; ++i) losses.inner(phi, theta, {.phi = &by_phi});
  decays.factor = 2;
  EXPECT_NE(refusal([&] {
              for (int i = 0; i < 8; ++i) losses.inner(phi, theta, {.phi = &by_phi});
            }).find("has changed since"),
            std::string::npos);
  // Written in place, the same tensors are read anew.
  decays.factor = 1;
  Losses<> others = decays.losses(Graphs::whole);
  for (int i = 0; i < 3; ++i) others.inner(phi, theta, {.phi = &by_phi});
  decays.x.mul_(2);
  Losses<> fresh = decays.losses(Graphs::none);
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(others.inner(phi, theta, {.phi = &by_phi}), fresh.inner(phi, theta, {}), 1e-12);
}

TEST_F(OnDevice, WhatWaitsForTheDeviceRunsAsItComes) {
  Decays decays(at::Device(at::kCUDA, 0));
  Losses<> none = decays.losses(Graphs::none);
  const std::vector<double> expected = numbers(none);
  decays.waits = true;
  Losses<> losses = decays.losses(Graphs::whole);
  EXPECT_LE(furthest(numbers(losses), expected), 1e-12);
  // Products do not wait, nor does the next problem.
  const long replays = losses.autograd_cost().replays;
  EXPECT_GT(replays, 0);
  decays.waits = false;
  Losses<> others = decays.losses(Graphs::whole);
  EXPECT_LE(furthest(numbers(others), expected), 1e-12);
  EXPECT_GT(others.autograd_cost().replays, replays);
}

/// Bytes that the device says are taken.
std::size_t taken() {
  using Info = int (*)(std::size_t*, std::size_t*);
  const auto info = reinterpret_cast<Info>(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  std::size_t free = 0, total = 0;
  EXPECT_TRUE(info && info(&free, &total) == 0);
  return total - free;
}

TEST_F(OnDevice, RecordingsShareTheirMemory) {
  Decays decays(at::Device(at::kCUDA, 0));
  decays.x = at::randn({50000, 4}, at::kDouble).to(decays.device);
  decays.y = at::randn({50000, 3}, at::kDouble).to(decays.device);
  for (const Graphs graphs : {Graphs::products, Graphs::whole}) {
    Losses<> losses = decays.losses(graphs);
    std::size_t before = 0;
    numbers(losses, 10);
    for (int i = 0; i < 30; ++i) {
      Losses<> others = decays.losses(graphs);
      numbers(others, 4);
      EXPECT_GT(others.autograd_cost().replays, 0);
      if (i == 2) before = taken();
    }
    numbers(losses, 100);
    EXPECT_EQ(taken(), before);
  }
}

TEST_F(OnDevice, SubsetsAreRecordedAsTheyCome) {
  const at::Device device(at::kCUDA, 0);
  ::torch::manual_seed(4);
  const Tensor x = at::randn({5000, 6}, at::kDouble).to(device),
               y = at::randn({5000}, at::kDouble).to(device);
  const auto losses = [&](Graphs graphs) {
    const auto error = [&](const Tensors& phi, const Tensors& theta, const Tensor& rows) {
      const Tensor off = x.index_select(0, rows).matmul(phi[0].tanh()) - y.index_select(0, rows);
      return off.pow(2).mean() + (theta[0].exp() * phi[0].pow(2)).sum();
    };
    return Losses<>(error, error,
                    {Tensors{at::zeros({6}, y.options())}, Tensors{at::zeros({6}, y.options())}},
                    torch::Rows{.inner = 5000, .outer = 5000}, {.graphs = graphs});
  };
  Losses<> none = losses(Graphs::none);
  for (const Graphs graphs : {Graphs::products, Graphs::whole}) {
    Losses<> recorded = losses(graphs);
    std::size_t before = 0;
    for (long i = 0; i < 40; ++i) {
      const Tensor rows = at::arange(i, i + 1000, at::kLong).to(device);
      Losses<> a = recorded.subset(rows, rows), b = none.subset(rows, rows);
      EXPECT_LE(furthest(numbers(a), numbers(b)), 1e-13);
      EXPECT_GT(a.autograd_cost().replays, 0);
      if (i == 10) before = taken();
    }
    EXPECT_EQ(taken(), before);
  }
}

TEST_F(OnDevice, ThreadsDoNotMeet) {
  Decays decays(at::Device(at::kCUDA, 0));
  Losses<> none = decays.losses(Graphs::none);
  const std::vector<double> expected = numbers(none, 40);
  std::vector<double> apart(4, INFINITY);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < apart.size(); ++i)
    threads.emplace_back([&, i] {
      Losses<> losses = decays.losses(i % 2 == 0 ? Graphs::products : Graphs::whole);
      apart[i] = furthest(numbers(losses, 40), expected);
    });
  for (std::thread& each : threads) each.join();
  for (const double each : apart) EXPECT_LE(each, 1e-13);
}

TEST_F(OnDevice, InnerProductsAreThoseOfTheHost) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const long size : {1L, 31L, 257L, 100000L, 3000001L}) {
      ::torch::manual_seed(size);
      const Tensor x = at::randn({size}, type);
      Tensors ys, on_device;
      for (int k = 0; k < 6; ++k) ys.push_back(k == 2 ? x : at::randn({size}, type));
      for (const Tensor& y : ys) on_device.push_back(y.to(at::Device(at::kCUDA, 0)));
      std::vector<double> ours(6), theirs(6);
      torch::elements::dots(x.to(at::Device(at::kCUDA, 0)), on_device, ours.data());
      torch::elements::dots(x, ys, theirs.data());
      for (std::size_t k = 0; k < 6; ++k)
        EXPECT_NEAR(ours[k], theirs[k], 1e-13 * static_cast<double>(size))
            << "size " << size << ", product " << k;
    }
}

}  // namespace graphs_test
}  // namespace bilevel
