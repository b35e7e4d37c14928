// Every claim holds, whatever the seed, and fails with a mistake in what it is about.

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "claims/execute.hpp"

namespace claims {
namespace planted_test {

std::string with_failures(const Executed& executed) {
  std::string text = executed.outcome.measured;
  for (const Outcome::Check& check : executed.outcome.checks())
    if (!check.holds)
      text += "\n  " + check.what + ": expected " + check.expected + ", measured " + check.measured;
  return text;
}

/// With which of defects(), in their order, a claim must fail (F) and with which it must hold (-), because it
/// is not about that.
const std::map<std::string, std::string>& fates() {
  static const std::map<std::string, std::string> table{
      {"implicit-function-existence", "- F - - - -"},
      {"branching", "F F F - - F"},
      {"implicit-function-derivative", "F F F - - F"},
      {"stationarity", "F F F F F F"},
      {"algorithm-one", "F F F F F F"},
      {"implicit-layers", "F F F - - F"},
      {"quadratic-form", "- - F - - F"},
      {"hessian-products", "- F - - - -"},
      {"recurrent-backpropagation", "F F F - - F"},
      {"neumann-series", "- F F - - F"},
      {"truncated-backpropagation", "F F F - - F"},
      {"first-order", "F F F - - F"},
      {"stochastic-adjoint", "F F F - - F"},
      {"implicit-bound", "F F F - - F"},
      {"propagation-identity", "F F - - - -"},
      {"nudged-direction", "- F F F F F"},
      {"nudged-trajectory", "- F F - - F"},
      {"propagation-bound", "- - - F F F"},
      {"propagation-constant", "- - - F F F"},
      {"propagation-corollary", "F F F F F F"},
      {"memory", "- - - - - F"},
      {"many-parameters", "F F F F - F"},
      {"trajectories", "F F F F F F"},
      {"convergence-rates", "- - F - - F"},
      {"comparison", "F F F F F F"},
      {"indefinite-hessian", "- F F F F F"},
      {"agnostic", "- - - F - F"},
      {"energy-networks", "F F F F F F"},
      {"adversarial-networks", "F F F F - F"},
      {"stackelberg-games", "F F F F F F"},
      {"perturbed-systems", "- - F - - F"},
      {"local-convexity", "- F - - - -"},
      {"forward-differences", "- - - F F F"},
      {"algorithm-two", "- - - F F F"},
      {"negative-nudging", "- - - F F F"},
      {"more-points", "- - - F F F"},
  };
  return table;
}

class EveryClaim : public ::testing::TestWithParam<const Claim*> {
 protected:
  Executed run(std::uint64_t seed, Defect defect) {
    Laboratory laboratory(seed, defect);
    return execute(*GetParam(), laboratory);
  }
};

INSTANTIATE_TEST_SUITE_P(, EveryClaim, ::testing::ValuesIn(all()), [](const auto& tested) {
  std::string name = tested.param->name;
  std::erase(name, '-');
  return name;
});

TEST_P(EveryClaim, HoldsWithTheDefaultSeed) {
  const Executed executed = run(1, Defect::none);
  EXPECT_TRUE(executed.outcome.holds()) << with_failures(executed);
  EXPECT_FALSE(executed.outcome.measured.empty());
  const Json& blocks = executed.outcome.blocks();
  EXPECT_TRUE(std::any_of(blocks.begin(), blocks.end(), [](const Json& b) { return b["type"] == "chart"; }))
      << "there is nothing to look at";
}

// A sanitiser has seen every line by now; the rest is statistics.
#ifndef __SANITIZE_ADDRESS__

TEST_P(EveryClaim, HoldsWithOtherSeeds) {
  for (const std::uint64_t seed : {2, 20261}) {
    const Executed executed = run(seed, Defect::none);
    EXPECT_TRUE(executed.outcome.holds()) << "seed " << seed << ": " << with_failures(executed);
  }
}

TEST_P(EveryClaim, FailsWithAMistakeInWhatItIsAbout) {
  const auto row = fates().find(GetParam()->name);
  ASSERT_NE(row, fates().end()) << "say in this file which mistakes must make it fail";
  for (std::size_t i = 0; i < defects().size(); ++i) {
    const auto& [name, defect] = defects()[i];
    const Executed executed = run(1, defect);
    EXPECT_EQ(executed.outcome.holds(), row->second.at(2 * i) == '-')
        << name << ": " << with_failures(executed);
  }
}

TEST(Defects, AreAllFoundAndEveryClaimFindsSome) {
  std::map<std::string_view, int> found;
  int without = 0;
  for (const auto& [name, fate] : fates()) {
    without += fate.find('F') == std::string::npos;
    for (std::size_t i = 0; i < defects().size(); ++i) found[defects()[i].first] += fate.at(2 * i) == 'F';
  }
  EXPECT_EQ(without, 0);
  EXPECT_EQ(fates().size(), all().size());
  for (const auto& [defect, claims_that_fail] : found) EXPECT_GE(claims_that_fail, 10) << defect;
}

#endif

}  // namespace planted_test
}  // namespace claims
