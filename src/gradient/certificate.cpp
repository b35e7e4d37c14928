#include <bilevel/gradient/certificate.hpp>

#include <algorithm>

namespace bilevel {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::estimated:
      return "estimated";
    case Kind::rigorous:
      return "rigorous";
  }
  return "none";
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::untrusted:
      return "untrusted";
    case Verdict::doubtful:
      return "doubtful";
    case Verdict::trusted:
      return "trusted";
  }
  return "untrusted";
}

void Certificate::judge(double gradient_norm, double outer_tolerance, bool settled) {
  if (kind == Kind::none || !std::isfinite(bound) || !std::isfinite(gradient_norm)) {
    verdict = Verdict::untrusted;
  } else if (bound <= std::max(trust * gradient_norm, outer_tolerance)) {
    verdict = settled && doubt.empty() ? Verdict::trusted : Verdict::doubtful;
  } else if (bound <= std::max(gradient_norm, outer_tolerance)) {
    verdict = Verdict::doubtful;
  } else {
    verdict = Verdict::untrusted;
  }
}

std::vector<bool> trusted_elements(const Certificate& certificate, const Eigen::VectorXd& gradient) {
  std::vector<bool> known(static_cast<std::size_t>(gradient.size()), false);
  if (certificate.verdict != Verdict::trusted) return known;
  for (Index j = 0; j < gradient.size(); ++j)
    known[static_cast<std::size_t>(j)] = certificate.bound <= certificate.trust * std::abs(gradient[j]);
  return known;
}

Violations CertificateOptions::validate() const {
  Violations v("certificate");
  v.at_least("dense_limit", dense_limit, 0);
  v.at_least("factor_limit", factor_limit, 0);
  v.require(secant_safety >= 1, "secant_safety", secant_safety, "must be at least 1");
  require_trust(v, trust);
  return v;
}

void require_trust(Violations& v, double trust) {
  v.require(trust > 0 && trust <= 1, "trust", trust, "must lie in (0, 1]");
}

}  // namespace bilevel
