#include <bilevel/adolc/row_number.hpp>

#include <fmt/format.h>

#include "row_program.hpp"

namespace bilevel::adolc {

RowProgram*& RowProgram::slot() {
  thread_local RowProgram* recording = nullptr;
  return recording;
}

RowProgram& RowProgram::current() {
  if (!slot()) throw InvalidInput("adolc: a number of a row is used while no loss of rows is being recorded");
  return *slot();
}

int RowProgram::add(const Step& step) {
  if (static_cast<double>(steps_.size()) >= most_steps_)
    throw InvalidInput(fmt::format(
        "adolc: a loss of one row takes more than {:.3g} operations (most_operations)", most_steps_ * lanes));
  steps_.push_back(step);
  return static_cast<int>(steps_.size()) - 1;
}

RowNumber::RowNumber(double constant)
    : step_(RowProgram::current().add(
          {.operation = RowOperation::constant, .constant = constant, .uniform = true})) {}

RowNumber RowNumber::of(RowOperation operation, const RowNumber& a, double constant) {
  RowProgram& p = RowProgram::current();
  const bool uniform = p.steps_[static_cast<std::size_t>(a.step_)].uniform;
  return RowNumber(p.add({.operation = operation, .a = a.step_, .constant = constant, .uniform = uniform}),
                   true);
}

RowNumber RowNumber::of(RowOperation operation, const RowNumber& a, const RowNumber& b) {
  RowProgram& p = RowProgram::current();
  const auto &first = p.steps_[static_cast<std::size_t>(a.step_)],
             &second = p.steps_[static_cast<std::size_t>(b.step_)];
  // Sums begin with T sum = 0.
  if (operation == RowOperation::add && first.operation == RowOperation::constant && first.constant == 0)
    return b;
  return RowNumber(
      p.add({.operation = operation, .a = a.step_, .b = b.step_, .uniform = first.uniform && second.uniform}),
      true);
}

RowNumber pow(const RowNumber& base, double exponent) {
  if (exponent == 0) return 1;
  if (exponent == 1) return base;
  if (exponent == 2) return base * base;
  return RowNumber::of(RowOperation::power, base, exponent);
}

RowNumber RecordedRow::operator[](std::size_t j) const {
  RowProgram& p = RowProgram::current();
  if (j >= p.cells_.size())
    throw InvalidInput(fmt::format("adolc: row[{}] of a row of {} numbers", j, p.cells_.size()));
  int& step = p.cells_[j];
  if (step < 0) step = p.add({.operation = RowOperation::cell, .a = static_cast<int>(j)});
  return RowNumber(step, true);
}

}  // namespace bilevel::adolc
