#include <bilevel/torch/implicit_layer.hpp>

#include <algorithm>
#include <cmath>

#include <torch/csrc/autograd/autograd.h>

#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

namespace bilevel::torch {

namespace {

/// φ − f(φ, x) at a fixed x; there is nothing to learn here, so θ is a number that nobody looks at.
template <Vector V>
class MapEquilibrium final : public Equilibrium<V> {
 public:
  MapEquilibrium(const ImplicitLayerImpl::Map& map, const Tensor& x, const V& start)
      : map_(map), x_(x), start_(start) {}

  V initial_phi() const override { return start_; }
  V initial_theta() const override { return V(at::zeros({1}, tensor_of(start_).options())); }
  void residual(const V& phi, const V&, V& out) override {
    const at::NoGradGuard guard;
    elements::copy(tensor_of(phi), tensor_of(out));
    tensor_of(out).sub_(map_(tensor_of(phi), x_));
  }
  double outer(const V&, const V&, Wanted<V> wanted) override {
    if (wanted.phi) Space<V>::fill(0, *wanted.phi);
    if (wanted.theta) Space<V>::fill(0, *wanted.theta);
    return 0;
  }
  Capabilities capabilities() const override { return {.curvature = false, .symmetric = false}; }

 private:
  const ImplicitLayerImpl::Map& map_;
  const Tensor& x_;
  V start_;
};

/// u ↦ u·(I − ∂f/∂φ), by one backward pass through the graph of f that the forward pass left.
template <Vector V>
class Pullback final : public LinearOperator<V> {
 public:
  Pullback(const Tensor& leaf, const Tensor& mapped, bool symmetric)
      : leaf_(leaf), mapped_(mapped), symmetric_(symmetric) {}

  void apply(const V& u, V& out) override {
    const at::NoGradGuard guard;
    const Tensors back = ::torch::autograd::grad({mapped_}, {leaf_}, {tensor_of(u)}, true, false, true);
    elements::copy(tensor_of(u), tensor_of(out));
    if (back.front().defined()) tensor_of(out).sub_(back.front());
  }
  bool symmetric() const override { return symmetric_; }

