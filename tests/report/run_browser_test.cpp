// The pages of `bilevel tune`, `bilevel clean` and `bilevel train` in a real browser.
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <report/clean_page.hpp>
#include <report/page.hpp>
#include <report/train_page.hpp>
#include <report/tune_page.hpp>

#include "browser.hpp"
#include "sample_pages.hpp"
#include "sample_results.hpp"
#include "sample_training.hpp"

namespace run_browser_test {

using report::clean_page;
using report::render;
using report::train_page;
using report::tune_page;
using namespace report_test;

TEST_F(Browser, SearchesAndSortsTables) {
  sought_ = "LAST marked";
  const Json seen = probe(render(gallery()));
  ASSERT_TRUE(seen.contains("searches"));
  ASSERT_EQ(seen.at("searches").size(), 1u);
  const Json states = seen.at("searches").at(0);
  ASSERT_EQ(states.size(), 7u);
  const auto expect = [&](std::size_t i, const char* count, int rows, const char* more, const Json& first) {
    EXPECT_EQ(states.at(i).at("count"), count) << i;
    EXPECT_EQ(states.at(i).at("rows"), rows) << i;
    EXPECT_EQ(states.at(i).at("more"), more) << i;
    EXPECT_EQ(states.at(i).at("first"), first) << i;
  };
  const Json first{"0", "1", "the first row"}, last{"204", "the last row", "marked trusted"};
  expect(0, "200 of 205 shown", 200, "Show all", first);
  expect(1, "1 of 205 shown", 1, "", last);
  expect(2, "0 of 205 shown", 0, "", Json::array());
  expect(3, "200 of 205 shown", 200, "Show all", first);
  expect(4, "205 of 205 shown", 205, "", first);
  // By letters, and what is missing always last.
  expect(5, "205 of 205 shown", 205, "", last);
  expect(6, "205 of 205 shown", 205, "", first);
  EXPECT_EQ(states.at(5).at("sort"), "ascending");
  EXPECT_EQ(states.at(6).at("sort"), "descending");
}

TEST_F(Browser, SortsNumbersBySize) {
  Json rows = Json::array();
  for (const char* value : {"9", "−20", "–", "1.5e−9", "100"}) rows.push_back({"x", value});
  const Json table{{"type", "table"}, {"search", true}, {"columns", {"a", "b"}}, {"rows", rows}};
  const Json page{{"title", "t"}, {"sections", {{{"title", "s"}, {"blocks", {table}}}}}};
  const Json states = probe(render(page)).at("searches").at(0);
  // Few rows need no search.
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states.at(2).at("sort"), "descending");
  EXPECT_EQ(states.at(2).at("first").at(1), "100");
  EXPECT_EQ(states.at(3).at("first").at(1), "−20");
}

TEST_F(Browser, DrawsATunedResult) {
  sought_ = "feature 17";
  const std::string html = render(tune_page(tune_result()));
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 5);
  ASSERT_EQ(seen.at("searches").size(), 3u);
  EXPECT_EQ(seen.at("searches").at(0).at(0).at("count"), "22 of 22 shown");
  EXPECT_EQ(seen.at("searches").at(0).at(1).at("count"), "1 of 22 shown");
  EXPECT_EQ(seen.at("searches").at(1).at(1).at("first").at(0), "feature 17");
  // A name a line: the chart of 22 penalties is taller than the others.
  EXPECT_EQ(seen.at("sizes").at(2), 70 + 18 * 22);
  EXPECT_EQ(seen.at("screen").at(2).at("labels").at(1).size(), 22u);
  expect_sound(probe(html, "--window-size=1400,1000" + dark), 5);
  expect_sound(probe(html, "--window-size=390,844"), 5);
  picture(html, "tune-light.png", 1400, 6000);
  picture(html, "tune-phone.png", 390, 6000);
}

TEST_F(Browser, DrawsManyFeaturesQuickly) {
  sought_ = "feature 4";
  const std::string html = render(tune_page(tune_result(5000, 20, 400)));
  const auto start = std::chrono::steady_clock::now();
  const Json seen = probe(html);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 6);
  ASSERT_EQ(seen.at("searches").size(), 3u);
  // Of the numbers to 3999, 2915 have no 4; nor has 5000.
  EXPECT_EQ(seen.at("searches").at(0).at(1).at("count"), "200 of 5,000 shown");
  EXPECT_EQ(seen.at("searches").at(0).at(1).at("more"), "Show all 2,084 found");
  EXPECT_EQ(seen.at("searches").at(0).at(4).at("count"), "5,000 of 5,000 shown");
  EXPECT_EQ(seen.at("searches").at(1).at(4).at("count"), "10,000 of 10,000 shown");
  RecordProperty("search_milliseconds", static_cast<int>(seen.at("searchMilliseconds").get<double>()));
  EXPECT_LT(seconds, 30);
}

