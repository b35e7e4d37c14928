// Every block and the pages of `bilevel paper` in a real browser.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <report/page.hpp>
#include <report/paper_page.hpp>

#include "browser.hpp"
#include "sample_pages.hpp"

namespace browser_test {

using report::Json;
using report::render;
using namespace report_test;

TEST_F(Browser, DrawsEveryBlock) {
  const Json seen = probe(render(gallery()));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts);
  EXPECT_EQ(seen["dark"], false);
  EXPECT_EQ(seen["background"], "rgb(252, 252, 250)");
  EXPECT_EQ(seen["contents"], true);
  // The charts are, in their order on the page: lines, log scales, field, bars, horizontal dots and bars.
  EXPECT_EQ(seen["screen"][0]["scales"], Json({"linear", "linear"}));
  EXPECT_EQ(seen["screen"][1]["scales"], Json({"logarithmic", "logarithmic"}));
  EXPECT_EQ(seen["screen"][3]["scales"], Json({"category", "logarithmic"}));
  EXPECT_EQ(seen["screen"][0]["labels"][0], Json({"−1.5", "−1.0", "−0.5", "0", "0.5", "1.0", "1.5"}));
  const Json powers = seen["screen"][1]["labels"][0];
  EXPECT_GE(powers.size(), 3u);
  EXPECT_LE(powers.size(), 9u);
  for (const auto& label : powers) EXPECT_TRUE(label.get<std::string>().starts_with("10")) << label;
  EXPECT_NE(std::find(powers.begin(), powers.end(), "10⁻⁴"), powers.end()) << powers;
  EXPECT_EQ(seen["screen"][1]["tooltip"], Json({"measured", "β: 10⁻⁶", "‖∇̂ − ∇‖: 0.1"}));
  EXPECT_EQ(seen["screen"][3]["tooltip"], Json({"κ = 10", "method: first order", "products: 1"}));
  EXPECT_EQ(seen["legends"].size(), 11u);
  // A click on a legend takes its series away, another brings it back.
  EXPECT_GT(seen["toggles"][0], 50);
  EXPECT_EQ(seen["toggles"][1], 0);
  EXPECT_EQ(seen["toggles"][2], seen["toggles"][0]);
  EXPECT_EQ(seen["screen"][4]["scales"], Json({"linear", "category"}));
  EXPECT_EQ(seen["screen"][4]["tooltip"], Json({"free", "log λ: −3.5", "feature: age"}));
  EXPECT_EQ(seen["screen"][4]["labels"][1], Json({"age", "blood pressure, the mean …", "weight"}));
  // The images are, in the shades of their pixels, as they were given.
  ASSERT_EQ(seen["images"].size(), 3u);
  EXPECT_EQ(seen["images"][0]["shades"], Json::parse(R"({"0": 4, "255": 4})"));
  EXPECT_EQ(seen["images"][1]["shades"], Json::parse(R"({"128": 1})"));
  EXPECT_GT(seen["images"][0]["shown"], 50);
  EXPECT_EQ(seen["images"][0]["filter"], "none");
  // Below and above zero in two colours, the fainter the nearer; zero is the paper itself.
  const Json numbers = seen["images"][2]["pixels"];
  EXPECT_EQ(Json({numbers[0], numbers[1], numbers[3]}), Json({"#0072b2, 255", "#000000, 0", "#c24a00, 255"}));
  EXPECT_TRUE(numbers[2].get<std::string>().ends_with(", 129")) << numbers;
  // The field covers what is behind the path.
  EXPECT_GT(seen["screen"][2]["opaque"], 0.6);
}

TEST_F(Browser, DrawsInTheDark) {
  const Json seen = probe(render(gallery()), "--window-size=1400,1000" + dark);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts);
  EXPECT_EQ(seen["dark"], true);
  EXPECT_EQ(seen["background"], "rgb(20, 24, 27)");
  EXPECT_EQ(seen["images"][0]["filter"], "invert(1)") << "ink is light";
  EXPECT_EQ(seen["images"][2]["filter"], "none") << "what is below zero stays so";
  EXPECT_EQ(seen["images"][2]["pixels"][0], "#5fb8ee, 255");
  EXPECT_EQ(seen["printInk"], "#1d2327") << "paper is light";
}

