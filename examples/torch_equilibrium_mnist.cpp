// A deep equilibrium model of pictures: a convolutional cell that is applied until it settles, beside the
// same cell applied so many times. Drawn digits, or --data FOLDER: the files of MNIST, or a folder of
// pictures for each class.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/networks/training_data.hpp>

#include "equilibrium.hpp"
#include "equilibrium_page.hpp"

using namespace equilibrium;

namespace {

/// φ ← relu(x + c₂ * relu(c₁ * φ)) with convolutions c, after a convolution that halves the picture, before
/// means of its quarters and a linear map. What a unit receives through c₁ or c₂ moves by at most `bound`
/// times what moves most below, Σ|w| ≤ bound for each: in the largest norm the cell contracts by bound²,
/// whatever it learns, so there is one φ and it is reached from anywhere. 0: nothing keeps it from ceasing to
/// settle.
struct Convolutional : Parts {
  Convolutional(long channels, long classes, double most)
      : bound(most),
        stem(torch::nn::Conv2dOptions(1, channels, 5).stride(2).padding(2)),
        c1(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)),
        c2(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false)),
        n0(torch::nn::GroupNormOptions(std::max(1L, channels / 8), channels)),
        pool(torch::nn::AdaptiveAvgPool2dOptions(4)),
        head(16 * channels, classes) {
    const std::vector<std::pair<std::string, std::shared_ptr<Module>>> all{
        {"stem", stem.ptr()}, {"c1", c1.ptr()}, {"c2", c2.ptr()}, {"n0", n0.ptr()}, {"head", head.ptr()}};
    for (const auto& [name, module] : all) register_module(name, module);
  }
  Tensor bounded(const Tensor& w) const {
    return bound > 0 ? w * (bound / w.abs().sum({1, 2, 3}, true).clamp_min(bound)) : w;
  }
  Tensor injected(const Tensor& x) override { return n0(stem(x)); }
  Tensor step(const Tensor& phi, const Tensor& x) override {
    const Tensor h = torch::relu(torch::conv2d(phi, bounded(c1->weight), c1->bias, 1, 1));
    return torch::relu(x + torch::conv2d(h, bounded(c2->weight), {}, 1, 1));
  }
  Tensor answer(const Tensor& phi, const Tensor&) override { return head(pool(phi).flatten(1)); }

  double bound;
  torch::nn::Conv2d stem, c1, c2;
  torch::nn::GroupNorm n0;
  torch::nn::AdaptiveAvgPool2d pool;
  torch::nn::Linear head;
};

Data on_device(const bilevel::networks::TrainingData& d, const std::string& device) {
  if (!d.image) throw InvalidInput(d.train.source + ": these rows are no pictures");
  const auto pictures = [&](const bilevel::networks::LabelledSamples& s) {
    return torch::from_blob(const_cast<float*>(s.inputs.data()),
                            {s.rows(), 1, d.image->first, d.image->second})
        .clone()
        .to(device);
  };
  const auto labels = [&](const bilevel::networks::LabelledSamples& s) {
    return torch::tensor(s.labels, torch::kInt).to(torch::kLong).to(device);
  };
  return {pictures(d.train), labels(d.train), pictures(d.test), labels(d.test)};
}

int learn(const Settings& s) {
  const auto read = s.data.empty()
                        ? bilevel::networks::drawn_digits(s.rows, static_cast<std::uint64_t>(s.seed), 500)
                        : bilevel::networks::read_training_data({.data = s.data}, {.rows = s.rows});
  const Data data = on_device(read, s.device);
  const auto network = [&] {
    torch::manual_seed(s.seed);  // all begin alike
    auto parts = std::make_shared<Convolutional>(s.channels, static_cast<long>(read.classes.size()), s.bound);
    parts->to(s.device);
    return parts;
  };
  const double error =
      difference_error(*network(), data.x.slice(0, 0, 3).to(torch::kDouble), data.y.slice(0, 0, 3));
  const Json result =
      compared(fmt::format("An equilibrium model of {}", s.data.empty() ? "drawn digits" : s.data), network,
               data, s, error);

  const Json &equilibrium = result["equilibrium"], &unrolled = result["unrolled"][0];
  const auto yes = [](bool holds) { return holds ? "yes" : "no"; };
  fmt::print("gradient within 1e-6 of differences of the whole solve: {}\n", yes(error < 1e-6));
  fmt::print("more than 90 % of the test pictures right: {}\n", yes(equilibrium["test_accuracy"] > 0.9));
  fmt::print("as many as the unrolled network, to 3 in 100: {}\n",
             yes(equilibrium["test_accuracy"] > unrolled["test_accuracy"].get<double>() - 0.03));
  fmt::print("trusted or doubtful, but no step untrusted in the last epoch: {}\n",
             yes(equilibrium["epochs"].back()["untrusted"] == 0));
  fmt::print("memory is the same at 10 and at 100 steps: {}; the unrolled network's: {}\n",
             yes(flat(result["memory"], "equilibrium")), yes(flat(result["memory"], "unrolled")));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings usual{
      .rows = 1000, .epochs = 10, .batch = 50, .channels = 8, .unrolled = {12}, .rate = 2e-2, .bound = 0.95};
  arguments::Defaults names = defaults(usual);
  names.insert({{"--data", ""}, {"--bound", fmt::format("{}", usual.bound)}});
  return arguments::run(argc, argv, names, [&](const arguments::Told& told) {
    Settings s = settings(told, usual);
    s.data = told.text("--data");
    s.bound = least_zero(told, "--bound");
    return learn(s);
  });
}
