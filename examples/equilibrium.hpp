#pragma once

// What the examples of equilibrium models share: one cell, applied until it settles or so many times, trained
// and measured alike. docs/equilibrium-models.md says what the numbers mean.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/torch/implicit_layer.hpp>
#include <bilevel/torch/memory_use.hpp>

#include "device.hpp"
#include "pages.hpp"

namespace equilibrium {

using bilevel::InvalidInput;
using pages::Json;
using torch::Tensor;

struct Settings {
  long rows = 0, epochs = 0, batch = 0, channels = 0, length = 16;
  long steps = 60;                  ///< of the solver at most, forwards and backwards
  std::vector<long> unrolled = {};  ///< depths of the networks to compare with
  double rate = 0, tolerance = 1e-3;
  double bound = 0;    ///< of what a cell passes on, where it can be kept to one; 0: it is not
  double penalty = 0;  ///< weight of ‖∂f/∂φ‖²_F/|φ| in the loss
  bilevel::InnerChoice solver = bilevel::FixedPointOptions{};
  bilevel::AdjointChoice adjoint = bilevel::BicgstabOptions{};  ///< a few vectors, however many steps
  long seed = 1;
  std::string device = "cpu", data = {}, report = {}, json = {};
};

/// The arguments of both programs, with what stands in `s` for defaults.
inline arguments::Defaults defaults(const Settings& s) {
  return {{"--rows", fmt::format("{}", s.rows)},
          {"--epochs", fmt::format("{}", s.epochs)},
          {"--batch", fmt::format("{}", s.batch)},
          {"--channels", fmt::format("{}", s.channels)},
          {"--steps", fmt::format("{}", s.steps)},
          {"--unrolled", fmt::format("{}", fmt::join(s.unrolled, ","))},
          {"--rate", fmt::format("{}", s.rate)},
          {"--tolerance", fmt::format("{}", s.tolerance)},
          {"--penalty", fmt::format("{}", s.penalty)},
          {"--seed", fmt::format("{}", s.seed)},
          {"--device", s.device},
          {"--report", s.report},
          {"--json", s.json}};
}

inline double least_zero(const arguments::Told& told, const char* name) {
  const double value = told.number(name);
  if (value < 0) throw InvalidInput(fmt::format("{} {}: must be zero or more", name, value));
  return value;
}

/// The same settings as told.
inline Settings settings(const arguments::Told& told, Settings s) {
  pages::check_report(told);
  s.rows = told.whole("--rows");
  s.epochs = told.whole("--epochs");
  s.batch = told.whole("--batch");
  s.channels = told.whole("--channels");
  s.steps = told.whole("--steps");
  s.unrolled = told.wholes("--unrolled");
  s.rate = least_zero(told, "--rate");
  s.tolerance = least_zero(told, "--tolerance");
  s.penalty = least_zero(told, "--penalty");
  s.seed = told.whole("--seed", 0);
  s.device = arguments::device(told).str();
  s.report = told.text("--report");
  s.json = told.text("--json");
  return s;
}

/// A network around a cell f: answer(φ, x), where φ = f(φ, injected(x)).
struct Parts : torch::nn::Module {
  virtual Tensor injected(const Tensor& x) = 0;
  virtual Tensor step(const Tensor& phi, const Tensor& injected) = 0;
  virtual Tensor answer(const Tensor& phi, const Tensor& x) = 0;
};

struct Data {
  Tensor x, y, test_x, test_y;
};

using Layer = bilevel::torch::ImplicitLayer;
using LayerOptions = bilevel::torch::ImplicitLayerOptions;

inline Layer layer_of(Parts& parts, LayerOptions options) {
  return Layer([&parts](const Tensor& phi, const Tensor& x) { return parts.step(phi, x); }, options);
}

/// By the layer, or where there is none by so many applications of the cell.
inline Tensor answers(Parts& parts, const Tensor& x, Layer* layer, long depth) {
  const Tensor in = parts.injected(x);
  if (layer != nullptr) return parts.answer((*layer)->forward(in), x);
  Tensor phi = torch::zeros_like(in);
  for (long k = 0; k < depth; ++k) phi = parts.step(phi, in);
  return parts.answer(phi, x);
}

inline LayerOptions options_of(const Settings& s) {
  return {.inner = s.solver,
          .tolerance = s.tolerance,
          .max_iterations = s.steps,
          .adjoint = s.adjoint,
          .adjoint_tolerance = 10 * s.tolerance,
          .adjoint_max_iterations = s.steps,
          .jacobian_directions = s.penalty > 0 ? 1 : 0};
}

inline double accuracy(Parts& parts, const Tensor& x, const Tensor& y, Layer* layer, long depth) {
  const torch::NoGradGuard guard;
  double right = 0;
  for (long at = 0; at < x.size(0); at += 500) {
    const auto to = std::min(at + 500, x.size(0));
    right += (answers(parts, x.slice(0, at, to), layer, depth).argmax(1) == y.slice(0, at, to))
                 .sum()
                 .item<double>();
  }
  return right / static_cast<double>(x.size(0));
}

/// Epochs of Adam with a rate that falls to zero as a cosine. depth 0: the equilibrium. A step whose gradient
/// is not to be trusted at all is not taken; an epoch
/// without a step is the last.
inline Json train(Parts& parts, const Data& d, const Settings& s, long depth) {
  // Numbers of ten bits would not let residuals fall below a thousandth.
  at::globalContext().setAllowTF32CuDNN(false);
  Layer layer = layer_of(parts, options_of(s));
  Layer* const settles = depth == 0 ? &layer : nullptr;
  torch::optim::Adam adam(parts.parameters(), torch::optim::AdamOptions(s.rate));
  Json epochs = Json::array();
  const long rows = d.x.size(0), batches = (rows + s.batch - 1) / s.batch;
  double seconds = 0;
  for (long epoch = 0, at = 0; epoch < s.epochs; ++epoch) {
    const bilevel::Stopwatch watch;
    const Tensor order = torch::randperm(rows).to(d.x.device());
    double loss_sum = 0, residual = 0, worst = 0, steps = 0, products = 0, not_finite = 0;
    std::map<bilevel::Verdict, long> verdicts;
    for (long b = 0; b < batches; ++b, ++at) {
      const auto some = order.slice(0, b * s.batch, std::min(rows, (b + 1) * s.batch));
      adam.param_groups()[0].options().set_lr(
          0.5 * s.rate *
          (1 + std::cos(M_PI * static_cast<double>(at) / static_cast<double>(batches * s.epochs))));
      adam.zero_grad();
      Tensor loss = torch::cross_entropy_loss(answers(parts, d.x.index_select(0, some), settles, depth),
                                              d.y.index_select(0, some));
      const double value = loss.item<double>();
      if (settles && s.penalty > 0) loss = loss + s.penalty * layer->jacobian_penalty();
      loss.backward();
      not_finite += !std::isfinite(value);
      bool fit = std::isfinite(value);
      if (settles) {
        const auto& r = layer->report();
        ++verdicts[r.verdict()];
        fit = fit && r.verdict() != bilevel::Verdict::untrusted;
        residual += r.residuals.mean().item<double>() / static_cast<double>(batches);
        worst = std::max(worst, r.worst);
        steps += static_cast<double>(r.evaluations) / static_cast<double>(batches);
        products += static_cast<double>(r.adjoint_products) / static_cast<double>(batches);
      }
      if (fit) adam.step();
      loss_sum += value / static_cast<double>(batches);
    }
    seconds += watch.seconds();
    Json e{{"epoch", epoch + 1},
           {"loss", loss_sum},
           {"test_accuracy", accuracy(parts, d.test_x, d.test_y, settles, depth)},
           {"seconds", watch.seconds()},
           {"not_finite", not_finite}};
    if (settles) {
      const torch::NoGradGuard guard;
      const Tensor in = parts.injected(d.test_x.slice(0, 0, 64));
      const Tensor radii = bilevel::torch::spectral_radii(
          [&](const Tensor& phi, const Tensor& x) { return parts.step(phi, x); }, layer->forward(in), in);
      e.update({{"residual", residual},
                {"worst_residual", worst},
                {"steps", steps},
                {"products", products},
                {"radius", radii.mean().item<double>()},
                {"largest_radius", radii.max().item<double>()},
                {"trusted", verdicts[bilevel::Verdict::trusted]},
                {"doubtful", verdicts[bilevel::Verdict::doubtful]},
                {"untrusted", verdicts[bilevel::Verdict::untrusted]}});
    }
    fmt::print(
        stderr, "{} epoch {}: loss {:.4f}, test {:.2f} %, {:.1f} s{}\n",
        settles ? "equilibrium" : fmt::format("unrolled {}", depth), epoch + 1, loss_sum,
        100 * e["test_accuracy"].get<double>(), watch.seconds(),
        settles ? fmt::format(", {:.1f} steps, residual {:.1e}, radius {:.2f}, trusted {} of {}", steps,
                              residual, e["largest_radius"].get<double>(), e["trusted"].get<long>(), batches)
                : "");
    epochs.push_back(std::move(e));
    if (settles && verdicts[bilevel::Verdict::untrusted] == batches) break;  // nothing is learned any more
  }
  return {{"depth", depth},
          {"test_accuracy", epochs.back()["test_accuracy"]},
          {"seconds_a_step", seconds / static_cast<double>(batches * static_cast<long>(epochs.size()))},
          {"epochs", std::move(epochs)}};
}

/// Most bytes that one step of training takes, with so many steps of the solver or applications of the cell.
inline Json memory(Parts& parts, const Data& d, const Settings& s) {
  const Tensor x = d.x.slice(0, 0, s.batch), y = d.y.slice(0, 0, s.batch);
  Json list = Json::array();
  for (const long steps : {10, 30, 100}) {
    // Never there: it takes all the steps it may.
    LayerOptions options = options_of(s);
    options.inner = bilevel::FixedPointOptions{.step = 1e-3};
    options.tolerance = 1e-30;
    options.max_iterations = steps;
    Layer layer = layer_of(parts, options);
    const auto peak = [&](Layer* settles) {
      for (auto& p : parts.parameters()) p.mutable_grad() = Tensor();
      const bilevel::torch::MemoryUse use;
      torch::cross_entropy_loss(answers(parts, x, settles, steps), y).backward();
      return use.peak();
    };
    const auto settled = peak(&layer);
    list.push_back({{"steps", steps},
                    {"taken", layer->report().iterations},
                    {"equilibrium", settled},
                    {"unrolled", peak(nullptr)}});
  }
  return list;
}

/// The gradient along a random direction of all parameters against differences of the whole solve, in
/// float64: relative error.
inline double difference_error(Parts& parts, const Tensor& x, const Tensor& y) {
  parts.to(torch::kDouble);
  Layer layer = layer_of(parts, {.tolerance = 1e-12, .max_iterations = 2000, .adjoint_tolerance = 1e-12});
  const auto loss = [&] { return torch::cross_entropy_loss(answers(parts, x, &layer, 0), y); };
  for (auto& p : parts.parameters()) p.mutable_grad() = Tensor();
  loss().backward();
  const torch::NoGradGuard guard;
  constexpr double h = 1e-6;
  std::vector<Tensor> directions;
  double along = 0;
  for (const Tensor& p : parts.parameters()) {
    directions.push_back(torch::randn_like(p));
    along += (directions.back() * p.grad()).sum().item<double>();
  }
  const auto moved = [&](double by) {
    std::size_t k = 0;
    for (Tensor& p : parts.parameters()) p += by * directions[k++];
    return loss().item<double>();
  };
  const double above = moved(h), below = moved(-2 * h);
  moved(h);
  return std::abs((above - below) / (2 * h) - along) / std::abs(along);
}

}  // namespace equilibrium
