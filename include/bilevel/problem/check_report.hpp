#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

struct CheckOptions {
  /// Random directions and points follow from it: the same seed, the same check.
  std::uint64_t seed = 1;
  /// Random directions for each check. One finds a wrong derivative almost surely; the others guard against a
  /// direction in which a local mistake is hidden by everything else.
  int directions = 5;
  /// Largest relative disagreement of a derivative with differences. 0: u^⅖ for the unit roundoff u of the
  /// vector (4e-7 in double, 1e-3 in float), far above what extrapolated differences lose on a smooth
  /// function and far below the smallest mistake in a formula.
  double tolerance = 0;
  /// The nudge β ≠ 0 at which the curvature of L_in + β·L_out is looked at.
  double beta = 0.5;
  /// Claimed constants are tried on the ball of this radius around φ; those claimed everywhere on one ten
  /// times as large.
  double radius = 1;
  /// Points of each ball at which the constants are tried.
  int points = 6;

  Violations validate() const;
};

/// What one check found.
struct Finding {
  std::string_view name;  ///< stable: "inner-phi", "cross-adjoint", …
  bool passed = false;
  double error = unknown;      ///< measured, relative to the sizes involved; the worst of all directions
  double tolerance = unknown;  ///< what `error` may be at most
  double step =
      unknown;  ///< step of the differences, where their plateau was found; NaN where none were taken
  std::string sentence;  ///< what was seen, with the numbers
};

struct CheckReport {
  std::vector<Finding> findings;
  /// Checks that were not made since the problem does not offer what they look at.
  std::vector<std::string_view> not_offered;

  /// True where at least one check was made and none failed.
  bool passed() const;
  /// Null where no check of that name was made.
  const Finding* find(std::string_view name) const;
  /// One line for each check.
  std::string table() const;
};

/// The finding of one check while it is being made: keeps the worst of what it is shown. NaN is worse
/// than any number.
class Tally {
 public:
  Tally(std::string_view name, double tolerance);

  /// |measured − claimed| against the sizes involved. `blur` is an absolute difference that means nothing
  /// (the noise of a difference): error = |measured − claimed| / (size + blur / tolerance).
  void compare(double claimed, double measured, double size, double blur, double step, std::string_view what);
  /// `least` must not exceed `most` by more than `blur`, relative to `size`.
  void order(double least, double most, double size, double blur, std::string_view what);
  /// Something that is right or wrong without a measure. `fail` holds whatever else is seen.
  void pass(std::string sentence);
  void fail(std::string sentence);

  Finding finding() const;

 private:
  void show(double error, double step, std::string sentence);

  Finding finding_;
  bool seen_ = false;
};

}  // namespace bilevel
