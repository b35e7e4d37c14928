#include "tape.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <adolc/adolc_fatalerror.h>
#include <adolc/adolc_sparse.h>
#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::adolc {
namespace {

/// Tags of ADOL-C from above, so that a program which records tapes of its own, from 0, does not meet ours.
class Tags {
 public:
  short take() {
    if (!free_.empty()) {
      const short tag = free_.back();
      free_.pop_back();
      return tag;
    }
    if (next_ < 1)
      throw InvalidInput("adolc: more than 32,000 tapes at once: ADOL-C numbers them by a short");
    return next_--;
  }
  void give_back(short tag) { free_.push_back(tag); }

 private:
  short next_ = 32000;
  std::vector<short> free_;
};

Tags& tags() {
  static Tags all;
  return all;
}

/// Whoever sweeps holds this: the turn, and ADOL-C's silence about branches that are expected to change.
class Sweep {
 public:
  Sweep() : lock_(turn()) { disableBranchSwitchWarnings(); }
  ~Sweep() { enableBranchSwitchWarnings(); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

Match match_of(int code) {
  return code < 0 ? Match::other : code < 2 ? Match::kink : Match::smooth;
}

}  // namespace

std::recursive_mutex& turn() {
  static std::recursive_mutex one;
  return one;
}

Tape::Tape() {
  const std::lock_guard lock(turn());
  tag_ = tags().take();
}

Tape::~Tape() {
  const std::lock_guard lock(turn());
  if (recorded()) removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
  tags().give_back(tag_);
}

bool Tape::trace(std::span<const double> x, Index outputs, const Sizes& room, const Function& f) {
  if (recorded()) removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
  operations_ = 0;
  inputs_ = static_cast<int>(x.size());
  outputs_ = static_cast<int>(outputs);
  const auto entries = [](std::size_t n) {
    return static_cast<unsigned>(std::min<std::size_t>(n, 1u << 31));
  };
  trace_on(tag_, 0, entries(room.operations), entries(room.locations), entries(room.values),
           entries(room.taylors), 1);
  try {
    std::vector<adouble> in(x.size()), out(static_cast<std::size_t>(outputs));
    for (std::size_t j = 0; j < x.size(); ++j) in[j] <<= x[j];
    f(in, out);
    for (adouble& each : out) {
      double value = 0;
      each >>= value;
    }
    trace_off();
  } catch (const FatalError&) {  // no file could be written beside the buffers
    removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
    return false;
  } catch (...) {
    trace_off();
    removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
    throw;
  }
  std::size_t said[STAT_SIZE];
  tapestats(tag_, said);
  sizes_ = {said[NUM_OPERATIONS], said[NUM_LOCATIONS], said[NUM_VALUES], said[TAY_STACK_SIZE]};
  if (said[OP_FILE_ACCESS] || said[LOC_FILE_ACCESS] || said[VAL_FILE_ACCESS]) {
    removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
    return false;
  }
  operations_ = sizes_.operations;
  return true;
}

void Tape::record(std::span<const double> x, Index outputs, double most_operations, const Function& f) {
  const std::lock_guard lock(turn());
  if (isTaping())
    throw InvalidInput(
        "adolc: a loss that is being recorded asks for derivatives of another: tapes do not nest");
  // Where a buffer is full ADOL-C goes on in files in the current folder. So the first buffers are larger
  // than most functions need, which costs address space and no memory, and the tape that stays is made to
  // measure.
  double most = 4e6;
  const auto room = [](double operations) {
    const auto n = static_cast<std::size_t>(operations);
    return Sizes{n, 4 * n, n, n};
  };
  const auto with_slack = [](const Sizes& s) {
    return Sizes{s.operations + s.operations / 8 + 64, s.locations + s.locations / 8 + 256,
                 s.values + s.values / 8 + 64, 2 * (s.taylors + s.taylors / 8) + 256};
  };
  if (sizes_.operations && trace(x, outputs, with_slack(sizes_), f)) return;
  const auto refuse = [&] {
    throw InvalidInput(fmt::format(
        "adolc: the function takes more than {:.3g} operations (most_operations); a sum over rows is "
        "recorded once for all of them where it is written as inner_row or outer_row",
        most_operations));
  };
  while (!trace(x, outputs, room(most), f)) {
    if (most >= most_operations) refuse();
    most = std::min(most * 8, most_operations);
  }
  if (static_cast<double>(operations_) > most_operations) refuse();
  if (!trace(x, outputs, with_slack(sizes_), f))
    throw InvalidInput("adolc: the function did more when it was recorded a second time: it keeps a state");
  y_.resize(static_cast<std::size_t>(outputs));
  dy_.resize(static_cast<std::size_t>(outputs));
  pairs_.resize(2 * x.size());
  rows_.resize(x.size());
  for (std::size_t j = 0; j < x.size(); ++j) rows_[j] = &pairs_[2 * j];
}

std::size_t Tape::bytes() const {
  return sizes_.operations + 4 * sizes_.locations + 8 * sizes_.values + 16 * sizes_.taylors;
}

/// Runs `work` in turn. Functions that ADOL-C records and cannot replay end in an error of its own, which
/// leaves the tape in the middle of a sweep: it is not touched again.
template <class Work>
auto Tape::swept(const Work& work) {
  const Sweep sweep;
  try {
    return work();
  } catch (const FatalError& fatal) {
    operations_ = 0;
    tag_ = tags().take();
    throw InvalidInput(fmt::format(
        "adolc: ADOL-C recorded something that it cannot replay (cbrt, for one: write pow(x, 1.0 / 3)): {}",
        fatal.what()));
  }
}

Match Tape::values(const double* x, double* y) {
  return swept([&] { return match_of(zos_forward(tag_, outputs_, inputs_, 0, x, y)); });
}

Match Tape::gradient(const double* x, const double* u, double* y, double* g) {
  return swept([&] {
    const Match match = match_of(zos_forward(tag_, outputs_, inputs_, 1, x, y));
    if (match != Match::other) fos_reverse(tag_, outputs_, inputs_, const_cast<double*>(u), g);
    return match;
  });
}

Match Tape::directional(const double* x, const double* dx, double* dy) {
  return swept([&] {
    return match_of(fos_forward(tag_, outputs_, inputs_, 0, x, const_cast<double*>(dx), y_.data(), dy));
  });
}

Match Tape::look(const double* x) {
  // |·| at zero shows along a direction only: one that no loss has in mind.
  std::vector<double> direction(static_cast<std::size_t>(inputs_));
  for (std::size_t j = 0; j < direction.size(); ++j)
    direction[j] = 1 + std::sin(1.7 * static_cast<double>(j + 1)) / 3;
  return directional(x, direction.data(), dy_.data());
}

Match Tape::second(const double* x, const double* dx, double* h) {
  return swept([&] {
    const Match match =
        match_of(fos_forward(tag_, outputs_, inputs_, 2, x, const_cast<double*>(dx), y_.data(), dy_.data()));
    if (match == Match::other) return match;
    double one = 1;
    hos_reverse(tag_, outputs_, inputs_, 1, &one, rows_.data());
    for (std::size_t j = 0; j < rows_.size(); ++j) h[j] = pairs_[2 * j + 1];
    return match;
  });
}

std::vector<bool> Tape::dependence() {
  using Bits = unsigned long;
  std::vector<Bits> of_outputs(static_cast<std::size_t>(outputs_), 1),
      of_inputs(static_cast<std::size_t>(inputs_));
  Bits* u = of_outputs.data();
  Bits* z = of_inputs.data();
  swept([&] { return int_reverse_safe(tag_, outputs_, inputs_, 1, &u, &z); });
  std::vector<bool> depends(of_inputs.size());
  for (std::size_t j = 0; j < depends.size(); ++j) depends[j] = of_inputs[j] != 0;
  return depends;
}

Pattern Tape::second_dependence(const double* x) {
  std::vector<unsigned*> lists(static_cast<std::size_t>(inputs_));
  swept([&] { return hess_pat(tag_, inputs_, x, lists.data(), 0); });
  // ADOL-C's lists: the number of entries, then these.
  Pattern all(lists.size());
  for (std::size_t j = 0; j < lists.size(); ++j) {
    if (!lists[j]) continue;
    all[j].assign(lists[j] + 1, lists[j] + 1 + lists[j][0]);
    std::free(lists[j]);
  }
  return all;
}

}  // namespace bilevel::adolc
