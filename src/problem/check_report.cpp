#include <bilevel/problem/impl/check.hpp>
#include <bilevel/problem/check_report.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bilevel {

Violations CheckOptions::validate() const {
  Violations v("check");
  v.at_least("directions", directions, 1);
  v.not_negative("tolerance", tolerance);
  v.require(beta != 0 && std::isfinite(beta), "beta", beta, "must be finite and not zero");
  v.positive("radius", radius);
  v.at_least("points", points, 1);
  return v;
}

bool CheckReport::passed() const {
  return !findings.empty() && std::ranges::all_of(findings, &Finding::passed);
}

const Finding* CheckReport::find(std::string_view name) const {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  return found == findings.end() ? nullptr : &*found;
}

std::string CheckReport::table() const {
  std::string text =
      fmt::format("{:<18} {:<7} {:>9} {:>9} {:>9}\n", "check", "result", "error", "tolerance", "step");
  for (const Finding& f : findings) {
    const std::string step = std::isnan(f.step) ? "-" : fmt::format("{:.1e}", f.step);
    text += fmt::format("{:<18} {:<7} {:>9.1e} {:>9.1e} {:>9}  {}\n", f.name, f.passed ? "passed" : "FAILED",
                        f.error, f.tolerance, step, f.sentence);
  }
  if (!not_offered.empty())
    text += fmt::format("not offered by the problem: {}\n", fmt::join(not_offered, ", "));
  const auto failed = std::ranges::count(findings, false, &Finding::passed);
  text += failed == 0 ? fmt::format("all {} checks passed\n", findings.size())
                      : fmt::format("{} of {} checks failed\n", failed, findings.size());
  return text;
}

Tally::Tally(std::string_view name, double tolerance) {
  finding_.name = name;
  finding_.tolerance = tolerance;
}

void Tally::compare(double claimed, double measured, double size, double blur, double step,
                    std::string_view what) {
  const double difference = std::abs(claimed - measured);
  const double whole = size + blur / finding_.tolerance;
  // Both exactly zero is agreement; zero sizes and a difference are not.
  const double error = difference == 0 ? 0 : difference / whole;
  show(error, step,
       fmt::format("{}: claimed {:.9g}, measured {:.9g}, relative difference {:.2g}", what, claimed, measured,
                   error));
}

void Tally::order(double least, double most, double size, double blur, std::string_view what) {
  const double excess = least - most;
  const double whole = size + blur / finding_.tolerance;
  const double error = excess <= 0 ? 0 : excess / whole;
  const char* relation = error <= finding_.tolerance ? "is not above" : "is above";
  show(error, unknown, fmt::format("{}: {:.9g} {} {:.9g}", what, least, relation, most));
}

void Tally::pass(std::string sentence) {
  show(0, unknown, std::move(sentence));
}

void Tally::fail(std::string sentence) {
  show(std::numeric_limits<double>::quiet_NaN(), unknown, std::move(sentence));
}

void Tally::show(double error, double step, std::string sentence) {
  if (seen_ && (std::isnan(finding_.error) || error <= finding_.error)) return;
  seen_ = true;
  finding_.error = error;
  finding_.step = step;
  finding_.sentence = std::move(sentence);
}

Finding Tally::finding() const {
  Finding f = finding_;
  f.passed = seen_ && f.error <= f.tolerance;
  return f;
}

template CheckReport check_derivatives(Equilibrium<Eigen::VectorXd>&, const Eigen::VectorXd&, const Eigen::VectorXd&, const CheckOptions&);
template CheckReport check_derivatives(Equilibrium<Eigen::VectorXf>&, const Eigen::VectorXf&, const Eigen::VectorXf&, const CheckOptions&);

}  // namespace bilevel