 private:
  const Tensor &leaf_, &mapped_;
  bool symmetric_;
};

/// f, whose failures and shapes are looked at.
ImplicitLayerImpl::Map checked(ImplicitLayerImpl::Map map) {
  if (!map) throw InvalidInput("torch::ImplicitLayer: the function is empty");
  return [map = std::move(map)](const Tensor& phi, const Tensor& x) {
    Tensor mapped;
    try {
      mapped = map(phi, x);
    } catch (const c10::Error& error) {
      throw InvalidInput(
          fmt::format("torch::ImplicitLayer: the function failed: {}", error.what_without_backtrace()));
    }
    if (!mapped.defined() || mapped.sizes() != phi.sizes() || mapped.scalar_type() != phi.scalar_type())
      throw InvalidInput(
          fmt::format("torch::ImplicitLayer: f(phi, x) is {} of shape [{}], phi is {} of shape [{}]",
                      mapped.defined() ? c10::toString(mapped.scalar_type()) : "undefined",
                      mapped.defined() ? fmt::format("{}", fmt::join(mapped.sizes(), ", ")) : "",
                      c10::toString(phi.scalar_type()), fmt::join(phi.sizes(), ", ")));
    return mapped;
  };
}

/// Lengths of the samples of a batch.
Tensor lengths(const Tensor& x) {
  return x.reshape({x.size(0), -1}).to(at::kDouble).norm(2, 1);
}

}  // namespace

Violations ImplicitLayerOptions::validate() const {
  Violations v("implicit_layer");
  v.add(bilevel::validate(inner)).add(bilevel::validate(adjoint));
  v.positive("tolerance", tolerance).at_least("max_iterations", max_iterations, 0);
  v.positive("adjoint_tolerance", adjoint_tolerance)
      .at_least("adjoint_max_iterations", adjoint_max_iterations, 1);
  v.at_least("jacobian_directions", jacobian_directions, 0);
  return v;
}

Verdict LayerReport::verdict() const {
  constexpr double near = 100;
  if (succeeded(status) && succeeded(adjoint_status)) return Verdict::trusted;
  if (!(worst <= near * tolerance)) return Verdict::untrusted;
  if (adjoint_status != Status::not_run && !(adjoint_residual <= near * adjoint_tolerance))
    return Verdict::untrusted;
  return Verdict::doubtful;
}

ImplicitLayerImpl::ImplicitLayerImpl(Map map, Energy energy,
                                     std::vector<std::shared_ptr<::torch::nn::Module>> modules,
                                     ImplicitLayerOptions options)
    : map_(checked(std::move(map))), energy_(std::move(energy)), options_(std::move(options)) {
  Violations v = options_.validate();
  v.require(energy_ || !minimises(options_.inner), "inner", bilevel::name(options_.inner),
            "minimises, and a map has nothing to minimise: take a FixedPoint, or argmin of an energy");
  v.throw_if_any();
  for (std::size_t i = 0; i < modules.size(); ++i) register_module(fmt::format("part{}", i), modules[i]);
}

ImplicitLayerImpl::ImplicitLayerImpl(Map map, ImplicitLayerOptions options)
    : ImplicitLayerImpl(std::move(map), Energy(), {}, std::move(options)) {}

ImplicitLayerImpl::ImplicitLayerImpl(Map map, std::vector<std::shared_ptr<::torch::nn::Module>> modules,
                                     ImplicitLayerOptions options)
    : ImplicitLayerImpl(std::move(map), Energy(), std::move(modules), std::move(options)) {}

std::shared_ptr<ImplicitLayerImpl> ImplicitLayerImpl::argmin(
    Energy energy, std::vector<std::shared_ptr<::torch::nn::Module>> modules, ImplicitLayerOptions options) {
  if (!energy) throw InvalidInput("torch::ImplicitLayer: the energy is empty");
  // φ − ∂φE: a fixed point of it is stationary, and I − ∂f/∂φ the Hessian.
  Map map = [energy](const Tensor& phi, const Tensor& x) {
    const at::AutoGradMode recorded(true);
    const Tensor leaf = phi.requires_grad() ? phi : phi.detach().requires_grad_();
    const Tensor value = energy(leaf, x);
    if (value.numel() != 1)
      throw InvalidInput(
          fmt::format("torch::ImplicitLayer: the energy is not a scalar, it has {} elements: sum "
                      "over the samples",
                      value.numel()));
    const Tensors slope = ::torch::autograd::grad({value}, {leaf}, {}, true, true, true);
    if (!slope.front().defined())
      throw InvalidInput("torch::ImplicitLayer: the energy does not depend on phi");
    return leaf - slope.front();
  };
  return std::shared_ptr<ImplicitLayerImpl>(
      new ImplicitLayerImpl(std::move(map), std::move(energy), std::move(modules), std::move(options)));
}

template <Vector V>
V ImplicitLayerImpl::settle(const Tensor& x, const V& start) {
  std::unique_ptr<Equilibrium<V>> equilibrium;
  std::unique_ptr<InnerSolver<V>> solver;
  const auto samples = static_cast<double>(tensor_of(start).size(0));
  MinimiserOptions options{.gradient_tolerance = options_.tolerance * std::sqrt(samples),
                           .max_iterations = options_.max_iterations};
  if (energy_) {
    const Tensor theta = at::zeros({1}, tensor_of(start).options());
    auto losses =
        std::make_unique<Losses<V>>([&](const Tensor& phi, const Tensor&) { return energy_(phi, x); },
                                    [](const Tensor& phi, const Tensor&) { return 0 * phi.sum(); },
                                    Start(tensor_of(start), theta), LossesOptions{.look_first = false});
    solver = make_inner_solver<V>(options_.inner, static_cast<Problem<V>&>(*losses), options);
    equilibrium = std::move(losses);
  } else {
    equilibrium = std::make_unique<MapEquilibrium<V>>(map_, x, start);
    solver = make_inner_solver<V>(options_.inner, *equilibrium, options);
  }

  V phi = start;
  for (double tolerance = options.gradient_tolerance;; tolerance *= 0.25) {
    solver->set_tolerance(tolerance);
    Solution<V> solution = solver->solve(equilibrium->initial_theta(), 0, phi);
    phi = solution.phi;
    report_->status = solution.status;
    report_->message = std::move(solution.message);
    report_->iterations += solution.iterations;
    report_->evaluations += solution.cost.inner_gradients + solution.cost.inner_values;
    // The whole is where it should be; a single sample need not.
    if (!succeeded(solution.status) || tolerance <= 0.5 * options_.tolerance) break;
    const at::NoGradGuard guard;
    judge(tensor_of(phi), map_(tensor_of(phi), x).detach());
    ++report_->evaluations;
    if (succeeded(report_->status)) break;
  }
  return phi;
}

/// Status and residual of each sample.
void ImplicitLayerImpl::judge(const Tensor& phi, const Tensor& mapped) {
  const at::NoGradGuard guard;
  report_->residuals = lengths(phi - mapped) / lengths(phi).clamp_min(1);
  std::vector<double> residuals(static_cast<std::size_t>(phi.size(0)));
  elements::to_host(report_->residuals, residuals.data());
  const Status why = succeeded(report_->status) ? Status::stalled : report_->status;
  report_->samples.clear();
  report_->worst = 0;
  for (const double each : residuals) {
    report_->samples.push_back(each <= options_.tolerance ? Status::converged
                               : std::isfinite(each)      ? why
                                                          : Status::not_finite);
    report_->worst =
        std::isnan(each) || std::isnan(report_->worst) ? unknown : std::max(report_->worst, each);
  }
  const auto settled = std::count(report_->samples.begin(), report_->samples.end(), Status::converged);
  if (settled == phi.size(0))
    report_->status = Status::converged;
  else if (succeeded(report_->status))
    report_->status = Status::stalled;
}

Tensor ImplicitLayerImpl::forward_from(const Tensor& x, const Tensor& start) {
  if (!start.defined() || start.dim() == 0 || start.numel() == 0)
    throw InvalidInput("torch::ImplicitLayer: the start phi needs a first dimension that counts samples");
  if (start.scalar_type() != at::kFloat && start.scalar_type() != at::kDouble)
    throw InvalidInput(fmt::format("torch::ImplicitLayer: phi is of {}, not of Float or Double",
                                   c10::toString(start.scalar_type())));
  if (x.device() != start.device())
    throw InvalidInput(
        fmt::format("torch::ImplicitLayer: x is on {}, phi on {}", x.device().str(), start.device().str()));
  const long before = synchronisations();
  report_ = std::make_shared<LayerReport>();
  report_->tolerance = options_.tolerance;
  report_->adjoint_tolerance = options_.adjoint_tolerance;
  penalty_ = Tensor();

  const bool warm = options_.warm_start && last_.defined() && last_.sizes() == start.sizes() &&
                    last_.scalar_type() == start.scalar_type() && last_.device() == start.device();
  const Tensor from = (warm ? last_ : start).detach().contiguous();
  const Tensor still = x.detach();
  const Tensor phi = from.scalar_type() == at::kDouble
                         ? settle<Tensor>(still, from)
                         : settle<SingleTensor>(still, SingleTensor(from)).tensor;
  if (options_.warm_start) last_ = phi;

  // The one evaluation that leaves a graph: of what came in, of the parameters, and of φ, as if it were
  // given.
  const bool recorded = at::GradMode::is_enabled();
  const Tensor leaf = recorded ? phi.detach().requires_grad_() : phi;
  const Tensor mapped = map_(leaf, recorded ? x : still);
  ++report_->evaluations;
  const std::string message = report_->message;
  judge(phi, mapped.detach());
  report_->message =
      fmt::format("{} of {} samples settled, the worst residual is {:.3g} (asked for {:.3g}); {}",
                  std::count(report_->samples.begin(), report_->samples.end(), Status::converged),
                  phi.size(0), report_->worst, options_.tolerance, message);
  if (recorded && options_.jacobian_directions > 0) penalise(leaf, mapped);
  report_->synchronisations = synchronisations() - before;
  if (!recorded || !mapped.requires_grad()) return phi.detach();

  // φ itself, with the graph of f behind it; what comes back to φ is first made what would have come back
  // through every iteration.
  Tensor out = mapped - mapped.detach() + phi.detach();
  out.register_hook(
      [self = std::static_pointer_cast<ImplicitLayerImpl>(shared_from_this()), leaf, mapped,
       report = report_](const Tensor& above) { return self->pull_back_with(leaf, mapped, above, *report); });
  return out;
}

Tensor ImplicitLayerImpl::pull_back_with(const Tensor& leaf, const Tensor& mapped, const Tensor& above,
                                         LayerReport& report) const {
  if (at::GradMode::is_enabled())
    throw InvalidInput(
        "torch::ImplicitLayer has first derivatives only: backward with create_graph wants second");
  const Tensor g = above.detach().contiguous();
  return g.scalar_type() == at::kDouble ? pulled_back<Tensor>(leaf, mapped, g, report)
                                        : pulled_back<SingleTensor>(leaf, mapped, SingleTensor(g), report);
}

template <Vector V>
Tensor ImplicitLayerImpl::pulled_back(const Tensor& leaf, const Tensor& mapped, const V& above,
                                      LayerReport& report) const {
  const long before = synchronisations();
  if (!all_finite(above)) {
    report.adjoint_status = Status::not_finite;
    report.adjoint_message = "what came back from above is not finite";
    return tensor_of(above);
  }
  AdjointChoice choice = options_.adjoint;
  shared(choice).relative_tolerance = options_.adjoint_tolerance;
  shared(choice).absolute_tolerance = 0;
  shared(choice).max_iterations = options_.adjoint_max_iterations;
  Pullback<V> system(leaf, mapped, static_cast<bool>(energy_));
  LinearSolution<V> solution = make_adjoint_solver<V>(choice)->solve(system, above, nullptr);
  report.adjoint_status = solution.status;
  report.adjoint_message = std::move(solution.message);
  report.adjoint_residual = solution.rhs_norm > 0 ? solution.residual_norm / solution.rhs_norm : 0;
  report.adjoint_products = solution.products;
  report.synchronisations += synchronisations() - before;
  return tensor_of(solution.x);
}

void ImplicitLayerImpl::penalise(const Tensor& leaf, const Tensor& mapped) {
  penalty_ = at::zeros({}, leaf.options().requires_grad(false));
  if (!mapped.requires_grad()) return;
  for (long i = 0; i < options_.jacobian_directions; ++i) {
    Tensor direction = at::zeros_like(leaf.detach());
    elements::random(options_.seed + drawn_++, direction);
    const Tensor back = ::torch::autograd::grad({mapped}, {leaf}, {direction}, true, true, true).front();
    if (back.defined())
      penalty_ =
          penalty_ + back.pow(2).sum() / static_cast<double>(leaf.numel() * options_.jacobian_directions);
  }
}

Tensor spectral_radii(const ImplicitLayerImpl::Map& map, const Tensor& phi, const Tensor& x, long products,
                      std::uint64_t seed) {
  Violations v("spectral_radii");
  v.at_least("products", products, 2).throw_if_any();
  const at::AutoGradMode recorded(true);
  const Tensor leaf = phi.detach().requires_grad_();
  const Tensor mapped = checked(map)(leaf, x.detach());
  const at::NoGradGuard guard;
  Tensor u = at::zeros_like(leaf), sum = at::zeros({phi.size(0)}, phi.options().dtype(at::kDouble));
  if (!mapped.requires_grad()) return sum;
  elements::random(seed, u);
  std::vector<std::int64_t> each(static_cast<std::size_t>(phi.dim()), 1);
  each[0] = phi.size(0);
  for (long k = 0; k < products; ++k) {
    u = u / lengths(u).clamp_min(1e-30).to(u.scalar_type()).reshape(each);
    const Tensor back = ::torch::autograd::grad({mapped}, {leaf}, {u}, true, false, true).front();
    if (!back.defined()) return sum;
    u = back;
    if (k >= products / 2) sum += lengths(u).log();
  }
  return (sum / static_cast<double>(products - products / 2)).exp();
}

Tensor ImplicitLayerImpl::jacobian_penalty() const {
  if (!penalty_.defined())
    throw InvalidInput(
        "torch::ImplicitLayer: jacobian_penalty() needs jacobian_directions > 0 and a forward pass that "
        "records");
  return penalty_;
}

}  // namespace bilevel::torch
