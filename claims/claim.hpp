#pragma once

#include <vector>

#include "laboratory.hpp"
#include "outcome.hpp"

namespace claims {

/// A statement of the paper that can be true or false, and the experiment that decides. One file each,
/// which ends with these texts; the report prints them.
struct Claim {
  const char* name;       ///< of --claim: lower case, words joined by hyphens
  const char* title;      ///< a few words, for headings
  const char* place;      ///< where in the paper
  const char* statement;  ///< what is claimed, corrected where the text has a slip
  const char* protocol;   ///< what is done
  const char* truth;      ///< what it is compared with
  const char* slip;       ///< what the text has wrong; empty where it is right
  const char* expected;   ///< in the words of the table, at most 44 columns
  void (*run)(Laboratory&, Outcome&);
};

/// All of them, in the order of the paper.
const std::vector<const Claim*>& all();

}  // namespace claims