TEST_F(Browser, FitsAPhone) {
  const Json seen = probe(render(gallery()), "--window-size=390,844");
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts);
  EXPECT_EQ(seen["contents"], false) << "the contents are folded until asked for";
}

TEST_F(Browser, ShowsHostileTextAsText) {
  Json page = gallery();
  for (std::string* one : strings_of(page)) *one = hostile();
  // Names that scripts could take for their own, were these visible to them as globals.
  for (const char* id : {"exports", "module", "define", "Chart", "document", "window", "probe-2", "root"})
    page["sections"].push_back({{"id", id}, {"title", id}});
  const Json seen = probe(render(page));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts, false);
  const std::string name = seen["legends"][0].get<std::string>();
  EXPECT_TRUE(name.starts_with("</script><script>alert(1)</script><img src=x onerror=alert(2)>\"><svg"))
      << name;
}

Json page_of(Json blocks) {
  return {{"title", "t"}, {"sections", {{{"title", "s"}, {"blocks", std::move(blocks)}}}}};
}

Json chart_of(Json points, Json x, Json y) {
  return {{"type", "chart"},
          {"title", "c"},
          {"x", std::move(x)},
          {"y", std::move(y)},
          {"series", {{{"name", "n"}, {"style", "line"}, {"points", std::move(points)}}}}};
}

TEST_F(Browser, DrawsManyPoints) {
  const Json many = points(1, 10, 300000, true, [](double x) { return 2 + std::sin(x); });
  const Json log{{"scale", "log"}};
  const Json seen = probe(render(page_of({chart_of(many, log, log), line_chart()})));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 2);
}

TEST_F(Browser, DrawsTheOthersIfOneFails) {
  std::string html = render(page_of({log_chart(), line_chart()}));
  const std::string series = "\"series\":[";
  html.replace(html.rfind(series, html.rfind(series) - 1), series.size(), "\"series\":[null,");
  const Json seen = probe(html, "--window-size=1400,1000", true);
  ASSERT_TRUE(seen.contains("screen"));
  EXPECT_EQ(seen["plots"], Json({"This chart could not be drawn.", ""}));
  EXPECT_FALSE(seen["errors"].empty());
  for (const auto& error : seen["errors"])
    EXPECT_TRUE(error.get<std::string>().starts_with("console.error: ")) << error;
  for (const char* state : {"screen", "print", "after"}) {
    EXPECT_TRUE(seen[state][0].is_null()) << state;
    EXPECT_GE(seen[state][1]["fewest"], 4) << state;
  }
}

// Where a given end lies beyond the data, the other end follows it.
TEST_F(Browser, DrawsAFrameBesideTheData) {
  const Json data{{1, 1}, {2, 2}}, none = Json::object();
  const auto from = [](double min, bool log) {
    return Json{{"scale", log ? "log" : "linear"}, {"min", min}};
  };
  const auto to = [](double max, bool log) { return Json{{"scale", log ? "log" : "linear"}, {"max", max}}; };
  Json charts = Json::array();
  for (const bool log : {true, false})
    for (const Json& y : {from(1000, log), to(0.001, log)}) charts.push_back(chart_of(data, none, y));
  charts.push_back(field_chart());
  charts.back()["y"]["min"] = 50;
  const Json seen = probe(render(page_of(charts)));
  ASSERT_TRUE(seen.contains("screen"));
  EXPECT_EQ(seen["errors"], Json::array());
  for (const Json& chart : seen["screen"]) {
    EXPECT_LT(chart["ranges"][1][0], chart["ranges"][1][1]);
    EXPECT_GE(chart["labels"][1].size(), 2u) << chart;
  }
  EXPECT_EQ(seen["screen"][0]["ranges"][1][0], 1000);
  EXPECT_EQ(seen["screen"][1]["ranges"][1][1], 0.001);
  EXPECT_EQ(seen["screen"][2]["ranges"][1][0], 1000);
  EXPECT_EQ(seen["screen"][3]["ranges"][1][1], 0.001);
}

