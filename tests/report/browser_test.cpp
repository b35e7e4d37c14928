// The pages in a real browser. Chromium without a window loads a copy of each page into which probe.js was
// put; what the probe saw comes back in the page's own text.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <report/page.hpp>
#include <report/paper_page.hpp>

#include "sample_pages.hpp"

namespace {

using report::Json;
using report::render;
using namespace report_test;
namespace fs = std::filesystem;

const std::string chromium = BILEVEL_CHROMIUM;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium.empty()) GTEST_SKIP() << "there is no chromium-headless-shell; pages were not loaded";
    std::string name = (fs::temp_directory_path() / "bilevel-report-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(artefacts_);
  }

  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  /// Loads `html`; returns what the browser printed. Its complaints must hold no error of the page.
  std::string load(const std::string& html, const std::string& options) {
    const fs::path page = folder_ / "page.html", out = folder_ / "out", err = folder_ / "err";
    std::ofstream(page, std::ios::binary) << html;
    const std::string command = fmt::format(
        "timeout 50 '{}' --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
        "--user-data-dir='{}' --virtual-time-budget=20000 --enable-logging=stderr {} 'file://{}' > '{}' 2> "
        "'{}'",
        chromium, (folder_ / "profile").string(), options, page.string(), out.string(), err.string());
    const int status = std::system(command.c_str());
    const std::string complaints = read(err);
    EXPECT_EQ(status, 0) << command << "\n" << complaints;
    EXPECT_EQ(complaints.find("CONSOLE"), std::string::npos) << complaints;
    return read(out);
  }

  /// What the probe saw.
  Json probe(std::string html, const std::string& options = "--window-size=1400,1000") {
    const std::string script = read(fs::path(__FILE__).parent_path() / "probe.js");
    EXPECT_FALSE(script.empty());
    const std::string head = "<head>\n";
    html.insert(html.find(head) + head.size(), "<script>" + script + "</script>\n");
    const std::string page = load(html, "--dump-dom " + options);
    const std::string start = "<pre id=\"probe\">";
    const std::size_t from = page.rfind(start);
    if (from == std::string::npos) {
      ADD_FAILURE() << "the probe did not finish; the charts were not drawn";
      return Json::object();
    }
    const std::size_t begin = from + start.size();
    return Json::parse(page.substr(begin, page.find("</pre>", begin) - begin));
  }

  /// Keeps a picture of the page for people to look at.
  void picture(const std::string& html, const std::string& name, int width, int height,
               const std::string& options = "") {
    const fs::path file = artefacts_ / name;
    fs::remove(file);
    load(html,
         fmt::format("--window-size={},{} --screenshot='{}' {}", width, height, file.string(), options));
    ASSERT_TRUE(fs::exists(file)) << file;
    EXPECT_GT(fs::file_size(file), 20000u) << file;
  }

  const fs::path artefacts_ = BILEVEL_ARTEFACTS;
  fs::path folder_;
};

const std::string dark = " --blink-settings=preferredColorScheme=0";

void expect_sound(const Json& seen, std::size_t charts, bool sized_for_people = true) {
  EXPECT_EQ(seen.at("errors"), Json::array());
  EXPECT_EQ(seen.at("alerts"), 0);
  EXPECT_EQ(seen.at("scripts"), 3);
  EXPECT_EQ(seen.at("foreign"), 0);
  EXPECT_EQ(seen.at("handlers"), 0);
  EXPECT_EQ(seen.at("dangling"), 0);
  EXPECT_EQ(seen.at("unnamed"), 0);
  if (sized_for_people) {
    EXPECT_LE(seen.at("overflow"), 0) << "the page is wider than the window";
  }
  for (const auto& link : seen.at("links")) EXPECT_TRUE(link.get<std::string>().starts_with('#')) << link;
  for (const char* state : {"screen", "print", "after"}) {
    ASSERT_EQ(seen.at(state).size(), charts) << state;
    for (const Json& chart : seen.at(state)) {
      EXPECT_GT(chart.at("width"), 200) << state;
      EXPECT_GT(chart.at("height"), 150) << state;
      EXPECT_GT(chart.at("colours"), 20) << state << chart;
      EXPECT_GT(chart.at("opaque"), 0.02) << state << chart;
      EXPECT_GE(chart.at("fewest"), 4) << state << ": a series was not drawn: " << chart;
    }
  }
}

TEST_F(Browser, DrawsEveryBlock) {
  const Json seen = probe(render(gallery()));
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts);
  EXPECT_EQ(seen["dark"], false);
  EXPECT_EQ(seen["background"], "rgb(252, 252, 250)");
  EXPECT_EQ(seen["contents"], true);
  // The charts are, in their order on the page: lines, log scales, field, bars.
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
  EXPECT_EQ(seen["legends"].size(), 9u);
  // A click on a legend takes its series away, another brings it back.
  EXPECT_GT(seen["toggles"][0], 50);
  EXPECT_EQ(seen["toggles"][1], 0);
  EXPECT_EQ(seen["toggles"][2], seen["toggles"][0]);
  // The field covers what is behind the path.
  EXPECT_GT(seen["screen"][2]["opaque"], 0.6);
}

TEST_F(Browser, DrawsInTheDark) {
  const Json seen = probe(render(gallery()), "--window-size=1400,1000" + dark);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, gallery_charts);
  EXPECT_EQ(seen["dark"], true);
  EXPECT_EQ(seen["background"], "rgb(20, 24, 27)");
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

TEST_F(Browser, DrawsAWholePaper) {
  const std::string html = render(report::paper_page(paper_result()));
  const Json seen = probe(html);
  ASSERT_TRUE(seen.contains("screen"));
  expect_sound(seen, 60 + 8);
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
  picture(every, "gallery-light.png", 1400, 2900);
  picture(every, "gallery-dark.png", 1400, 2900, dark);
  picture(every, "gallery-phone.png", 390, 4200);
  picture(paper, "paper-light.png", 1400, 6000);
}

}  // namespace
