#include <bilevel/outer/checkpoint.hpp>
#include <bilevel/outer/impl/minimise.hpp>

namespace bilevel::detail {
namespace {

/// Writes every option of a method down, so that two runs of other options read differently. Fields are taken
/// apart by structured bindings where the language allows it: a new one does not compile until it is here.
class Written {
 public:
  template <class... Each>
  Written& add(const Each&... each) {
    (one(each), ...);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void one(Number x) { text_ += fmt::format("{} ", x); }
  template <class Enumerator>
  requires std::is_enum_v<Enumerator>
  void one(Enumerator x) { one(static_cast<int>(x)); }
  void one(const std::optional<double>& x) { one(x.value_or(unknown)); }
  template <class... Choices>
  void one(const std::variant<Choices...>& choice) {
    one(choice.index());
    std::visit([this](const auto& options) { one(options); }, choice);
  }

  void one(const GradientDescentOptions& o) { add(o.step); }
  void one(const BacktrackingDescentOptions& o) {
    const auto& [first_step, sufficient_decrease] = o;
    add(first_step, sufficient_decrease);
  }
  void one(const HeavyBallOptions& o) { add(o.step, o.momentum); }
  void one(const NesterovOptions& o) { add(o.step, o.momentum); }
  void one(const AdamOptions& o) {
    const auto& [step, first_decay, second_decay, floor] = o;
    add(step, first_decay, second_decay, floor);
  }
  void one(const LbfgsOptions& o) { add(o.memory); }
  void one(const NewtonOptions& o) {
    const auto& [max_assembled, keep_factor] = o;
    add(max_assembled, keep_factor);
  }
  void one(const TrustRegionOptions& o) {
    const auto& [first_radius, max_products] = o;
    add(first_radius, max_products);
  }
  void one(const FixedPointOptions& o) {
    const auto& [step, memory, growth, secants] = o;
    add(step, memory, growth);
    // Anderson's reads as it did when there was nothing else, so that runs kept then go on.
    if (secants != Secants::anderson) add(secants);
  }

  void one(const NewtonKrylovOptions& o) {
    const auto& [length, cycles, forcing] = o;
    add(length, cycles, forcing);
  }

  void one(const AdjointOptions& o) {
    const auto& [relative_tolerance, absolute_tolerance, max_iterations] = o;
    add(relative_tolerance, absolute_tolerance, max_iterations);
  }
  /// A solver's own options, after those that all share.
  template <class Own>
  requires std::derived_from<Own, AdjointOptions>
  void one(const Own& o) {
    one(static_cast<const AdjointOptions&>(o));
    own(o);
  }
  void own(const ConjugateGradientOptions& o) {
    const auto& [rank, damping, seed] = o.sketch;
    add(o.preconditioner, o.ritz_steps, rank, damping, seed, o.keep_sketch);
  }
  void own(const DirectOptions& o) { add(o.assembly_limit); }
  void own(const MinresOptions& o) { add(o.ritz_steps); }
  void own(const GmresOptions& o) { add(o.restart); }
  void own(const BicgstabOptions& o) { add(o.max_restarts, o.seed); }
  void own(const NeumannOptions& o) { add(o.step, o.terms, o.power_steps, o.seed); }
  void own(const StochasticOptions& o) { add(o.step, o.least_asked, o.power_steps, o.seed, o.first_look); }
  void own(const IdentityOptions& o) { add(o.step); }
  void own(const ZeroOptions&) {}

  void one(const CertificateOptions& o) {
    const auto& [enabled, dense_limit, factor_limit, secant_safety, seed, trust] = o;
    add(enabled, dense_limit, factor_limit, secant_safety, seed, trust);
  }
  void one(const ImplicitOptions& o) {
    const auto& [certificate, outer_tolerance, good_enough] = o;
    add(certificate, outer_tolerance, good_enough);
  }
  void one(const RunOptions& o) {
    const auto& [steps, max_steps, tolerance] = o;
    add(steps, max_steps, tolerance);
  }
  void one(const AutomaticOptions& o) {
    const auto& [common, adjoint, memory_limit, beta] = o;
    add(common, adjoint, memory_limit, beta);
  }
  void one(const ExactMethod& o) { add(o.common); }
  void one(const ImplicitMethod& o) {
    const auto& [adjoint, common] = o;
    add(adjoint, common);
  }
  void one(const EquilibriumPropagationOptions& o) {
    const auto& [nudge, points, beta, seed, patience, certificate, outer_tolerance, trust] = o;
    add(nudge, points, beta, seed, patience, certificate, outer_tolerance, trust);
  }
  void one(const HolomorphicOptions& o) {
    const auto& [points, beta, method, newton_limit, tolerance, max_iterations, step, adjoint_check,
                 certificate, outer_tolerance] = o;
    add(points, beta, method, newton_limit, tolerance, max_iterations, step, adjoint_check, certificate,
        outer_tolerance);
  }
  void one(const AgnosticOptions& o) {
    const auto& [beta, central, certificate, outer_tolerance] = o;
    add(beta, central, certificate, outer_tolerance);
  }
  void one(const UnrolledOptions& o) {
    const auto& [run, truncate, memory_budget, checkpointed, certificate, outer_tolerance, step] = o;
    add(run, truncate, memory_budget, checkpointed, certificate, outer_tolerance, step);
  }
  void one(const ForwardModeOptions& o) {
    const auto& [run, memory_limit, adjoint_tolerance, certificate, outer_tolerance, step] = o;
    add(run, memory_limit, adjoint_tolerance, certificate, outer_tolerance, step);
  }
  void one(const FiniteDifferenceOptions& o) {
    const auto& [order, step, probes, outer_tolerance, trust] = o;
    add(order, step, probes, outer_tolerance, trust);
  }
  void one(const RandomDifferenceOptions& o) {
    const auto& [pairs, sigma, seed, outer_tolerance, trust, directions] = o;
    add(pairs, sigma, seed, outer_tolerance, trust, directions);
  }

  void one(const DescentOptimizerOptions& o) { add(o.step); }
  void one(const AdamOptimizerOptions& o) {
    const auto& [step, beta1, beta2, epsilon] = o;
    add(step, beta1, beta2, epsilon);
  }
  void one(const LbfgsOptimizerOptions& o) {
    const auto& [memory, first_step] = o;
    add(memory, first_step);
  }

  std::string text_;
};

}  // namespace

std::string identity_of(const MinimiseChoices& choices) {
  return fmt::format("inner {}, options {:016x}", name(choices.inner),
                     checksum(Written().add(choices.inner, choices.estimator, choices.optimizer).text()));
}

}  // namespace bilevel::detail
