// Where an example with tensors runs, as `--device` says.
#pragma once

#include <torch/torch.h>

#include "arguments.hpp"

namespace arguments {

inline torch::Device device(const Told& told) {
  const std::string& name = told.text("--device");
  try {
    const torch::Device device(name);
    torch::zeros({1}, device);
    return device;
  } catch (const c10::Error&) {
    throw bilevel::InvalidInput(fmt::format(
        "--device {}: this LibTorch knows no such device, or the machine has none; cpu is there always",
        name));
  }
}

}  // namespace arguments
