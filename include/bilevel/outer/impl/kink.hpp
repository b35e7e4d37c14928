#pragma once

#include <string>
#include <vector>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outer/optimizer.hpp>

namespace bilevel {

/// The point of the convex hull of `gradients` that a box lets move θ least: the smallest ‖P(Σ λ_k g_k)‖ over
/// λ ≥ 0 with Σ λ_k = 1, where P drops what pushes θ outwards through a bound that it sits on.
struct HullPoint {
  Eigen::VectorXd direction;  ///< P(Σ λ_k g_k)
  Eigen::VectorXd weights;    ///< λ
};
HullPoint least_in_hull(const std::vector<Eigen::VectorXd>& gradients, const Box& box,
                        const Eigen::VectorXd& theta);

/// What to do where no step along the gradient lowers the loss and yet the gradient is not zero: there may be
/// a kink, where the loss is continuous and its gradient jumps (a lasso's support changes, a margin meets a
/// hinge). Gradients from points nearby are gathered until either a combination of them shows a way down, or
/// one of them is as good as zero: then θ is stationary in Goldstein's sense, within the radius at which
/// they were taken. Asked for one point at a time, like an optimiser.
class KinkSearch {
 public:
  enum class Finding {
    searching,   ///< evaluate the point asked for
    stationary,  ///< zero lies in the hull of the gradients around, within the tolerance
    nothing,     ///< neither a way down nor a proof that there is none
    released,    ///< the gradient alone led downwards: the optimiser can go on from there
  };
  /// A gradient and what is known about its error; one that is not trusted is not believed.
  struct Nearby {
    Eigen::VectorXd theta, gradient;
    Certificate certificate;
  };

  /// What a first step must lower the loss by, for each unit of the gradient's norm.
  static constexpr double first_gain = 1e-3;

  KinkSearch(const Box& box, double tolerance) : box_(box), tolerance_(tolerance) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  bool active() const { return base_.size() > 0; }
  /// Starts around a point and says where to evaluate first.
  Eigen::VectorXd begin(Nearby point, double value);
  /// Told what was found at the point asked for, says in `theta` where to evaluate next.
  Finding advance(Nearby point, double value, Eigen::VectorXd& theta);
  /// Whether that point lowered the loss: it is the base now.
  bool moved() const { return moved_; }
  void end() { base_.resize(0); }

  /// The least combination that was found, and how far from the base its gradients were taken.
  struct Least {
    double norm = unknown, radius = unknown;
    std::size_t gradients = 0;
    Certificate certificate;  ///< the worst of its parts
  };
  const Least& least() const { return least_; }

  OptimizerState save() const;
  void load(const OptimizerState& state);

 private:
  double norm() const { return hull_.direction.norm(); }
  Finding aim(Eigen::VectorXd& theta);
  Finding give_up();
  bool narrow();
  void note_least();
  void look(Eigen::VectorXd& theta);
  void step_to(Eigen::VectorXd& theta, long turn) const;
  void forget_far();
  void find_least();

  Box box_;
  double tolerance_;
  Eigen::VectorXd base_;
  double value_ = 0, radius_ = 0;
  std::vector<Nearby> nearby_;  ///< within the radius of the base
  HullPoint hull_;
  Eigen::VectorXd looked_;  ///< the direction of the last look
  /// The trial is base − t·direction, t within (low, high].
  double low_ = 0, high_ = 0, trial_ = 0, value_low_ = 0;
  long misses_ = 0, doubts_ = 0, looks_ = 0;
  bool moved_ = false;
  Least least_;
};

}  // namespace bilevel
