#pragma once

#include <string>
#include <string_view>

namespace bilevel {

/// How a stage ended. Different answers are different codes: a caller never has to guess
/// whether "it returned" means "it converged".
enum class Status {
  not_run,
  converged,
  relative_decrease,
  iteration_limit,
  time_limit,
  stalled,
  diverged,
  not_finite,
  negative_curvature,
  singular,
  breakdown,
  approximate,
  interrupted,
};

/// The stable name used in JSON and on the command line ("converged", "iteration-limit", …).
std::string_view name(Status status);

/// What the status means, as a sentence without numbers; a stage's `message` adds the numbers.
std::string_view sentence(Status status);

/// True where the stage did what it was asked: only `converged`.
inline bool succeeded(Status status) {
  return status == Status::converged;
}

/// Whether a run that ended so can be taken up again where it was.
inline bool unfinished(Status status) {
  return status == Status::interrupted || status == Status::iteration_limit || status == Status::time_limit;
}

}  // namespace bilevel
