#include <bilevel/torch/losses.hpp>

#include "autograd_losses.hpp"

namespace bilevel::torch {

namespace {

RowLoss without_rows(Loss loss) {
  if (!loss) return nullptr;
  return [loss = std::move(loss)](const Tensors& phi, const Tensors& theta, const Tensor&) {
    return loss(phi.front(), theta.front());
  };
}

RowLoss without_rows(ListLoss loss) {
  if (!loss) return nullptr;
  return [loss = std::move(loss)](const Tensors& phi, const Tensors& theta, const Tensor&) {
    return loss(phi, theta);
  };
}

Rows counted(Rows rows) {
  Violations v("torch::Losses.rows");
  v.at_least("inner", rows.inner, 1).at_least("outer", rows.outer, 1).throw_if_any();
  return rows;
}

Start single(Start start) {
  if (start.lists)
    throw InvalidInput("torch::Losses: functions of two tensors start at two tensors, not at lists of them");
  return start;
}

template <Vector V>
Wanted<Tensor> tensors_wanted(Wanted<V> wanted) {
  return {.phi = wanted.phi ? &tensor_of(*wanted.phi) : nullptr,
          .theta = wanted.theta ? &tensor_of(*wanted.theta) : nullptr};
}

template <Vector V>
struct GraphCurvature final : Curvature<V> {
  explicit GraphCurvature(std::shared_ptr<AutogradLosses> from) : losses(std::move(from)), graph(*losses) {}
  void times(const V& v, V& out) override { graph.times(tensor_of(v), tensor_of(out)); }
  void cross_times(const V& v, V& out) override { graph.cross_times(tensor_of(v), tensor_of(out)); }
  void cross_apply(const V& u, V& out) override { graph.cross_apply(tensor_of(u), tensor_of(out)); }
  double drawn_times(const V& v, V& out) override { return graph.drawn_times(tensor_of(v), tensor_of(out)); }

  std::shared_ptr<AutogradLosses> losses;
  GradientGraph graph;
};

}  // namespace

template <Vector V>
Losses<V>::Losses(Loss inner, Loss outer, Start start, LossesOptions options)
    : losses_(std::make_shared<AutogradLosses>(without_rows(std::move(inner)), without_rows(std::move(outer)),
                                               single(std::move(start)), Space<V>::type, Rows{},
                                               std::move(options))) {}

template <Vector V>
Losses<V>::Losses(ListLoss inner, ListLoss outer, Start start, LossesOptions options)
    : losses_(std::make_shared<AutogradLosses>(without_rows(std::move(inner)), without_rows(std::move(outer)),
                                               start, Space<V>::type, Rows{}, std::move(options))) {}

template <Vector V>
Losses<V>::Losses(RowLoss inner, RowLoss outer, Start start, Rows rows, LossesOptions options)
    : losses_(std::make_shared<AutogradLosses>(std::move(inner), std::move(outer), start, Space<V>::type,
                                               counted(rows), std::move(options))) {}

template <Vector V>
Losses<V>::Losses(std::shared_ptr<AutogradLosses> losses) : losses_(std::move(losses)) {}
template <Vector V>
Losses<V>::Losses(Losses&&) noexcept = default;
template <Vector V>
Losses<V>& Losses<V>::operator=(Losses&&) noexcept = default;
template <Vector V>
Losses<V>::~Losses() = default;

template <Vector V>
V Losses<V>::initial_phi() const {
  return duplicate(V(losses_->initial_phi()));
}
template <Vector V>
V Losses<V>::initial_theta() const {
  return duplicate(V(losses_->initial_theta()));
}

template <Vector V>
double Losses<V>::inner(const V& phi, const V& theta, Wanted<V> wanted) {
  return losses_->evaluate(Which::inner, tensor_of(phi), tensor_of(theta), tensors_wanted(wanted));
}
template <Vector V>
void Losses<V>::residual(const V& phi, const V& theta, V& out) {
  losses_->evaluated(Which::inner, tensor_of(phi), tensor_of(theta), {.phi = &tensor_of(out)});
}
template <Vector V>
double Losses<V>::outer(const V& phi, const V& theta, Wanted<V> wanted) {
  return losses_->evaluate(Which::outer, tensor_of(phi), tensor_of(theta), tensors_wanted(wanted));
}

template <Vector V>
void Losses<V>::linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) {
  if (!reuse) reuse = std::make_unique<GraphCurvature<V>>(losses_);
  static_cast<GraphCurvature<V>&>(*reuse).graph.record(tensor_of(phi), tensor_of(theta), beta);
}

template <Vector V>
Constants Losses<V>::constants(const V& theta, const V& center, double radius) {
  if (!losses_->options().constants) return {};
  return losses_->options().constants(tensor_of(theta), tensor_of(center), radius);
}

template <Vector V>
PhiConstraints Losses<V>::phi_constraints() const {
  return losses_->options().phi_constraints;
}

template <Vector V>
Losses<V> Losses<V>::subset(const Tensor& inner_rows, const Tensor& outer_rows) const {
  losses_->require_subset(inner_rows, outer_rows);
  // Numbers of its own, whatever the caller does with these.
  const auto own = [](const Tensor& rows) { return rows.defined() ? rows.clone() : rows; };
  return Losses(std::make_shared<AutogradLosses>(*losses_, own(inner_rows), own(outer_rows)));
}
template <Vector V>
Rows Losses<V>::rows() const {
  return losses_->rows();
}

template <Vector V>
Tensors Losses<V>::phi_list(const V& phi) const {
  return losses_->phi_blocks().views(tensor_of(phi));
}
template <Vector V>
Tensors Losses<V>::theta_list(const V& theta) const {
  return losses_->theta_blocks().views(tensor_of(theta));
}

template <Vector V>
const AutogradCost& Losses<V>::autograd_cost() const {
  return losses_->cost();
}

template class Losses<Tensor>;
template class Losses<SingleTensor>;

}  // namespace bilevel::torch
