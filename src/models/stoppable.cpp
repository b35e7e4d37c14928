#include "stoppable.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace bilevel::models {

Violations TuneControl::validate() const {
  Violations v("TuneControl");
  v.require(!resume || !checkpoint.empty(), "resume", resume, "needs TuneControl.checkpoint to be named");
  v.not_negative("grace", grace);
  return v;
}

TuneControl stoppable(TuneControl control) {
  control.validate().throw_if_any();
  if (!control.progress) control.progress = TuneControl{}.progress;
  if (!control.interrupted) control.interrupted = TuneControl{}.interrupted;
  if (!control.callback) return control;
  const auto stopped = std::make_shared<std::atomic<bool>>(false);
  control.callback = [stopped, asked = std::move(control.callback)](const bilevel::HistoryEntry& entry) {
    if (!asked(entry)) *stopped = true;
    return !*stopped;
  };
  control.interrupted = [stopped, asked = std::move(control.interrupted)] { return *stopped || asked(); };
  return control;
}

}  // namespace bilevel::models
