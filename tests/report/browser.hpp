#pragma once

// Pages in a real browser. Chromium without a window loads a copy of each page into which probe.js was put;
// what the probe saw comes back in the page's own text.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace report_test {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

inline const std::string chromium = BILEVEL_CHROMIUM;

inline std::string read(const fs::path& path) {
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

  /// Loads `html`; returns what the browser printed. Its complaints must hold no error of the page, unless
  /// errors are expected.
  std::string load(const std::string& html, const std::string& options, bool errors = false) {
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
    EXPECT_EQ(complaints.find("CONSOLE") != std::string::npos, errors) << complaints;
    return read(out);
  }

  /// What the probe saw, which sought the text `sought_` in all tables.
  Json probe(std::string html, const std::string& options = "--window-size=1400,1000", bool errors = false) {
    std::string script = read(fs::path(__FILE__).parent_path() / "probe.js");
    EXPECT_FALSE(script.empty());
    script = fmt::format("window.sought = {};\n{}", Json(sought_).dump(), script);
    const std::string head = "<head>\n";
    html.insert(html.find(head) + head.size(), "<script>" + script + "</script>\n");
    const std::string page = load(html, "--dump-dom " + options, errors);
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
  std::string sought_;
};

inline const std::string dark = " --blink-settings=preferredColorScheme=0";

/// `least` is how many pixels in the very colour of a series must be seen: none where one may hide another.
inline void expect_sound(const Json& seen, std::size_t charts, bool sized_for_people = true, int least = 4) {
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
      EXPECT_GE(chart.at("fewest"), least) << state << ": a series was not drawn: " << chart;
    }
  }
}

}  // namespace report_test
