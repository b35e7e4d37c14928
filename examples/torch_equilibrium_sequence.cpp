// A deep equilibrium model of sequences: the state of every place depends on those of its neighbours, and
// settles. Somewhere a symbol is shown, somewhere else it is asked for; what lies between is noise. Steps
// carry it from place to place, so that a network of so many steps sees no further, and one that settles sees
// all.
#include <memory>
#include <tuple>

#include "equilibrium.hpp"
#include "equilibrium_page.hpp"

using namespace equilibrium;

namespace {

constexpr long symbols = 6;

/// Sequences of one-hot rows: a symbol that is noise, one that is shown, the question.
std::pair<Tensor, Tensor> drawn(long rows, long length) {
  const Tensor y = torch::randint(symbols, {rows}), noise = torch::randint(symbols, {rows, length});
  const Tensor shown = torch::randint(length, {rows});
  const Tensor asked = (shown + torch::randint(1, length, {rows})) % length;  // another place
  const Tensor all = torch::arange(rows);
  Tensor x = torch::one_hot(noise, 2 * symbols + 1).to(torch::kFloat);
  for (const Tensor& place : {shown, asked}) x.index_put_({all, place}, torch::zeros({2 * symbols + 1}));
  x.index_put_({all, shown, y + symbols}, torch::ones({rows}));
  x.index_put_({all, asked, torch::full({rows}, 2 * symbols, torch::kLong)}, torch::ones({rows}));
  return {x, y};
}

/// One half of the channels carries to the right, φ_t ← tanh(A φ_{t−1} + B φ_t + U x_t), the other to the
/// left; a linear map of both where the question stands.
struct Neighbours : Parts {
  /// Where `most` > 0 no channel takes more than that from its neighbours in sum: it settles whatever it
  /// learns.
  explicit Neighbours(long channels, double most)
      : bound(most),
        in(register_module("in", torch::nn::Linear(2 * symbols + 1, channels))),
        mix(register_parameter("mix",
                               0.02 * (most > 0 ? 0.1 : 1) * torch::randn({channels, channels / 2, 3}))),
        seen(register_buffer("seen", torch::ones({channels, 1, 3}))),
        head(register_module("head", torch::nn::Linear(channels, symbols))) {
    const torch::NoGradGuard guard;
    in->weight.mul_(0.1);  // noise must not fill the channels before it is told from the rest
    for (long c = 0; c < channels; ++c) {
      const bool right = 2 * c < channels;
      mix[c][c % (channels / 2)][right ? 0 : 2] += 0.9;  // passes on what it has
      seen[c][0][right ? 2 : 0] = 0;
    }
  }
  Tensor injected(const Tensor& x) override { return in(x).transpose(1, 2); }
  Tensor step(const Tensor& phi, const Tensor& x) override {
    const Tensor w = mix * seen;
    const Tensor carried = bound > 0 ? w * (bound / w.abs().sum({1, 2}, true).clamp_min(bound)) : w;
    return torch::tanh(torch::conv1d(phi, carried, {}, 1, 1, 1, 2) + x);
  }
  Tensor answer(const Tensor& phi, const Tensor& x) override {
    const Tensor question = x.select(2, 2 * symbols).to(phi.scalar_type());
    return head((phi * question.unsqueeze(1)).sum(2));
  }

  double bound;
  torch::nn::Linear in;
  Tensor mix, seen;
  torch::nn::Linear head;
};

int recall(const Settings& s) {
  torch::manual_seed(s.seed);
  Data data;
  std::tie(data.x, data.y) = drawn(s.rows, s.length);
  std::tie(data.test_x, data.test_y) = drawn(1000, s.length);
  for (Tensor* part : {&data.x, &data.y, &data.test_x, &data.test_y}) *part = part->to(s.device);
  const auto network = [&] {
    torch::manual_seed(s.seed);  // all begin alike
    auto parts = std::make_shared<Neighbours>(s.channels, s.bound);
    parts->to(s.device);
    return parts;
  };
  const double error =
      difference_error(*network(), data.x.slice(0, 0, 3).to(torch::kDouble), data.y.slice(0, 0, 3));
  const Json result = compared(fmt::format("An equilibrium model recalls a symbol over {} places", s.length),
                               network, data, s, error);

  const auto right = [](const Json& run) { return run["test_accuracy"].get<double>(); };
  const Json &equilibrium = result["equilibrium"], &few = result["unrolled"].front(),
             &many = result["unrolled"].back();
  const auto yes = [](bool holds) { return holds ? "yes" : "no"; };
  fmt::print("gradient within 1e-6 of differences of the whole solve: {}\n", yes(error < 1e-6));
  fmt::print("the equilibrium answers more than 95 % right: {}\n", yes(right(equilibrium) > 0.95));
  fmt::print("as many as {} steps do, to 3 in 100: {}\n", many["depth"].get<long>(),
             yes(right(equilibrium) > right(many) - 0.03));
  fmt::print("more than {} steps do, which do not reach: {}\n", few["depth"].get<long>(),
             yes(right(equilibrium) > right(few) + 0.1));
  fmt::print("no step untrusted in the last epoch: {}\n",
             yes(equilibrium["epochs"].back()["untrusted"] == 0));
  fmt::print("memory is the same at 10 and at 100 steps: {}; the unrolled network's: {}\n",
             yes(flat(result["memory"], "equilibrium")), yes(flat(result["memory"], "unrolled")));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings usual{.rows = 2000,
                       .epochs = 8,
                       .batch = 50,
                       .channels = 32,
                       .unrolled = {5, 16},
                       .rate = 5e-3,
                       .solver = bilevel::FixedPointOptions{.memory = 0},
                       .adjoint = bilevel::NeumannOptions{{}, 1.0}};
  arguments::Defaults names = defaults(usual);
  names.insert({{"--length", fmt::format("{}", usual.length)}, {"--bound", fmt::format("{}", usual.bound)}});
  return arguments::run(argc, argv, names, [&](const arguments::Told& told) {
    Settings s = settings(told, usual);
    s.length = told.whole("--length", 2);
    s.bound = least_zero(told, "--bound");
    return recall(s);
  });
}
