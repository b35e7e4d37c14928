#pragma once

// A classifier that says which digits a generator draws, for torch_adversarial_digits.cpp.

#include "learning_run.hpp"

namespace adversarial {

using learning_run::Tensors;
using torch::Tensor;

/// A network that tells digits, by Adam on minibatches.
inline Tensors judge_of(const learning_run::Digits& d, long width, long steps) {
  Tensors w = learning_run::network({d.x.size(1), width, 10}, d.x.options());
  for (Tensor& each : w) each.set_requires_grad(true);
  torch::optim::Adam adam(w, torch::optim::AdamOptions(2e-3).weight_decay(1e-4));
  for (long step = 0; step < steps; ++step) {
    const Tensor rows = torch::randint(d.x.size(0), {128}, d.y.options());
    adam.zero_grad();
    learning_run::cross_entropy(learning_run::through(w, d.x.index_select(0, rows)),
                                d.y.index_select(0, rows))
        .backward();
    adam.step();
  }
  for (Tensor& each : w) each.set_requires_grad(false);
  return w;
}

struct Judged {
  std::vector<double> shares;  ///< of the classes
  long covered = 0;            ///< classes with one picture in fifty or more
  double entropy = 0;          ///< of the classes that were drawn, log 10 at most
  double sure = 0;             ///< the judge's probability of the class it sees, on average
};

inline Judged judged(const Tensors& judge, const Tensor& pictures) {
  const Tensor seen = torch::softmax(learning_run::through(judge, pictures), 1);
  const Tensor share = torch::one_hot(seen.argmax(1), 10).to(torch::kDouble).mean(0);
  const Tensor host = share.cpu().contiguous();
  const auto* first = host.data_ptr<double>();
  return {{first, first + 10},
          (share >= 0.02).sum().item<long>(),
          -(share * (share + 1e-12).log()).sum().item<double>(),
          std::get<0>(seen.max(1)).mean().item<double>()};
}

}  // namespace adversarial
