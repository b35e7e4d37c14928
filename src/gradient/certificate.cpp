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
  } else if (bound <= std::max(0.1 * gradient_norm, outer_tolerance)) {
    verdict = settled && doubt.empty() ? Verdict::trusted : Verdict::doubtful;
  } else if (bound <= std::max(gradient_norm, outer_tolerance)) {
    verdict = Verdict::doubtful;
  } else {
    verdict = Verdict::untrusted;
  }
}

Violations CertificateOptions::validate() const {
  Violations v("certificate");
  v.at_least("dense_limit", dense_limit, 0);
  v.at_least("factor_limit", factor_limit, 0);
  v.require(secant_safety >= 1, "secant_safety", secant_safety, "must be at least 1");
  return v;
}

}  // namespace bilevel
