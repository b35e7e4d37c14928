#include "certifier.hpp"

#include <algorithm>

#include <bilevel/networks/train.hpp>

namespace bilevel::networks {

void CertifiedGradients::add(const Certificate& c) {
  ++(c.verdict == Verdict::trusted ? trusted : c.verdict == Verdict::doubtful ? doubtful : untrusted);
  ++(c.kind == Kind::rigorous ? rigorous : c.kind == Kind::estimated ? estimated : none);
}

CertifiedGradients& CertifiedGradients::operator+=(const CertifiedGradients& other) {
  trusted += other.trusted;
  doubtful += other.doubtful;
  untrusted += other.untrusted;
  rigorous += other.rigorous;
  estimated += other.estimated;
  none += other.none;
  seconds += other.seconds;
  return *this;
}

std::optional<Certificate> Certifier::certify(const Eigen::VectorXf& theta,
                                              const Estimate<Eigen::VectorXf>& e, long step, double trained) {
  if (every_ < 0 || (every_ > 0 && step % every_ != 0)) return {};
  const double affordable = most_share * trained - spent_;
  if (every_ == 0 && affordable < needed_) return {};
  // Who does not know how long it takes must be able to give up.
  const StopToken limit([this] { return stop_.wanted().has_value(); }, every_ > 0 ? 0 : affordable);
  const Stopwatch watch;
  const Certificate certificate = estimator_.compare(theta, e, true, &limit).certificate;
  const double took = watch.seconds();
  spent_ += took;
  const bool cut = limit.wanted().has_value();
  // Half as much again as it took; four times as much where that was not enough: attempts in vain cost a
  // third.
  needed_ = cut ? std::max(4 * took, needed_) : 1.5 * took;
  if (cut) return {};
  return certificate;
}

}  // namespace bilevel::networks
