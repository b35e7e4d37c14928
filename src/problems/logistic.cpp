#include <bilevel/problems/logistic.hpp>

#include <cmath>
#include <random>
#include <utility>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;

/// Labels as ±1. What is not finite is left for the model to refuse.
Vec signs(Vec labels, std::string_view part) {
  bool zero = false, minus = false;
  for (Index i = 0; i < labels.size(); ++i) {
    const double label = labels[i];
    if (!std::isfinite(label)) continue;
    zero = zero || label == 0;
    minus = minus || label == -1;
    if ((label != 0 && label != 1 && label != -1) || (zero && minus))
      throw InvalidInput(
          fmt::format("logistic: the {} label in row {} (counted from 0) is {}; labels must be -1 and 1, "
                      "or 0 and 1",
                      part, i, label));
    if (label == 0) labels[i] = -1;
  }
  return labels;
}

}  // namespace

Logistic::Logistic(RowMajor x, Vec labels, RowMajor validation_x, Vec validation_labels, Penalty penalty)
    : Logistic(Data{.x = std::move(x),
                    .y = signs(std::move(labels), "training"),
                    .validation_x = std::move(validation_x),
                    .validation_y = signs(std::move(validation_labels), "validation")},
               penalty) {}

Logistic Logistic::random(const LinearModelOptions& options) {
  std::uint64_t seed = 0;
  Data data = draw(options, seed);
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(0x1p-53, 1);
  // y = 1 with probability σ(x·w / noise): a threshold on x·w plus a logistic variate.
  for (Vec* y : {&data.y, &data.validation_y})
    for (double& each : *y) {
      const double u = uniform(engine);
      each = each + options.noise * std::log(u / (1 - u)) > 0 ? 1 : -1;
    }
  return Logistic(std::move(data), options.penalty);
}

}  // namespace bilevel::problems
