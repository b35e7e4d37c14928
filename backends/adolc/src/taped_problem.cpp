#include <bilevel/adolc/taped_problem.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "taped_losses.hpp"

namespace bilevel::adolc {
namespace {

using Vec = Eigen::VectorXd;

/// Beyond this a Hessian that turns out to be dense would not fit into memory while its pattern is looked
/// for.
constexpr Index most_looked_at = 5000;

/// The entries of either.
Pattern joined_patterns(Pattern a, const Pattern& b) {
  if (a.empty() || b.empty()) return {};  // one of them is dense
  for (std::size_t j = 0; j < a.size(); ++j) {
    std::vector<unsigned> both;
    std::set_union(a[j].begin(), a[j].end(), b[j].begin(), b[j].end(), std::back_inserter(both));
    a[j] = std::move(both);
  }
  return a;
}

const TapedOptions& checked(const TapedOptions& options) {
  options.validate().throw_if_any();
  return options;
}

}  // namespace

Violations TapedOptions::validate() const {
  Violations v("differentiate");
  v.at_least("phi", phi.at().size(), 1);
  v.at_least("theta", theta.at().size(), 1);
  v.require(most_operations >= 1 && most_operations <= 1e9, "most_operations", most_operations,
            "must be between 1 and 1e9");
  v.require(sparse_share >= 0 && sparse_share <= 1, "sparse_share", sparse_share, "must be between 0 and 1");
  return v;
}

TapedLosses::TapedLosses(Recordable in, Recordable out, const TapedOptions& given, Statements said)
    : first(std::move(in)),
      second(std::move(out)),
      options(checked(given)),
      statements(std::move(said)),
      residual(first.is_residual),
      phis(options.phi.at().size()),
      thetas(options.theta.at().size()),
      inner(first, residual ? "residual" : "inner", phis, thetas, options),
      outer(second, "outer", phis, thetas, options),
      x_(phis + thetas),
      gradient_(phis + thetas) {}

const double* TapedLosses::joined(const Vec& phi, const Vec& theta) {
  if (phi.size() != phis || theta.size() != thetas)
    throw InvalidInput(
        fmt::format("differentiate: phi and theta have {} and {} elements, the problem has {} and {}",
                    phi.size(), theta.size(), phis, thetas));
  x_.head(phis) = phi;
  x_.tail(thetas) = theta;
  return x_.data();
}

double TapedLosses::loss(TapedFunction& f, const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  const double* x = joined(phi, theta);
  if (!wanted.phi && !wanted.theta) return f.value(x);
  constexpr double one = 1;
  const double value = f.gradient(x, &one, gradient_);
  if (wanted.phi) *wanted.phi = gradient_.head(phis);
  if (wanted.theta) *wanted.theta = gradient_.tail(thetas);
  return value;
}

TapeReport TapedLosses::report() const {
  TapeReport all;
  inner.add_to(all);
  outer.add_to(all);
  return all;
}

std::string TapedLosses::kink(const Vec& phi, const Vec& theta) {
  const double* x = joined(phi, theta);
  for (TapedFunction* each : {&inner, &outer})
    if (each->bends(x))
      return fmt::format("{} has a kink: a comparison ties, or |·|, min or max stands where it bends",
                         each->name());
  return {};
}

Coloring TapedLosses::find_coloring(const double* x, bool with_outer_too) {
  if (residual || (phis > most_looked_at && !options.sparse)) return {};
  Pattern pattern = inner.pattern(x);
  if (with_outer_too && !pattern.empty()) pattern = joined_patterns(std::move(pattern), outer.pattern(x));
  if (pattern.empty()) return {};
  Coloring found = Coloring::of(std::move(pattern));
  return found.colors <= options.sparse_share * static_cast<double>(phis) ? std::move(found) : Coloring();
}

const Coloring* TapedLosses::coloring(const double* x, bool with_outer_too) {
  // What was recorded anew has other branches, and may have other entries.
  const auto recordings = [&] { return inner.recordings() + (with_outer_too ? outer.recordings() : 0); };
  Found& found = with_outer_too ? with_outer_ : alone_;
  if (found.recordings != recordings() || recordings() == 0) {
    inner.fit(x);
    if (with_outer_too) outer.fit(x);
    found.coloring = find_coloring(x, with_outer_too);
    found.recordings = recordings();
  }
  return found.coloring.empty() ? nullptr : &found.coloring;
}

bool TapedLosses::sparse_at_start() {
  // Where there are few elements, nobody asks.
  if (!sparse_)
    sparse_ = phis >= smallest_sparse && coloring(joined(options.phi.at(), options.theta.at()), false);
  return *sparse_;
}

template <class Base>
TapedOf<Base>::TapedOf(Recordable inner, Recordable outer, const TapedOptions& options, Statements statements)
    : losses_(std::make_shared<TapedLosses>(std::move(inner), std::move(outer), options,
                                            std::move(statements))) {}
template <class Base>
TapedOf<Base>::TapedOf(const TapedOf& other) : Base(other) {
  *this = other;
}
template <class Base>
TapedOf<Base>& TapedOf<Base>::operator=(const TapedOf& other) {
  Base::operator=(other);
  // A copy of what was moved from is moved from.
  losses_ = other.losses_ ? std::make_shared<TapedLosses>(*other.losses_) : nullptr;
  return *this;
}
template <class Base>
TapedOf<Base>::TapedOf(TapedOf&&) noexcept = default;
template <class Base>
TapedOf<Base>& TapedOf<Base>::operator=(TapedOf&&) noexcept = default;
template <class Base>
TapedOf<Base>::~TapedOf() = default;

template <class Base>
Vec TapedOf<Base>::initial_phi() const {
  return losses_->options.phi.at();
}
template <class Base>
Vec TapedOf<Base>::initial_theta() const {
  return losses_->options.theta.at();
}
template <class Base>
double TapedOf<Base>::outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  return losses_->loss(losses_->outer, phi, theta, wanted);
}
template <class Base>
void TapedOf<Base>::linearise(const Vec& phi, const Vec& theta, double beta,
                              std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<TapedCurvature>();
  static_cast<TapedCurvature&>(*reuse).move_to(losses_, phi, theta, beta);
}
template <class Base>
Constants TapedOf<Base>::constants(const Vec& theta, const Vec& center, double radius) {
  const auto& said = losses_->statements.constants;
  return said ? said(theta, center, radius) : Constants{};
}
template <class Base>
Rounding TapedOf<Base>::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  const auto& said = losses_->statements.rounding;
  return said ? said(phi, theta, pi) : Rounding{};
}
template <class Base>
std::string TapedOf<Base>::kink(const Vec& phi, const Vec& theta) {
  return losses_->kink(phi, theta);
}
template <class Base>
PhiConstraints TapedOf<Base>::phi_constraints() const {
  const auto& said = losses_->statements.phi_constraints;
  return said ? said() : PhiConstraints{};
}
template <class Base>
TapeReport TapedOf<Base>::tapes() const {
  return losses_->report();
}

template class TapedOf<Problem<Vec>>;
template class TapedOf<Equilibrium<Vec>>;

TapedProblem::TapedProblem(Recordable inner, Recordable outer, const TapedOptions& options,
                           Statements statements)
    : TapedOf(std::move(inner), std::move(outer), options, std::move(statements)) {}
Capabilities TapedProblem::capabilities() const {
  return {.curvature = true, .sparse = losses_->sparse_at_start()};
}
double TapedProblem::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  return losses_->loss(losses_->inner, phi, theta, wanted);
}

TapedEquilibrium::TapedEquilibrium(Recordable residual, Recordable outer, const TapedOptions& options,
                                   Statements statements)
    : TapedOf((residual.is_residual = true, std::move(residual)), std::move(outer), options,
              std::move(statements)) {}
void TapedEquilibrium::residual(const Vec& phi, const Vec& theta, Vec& out) {
  losses_->inner.values(losses_->joined(phi, theta), out.data());
}

}  // namespace bilevel::adolc
