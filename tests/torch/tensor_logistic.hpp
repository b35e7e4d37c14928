#pragma once

#include <torch/torch.h>

#include <bilevel/problems/logistic.hpp>
#include <bilevel/torch/losses.hpp>

namespace bilevel::torch_testing {

using at::Tensor;

inline Tensor tensor(const Eigen::VectorXd& x) {
  Tensor t = at::zeros({x.size()}, at::kDouble);
  Space<Tensor>::from_host(x.data(), t);
  return t;
}

inline Tensor matrix(const problems::LinearModel::RowMajor& x) {
  Tensor t = at::zeros({x.rows(), x.cols()}, at::kDouble);
  Space<Tensor>::from_host(x.data(), t);
  return t;
}

/// The native logistic, and the same as two functions.
struct TensorLogistic {
  explicit TensorLogistic(std::uint64_t seed)
      : native(problems::Logistic::random(
            {.rows = 60, .validation_rows = 40, .features = 8, .strong = 2, .group = 4, .seed = seed})),
        x(matrix(native.x())),
        y(tensor(native.labels())),
        validation_x(matrix(native.validation_x())),
        validation_y(tensor(native.validation_labels())) {}

  torch::Losses<> losses(bool with_constants = true) {
    const auto fit = [](const Tensor& rows, const Tensor& labels, const Tensor& phi) {
      return at::softplus(-labels * rows.matmul(phi)).mean();
    };
    torch::LossesOptions options;
    if (with_constants)
      options.constants = [this](const Tensor& theta, const Tensor& center, double radius) {
        return native.constants(host_copy(theta), host_copy(center), radius);
      };
    return torch::Losses(
        [=, this](const Tensor& phi, const Tensor& theta) {
          return fit(x, y, phi) + 0.5 * (theta.exp() * phi.pow(2)).sum();
        },
        [=, this](const Tensor& phi, const Tensor&) { return fit(validation_x, validation_y, phi); },
        torch::Start(tensor(native.initial_phi()), tensor(native.initial_theta())), options);
  }

  problems::Logistic native;
  Tensor x, y, validation_x, validation_y;
};

}  // namespace bilevel::torch_testing
