#include <bilevel/outcome/status.hpp>

#include <array>
#include <cstddef>

namespace bilevel {
namespace {

struct Row {
  Status status;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array table{
    Row{Status::not_run, "not-run", "the stage has not run"},
    Row{Status::converged, "converged", "the requested tolerance was reached"},
    Row{Status::relative_decrease, "relative-decrease",
        "the loss stopped decreasing before the gradient was small"},
    Row{Status::iteration_limit, "iteration-limit", "the iteration limit was reached first"},
    Row{Status::time_limit, "time-limit", "the time limit was reached first"},
    Row{Status::stalled, "stalled", "no further progress is possible in this arithmetic"},
    Row{Status::diverged, "diverged", "the iterates grew without bound"},
    Row{Status::not_finite, "not-finite", "an oracle returned NaN or infinity"},
    Row{Status::negative_curvature, "negative-curvature", "the Hessian is not positive definite"},
    Row{Status::singular, "singular", "the Hessian or Jacobian is singular to working precision"},
    Row{Status::breakdown, "breakdown", "the recurrence divided by zero"},
    Row{Status::approximate, "approximate", "the system was deliberately not solved"},
    Row{Status::interrupted, "interrupted", "the run was interrupted and can be resumed"},
};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].status) != i) return false;
  return table.size() == static_cast<std::size_t>(Status::interrupted) + 1;
}
static_assert(in_enum_order());

}  // namespace

std::string_view name(Status status) {
  return table[static_cast<std::size_t>(status)].name;
}
std::string_view sentence(Status status) {
  return table[static_cast<std::size_t>(status)].sentence;
}

}  // namespace bilevel
