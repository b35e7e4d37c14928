#include "certificate_sampler.hpp"

#include <algorithm>

#include <bilevel/networks/train.hpp>

namespace bilevel::networks {

void CertifiedGradients::add(const Certificate& c, bool cut) {
  ++(cut                              ? cut_short
     : c.verdict == Verdict::trusted  ? trusted
     : c.verdict == Verdict::doubtful ? doubtful
                                      : untrusted);
  ++(c.kind == Kind::rigorous ? rigorous : c.kind == Kind::estimated ? estimated : none);
}

CertifiedGradients& CertifiedGradients::operator+=(const CertifiedGradients& other) {
  for_each_field([&](const char*, auto field) { this->*field += other.*field; });
  return *this;
}

std::optional<CertificateSampler::Attempt> CertificateSampler::certify(const Eigen::VectorXf& theta,
                                                                       const Estimate<Eigen::VectorXf>& e,
                                                                       long step, double trained) {
  if (every_ < 0 || (every_ > 0 && step % every_ != 0)) return {};
  const double affordable = most_share * trained - spent_;
  if (every_ == 0 && affordable < needed_) return {};
  // Who does not know how long it takes must be able to give up.
  const StopToken limit([this] { return stop_.wanted().has_value(); }, every_ > 0 ? 0 : affordable);
  const Stopwatch watch;
  Attempt attempt{estimator_.compare(theta, e, true, &limit).certificate};
  const double took = watch.seconds();
  spent_ += took;
  const bool cut = limit.wanted().has_value();
  // Half as much again as it took; four times as much where that was not enough: attempts in vain cost a
  // third.
  needed_ = cut ? std::max(4 * took, needed_) : 1.5 * took;
  if (stop_.wanted()) return {};
  // Batches that are hard to settle must not vanish: the others would look like all there were.
  if (cut) {
    attempt = {{}, true};
    attempt.certificate.reason =
        fmt::format("given up after {:.2g} s: a tenth of the time of training pays for no more", took);
  }
  return attempt;
}

}  // namespace bilevel::networks
