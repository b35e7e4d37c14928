#pragma once

#include <memory>
#include <string>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/networks/training_options.hpp>

namespace bilevel::networks {

/// A gradient beside the exact one of the same batch, which is found in double precision at a state that has
/// settled wholly.
struct ExactComparison {
  double cosine = unknown, relative_error = unknown;
  double norm = unknown;  ///< of the gradient that was compared
  std::string exact;      ///< how the exact one was found
  /// Of the gradient that was compared: its distance from the exact one and that one's own bound. The kind is
  /// that of the exact one's bound: estimated at best, as long as NetworkProblem does not prove its rounding
  /// errors; none where the exact gradient is not found, with the reason.
  Certificate certificate;
  Cost cost;  ///< of the exact gradient
};

/// The gradient of a network's mean cost on a batch, behind the interface of estimators and at the speed of
/// the kernels: networks::Propagation, networks::Backpropagation, or any estimator of the library on a
/// NetworkProblem of the batch. φ holds a sample's layers one after the other, sample by sample, and is empty
/// for backpropagation, whose state follows from θ; π is not known and zero. Costs count a step of a phase as
/// one gradient of it, and nudged phases as if they took all their steps.
class BatchEstimator : public Estimator<Eigen::VectorXf> {
 public:
  using Vector = Eigen::VectorXf;

  explicit BatchEstimator(TrainSettings settings);

  /// The samples to estimate on, one a column, n_0 × batch and n_K × batch. They are not copied and must
  /// outlive the estimates. `states` (Σn_k × batch; null: start at rest) is where the free phase starts from
  /// and where it ended; null where a warm start says it.
  void set_batch(const float* inputs, const float* targets, Index batch, float* states = nullptr);
  /// Whether estimates carry a certificate from now on. It costs a settled state and a linear solve in double
  /// precision, hundreds of times the gradient: see TrainOptions::certify_every.
  void set_certified(bool certified) { certified_ = certified; }

  std::string_view name() const override { return settings_.estimator; }
  /// A warm φ of another batch's size is no start for this one, and is left aside.
  Estimate<Vector> estimate(const Vector& theta, const Warm<Vector>& warm) override;
  void set_outer_tolerance(double tolerance) override { outer_tolerance_ = tolerance; }
  Vector initial_phi() const override;
  Vector initial_theta() const override;

  /// The same into `e`, whose storage is reused, without φ, π and certificate: a step of training.
  void estimate_into(const Vector& theta, Estimate<Vector>& e) { estimate_from(states_, theta, e); }
  /// Of the minimum that the states of the estimate (its φ, else those of the batch) lead to, or of the one
  /// that rest leads to where there are none. `certified`: with a bound of the exact gradient's own error,
  /// which takes longer. `stop` ends it early, with numbers that mean nothing.
  ExactComparison compare(const Vector& theta, const Estimate<Vector>& e, bool certified,
                          const StopToken* stop = nullptr) const;

  /// What the batch of the last estimate showed on the way.
  const BatchOutcome& outcome() const { return outcome_; }
  /// Why the last gradient is not finite, where more is known than that.
  virtual std::string complaint() const { return {}; }
  /// What a person should know about the gradients so far.
  virtual std::string warning() const { return {}; }
  /// Whatever is random in the next batch follows from this number and the seed alone.
  virtual void seek(std::uint64_t /*batches*/) {}

 protected:
  /// Fills `cost_` too, as far as it is known.
  virtual BatchOutcome gradient(const Vector& theta, const float* inputs, const float* targets, Index batch,
                                float* states, Vector& out) = 0;

  const TrainSettings settings_;
  Cost cost_;

 private:
  void estimate_from(float* states, const Vector& theta, Estimate<Vector>& e);

  const float *inputs_ = nullptr, *targets_ = nullptr;
  float* states_ = nullptr;
  Index batch_ = 0;
  bool certified_ = true;
  double outer_tolerance_ = 1e-6;
  BatchOutcome outcome_;
};

/// The estimator that the settings name.
std::unique_ptr<BatchEstimator> make_batch_estimator(const TrainSettings& settings);

}  // namespace bilevel::networks
