// The rules by which a claim holds, and the defects that must make it fail.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include <bilevel/problems/quadratic.hpp>

#include "claims/execute.hpp"

namespace claims {
namespace outcome_test {

TEST(Outcome, HoldsOnlyIfSomethingWasCheckedAndEveryCheckHolds) {
  Outcome outcome;
  EXPECT_FALSE(outcome.holds());
  outcome.check("a", "1", "1", true);
  EXPECT_TRUE(outcome.holds());
  outcome.check("b", "1", "2", false);
  outcome.check("c", "1", "1", true);
  EXPECT_FALSE(outcome.holds());
}

TEST(Outcome, NothingHoldsOfWhatIsNotANumber) {
  const double nan = std::nan("");
  for (const auto& check :
       std::vector<void (*)(Outcome&, double)>{[](Outcome&o, double x) { o.near("x", 1, x, 0.1); },
                                               [](Outcome&o, double x) { o.at_most("x", 1, x); },
                                               [](Outcome&o, double x) { o.at_least("x", 1, x); }}) {
    Outcome good, bad;
    check(good, 1);
    check(bad, nan);
    EXPECT_TRUE(good.holds());
    EXPECT_FALSE(bad.holds());
  }
  Outcome negative;
  negative.at_most("an error", 1, -0.5);
  EXPECT_FALSE(negative.holds()) << "an error cannot be negative";
}

TEST(Outcome, CountsHoldAtTheirEndsOnly) {
  for (const long count : {0, 1, 3, 4}) {
    Outcome all, none;
    all.all_of("x", count, 3);
    none.none_of("x", count, 3);
    EXPECT_EQ(all.holds(), count == 3);
    EXPECT_EQ(none.holds(), count == 0);
    EXPECT_EQ(all.checks()[0].expected, "3 of 3");
    EXPECT_EQ(none.checks()[0].expected, "0 of 3");
    for (const Outcome* outcome : {&all, &none})
      EXPECT_EQ(outcome->checks()[0].measured, std::to_string(count) + " of 3");
  }
}

TEST(Execute, AnExperimentThatThrowsHasFailed) {
  const Claim claim{.name = "throws",
                    .title = "",
                    .place = "",
                    .statement = "",
                    .protocol = "",
                    .truth = "",
                    .slip = "",
                    .expected = "",
                    .run = [](Laboratory&, Outcome& outcome) {
                      outcome.check("before", "", "", true);
                      throw std::runtime_error("lost");
                    }};
  Laboratory laboratory(1);
  const Executed executed = execute(claim, laboratory);
  EXPECT_FALSE(executed.outcome.holds());
  EXPECT_EQ(executed.outcome.checks().back().measured, "lost");
  EXPECT_FALSE(describe(executed)["holds"]);
}

TEST(Laboratory, StreamsDifferAndRepeat) {
  const Laboratory one(1), again(1), two(2);
  std::set<std::uint64_t> seeds;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    EXPECT_EQ(one.seed(number), again.seed(number));
    seeds.insert(one.seed(number));
    seeds.insert(two.seed(number));
  }
  EXPECT_EQ(seeds.size(), 2000u);
}

class Planted : public ::testing::Test {
 protected:
  bilevel::problems::Quadratic problem =
      bilevel::problems::Quadratic::random({.phi = 5, .theta = 3, .condition = 10, .seed = 4});
  Vec theta = Laboratory(3).vector(3, 0);
  Vec truth = *problem.outer_gradient(theta);
  Vec gradient(Defect defect, const char* method) {
    const auto inner = settler("newton", problem, 1e-13);
    return Laboratory(1, defect)
        .estimator(method, problem, *inner, {.beta = 0.01})
        ->estimate(theta, {})
        .gradient;
  }
};

TEST_F(Planted, NothingMeansTheLibraryItself) {
  EXPECT_LT((gradient(Defect::none, "implicit-cg") - truth).norm(), 1e-9 * truth.norm());
  EXPECT_LT((gradient(Defect::none, "ep-forward-4") - truth).norm(), 1e-3 * truth.norm());
}

// ∂θ L_out is zero here: ∇θ = −π·χ, so these defects are exactly −1 and 2.
TEST_F(Planted, EachDefectIsTheMistakeItSays) {
  EXPECT_LT((gradient(Defect::cross_sign, "implicit-cg") + truth).norm(), 1e-9 * truth.norm());
  EXPECT_LT((gradient(Defect::cross_sign, "exact") + truth).norm(), 1e-9 * truth.norm());
  EXPECT_LT((gradient(Defect::hessian_scale, "implicit-cg") - 2 * truth).norm(), 1e-9 * truth.norm());
  EXPECT_LT((gradient(Defect::hessian_scale, "exact") - 2 * truth).norm(), 1e-9 * truth.norm());
  EXPECT_LT((gradient(Defect::nudge_scale, "ep-forward-4") - 2 * truth).norm(), 1e-3 * truth.norm());
  EXPECT_LT((gradient(Defect::adjoint_scale, "implicit-cg") - 2 * truth).norm(), 1e-9 * truth.norm());
  const double right = (gradient(Defect::none, "ep-forward-4") - truth).norm();
  const double wrong = (gradient(Defect::stencil, "ep-forward-4") - truth).norm();
  EXPECT_GT(wrong, 10 * right);
  EXPECT_LT(wrong, 0.5 * truth.norm()) << "the mistake is a subtle one";
}

TEST_F(Planted, TheRestIsLeftAlone) {
  EXPECT_EQ(gradient(Defect::cross_sign, "ep-forward-2"), gradient(Defect::none, "ep-forward-2"));
  EXPECT_EQ(gradient(Defect::adjoint_scale, "ep-forward-2"), gradient(Defect::none, "ep-forward-2"));
  EXPECT_EQ(gradient(Defect::stencil, "implicit-cg"), gradient(Defect::none, "implicit-cg"));
}

TEST(Catalogue, OneFileAClaimAndEveryFileIsListed) {
  std::set<std::string> listed;
  for (const Claim* claim : all()) {
    std::string file = claim->name;
    for (char& c : file)
      if (c == '-') c = '_';
    EXPECT_TRUE(listed.insert(file).second) << claim->name << " is listed twice";
    EXPECT_TRUE(std::filesystem::exists(std::string(BILEVEL_SOURCE_DIR) + "/claims/" + file + ".cpp"))
        << claim->name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BILEVEL_SOURCE_DIR) + "/claims")) {
    if (entry.path().extension() != ".cpp") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    if (text.str().find("\nconst Claim ") != std::string::npos) {
      EXPECT_TRUE(listed.count(entry.path().stem().string())) << entry.path() << " is in no catalogue";
    }
  }
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

TEST(Catalogue, EveryClaimSaysWhatItIs) {
  for (const Claim* claim : all()) {
    SCOPED_TRACE(claim->name);
    for (const char* text :
         {claim->title, claim->place, claim->statement, claim->protocol, claim->truth, claim->expected})
      EXPECT_GT(columns(text), 3u) << text;
    EXPECT_LE(columns(claim->expected), 44u) << claim->expected;
    EXPECT_LE(columns(claim->name), 28u);
  }
}

}  // namespace outcome_test
}  // namespace claims
