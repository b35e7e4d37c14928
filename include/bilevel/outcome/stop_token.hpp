#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <bilevel/outcome/cost.hpp>
#include <bilevel/outcome/status.hpp>

namespace bilevel {

/// Asks long loops to end before they are done: from a moment on, or once somebody says so. Whoever starts the
/// work owns it and hands a pointer down; loops look at it once an iteration, from any thread.
class StopToken {
 public:
  /// `asked` says whether somebody wants an end; must be safe to call from several threads. The time is over
  /// after so many seconds from now on; 0: never.
  explicit StopToken(std::function<bool()> asked, double seconds = 0)
      : asked_(std::move(asked)), seconds_(seconds) {}

  /// interrupted or time_limit where the work shall end; nothing where it goes on.
  std::optional<Status> wanted() const {
    if (asked_ && asked_()) return Status::interrupted;
    if (seconds_ > 0 && watch_.seconds() >= seconds_) return Status::time_limit;
    return {};
  }

 private:
  std::function<bool()> asked_;
  double seconds_;
  Stopwatch watch_;
};

/// The same where there may be no token.
inline std::optional<Status> stop_wanted(const StopToken* token) {
  return token ? token->wanted() : std::nullopt;
}

}  // namespace bilevel
