// A layer that settles, inside an ordinary network of LibTorch, trained by an ordinary optimiser. What it
// keeps for the backward pass is one evaluation of its map, however many it took to settle.
#include <fmt/format.h>
#include <torch/torch.h>
#include <bilevel/torch/implicit_layer.hpp>

#include "arguments.hpp"

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  torch::manual_seed(3);
  const auto cell = torch::nn::Linear(16, 16).ptr();
  bilevel::torch::ImplicitLayer settle(
      [cell](const torch::Tensor& phi, const torch::Tensor& x) {
        // At most 0.9 in norm: there is one φ, and it is reached from anywhere.
        const auto w = 0.9 * cell->weight / cell->weight.norm().clamp_min(1);
        return torch::tanh(phi.matmul(w) + cell->bias + x);
      },
      std::vector<std::shared_ptr<torch::nn::Module>>{cell},
      bilevel::torch::ImplicitLayerOptions{
          .tolerance = 1e-5, .adjoint_tolerance = 1e-4, .jacobian_directions = 1});
  torch::nn::Sequential network(torch::nn::Linear(2, 16), settle, torch::nn::Linear(16, 1));

  // Exclusive or, softly.
  const auto x = 2 * torch::rand({256, 2}) - 1;
  const auto y = (x.select(1, 0) * x.select(1, 1) > 0).to(torch::kFloat).unsqueeze(1);
  torch::optim::Adam adam(network->parameters(), torch::optim::AdamOptions(0.02));
  bool trusted = true;
  for (int step = 0; step < 200; ++step) {
    adam.zero_grad();
    const auto out = network->forward(x);
    const auto loss = torch::binary_cross_entropy_with_logits(out, y) + 0.01 * settle->jacobian_penalty();
    loss.backward();
    adam.step();
    trusted = trusted && settle->report().verdict() == bilevel::Verdict::trusted;
  }
  const torch::NoGradGuard guard;
  const double right = ((network->forward(x) > 0) == (y > 0.5)).to(torch::kFloat).mean().item<double>();
  fmt::print("every batch settled, forwards and backwards: {}\n", trusted ? "yes" : "no");
  fmt::print("more than 95 % right: {}\n", right > 0.95 ? "yes" : "no");
  fmt::print("samples in the last report: {}\n", settle->report().samples.size());
}
