#pragma once

#include <optional>

#include <bilevel/networks/batch_estimator.hpp>

namespace bilevel::networks {

/// Decides which gradients of a run are certified, and certifies them. A certificate costs hundreds of
/// gradients, so that only some get one: every so many, or as many as a tenth of the time pays for. Nothing
/// of the run depends on it: with and without it the weights are the same bits.
class CertificateSampler {
 public:
  /// `every`: as TrainOptions::certify_every. The others must outlive it.
  CertificateSampler(const BatchEstimator& estimator, long every, const StopToken& stop)
      : estimator_(estimator), every_(every), stop_(stop) {}

  struct Attempt {
    Certificate certificate;
    bool cut_short = false;  ///< it took longer than there was time for: no bound, and the reason says so
  };
  /// Certifies `e`, the estimate on the estimator's batch at `theta` before the step number `step`; nothing
  /// where it is not its turn, or the run is to end. `trained`: seconds of training.
  std::optional<Attempt> certify(const Eigen::VectorXf& theta, const Estimate<Eigen::VectorXf>& e, long step,
                                 double trained);
  double seconds() const { return spent_; }
  void set_seconds(double spent) { spent_ = spent; }

 private:
  /// Of the time of training.
  static constexpr double most_share = 0.1;
  /// Seconds that the first attempt gets, at least: less pays for no network.
  static constexpr double least_seconds = 0.02;

  const BatchEstimator& estimator_;
  const long every_;
  const StopToken& stop_;
  double spent_ = 0;
  double needed_ = least_seconds;  // what the next one is expected to take
};

}  // namespace bilevel::networks
