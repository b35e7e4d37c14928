#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/files/container.hpp>
#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/outer/optimizer.hpp>

namespace bilevel {

/// One line of a run's history: one evaluation of value and gradient.
struct HistoryEntry {
  long iteration = 0;
  bool accepted = false;
  double outer_value = unknown;
  double gradient_norm = unknown;  ///< of the projected gradient
  double bound = unknown;
  Kind kind = Kind::none;
  Verdict verdict = Verdict::untrusted;
  double inner_tolerance = unknown;
  double seconds = 0;  ///< since the start of the run, resumed time included

  /// visit(name, pointer to the member) for every field, in the order in which checkpoints have them.
  template <class Visit>
  static void for_each_field(Visit&& visit) {
    visit("iteration", &HistoryEntry::iteration);
    visit("accepted", &HistoryEntry::accepted);
    visit("outer_value", &HistoryEntry::outer_value);
    visit("gradient_norm", &HistoryEntry::gradient_norm);
    visit("bound", &HistoryEntry::bound);
    visit("kind", &HistoryEntry::kind);
    visit("verdict", &HistoryEntry::verdict);
    visit("inner_tolerance", &HistoryEntry::inner_tolerance);
    visit("seconds", &HistoryEntry::seconds);
  }
};

/// The last accepted point with all that a summary says about it.
struct AcceptedPoint {
  Eigen::VectorXd theta, phi, pi, gradient;
  double outer_value = unknown;
  double gradient_norm = unknown;
  Certificate certificate;
  double corrected_value = unknown;  ///< which the optimiser was told
};

/// Everything a run needs to go on as if it had not stopped. It is written before a point is evaluated, so
/// a killed run repeats that one evaluation and nothing else.
struct Checkpoint {
  std::string identity;  ///< what was being solved and how; a checkpoint of something else is refused
  std::string optimizer;
  Eigen::VectorXd theta;  ///< the point to evaluate next
  OptimizerState state;
  OptimizerState search;  ///< of a kink, while one is under way
  long searched = 0;      ///< the length of the history when the last one began or ended
  std::optional<AcceptedPoint> accepted;
  double inner_tolerance = 0, adjoint_tolerance = 0;
  long iterations = 0, evaluations = 0;
  double seconds = 0;
  Cost cost;
  std::vector<HistoryEntry> history;
};

/// Tells one set of bounds from another.
std::uint64_t checksum(const Eigen::VectorXd& numbers);

/// Version 5 had certificates that did not say what share of a gradient they were judged by.
inline constexpr FileKind checkpoint_file{"bilevel-checkpoint", 6};

/// Replaces the file atomically, and where `durable` flushes it to the disk; an empty string on success, else
/// what went wrong.
[[nodiscard]] std::string write_checkpoint(const std::string& path, const Checkpoint& checkpoint,
                                           bool durable);

/// Reads one back, every number to the last bit. Throws InvalidInput that names the file and what is wrong:
/// missing, truncated, damaged (its checksum does not fit), of another version, or of another run (`identity`
/// differs).
Checkpoint read_checkpoint(const std::string& path, const std::string& identity);

}  // namespace bilevel
