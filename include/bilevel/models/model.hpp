#pragma once

#include <string_view>
#include <vector>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/loss_kind.hpp>

namespace bilevel::models {

using bilevel::InvalidInput;

/// What is fitted to the data: a linear model by one of the losses of loss_kind.hpp with squared penalties,
/// or one that is more than that. A multilayer perceptron ends in one of the others: TuneOptions::last_layer.
struct Model {
  enum class Kind { automatic, by_loss, softmax, lasso, elastic_net, mlp };

  Kind kind = Kind::automatic;
  bilevel::problems::kernels::Loss loss = bilevel::problems::kernels::Loss::squared;

  constexpr Model(Kind which) : kind(which) {}
  constexpr Model(bilevel::problems::kernels::Loss which) : kind(Kind::by_loss), loss(which) {}
  friend bool operator==(const Model&, const Model&) = default;

  static const Model automatic, ridge, logistic, softmax, poisson, huber, squared_hinge, gamma,
      negative_binomial, lasso, elastic_net, mlp;

  /// Of the loss that it has, which is the squared one for lasso and elastic net; of no use for softmax.
  const bilevel::problems::LossKind& loss_kind() const { return bilevel::problems::kind_of(loss); }
  bool classifies() const;
  bool probable() const;  ///< it predicts probabilities of classes
};
inline constexpr Model Model::automatic = Kind::automatic, Model::softmax = Kind::softmax,
                       Model::lasso = Kind::lasso, Model::elastic_net = Kind::elastic_net,
                       Model::mlp = Kind::mlp, Model::ridge = bilevel::problems::kernels::Loss::squared,
                       Model::logistic = bilevel::problems::kernels::Loss::logistic,
                       Model::poisson = bilevel::problems::kernels::Loss::poisson,
                       Model::huber = bilevel::problems::kernels::Loss::huber,
                       Model::squared_hinge = bilevel::problems::kernels::Loss::squared_hinge,
                       Model::gamma = bilevel::problems::kernels::Loss::gamma,
                       Model::negative_binomial = bilevel::problems::kernels::Loss::negative_binomial;

enum class Penalty { automatic, global, per_feature, per_group, per_class, per_layer, per_parameter };

std::string_view name(Model model);
std::string_view title(Model model);  ///< in a sentence: "a ridge regression"
std::vector<std::string_view> model_names();
std::string_view name(Penalty penalty);
/// Throw InvalidInput with the list of names for any other text.
Model model_named(std::string_view text);
Penalty penalty_named(std::string_view text);

}  // namespace bilevel::models
