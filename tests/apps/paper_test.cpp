// `bilevel paper` as a person uses it: the table, the files, the exit codes.

#include <csignal>
#include <set>

#include "program.hpp"

namespace paper_test {

using namespace program;

std::vector<std::string> claim_names() {
  std::vector<std::string> names;
  std::istringstream lines(run("paper --list").out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != ' ') names.push_back(line.substr(0, line.find(' ')));
  return names;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0, now = 0;
  for (const char c : text) {
    if (c == '\n') now = 0;
    // Bytes that continue a character of UTF-8 are 10xxxxxx.
    else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80)
      longest = std::max(longest, ++now);
  }
  return longest;
}

TEST(Paper, ListsItsClaims) {
  const std::vector<std::string> names = claim_names();
  EXPECT_GE(names.size(), 30u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_LE(longest_line(run("paper --list").out), 100u);
  const Result help = run("paper --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("Examples"), std::string::npos);
}

TEST(Paper, OneClaimAsTableAndAsJson) {
  const std::string path = scratch("json");
  const Result r = run("paper --claim branching --seed 7 --json " + path);
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("seed 7"), std::string::npos);
  EXPECT_NE(r.out.find("1 of 1 claims hold"), std::string::npos);
  const json j = json::parse(slurp(path));
  EXPECT_EQ(j["command"], "paper");
  EXPECT_EQ(j["seed"], 7);
  EXPECT_EQ(j["holds"], true);
  ASSERT_EQ(j["claims"].size(), 1u);
  const json& claim = j["claims"][0];
  EXPECT_EQ(claim["name"], "branching");
  for (const char* field :
       {"title", "place", "statement", "protocol", "truth", "slip", "expected", "measured"})
    EXPECT_TRUE(claim[field].is_string()) << field;
  EXPECT_TRUE(claim["holds"].is_boolean());
  EXPECT_GE(claim["seconds"].get<double>(), 0);
  EXPECT_FALSE(claim["checks"].empty());
  EXPECT_FALSE(claim["blocks"].empty());
}

TEST(Paper, SeveralClaimsComeInTheOrderOfThePaperAndOnce) {
  const json j = run_json("paper --claim 'neumann-series, branching' --claim branching", 0);
  ASSERT_EQ(j["claims"].size(), 2u);
  EXPECT_EQ(j["claims"][0]["name"], "branching");
  EXPECT_EQ(j["claims"][1]["name"], "neumann-series");
}

TEST(Paper, APlantedDefectIsFoundAndEndsWithOne) {
  const std::string path = scratch("json");
  const Result r = run("paper --claim branching --plant cross-sign --json " + path);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.out.find("FAILS"), std::string::npos);
  EXPECT_NE(r.out.find("dφ*/dθ"), std::string::npos) << "says which check failed";
  EXPECT_LE(longest_line(r.out), 100u);
  const json j = json::parse(slurp(path));
  EXPECT_EQ(j["holds"], false);
  EXPECT_EQ(j["planted"], "cross-sign");
  EXPECT_EQ(j["claims"][0]["holds"], false);
}

TEST(Paper, BadUsageIsRefusedBeforeAnyWork) {
  const Result unknown = run("paper --claim no-such-claim");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("no-such-claim"), std::string::npos);
  EXPECT_NE(unknown.err.find("--list"), std::string::npos);
  const Result defect = run("paper --plant nothing");
  EXPECT_EQ(defect.code, 2);
  EXPECT_NE(defect.err.find("cross-sign"), std::string::npos);
  EXPECT_EQ(run("paper --plant ''").code, 2);
  EXPECT_EQ(run("paper --claim branching --report /no/such/folder/a.html").code, 2);
  EXPECT_EQ(run("paper --claim branching --json /no/such/folder/a.json").code, 2);
  const std::string path = scratch("json");
  EXPECT_EQ(run("paper --claim branching --json " + path + " --report " + path).code, 2);
  const std::string here = std::filesystem::relative(path).string();
  EXPECT_EQ(run("paper --claim branching --json " + here + " --report ./" + here).code, 2);
  EXPECT_EQ(run("paper --seed -1").code, 2);
  EXPECT_EQ(run("paper --seed 18446744073709551616").code, 2);
  EXPECT_EQ(run_json("paper --claim branching --seed 010", 0)["seed"], 10) << "not octal";
  EXPECT_EQ(run("paper --seed x").code, 2);
}

TEST(Paper, WritesAPageThatNeedsNothingElse) {
  const std::string path = scratch("page") + ".html";
  std::filesystem::remove(path);
  EXPECT_EQ(run("paper --claim branching,trajectories --report " + path).code, 0);
  const std::string page = slurp(path);
  EXPECT_NE(page.find("branching"), std::string::npos);
  EXPECT_NE(page.find("Figure 1A"), std::string::npos);
  for (const char* reach : {"src=\"http", "href=\"http", "@import", "url(http", "<link"})
    EXPECT_EQ(page.find(reach), std::string::npos) << reach;
  std::filesystem::remove(path);
}

TEST(Paper, AFailingClaimStillGetsItsPage) {
  const std::string path = scratch("page") + ".html";
  std::filesystem::remove(path);
  EXPECT_EQ(run("paper --claim branching --plant cross-sign --report " + path).code, 1);
  EXPECT_NE(slurp(path).find("cross-sign"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace paper_test
