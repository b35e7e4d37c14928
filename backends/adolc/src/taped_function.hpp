#pragma once

#include <functional>
#include <string>
#include <vector>

#include <bilevel/adolc/recordable.hpp>

#include "coloring.hpp"
#include "row_program.hpp"
#include "tape.hpp"

namespace bilevel::adolc {

/// One loss, or one residual, and its tapes: what does not run over rows on a tape, a row as a program.
/// x = (φ, θ) in one piece throughout. Tapes are made when derivatives are first asked for, and again where
/// the function has become another one: a comparison falls the other way, or the replayed value is not what
/// the plain function says.
class TapedFunction {
 public:
  /// `name` is how messages call it.
  TapedFunction(Recordable function, std::string name, Index phis, Index thetas, const TapedOptions& options);

  /// f(x), by the plain function.
  void values(const double* x, double* y) const;
  double value(const double* x) const;

  /// Sees to it that the tapes are f around x. What follows is for this x, or for others that may be refused.
  Match fit(const double* x);
  /// Whether x is a kink.
  bool bends(const double* x);
  /// uᵀf(x) and g = ∂(uᵀf), whose φ and θ parts are in one piece; u has one element an output. Fits first.
  double gradient(const double* x, const double* u, Eigen::VectorXd& g);
  /// h = ∂²f·dx, of a function with one output.
  void second(const double* x, const double* dx, Eigen::VectorXd& h);
  /// dy = J·dx.
  void directional(const double* x, const double* dx, double* dy);

  /// The φ block of the Hessian's pattern, a list for each column; empty where rows make it dense.
  Pattern pattern(const double* x);

  void add_to(TapeReport& report) const;
  const std::string& name() const { return name_; }
  long recordings() const { return recordings_; }

 private:
  using Replay = std::function<Match()>;

  /// Whether the rows are a program; else, where there are any, they are on tape_ with their numbers.
  bool by_program() const { return function_.rows && !rows_fixed_; }
  /// Replays all at x, f(x) into replayed_; records, or records anew, where that is not what it should be.
  Match replay(const double* x, const Replay& all);
  void record(const double* x);
  void record_row();
  void require_sense(const double* x);
  void require_same_rows() const;
  void require_no_state(const double* x, Match match) const;

  std::span<const double> variables(const double* x) const {
    return {x, static_cast<std::size_t>(phis_ + thetas_)};
  }
  Span<double> phi(const double* x) const { return {x, static_cast<std::size_t>(phis_)}; }
  Span<double> theta(const double* x) const { return {x + phis_, static_cast<std::size_t>(thetas_)}; }

  Recordable function_;
  std::string name_;
  Index phis_, thetas_;
  TapedOptions options_;
  Tape tape_;
  RowProgram program_;
  Rows rows_;
  bool rows_fixed_ = false;
  bool sensible_ = false;
  double blur_ = 0;  // by which replayed and plain values differed where nothing was wrong
  std::vector<double> plain_, replayed_;
  long recordings_ = 0, rerecorded_ = 0, kinks_ = 0;
};

}  // namespace bilevel::adolc
