#include "execute.hpp"

#include <chrono>
#include <exception>

namespace claims {

Executed execute(const Claim& claim, Laboratory& laboratory) {
  Executed executed{&claim, {}};
  const auto start = std::chrono::steady_clock::now();
  try {
    claim.run(laboratory, executed.outcome);
  } catch (const std::exception& error) {
    executed.outcome.check("the experiment comes to an end", "yes", error.what(), false);
    executed.outcome.measured = "the experiment could not be finished";
  }
  executed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return executed;
}

Json describe(const Executed& executed) {
  const Claim& claim = *executed.claim;
  const Outcome& outcome = executed.outcome;
  Json j{{"name", claim.name},           {"title", claim.title},       {"place", claim.place},
         {"statement", claim.statement}, {"protocol", claim.protocol}, {"truth", claim.truth},
         {"slip", claim.slip},           {"expected", claim.expected}, {"measured", outcome.measured},
         {"holds", outcome.holds()},     {"seconds", executed.seconds}};
  j["checks"] = Json::array();
  for (const Outcome::Check& check : outcome.checks())
    j["checks"].push_back({{"what", check.what},
                           {"expected", check.expected},
                           {"measured", check.measured},
                           {"holds", check.holds}});
  j["blocks"] = outcome.blocks();
  return j;
}

}  // namespace claims
