#pragma once

#include <optional>
#include <vector>

#include <Eigen/Cholesky>

#include <bilevel/inner/minimiser.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// How the latest differences ΔΦ of φ and ΔF of F are weighed before they leave φ, F and themselves behind.
enum class Secants {
  anderson,  ///< type II: γ = argmin ‖F − ΔF γ‖, so that the predicted residual is least
  broyden,  ///< type I: ΔΦᵀ(F − ΔF γ) = 0, a step of Broyden's good update that meets all secants at once
};

struct FixedPointOptions {
  /// α in φ ← φ − αF(φ); ≥ 0. 0, the default, is 1/L where the problem's constants give an L that holds
  /// everywhere, else 1, which for a residual φ − f(φ) is the iteration φ ← f(φ).
  double step = 0;
  /// Differences that are combined; 0 (plain iteration) to 32. Five capture most of what Anderson's
  /// acceleration gains by any number (Walker and Ni 2011) and cost ten vectors.
  long memory = 5;
  /// An accelerated iterate whose ‖F‖ exceeds growth times the least so far is thrown away; ≥ 1. Some
  /// growth is normal, since acceleration is not monotone.
  double growth = 2;
  Secants secants = Secants::anderson;

  static constexpr long most_memory = 32;

  Violations validate() const {
    Violations v("fixed-point");
    v.not_negative("step", step);
    v.require(memory >= 0 && memory <= most_memory, "memory", memory, "must lie in [0, 32]");
    v.require(growth >= 1 && std::isfinite(growth), "growth", growth, "must be at least 1 and finite");
    return v;
  }
  /// The name of the solver that is made of it.
  std::string_view name() const {
    if (memory == 0) return "fixed-point";
    return secants == Secants::broyden ? "broyden" : "anderson";
  }
  /// Broyden's method with what suits it, which is what the name "broyden" stands for. Ten differences more
  /// than ten halved its iterations at condition numbers of 100 and beyond, another twelve saved a fifth. And
  /// its residual rises before it falls: with a growth of 2, restarts that threw away what it had learned
  /// made 28 iterations 197 at a condition number of 10⁴, and 773 more than 5000 where the Jacobian mostly
  /// turns.
  static FixedPointOptions broyden() { return {.memory = 20, .growth = 20, .secants = Secants::broyden}; }
};

/// Settles F(φ) = residual + β·∂φ L_out to zero by φ ← φ − αF(φ), accelerated by the latest differences ΔΦ of
/// φ and ΔF of F:
///   φ ← φ − αF − (ΔΦ − αΔF) γ,   γ = argmin ‖F − ΔF γ‖ (anderson) or ΔΦᵀ(F − ΔF γ) = 0 (broyden).
/// These are the multisecant updates of types II and I of the Jacobian I/α (Fang and Saad 2009, Walker and Ni
/// 2011). For any equilibrium: F need be no gradient and its Jacobian not symmetric. The safeguard restarts
/// from the best iterate when ‖F‖ grows, and halves α when a restart did not help. MinimiserOptions'
/// relative_decrease is not used, for there is no value.
template <Vector V>
class FixedPoint final : public InnerSolver<V> {
 public:
  /// The problem must outlive the solver.
  explicit FixedPoint(Equilibrium<V>& problem, MinimiserOptions options = {}, FixedPointOptions method = {});

  std::string_view name() const override { return method_.name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override;
  void set_tolerance(double tolerance) override;

 private:
  using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, FixedPointOptions::most_memory,
                              FixedPointOptions::most_memory>;
  using SmallVector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, FixedPointOptions::most_memory, 1>;

  Stop run(const V& theta, double beta);
  std::optional<Stop> evaluate(const V& theta, double beta);
  std::optional<Stop> test();
  std::optional<Stop> guard();
  void advance();
  void record_difference();
  bool measure_anderson(long slot);
  void measure_broyden(long slot);
  void weigh_anderson();
  bool weigh_broyden();
  void subtract_combination();
  long slot_of(long age) const { return (next_slot_ - 1 - age + 2 * method_.memory) % method_.memory; }
  std::string progress() const;

  Equilibrium<V>& problem_;
  CountedEquilibrium<V> counted_;
  MinimiserOptions options_;
  FixedPointOptions method_;

  V phi_, residual_, next_, best_phi_, best_residual_;
  std::optional<V> outer_gradient_;
  std::vector<V> phi_differences_, residual_differences_;  // rings
  Small gram_;                                             // by slot: ΔFᵀΔF; broyden: ΔΦᵀΔF
  SmallVector lengths_, along_;                            // by slot, broyden: ‖Δφ‖ and ΔΦᵀF
  SmallVector scales_, gamma_;
  Small system_;
  Eigen::LDLT<Small> factor_;

  double step_ = 1, residual_norm_ = unknown, previous_norm_ = unknown, best_norm_ = unknown, reach_ = 0;
  long iteration_ = 0, held_ = 0, next_slot_ = 0;
  long idle_ = 0;       // iterations without a new least ‖F‖ (plain: without any change)
  long fruitless_ = 0;  // restarts since the last new least ‖F‖, those for idleness weighted
  long restarts_ = 0, halvings_ = 0;
  bool pending_ = false, accelerated_ = false;
  Stopwatch watch_;
};

extern template class FixedPoint<Eigen::VectorXd>;
extern template class FixedPoint<Eigen::VectorXf>;

}  // namespace bilevel
