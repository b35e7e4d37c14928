#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include <report/page.hpp>

#include "sample_pages.hpp"

namespace pictures_test {

using report::Json;
using report::render;
using namespace report_test;

std::string html_of(const Json& block) {
  const std::string html =
      render({{"title", "t"}, {"sections", {{{"title", "s"}, {"blocks", Json::array({block})}}}}});
  return html.substr(html.find("<body>"));
}

std::string complaint(const Json& block) {
  try {
    html_of(block);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Pictures, SaysWhatColoursMean) {
  const std::string html = html_of(signed_block());
  EXPECT_TRUE(contains(html, "<figure class=\"images signed bare\">")) << html;
  EXPECT_TRUE(contains(html, "<span>−0.5</span><span class=\"ramp\"></span><span>0.5</span>")) << html;
  EXPECT_TRUE(contains(html_of(image_block()), "<figure class=\"images\">"));
  for (const Json& range : {Json(0), Json(-1), Json(std::numeric_limits<double>::infinity())}) {
    Json block = signed_block();
    block["range"] = range;
    EXPECT_EQ(complaint(block), "sections[0].blocks[0].range: must be positive") << range;
  }
}

TEST(Pictures, ShadesMistakesByTheirShare) {
  const std::string html = html_of(confusion_block());
  // One of three is the strongest; one of five is √(0.2 · 3) of it, rounded up.
  EXPECT_TRUE(contains(html,
                       "<tr><th scope=\"row\">cat</th><td class=\"number right\">4</td>"
                       "<td class=\"number shade-8\">1</td><td class=\"number none\">0</td>"
                       "<td class=\"number\">20.0 %</td></tr>"))
      << html;
  EXPECT_TRUE(contains(html, "<td class=\"number\">33.3 %</td></tr>")) << html;
  EXPECT_TRUE(contains(html, "<td class=\"number right\">0</td><td class=\"number\">–</td></tr>")) << html;
  EXPECT_TRUE(contains(html, "<td class=\"number shade-10\">1</td><td class=\"number right\">2</td>"))
      << html;
  // Where all mistakes are rare, none is strong.
  Json rare = confusion_block();
  rare["counts"] = Json::parse("[[9995, 5, 0], [0, 1, 0], [0, 0, 1]]");
  EXPECT_TRUE(contains(html_of(rare), "<td class=\"number shade-2\">5</td>"));
}

TEST(Pictures, RefusesWhatIsNoConfusion) {
  const auto wrong = [](const char* pointer, Json value) {
    Json block = confusion_block();
    block[Json::json_pointer(pointer)] = std::move(value);
    return complaint(block);
  };
  const std::string place = "sections[0].blocks[0].counts";
  EXPECT_EQ(wrong("/classes", {"cat"}), place + ": has 3 rows, there are 1 classes");
  EXPECT_EQ(wrong("/counts/1", {1, 2}), place + "[1]: has 2 elements, there are 3 classes");
  EXPECT_EQ(wrong("/counts/1/2", -1), place + "[1][2]: must be a count");
  EXPECT_EQ(wrong("/counts/1/2", 1e300), place + "[1][2]: must be a count");
  EXPECT_EQ(wrong("/counts/1/2", "2"), place + "[1][2]: must be a number, is string");
  EXPECT_EQ(wrong("/classes/0", 1), "sections[0].blocks[0].classes[0]: must be a string, is number");
}

}  // namespace pictures_test
