#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/certificate.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/torch/tensor.hpp>

namespace bilevel::torch {

struct ImplicitLayerOptions {
  /// The first phase: whatever settles φ = f(φ, x), or minimises the energy.
  InnerChoice inner = FixedPointOptions{};
  /// ‖φ − f(φ, x)‖ of each sample, relative to max(1, ‖φ‖) of it: a sample is converged where it is at most
  /// this.
  double tolerance = 1e-6;
  /// Of the first phase, ≥ 0.
  long max_iterations = 200;
  /// The second phase: solves u·(I − ∂f/∂φ) = g for what comes back from above. Identity is the one-step, or
  /// Jacobian-free, gradient.
  AdjointChoice adjoint = GmresOptions{};
  /// ‖g − u(I − ∂f/∂φ)‖ relative to ‖g‖.
  double adjoint_tolerance = 1e-6;
  long adjoint_max_iterations = 200;
  /// Start the first phase where the last batch of the same shape settled.
  bool warm_start = false;
  /// Random directions of `jacobian_penalty`, drawn anew at each forward pass; 0: it is not asked for.
  long jacobian_directions = 0;
  std::uint64_t seed = 1;  ///< of those directions

  Violations validate() const;
};

/// What the phases of one batch left.
struct LayerReport {
  Status status = Status::not_run;  ///< converged where every sample is; else the first phase's
  std::string message;
  std::vector<Status> samples;  ///< of each sample: converged, not_finite, or why the first phase ended
  Tensor residuals;             ///< ‖φ − f(φ, x)‖/max(1, ‖φ‖) of each sample
  long iterations = 0;
  long evaluations = 0;  ///< of f, or of the energy's gradient

  Status adjoint_status = Status::not_run;
  std::string adjoint_message;
  double adjoint_residual = unknown;  ///< relative to ‖g‖
  long adjoint_products = 0;

  long synchronisations = 0;  ///< of both phases

  double worst = unknown;                                   ///< largest of `residuals`
  double tolerance = unknown, adjoint_tolerance = unknown;  ///< what was asked for

  /// trusted: every sample and the second phase reached their tolerances. doubtful: both are within 100 times
  /// of it, or there was no backward pass yet. untrusted: anything else, approximations by choice among it.
  /// It speaks of residuals: how far they let the gradient be off, σ_min(I − ∂f/∂φ) says, which is not known
  /// here.
  Verdict verdict() const;
};

/// A layer whose output settles: φ = f(φ, x), or φ = argmin E(φ, x). Its forward pass keeps no graph but that
/// of one evaluation at the end, so that memory does not grow with the iterations; its backward pass solves
/// one linear system,
///   u·(I − ∂f/∂φ) = g,   ∂x ← u·∂f/∂x,   and so for every parameter that f has used,
/// and is exact to the two tolerances. First derivatives only.
///
/// The first dimension of φ counts samples. They are settled together, as one vector, and judged each on its
/// own.
class ImplicitLayerImpl : public ::torch::nn::Module {
 public:
  /// f(φ, x), of φ's shape, by operations that autograd knows; parameters are those it uses.
  using Map = std::function<Tensor(const Tensor& phi, const Tensor& x)>;
  /// E(φ, x), a scalar: the sum over the samples.
  using Energy = std::function<Tensor(const Tensor& phi, const Tensor& x)>;

  explicit ImplicitLayerImpl(Map map, ImplicitLayerOptions options = {});
  /// The modules whose parameters f uses become this one's: parameters(), to(device) and serialisation see
  /// them.
  ImplicitLayerImpl(Map map, std::vector<std::shared_ptr<::torch::nn::Module>> modules,
                    ImplicitLayerOptions options = {});

  /// φ = argmin E(φ, x), by any minimiser.
  static std::shared_ptr<ImplicitLayerImpl> argmin(Energy energy,
                                                   std::vector<std::shared_ptr<::torch::nn::Module>> modules,
                                                   ImplicitLayerOptions options);

  /// Settles from `start`, which says what shape, type (float32, float64) and device φ has.
  Tensor forward_from(const Tensor& x, const Tensor& start);
  /// The same from zeros, where φ has the shape of x.
  Tensor forward(const Tensor& x) { return forward_from(x, at::zeros_like(x.detach())); }

  /// Of the last batch. Its second phase is filled in by the backward pass.
  const LayerReport& report() const { return *report_; }
  /// mean over `jacobian_directions` of ‖εᵀ∂f/∂φ‖²/|φ|, an estimate of ‖∂f/∂φ‖²_F/|φ| at the last φ (Bai,
  /// Koltun and Kolter 2021): a term for the loss, differentiable in x and the parameters with φ held.
  Tensor jacobian_penalty() const;

 private:
  ImplicitLayerImpl(Map map, Energy energy, std::vector<std::shared_ptr<::torch::nn::Module>> modules,
                    ImplicitLayerOptions options);

  template <Vector V>
  V settle(const Tensor& x, const V& start);
  template <Vector V>
  Tensor pulled_back(const Tensor& leaf, const Tensor& mapped, const V& above, LayerReport& report) const;
  Tensor pull_back_with(const Tensor& leaf, const Tensor& mapped, const Tensor& above,
                        LayerReport& report) const;
  void judge(const Tensor& phi, const Tensor& mapped);
  void penalise(const Tensor& leaf, const Tensor& mapped);

  Map map_;
  Energy energy_;  // empty for a map
  ImplicitLayerOptions options_;
  std::shared_ptr<LayerReport> report_ = std::make_shared<LayerReport>();
  Tensor last_, penalty_;
  std::uint64_t drawn_ = 0;
};

/// How fast u·(∂f/∂φ)ᵏ grows or shrinks a step at (φ, x), of each sample: the spectral radius of its ∂f/∂φ, by
/// the power method. The mean over the second half of `products` steps, as complex eigenvalues turn u. Below
/// 1, φ ← f(φ, x) settles nearby; accelerated methods may settle beyond.
Tensor spectral_radii(const ImplicitLayerImpl::Map& map, const Tensor& phi, const Tensor& x,
                      long products = 40, std::uint64_t seed = 1);

class ImplicitLayer : public ::torch::nn::ModuleHolder<ImplicitLayerImpl> {
 public:
  using ::torch::nn::ModuleHolder<ImplicitLayerImpl>::ModuleHolder;

  static ImplicitLayer argmin(ImplicitLayerImpl::Energy energy,
                              std::vector<std::shared_ptr<::torch::nn::Module>> modules = {},
                              ImplicitLayerOptions options = {.inner = LbfgsOptions{},
                                                              .adjoint = ConjugateGradientOptions{}}) {
    return ImplicitLayer(
        ImplicitLayerImpl::argmin(std::move(energy), std::move(modules), std::move(options)));
  }
};

}  // namespace bilevel::torch