TEST_F(Browser, TellsCloseNumbersApart) {
  const Json none = Json::object(), narrow{{1e6 + 0.1, 1}, {1e6 + 0.2, 2}, {1e6 + 0.3, 3}};
  const Json seen = probe(render(page_of({chart_of(narrow, none, none)})));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 1);
  EXPECT_EQ(seen["screen"][0]["tooltip"], Json({"n", "x: 1.0000001·10⁶", "y: 1"}));
}

// Chart.js would look for the decimals of their steps for ever.
TEST_F(Browser, DrawsTinyNumbers) {
  Json charts = Json::array();
  for (const double tiny : {1e-310, 1e-300, 1e-249})
    charts.push_back(chart_of({{0, tiny}, {1, 3 * tiny}, {2, 7 * tiny}}, Json::object(), Json::object()));
  const Json seen = probe(render(page_of(charts)));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, charts.size());
}

TEST_F(Browser, CutsNoTableWhereThereIsRoom) {
  const std::string html = render(page_of({wide_table()}));
  for (const int width : {1280, 1440, 1920}) {
    const Json seen = probe(html, fmt::format("--window-size={},900", width));
    ASSERT_TRUE(seen.contains("screen"));
    EXPECT_LE(seen["overflow"], 0) << width;
    EXPECT_EQ(seen["cut"], Json({0})) << width;
  }
  const Json phone = probe(html, "--window-size=390,844");
  ASSERT_TRUE(phone.contains("screen"));
  EXPECT_LE(phone["overflow"], 0);
  EXPECT_GT(phone["cut"][0], 0) << "a phone scrolls";
}

TEST_F(Browser, DrawsAWholePaper) {
  const std::string html = render(report::paper_page(paper_result()));
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 60 + 8);
}

TEST_F(Browser, DrawsThePaperItself) {
  if (!BILEVEL_PROGRAM_HAS_CLAIMS) GTEST_SKIP() << "the program was built without the claims";
  const fs::path file = folder_ / "paper.html";
  const std::string command = fmt::format("'{}' paper --report '{}' > '{}'", BILEVEL_PROGRAM, file.string(),
                                          (folder_ / "out").string());
  ASSERT_EQ(std::system(command.c_str()), 0) << read(folder_ / "out");
  const std::string html = read(file);
  EXPECT_LT(html.size(), 1500000u);
  std::size_t charts = 0;
  for (std::size_t at = 0; (at = html.find("<canvas", at)) != std::string::npos; ++at) ++charts;
  EXPECT_GT(charts, 40u);
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  // Some measurements lie exactly on their bound.
  expect_sound(seen, charts, true, 0);
  picture(html, "the-paper-light.png", 1400, 12000);
  picture(html, "the-paper-dark.png", 1400, 12000, dark);
  picture(html, "the-paper-phone.png", 390, 12000);
}

TEST_F(Browser, Prints) {
  const fs::path file = artefacts_ / "paper.pdf";
  fs::remove(file);
  load(render(report::paper_page(paper_result(8, 12))), fmt::format("--print-to-pdf='{}'", file.string()));
  const std::string pdf = read(file);
  EXPECT_TRUE(pdf.starts_with("%PDF"));
  EXPECT_GT(pdf.size(), 100000u);
}

TEST_F(Browser, KeepsPictures) {
  const std::string every = render(gallery()), paper = render(report::paper_page(paper_result()));
  picture(every, "gallery-light.png", 1400, 4200);
  picture(every, "gallery-dark.png", 1400, 4200, dark);
  picture(every, "gallery-phone.png", 390, 5600);
  picture(paper, "paper-light.png", 1400, 6000);
}

}  // namespace browser_test
