#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <bilevel/outcome/cost.hpp>
#include <bilevel/outcome/status.hpp>

namespace bilevel {

/// Asks long loops to end before they are done: from a moment on, or once somebody says so. Whoever starts
/// the work owns it and hands a pointer down; loops look at it once an iteration, from any thread.
class StopToken {
 public:
  /// `asked` says whether somebody wants an end; must be safe to call from several threads. Once it has said
  /// so it is not asked again: what one loop was told, all others are. The time is over after so many seconds
  /// from now on; 0: never.
  explicit StopToken(std::function<bool()> asked, double seconds = 0)
      : asked_(asked ? lasting(std::move(asked)) : nullptr), seconds_(seconds) {}
  /// Wants an end where one of the others does, which must outlive it and may be null, or the time is over.
  StopToken(std::initializer_list<const StopToken*> others, double seconds)
      : others_(others), seconds_(seconds) {}

  /// interrupted or time_limit where the work shall end; nothing where it goes on.
  std::optional<Status> wanted() const {
    for (const StopToken* other : others_)
      if (other)
        if (const auto why = other->wanted()) return why;
    if (asked_ && asked_()) return Status::interrupted;
    if (seconds_ > 0 && watch_.seconds() >= seconds_) return Status::time_limit;
    return {};
  }

 private:
  static std::function<bool()> lasting(std::function<bool()> asked) {
    return [asked = std::move(asked), said = std::make_shared<std::atomic<bool>>(false)] {
      if (!*said && asked()) *said = true;
      return said->load();
    };
  }

  std::function<bool()> asked_;
  std::vector<const StopToken*> others_;
  double seconds_;
  Stopwatch watch_;
};

/// The same where there may be no token.
inline std::optional<Status> stop_wanted(const StopToken* token) {
  return token ? token->wanted() : std::nullopt;
}

}  // namespace bilevel
