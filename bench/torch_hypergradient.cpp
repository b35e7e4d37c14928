// How fast hypergradients of networks are on tensors, and what they hold. One JSON object a line.
//
//   bench_torch_hypergradient [--device cpu] [--sizes 100000,1000000] [--repeats 5] [--products 10] [--layer
//   1]
//
// hypergradient: of an MLP of the given number of weights (tanh, cross-entropy, a decay for each layer: θ
// holds their
//   logarithms), by conjugate gradients of so many products at given weights, launched one by one and as
//   graphs of CUDA; `apart`: from the first way, there and at other weights. Its peers are
//   bench/torch_peer.py and bench/jax_peer.py, on the same numbers.
// inner loop: a step of gradient descent.
// layer: an implicit layer, forwards and backwards, and the peak of memory against the steps it was given.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <torch/torch.h>

#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/implicit_layer.hpp>
#include <bilevel/torch/losses.hpp>

namespace {

using bilevel::Stopwatch;
using bilevel::torch::SingleTensor;
using bilevel::torch::Tensors;
using torch::Tensor;

constexpr long inputs = 64, outputs = 10, batch = 256;

/// Everything that was asked of the device is done.
void wait(const Tensor& x) {
  x.sum().item<double>();
}

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

/// Bytes in use: on a device what its allocator has taken, which never falls; else the peak of the process.
double bytes_held(bool on_device) {
  if (on_device) {
    using Info = int (*)(std::size_t*, std::size_t*);
    const auto info = reinterpret_cast<Info>(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
    std::size_t free = 0, total = 0;
    return info && info(&free, &total) == 0 ? static_cast<double>(total - free) : bilevel::unknown;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::atof(line.c_str() + 6);
  return bilevel::unknown;
}

/// The network that torch_peer.py draws too: on the CPU, in the same order.
struct Network {
  Network(long weights, const torch::Device& device) {
    torch::manual_seed(1);
    // inputs·w + w·w + w·outputs ≈ weights
    const double sides = inputs + outputs;
    const long width = std::max(
        1L, std::lround((-sides + std::sqrt(sides * sides + 4.0 * static_cast<double>(weights))) / 2));
    const long shape[] = {inputs, width, width, outputs};
    for (int i = 0; i < 3; ++i)
      w.push_back(
          (torch::randn({shape[i], shape[i + 1]}) / std::sqrt(static_cast<double>(shape[i]))).to(device));
    x = torch::randn({batch, inputs}).to(device);
    y = torch::randint(outputs, {batch}).to(device);
    held_out_x = torch::randn({batch, inputs}).to(device);
    held_out_y = torch::randint(outputs, {batch}).to(device);
  }

  static Tensor error(const Tensors& w, const Tensor& in, const Tensor& labels) {
    return torch::nn::functional::cross_entropy(
        torch::tanh(torch::tanh(in.matmul(w[0])).matmul(w[1])).matmul(w[2]), labels);
  }
  static Tensor decayed(const Tensors& w, const Tensor& theta) {
    Tensor sum = theta.new_zeros({});
    for (std::size_t i = 0; i < w.size(); ++i)
      sum = sum + 0.5 * theta[static_cast<long>(i)].exp() * w[i].pow(2).sum();
    return sum;
  }

  Tensors w;
  Tensor x, y, held_out_x, held_out_y;
};

constexpr struct {
  const char* name;
  bilevel::torch::Graphs graphs;
} ways[] = {{"none", bilevel::torch::Graphs::none},
            {"products", bilevel::torch::Graphs::products},
            {"whole", bilevel::torch::Graphs::whole}};

/// The hypergradient at weights and at others beside them, launched in one way.
void hypergradient(const Network& n, const torch::Device& device, int repeats, long products, const char* way,
                   bilevel::torch::Graphs graphs, std::vector<Eigen::VectorXd>& first) {
  bilevel::torch::Losses<SingleTensor> problem(
      [&](const Tensors& w, const Tensors& theta) {
        return Network::error(w, n.x, n.y) + Network::decayed(w, theta[0]);
      },
      [&](const Tensors& w, const Tensors&) { return Network::error(w, n.held_out_x, n.held_out_y); },
      {n.w, Tensors{torch::zeros({3}, device)}}, {.look_first = false, .graphs = graphs});
  SingleTensor phi = problem.initial_phi();
  const SingleTensor theta = problem.initial_theta();
  SingleTensor above = problem.initial_phi(), gradient = problem.initial_theta(),
               slope = problem.initial_phi();
  bilevel::ConjugateGradientOptions options;
  options.relative_tolerance = 1e-30;
  options.max_iterations = products;
  options.ritz_steps = 0;

  std::vector<double> whole, inner;
  long synchronisations = 0;
  std::string message;
  bilevel::Sensitivity<SingleTensor> sensitivity(problem);
  const auto once = [&] {
    const auto solver = bilevel::make_adjoint_solver<SingleTensor>(options);
    problem.outer(phi, theta, {.phi = &above});
    sensitivity.move_to(phi, theta);
    message = sensitivity.pullback(above, *solver, gradient).message;
    wait(gradient.tensor);
  };
  // What is recorded is so at the second call, or at the second product.
  constexpr int before_timing = 3;
  for (int i = 0; i < repeats + before_timing; ++i) {
    const long before = bilevel::torch::synchronisations();
    Stopwatch watch;
    once();
    if (i >= before_timing) whole.push_back(watch.seconds());
    synchronisations = bilevel::torch::synchronisations() - before;
    watch = Stopwatch();
    problem.inner(phi, theta, {.phi = &slope});
    wait(slope.tensor);
    if (i >= before_timing) inner.push_back(watch.seconds());
  }
  std::vector<Eigen::VectorXd> found{bilevel::host_copy(gradient)};
  bilevel::Space<SingleTensor>::axpy(1e-2, slope, phi);
  once();
  found.push_back(bilevel::host_copy(gradient));
  if (first.empty()) first = found;
  const Eigen::VectorXd& g = found[0];
  fmt::print(
      "{{\"what\": \"hypergradient\", \"weights\": {}, \"graphs\": \"{}\", \"seconds\": {:.6g}, "
      "\"inner_gradient_seconds\": {:.6g}, \"synchronisations\": {}, \"replays\": {}, \"bytes\": {:.4g}, "
      "\"gradient\": [{:.9g}, {:.9g}, {:.9g}], \"apart\": [{:.3g}, {:.3g}], \"phase_2\": \"{}\"}}\n",
      bilevel::Space<SingleTensor>::size(phi), way, median(whole), median(inner), synchronisations,
      problem.autograd_cost().replays, bytes_held(device.is_cuda()), g[0], g[1], g[2],
      (found[0] - first[0]).norm() / first[0].norm(), (found[1] - first[1]).norm() / first[1].norm(),
      message);
  std::fflush(stdout);
}

/// Steps of the inner loop at a small step: 200 of gradient descent, one value and gradient each.
void inner_loop(const Network& n, const torch::Device& device, const char* way,
                bilevel::torch::Graphs graphs) {
  bilevel::torch::Losses<SingleTensor> problem(
      [&](const Tensors& w, const Tensors& theta) {
        return Network::error(w, n.x, n.y) + Network::decayed(w, theta[0]);
      },
      [&](const Tensors& w, const Tensors&) { return Network::error(w, n.held_out_x, n.held_out_y); },
      {n.w, Tensors{torch::full({3}, -6.0, device)}}, {.look_first = false, .graphs = graphs});
  constexpr long steps = 200;
  bilevel::Problem<SingleTensor>& losses = problem;
  const auto solver = bilevel::make_inner_solver<SingleTensor>(
      bilevel::GradientDescentOptions{.step = 1e-2}, losses,
      bilevel::MinimiserOptions{.gradient_tolerance = 1e-30, .max_iterations = steps});
  double seconds = 0;
  for (int i = 0; i < 3; ++i) {
    const Stopwatch watch;
    const auto solution = solver->solve(problem.initial_theta(), 0, problem.initial_phi());
    wait(solution.phi.tensor);
    seconds = watch.seconds();
  }
  fmt::print(
      "{{\"what\": \"inner loop\", \"weights\": {}, \"graphs\": \"{}\", \"seconds_a_step\": {:.4g}}}\n",
      bilevel::Space<SingleTensor>::size(problem.initial_phi()), way, seconds / steps);
  std::fflush(stdout);
}

void layer(const torch::Device& device, int repeats) {
  torch::manual_seed(2);
  const long width = 1024;
  const Tensor w = (0.7 * torch::randn({width, width}) / (2 * std::sqrt(static_cast<double>(width))))
                       .to(device)
                       .requires_grad_();
  const Tensor x = torch::randn({batch, width}).to(device).requires_grad_();
  for (const long steps : {10, 100, 1000}) {
    // Never there: it takes all the steps it may.
    bilevel::torch::ImplicitLayer settle(
        [&](const Tensor& phi, const Tensor& in) { return torch::tanh(phi.matmul(w) + in); },
        bilevel::torch::ImplicitLayerOptions{.inner = bilevel::FixedPointOptions{.step = 1e-3, .memory = 0},
                                             .tolerance = 1e-30,
                                             .max_iterations = steps,
                                             .adjoint_max_iterations = 10});
    settle->forward(x).sum().backward();
    wait(w.grad());
    fmt::print("{{\"what\": \"memory\", \"steps\": {}, \"bytes\": {:.6g}}}\n", settle->report().iterations,
               bytes_held(device.is_cuda()));
  }
  bilevel::torch::ImplicitLayer settle(
      [&](const Tensor& phi, const Tensor& in) { return torch::tanh(phi.matmul(w) + in); },
      bilevel::torch::ImplicitLayerOptions{.tolerance = 1e-4, .adjoint_tolerance = 1e-3});
  std::vector<double> forward, backward;
  for (int i = 0; i < repeats + 1; ++i) {
    Stopwatch watch;
    const Tensor phi = settle->forward(x);
    wait(phi);
    if (i > 0) forward.push_back(watch.seconds());
    watch = Stopwatch();
    phi.sum().backward();
    wait(w.grad());
    if (i > 0) backward.push_back(watch.seconds());
  }
  const auto& r = settle->report();
  fmt::print(
      "{{\"what\": \"layer\", \"width\": {}, \"batch\": {}, \"forward_seconds\": {:.6g}, "
      "\"backward_seconds\": {:.6g}, "
      "\"evaluations\": {}, \"products\": {}, \"synchronisations\": {}, \"verdict\": \"{}\"}}\n",
      width, batch, median(forward), median(backward), r.evaluations, r.adjoint_products, r.synchronisations,
      bilevel::name(r.verdict()));
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> said{{"--device", "cpu"},
                                          {"--sizes", "100000,1000000"},
                                          {"--repeats", "5"},
                                          {"--products", "10"},
                                          {"--layer", "1"}};
  for (int i = 1; i < argc; i += 2) {
    if (!said.count(argv[i]) || i + 1 == argc) {
      fmt::print(stderr,
                 "bench_torch_hypergradient: what is '{}'? The head of its source says what there is\n",
                 argv[i]);
      return 2;
    }
    said[argv[i]] = argv[i + 1];
  }
  try {
    const torch::Device device(said["--device"]);
    std::istringstream sizes(said["--sizes"]);
    for (std::string each; std::getline(sizes, each, ',');) {
      const Network n(std::atol(each.c_str()), device);
      std::vector<Eigen::VectorXd> first;
      for (const auto& [way, graphs] : ways) {
        // Without a device all ways are one.
        if (graphs != bilevel::torch::Graphs::none && !device.is_cuda()) continue;
        hypergradient(n, device, std::atoi(said["--repeats"].c_str()), std::atol(said["--products"].c_str()),
                      way, graphs, first);
        inner_loop(n, device, way, graphs);
      }
    }
    if (said["--layer"] != "0") layer(device, std::atoi(said["--repeats"].c_str()));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
