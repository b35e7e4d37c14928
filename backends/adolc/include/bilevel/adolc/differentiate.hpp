#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <bilevel/adolc/taped_problem.hpp>

namespace bilevel {
namespace adolc {

// What a struct of templates offers. Each member is asked for in both arithmetics.
template <class L, class T>
concept WritesInner = requires(const L& l, const Span<T>& x, T& out) {
  out = l.inner(x, x);
};
template <class L, class T>
concept WritesOuter = requires(const L& l, const Span<T>& x, T& out) {
  out = l.outer(x, x);
};
template <class L, class T>
concept WritesResidual = requires(const L& l, const Span<T>& x, std::span<T> out) {
  l.residual(x, x, out);
};
template <class L, class T, class Row>
concept WritesInnerRows = requires(const L& l, const Span<T>& x, const Row& row, T& out) {
  { l.inner_rows() } -> std::convertible_to<Rows>;
  out = l.inner_row(x, x, row);
};
template <class L, class T, class Row>
concept WritesOuterRows = requires(const L& l, const Span<T>& x, const Row& row, T& out) {
  { l.outer_rows() } -> std::convertible_to<Rows>;
  out = l.outer_row(x, x, row);
};

template <class L>
concept StatesPhiConstraints = requires(const L& l) {
  { l.phi_constraints() } -> std::convertible_to<PhiConstraints>;
};

template <class L>
concept CallsInner = requires(const L& l, const Span<double>& x) {
  l.inner(x, x);
};
template <class L>
concept CallsOuter = requires(const L& l, const Span<double>& x) {
  l.outer(x, x);
};

// A member that exists and cannot be called with recorded numbers would else be taken for none.
template <class L>
concept NamesInnerRows = requires {
  &L::inner_rows;
};
template <class L>
concept NamesOuterRows = requires {
  &L::outer_rows;
};
template <class L>
concept NamesConstants = requires {
  &L::constants;
};
template <class L>
concept NamesRounding = requires {
  &L::rounding;
};
template <class L>
concept NamesPhiConstraints = requires {
  &L::phi_constraints;
};

/// `whole`, `rows` and `of_row` call the members of that name, of the inner or of the outer loss.
template <bool has_whole, bool has_rows, class L, class Whole, class RowsOf, class OfRow>
Recordable recordable(std::shared_ptr<const L> l, Whole whole, RowsOf rows, OfRow of_row) {
  Recordable r;
  if constexpr (has_whole) {
    r.value = [l, whole](auto phi, auto theta, auto out) { out[0] = whole(*l, phi, theta); };
    r.record = [l, whole](auto phi, auto theta, auto out) { out[0] = whole(*l, phi, theta); };
  }
  if constexpr (has_rows) {
    r.rows = [l, rows] { return Rows(rows(*l)); };
    r.row_value = [l, of_row](auto phi, auto theta, auto row) -> double {
      return of_row(*l, phi, theta, row);
    };
    r.record_row = [l, of_row](auto phi, auto theta, const RecordedRow& row, RowNumber& out) {
      out = of_row(*l, phi, theta, row);
    };
    r.record_fixed_row = [l, of_row](auto phi, auto theta, auto row, adouble& out) {
      out = of_row(*l, phi, theta, row);
    };
  }
  return r;
}

template <class L>
Recordable recordable_inner(const std::shared_ptr<const L>& l) {
  constexpr bool whole = WritesInner<L, double>, rows = NamesInnerRows<L>;
  static_assert(whole || !CallsInner<L>, "bilevel: inner returns no number; a loss is one number, of type T");
  static_assert(!whole || WritesInner<L, adouble>,
                "bilevel: inner takes double and nothing else; write it as template <class T> T inner(const "
                "Span<T>& phi, const Span<T>& theta) const");
  static_assert(
      !rows || (WritesInnerRows<L, double, Span<double>> && WritesInnerRows<L, RowNumber, RecordedRow> &&
                WritesInnerRows<L, adouble, Span<double>>),
      "bilevel: inner_rows() wants template <class T, class Row> T inner_row(const Span<T>& phi, "
      "const Span<T>& theta, const Row& row) const beside it, whose row has nothing but [j]");
  return recordable<whole, rows>(
      l, [](const auto& o, auto phi, auto theta) { return o.inner(phi, theta); },
      [](const auto& o) { return o.inner_rows(); },
      [](const auto& o, auto phi, auto theta, const auto& row) { return o.inner_row(phi, theta, row); });
}

template <class L>
Recordable recordable_outer(const std::shared_ptr<const L>& l) {
  constexpr bool whole = WritesOuter<L, double>, rows = NamesOuterRows<L>;
  static_assert(whole || !CallsOuter<L>, "bilevel: outer returns no number; a loss is one number, of type T");
  static_assert(!whole || WritesOuter<L, adouble>,
                "bilevel: outer takes double and nothing else; write it as template <class T> T outer(const "
                "Span<T>& phi, const Span<T>& theta) const");
  static_assert(
      !rows || (WritesOuterRows<L, double, Span<double>> && WritesOuterRows<L, RowNumber, RecordedRow> &&
                WritesOuterRows<L, adouble, Span<double>>),
      "bilevel: outer_rows() wants template <class T, class Row> T outer_row(const Span<T>& phi, "
      "const Span<T>& theta, const Row& row) const beside it, whose row has nothing but [j]");
  return recordable<whole, rows>(
      l, [](const auto& o, auto phi, auto theta) { return o.outer(phi, theta); },
      [](const auto& o) { return o.outer_rows(); },
      [](const auto& o, auto phi, auto theta, const auto& row) { return o.outer_row(phi, theta, row); });
}

template <class L>
Recordable recordable_residual(std::shared_ptr<const L> l, Index phis) {
  static_assert(WritesResidual<L, adouble>,
                "bilevel: residual takes double and nothing else; write it as template <class T> void "
                "residual(const Span<T>& phi, const Span<T>& theta, std::span<T> out) const");
  Recordable r;
  r.outputs = phis;
  r.value = [l](auto phi, auto theta, auto out) { l->residual(phi, theta, out); };
  r.record = [l](auto phi, auto theta, auto out) { l->residual(phi, theta, out); };
  return r;
}

template <class L>
Statements statements_of(std::shared_ptr<const L> l) {
  Statements s;
  if constexpr (NamesConstants<L>)
    s.constants = [l](const auto& theta, const auto& center, double radius) -> Constants {
      return l->constants(theta, center, radius);
    };
  if constexpr (NamesRounding<L>)
    s.rounding = [l](const auto& phi, const auto& theta, const auto& pi) -> Rounding {
      return l->rounding(phi, theta, pi);
    };
  static_assert(StatesPhiConstraints<L> || !NamesPhiConstraints<L>,
                "bilevel: phi_constraints cannot be called as PhiConstraints () const");
  if constexpr (StatesPhiConstraints<L>)
    s.phi_constraints = [l]() -> PhiConstraints { return l->phi_constraints(); };
  return s;
}

}  // namespace adolc

/// Makes a problem of two losses that are written as functions and nothing else:
///
///   template <class T> T inner(const Span<T>& phi, const Span<T>& theta) const
///   template <class T> T outer(const Span<T>& phi, const Span<T>& theta) const
///
/// Where a loss is a sum over the rows of a table, beside or in place of these, recorded once for all rows:
///
///   Rows inner_rows() const
///   template <class T, class Row> T inner_row(const Span<T>& phi, const Span<T>& theta, const Row& row)
///   const
///
/// and outer_rows, outer_row likewise. In place of inner, for an equilibrium that minimises nothing,
///
///   template <class T> void residual(const Span<T>& phi, const Span<T>& theta, std::span<T> out) const
///
/// Sizes or starts of φ and θ are initial_phi() and initial_theta() of the struct, or else in the options.
/// `constants(theta, center, radius)` and `rounding(phi, theta, pi)`, where the struct has them, are what
/// certificates call proven (see Oracles), and `PhiConstraints phi_constraints() const` what φ must satisfy.
/// Write exp(x), not std::exp(x), after `using std::exp;`: then the
/// recording one is found. Derivatives are those of ADOL-C.
template <class Losses>
auto differentiate(Losses losses, adolc::TapedOptions options = {}) {
  constexpr bool residual = adolc::WritesResidual<Losses, double>;
  static_assert(
      residual || adolc::CallsInner<Losses> || adolc::NamesInnerRows<Losses>,
      "bilevel: needs template <class T> T inner(const Span<T>& phi, const Span<T>& theta) const, or "
      "inner_rows and inner_row, or residual");
  static_assert(
      adolc::CallsOuter<Losses> || adolc::NamesOuterRows<Losses>,
      "bilevel: needs template <class T> T outer(const Span<T>& phi, const Span<T>& theta) const, or "
      "outer_rows and outer_row");
  if constexpr (requires { Eigen::VectorXd(losses.initial_phi()); })
    options.phi = Eigen::VectorXd(losses.initial_phi());
  if constexpr (requires { Eigen::VectorXd(losses.initial_theta()); })
    options.theta = Eigen::VectorXd(losses.initial_theta());
  const auto shared = std::make_shared<const Losses>(std::move(losses));
  if constexpr (residual) {
    return adolc::TapedEquilibrium(adolc::recordable_residual(shared, options.phi.at().size()),
                                   adolc::recordable_outer(shared), options, adolc::statements_of(shared));
  } else {
    return adolc::TapedProblem(adolc::recordable_inner(shared), adolc::recordable_outer(shared), options,
                               adolc::statements_of(shared));
  }
}

}  // namespace bilevel
