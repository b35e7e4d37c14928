#pragma once

#include <functional>
#include <span>
#include <vector>

#include <bilevel/adolc/recordable.hpp>

#include "tape.hpp"

namespace bilevel::adolc {

/// A loss of one row as a straight program, run over a table 16 rows side by side: a step is a loop over
/// them, which the compiler turns into wide instructions, where a tape would be read once for each row. What
/// depends on (φ, θ) alone is done once for all rows. f, its gradient and products are sums over the rows, in
/// their order.
class RowProgram {
 public:
  using Function = std::function<void(Span<RowNumber> variables, const RecordedRow& row, RowNumber& out)>;

  /// Throws RowNumber::Branches where f compares numbers, InvalidInput beyond `most_operations` for a block.
  void record(Index variables, Index width, double most_operations, const Function& f);
  bool recorded() const { return !steps_.empty(); }
  std::size_t operations() const { return steps_.size(); }
  std::size_t bytes() const;
  /// For each variable, whether f depends on it at all.
  std::vector<bool> dependence() const;

  // What follows adds to its results; `rows` are those of the width that was recorded.
  Match values(const Rows& rows, const double* x, double& y);
  Match gradient(const Rows& rows, const double* x, double& y, double* g);
  /// h += ∂²f·dx.
  Match second(const Rows& rows, const double* x, const double* dx, double* h);

 private:
  friend class RowNumber;
  friend class RecordedRow;
  static constexpr std::size_t lanes = 16;
  struct Step {
    RowOperation operation;
    int a = -1, b = -1;  // earlier steps; the index of a variable or of a cell
    double constant = 0;
    bool uniform = false;  // the same for every row
  };
  /// The program that is being recorded in this thread.
  static RowProgram& current();
  static RowProgram*& slot();

  int add(const Step& step);
  void begin(const double* x, const double* dx);
  double* value(int step) { return &values_[static_cast<std::size_t>(step) * lanes]; }
  double* tangent(int step) { return &tangents_[static_cast<std::size_t>(step) * lanes]; }
  double* adjoint(int step) { return &adjoints_[static_cast<std::size_t>(step) * lanes]; }
  double* adjoint_tangent(int step) { return &adjoint_tangents_[static_cast<std::size_t>(step) * lanes]; }
  /// `each` sees every block of rows, with its cells loaded: the number of its first row, and how many it
  /// has.
  template <class Each>
  void for_each_block(const Rows& rows, const Each& each);
  template <bool tangents>
  void forward(int step);
  template <bool tangents>
  void reverse(int step);
  template <bool tangents>
  Match sweep(const Rows& rows, double& y, bool back);
  /// Sums of the variables' adjoints, or of the tangents of these.
  void collect(const std::vector<double>& from, double* to) const;

  Index variables_ = 0;
  double most_steps_ = 0;
  std::vector<Step> steps_;
  std::vector<int> cells_, uniform_,
      of_rows_;  // the step of each cell, −1 for one that is not used; steps in order
  int out_ = -1;
  bool kink_ = false;
  std::vector<double> values_, tangents_, adjoints_, adjoint_tangents_;
};

}  // namespace bilevel::adolc
