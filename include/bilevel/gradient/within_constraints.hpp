#pragma once

#include <functional>
#include <memory>

#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/inner/on_face.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// The outer gradient of a problem whose φ is constrained, by an estimator that knows nothing of constraints:
/// it is given the problem on the face that its state lies on (OnFace). That is right where the constraints
/// that are active stay so as θ moves. Where a multiplier is nearly zero, a constraint is touched or nearly
/// touched without holding the state, or the states that the estimator compares lie on different faces, the
/// gradient is one-sided at best: the verdict is "doubtful" then, and the reason names the constraint.
/// Certificates are estimated, for the constraints that are active are found by comparing numbers. The
/// problem and the inner solver, which has to obey the constraints, must outlive it.
template <Vector V>
class WithinConstraints final : public Estimator<V> {
 public:
  using Make = std::function<std::unique_ptr<Estimator<V>>(Problem<V>&, InnerSolver<V>&)>;

  WithinConstraints(Problem<V>& problem, InnerSolver<V>& inner, const Make& make);

  std::string_view name() const override { return made_->name(); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override { made_->set_tolerances(inner, adjoint); }
  void set_outer_tolerance(double tolerance) override {
    outer_tolerance_ = tolerance;
    made_->set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return made_->initial_phi(); }
  V initial_theta() const override { return made_->initial_theta(); }

 private:
  /// Holds the face of every state that it settles in.
  class Following final : public InnerSolver<V> {
   public:
    Following(InnerSolver<V>& inner, OnFace<V>& face) : inner_(inner), face_(face) {}
    std::string_view name() const override { return inner_.name(); }
    Solution<V> solve(const V& theta, double beta, const V& start) override;
    void set_tolerance(double tolerance) override { inner_.set_tolerance(tolerance); }

    void begin() { first_.reset(), changed_.clear(), fault_.clear(); }
    const std::string& changed() const { return changed_; }
    const std::string& fault() const { return fault_; }

   private:
    InnerSolver<V>& inner_;
    OnFace<V>& face_;
    std::optional<std::vector<Index>> first_;
    std::string changed_, fault_;
  };

  OnFace<V> face_;
  Following following_;
  std::unique_ptr<Estimator<V>> made_;
  double outer_tolerance_ = 1e-6;
};

/// Throws InvalidInput for estimators that settle by themselves or leave the real numbers.
void require_obedient(const EstimatorChoice& choice);

extern template class WithinConstraints<Eigen::VectorXd>;
extern template class WithinConstraints<Eigen::VectorXf>;

}  // namespace bilevel