TEST_F(Browser, DrawsACleanedResult) {
  sought_ = "2919";
  const std::string html = render(clean_page(clean_result()));
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 3);
  ASSERT_EQ(seen.at("images").size(), 24u);
  for (const Json& image : seen.at("images")) EXPECT_GT(image.at("shades").size(), 20u);
  EXPECT_EQ(seen.at("searches").at(0).at(1).at("first").at(1), "2919");
  EXPECT_EQ(seen.at("searches").at(0).at(4).at("count"), "5,000 of 5,000 shown");
  expect_sound(probe(html, "--window-size=390,844"), 3);
  picture(html, "clean-dark.png", 1400, 5200, dark);
}

TEST_F(Browser, DrawsATrainedResult) {
  const std::string html = render(train_page(train_result()));
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 9);
  // Errors and costs span decades, cosines do not; movements are always on a log axis.
  for (const int log : {0, 1, 6, 7})
    EXPECT_EQ(seen.at("screen").at(log).at("scales").at(1), "logarithmic") << log;
  for (const int linear : {2, 3, 4, 5, 8})
    EXPECT_EQ(seen.at("screen").at(linear).at("scales").at(1), "linear") << linear;
  // The 4 steps of the nudged phases follow the 20 of the free one.
  EXPECT_EQ(seen.at("screen").at(6).at("ranges").at(0).at(1), 25);
  ASSERT_EQ(seen.at("images").size(), 32u + 24u);
  for (const Json& image : seen.at("images")) EXPECT_GT(image.at("shades").size(), 10u);
  for (const std::string& options :
       {"--window-size=1400,1000" + dark, std::string("--window-size=390,844")}) {
    const Json again = probe(html, options);
    ASSERT_TRUE(again.contains("screen"));
    expect_sound(again, 9);
  }
  picture(html, "train-light.png", 1400, 7000);
  picture(html, "train-dark.png", 1400, 7000, dark);
  picture(html, "train-phone.png", 390, 10500);
}

TEST_F(Browser, ShowsHostileTrainingAsText) {
  Json result = train_result(5, 6, 4, 3);
  for (std::string* one : strings_of(result)) *one = hostile();
  const Json seen = probe(render(train_page(result)));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 9, false);
}

// A run that diverges at once has hardly anything to draw, and is drawn nevertheless.
TEST_F(Browser, DrawsATrainingThatFailed) {
  Json result = train_result(4);
  result["status"] = "diverged";
  for (const char* key : {"train_error", "test_error", "train_cost", "gradient_cosine", "gradient_error"})
    for (Json& epoch : result["epochs"]) epoch[key] = nullptr;
  result["epochs"][3]["relaxation_residual"] = 0;
  result["relaxation"]["free"] = Json::parse(R"({"energy": [1, null, null], "moved": [0, 0, null]})");
  result["relaxation"]["nudged"] = Json::array();
  const Json seen = probe(render(train_page(result)));
  ASSERT_TRUE(seen.contains("screen"));
  // Left are the test cost, the energy at step 0, the movement left and the speed.
  expect_sound(seen, 4);
}

TEST_F(Browser, ShowsHostileResultsAsText) {
  for (const bool tune : {true, false}) {
    // As many rows as need the page's data too.
    Json result = tune ? tune_result(210, 3) : clean_result(210, 3);
    for (std::string* one : strings_of(result)) *one = hostile();
    const Json seen = probe(render(tune ? tune_page(result) : clean_page(result)));
    ASSERT_TRUE(seen.contains("screen"));
    // With all classes of one name there is one series of them.
    expect_sound(seen, tune ? 6 : 3, false);
    EXPECT_EQ(seen.at("searches").at(0).at(4).at("rows"), 210);
  }
}

TEST_F(Browser, PrintsImagesAndAllThatIsShown) {
  const fs::path file = artefacts_ / "clean.pdf";
  fs::remove(file);
  load(render(clean_page(clean_result())), fmt::format("--print-to-pdf='{}'", file.string()));
  EXPECT_GT(fs::file_size(file), 100000u);
}

}  // namespace run_browser_test
