#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

#include <report/page.hpp>

#include "sample_pages.hpp"

namespace page_test {

using report::Json;
using report::render;
using namespace report_test;

Json page_of(Json block) {
  return {{"title", "t"}, {"sections", {{{"title", "s"}, {"blocks", Json::array({std::move(block)})}}}}};
}

Json chart_of(Json points, Json x = Json::object(), const char* style = "line") {
  return {{"type", "chart"},
          {"title", "c"},
          {"x", std::move(x)},
          {"series", {{{"name", "n"}, {"style", style}, {"points", std::move(points)}}}}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

/// What stands between the scripts and the end: the part that this page determines.
std::string body_of(const std::string& html) {
  return html.substr(html.find("<body>"));
}

std::string data_of(const std::string& html) {
  const std::string start = "<script type=\"application/json\">";
  const std::size_t from = html.rfind(start) + start.size();
  return html.substr(from, html.rfind("</script>") - from);
}

std::string complaint(const Json& page) {
  try {
    render(page);
  } catch (const std::invalid_argument& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "none";
}

TEST(Page, NeedsNothingElse) {
  const std::string html = render(gallery());
  EXPECT_TRUE(contains(html, "Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"));
  EXPECT_FALSE(contains(html, "unsafe"));
  EXPECT_FALSE(contains(html, " src="));
  EXPECT_FALSE(contains(body_of(html), "http"));
  EXPECT_EQ(count(html, "<script"), 3u);
  EXPECT_TRUE(contains(html, "Chart.js Contributors\n * Released under the MIT License"));
  EXPECT_TRUE(contains(html, "<noscript>"));
}

TEST(Page, ShowsEveryBlock) {
  const std::string body = body_of(render(gallery()));
  EXPECT_TRUE(contains(body, "<p>The first paragraph.</p>\n<p>The second one, with π* = −dφ_β/dβ.</p>"));
  EXPECT_TRUE(contains(body, "<li>one</li>"));
  EXPECT_TRUE(contains(body, "<pre>bilevel paper --seed 1 \\\n    --report FILE.html</pre>"));
  EXPECT_TRUE(contains(body, "<dt><a href=\"#charts\">linked</a></dt><dd>0.25</dd>"));
  EXPECT_TRUE(contains(body, "<td><a href=\"#blocks\">unrolled</a></td>"));
  EXPECT_TRUE(contains(body, "<span class=\"badge holds\">holds</span>"));
  EXPECT_TRUE(contains(body, "see <span class=\"badge\">untried</span>"));
  EXPECT_TRUE(contains(body, "<figcaption>A caption. <a href=\"#charts\">where from</a></figcaption>"));
  EXPECT_TRUE(contains(body, "<section id=\"more\" class=\"level2\">\n<h3>More charts <span"));
  EXPECT_TRUE(
      contains(body, "<a href=\"#more\"><span class=\"mark holds\" title=\"holds\"></span>More charts</a>"));
  EXPECT_TRUE(contains(body, "<div class=\"notice\" role=\"note\">\n<p>Take care.</p>\n<p>Twice.</p>"));
  EXPECT_EQ(count(body, "<canvas role=\"img\" aria-label="), std::size_t{gallery_charts});
  EXPECT_TRUE(contains(body, "aria-label=\"Error over β. ‖∇̂ − ∇‖ over β: measured, theory\""));
  EXPECT_TRUE(contains(body, "Not drawn: 1 point at or below zero, which a logarithmic axis cannot show."));
}

TEST(Page, CutsLongTables) {
  const std::string html = render(page_of(long_table())), body = body_of(html);
  EXPECT_EQ(count(body, "<tr>"), 1u + 200u);
  EXPECT_TRUE(contains(body, "<figure class=\"table searchable\" data-rows=\"0\">"));
  EXPECT_TRUE(contains(body, "<span class=\"count\">200 of 205 shown</span>"));
  EXPECT_TRUE(contains(body, "<td class=\"number\">199</td><td>0.005</td><td>–</td></tr>\n</tbody>"));
  // No section has the id that the last row's link names.
  EXPECT_EQ(data_of(html),
            "[[[\"200\",\"0.00497512\",\"–\"],[\"201\",\"0.0049505\",\"–\"],[\"202\",\"0.00492611\",\"–\"],"
            "[\"203\",\"0.00490196\",\"–\"],[\"204\",{\"text\":\"the last row\"},"
            "{\"text\":\"marked\",\"status\":\"trusted\",\"tone\":\"holds\"}]]]");
  EXPECT_TRUE(contains(data_of(render(gallery())), "{\"text\":\"the last row\",\"link\":\"charts\"}"));
  Json exact = long_table();
  exact["rows"].erase(exact["rows"].begin() + 200, exact["rows"].end());
  EXPECT_EQ(data_of(render(page_of(exact))), "[]");
  exact.erase("search");
  EXPECT_FALSE(contains(body_of(render(page_of(exact))), "searchable"));
}

TEST(Page, AlignsWhatIsMissingWithTheNumbers) {
  const Json table{
      {"type", "table"}, {"columns", {"a", "b"}}, {"rows", Json::parse(R"([["–", "–"], [1, "x"]])")}};
  EXPECT_TRUE(contains(render(page_of(table)), "<td class=\"number\">–</td><td>–</td>"));
}

TEST(Page, KeepsImages) {
  const std::string body = body_of(render(page_of(image_block())));
  EXPECT_TRUE(contains(body,
                       "<canvas width=\"4\" height=\"2\" role=\"img\" aria-label=\"below is ink\" "
                       "data-pixels=\"AAAAAP////8=\"></canvas><span>below is ink <span class=\"badge\">"));
  EXPECT_TRUE(contains(body, "aria-label=\"Image\" data-pixels=\"gA==\""));
}

TEST(Page, RefusesImagesThatAreNone) {
  const auto wrong = [](const char* key, Json value) {
    Json block = image_block();
    block["items"][0][key] = std::move(value);
    return complaint(page_of(block));
  };
  const std::string place = "sections[0].blocks[0].items[0]";
  for (const char* pixels :
       {"", "AAAAAP////8", "AAAAAP//////", "AAAAAP///\"8=", "AAAAAP////8==", "AAAA AP///8="})
    EXPECT_EQ(wrong("pixels", pixels), place + ".pixels: must be 2 × 4 bytes in base64") << pixels;
  EXPECT_EQ(wrong("width", 3), place + ".pixels: must be 2 × 3 bytes in base64");
  for (const Json& width : {Json(0), Json(-4), Json(2.5), Json(1e9)})
    EXPECT_EQ(wrong("width", width), place + ".width: must be a whole number from 1 to 1024") << width;
  EXPECT_EQ(wrong("height", nullptr), place + ": \"height\" is missing");
}

TEST(Page, AlignsColumnsOfNumbersToTheRight) {
  const std::string body = body_of(render(gallery()));
  EXPECT_TRUE(contains(body,
                       "<th scope=\"col\">method</th><th scope=\"col\" class=\"number\">error</th>"
                       "<th scope=\"col\" class=\"number\">digits</th><th scope=\"col\">status</th>"));
  EXPECT_TRUE(contains(body, "<td class=\"number\">1.5e−9</td><td class=\"number\">−12.5</td>"));
}

TEST(Page, WritesChartsOnceAndCompactly) {
  Json page = page_of(chart_of({{1.23456789, -2.0}, {1e-12 / 3, nullptr}, {3, 1234567.89}}));
  page["sections"].push_back(page["sections"][0]);
  const std::string html = render(page);
  const std::string data = data_of(html);
  EXPECT_EQ(count(html, "data-chart=\"0\""), 2u);
  EXPECT_EQ(
      data,
      "[{\"x\":{},\"y\":{},\"series\":[{\"name\":\"n\",\"style\":\"line\",\"x\":[1.23457,3.33333e-13,3],"
      "\"y\":[-2,null,1234570.0]}]}]");
}

// A chart of 1e6 + 0.1, ... was a point; so were its given range and the grid of its field.
TEST(Page, KeepsTheDigitsThatTellNumbersApart) {
  const Json narrow{1e6 + 0.1, 1e6 + 0.2, 1e6 + 0.3};
  Json chart = chart_of({{narrow[0], 1.23456789}, {narrow[1], 2}, {narrow[2], 3}},
                        {{"min", 1e6 + 0.05}, {"max", 1e6 + 0.35}});
  chart["field"] = {{"name", "f"}, {"x", narrow}, {"y", {1, 2}}, {"values", {{1, 2, 3}, {1, 2, 3}}}};
  const std::string data = data_of(render(page_of(chart)));
  EXPECT_TRUE(contains(data, "{\"x\":{\"min\":1000000.05,\"max\":1000000.35}")) << data;
  EXPECT_EQ(count(data, "\"x\":[1000000.1,1000000.2,1000000.3]"), 2u) << data;
  EXPECT_TRUE(contains(data, "\"y\":[1.23457,2,3]")) << data;
}

// The range that is seen decides, not the whole of the data.
TEST(Page, KeepsTheDigitsOfAGivenRange) {
  const std::string data = data_of(render(
      page_of(chart_of({{0, 1}, {1e6 + 0.1, 2}, {2e6, 3}}, {{"min", 1e6 + 0.05}, {"max", 1e6 + 0.35}}))));
  EXPECT_TRUE(contains(data, "\"x\":[0,1000000.1,2000000.0]")) << data;
}

TEST(Page, TakesTheSmallestNumbersForZero) {
  Json chart = chart_of({{1e-310, -1e-310}, {5e-324, 1e-260}, {1, 1}}, {{"min", -1e-310}});
  chart["field"] = {
      {"name", "f"}, {"x", {0, 1}}, {"y", {0, 1}}, {"values", {{1e-310, 2e-310}, {1e-310, 3e-310}}}};
  const std::string html = render(page_of(chart)), data = data_of(html);
  EXPECT_TRUE(contains(data, "\"min\":0")) << data;
  EXPECT_TRUE(contains(data, "\"x\":[0,0,1],\"y\":[0,0,1]")) << data;
  EXPECT_TRUE(contains(html, "f <span>1e−310</span><span class=\"ramp\"></span><span>3e−310</span>"));
}

TEST(Page, DrawsNoZeroOnALogScale) {
  const std::string html = render(page_of(chart_of({{1e-310, 1}, {1, 2}}, {{"scale", "log"}})));
  EXPECT_TRUE(contains(data_of(html), "\"x\":[null,1]"));
  EXPECT_TRUE(contains(html, "Not drawn: 1 point"));
  EXPECT_EQ(complaint(page_of(chart_of({{1, 1}}, {{"scale", "log"}, {"min", 1e-310}}))),
            "sections[0].blocks[0].x.min: must be positive on a log scale");
}

TEST(Page, MakesGapsOfWhatCannotBeDrawn) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string data = data_of(
      render(page_of(chart_of({{1, 1}, {0, 2}, {-1, 3}, {2, infinity}, {nullptr, 4}}, {{"scale", "log"}}))));
  EXPECT_TRUE(contains(data, "\"x\":[1,null,null,2,null],\"y\":[1,2,3,null,4]")) << data;
}

TEST(Page, ScalesFields) {
  Json chart = chart_of({{0, 0}});
  chart["field"] = {{"name", "f"}, {"x", {0, 1}}, {"y", {0, 1}}, {"values", {{-1, 0}, {nullptr, 3}}}};
  const std::string html = render(page_of(chart));
  EXPECT_TRUE(contains(data_of(html), "\"shades\":[0,64,null,255]"));
  EXPECT_TRUE(contains(html, "f <span>−1</span><span class=\"ramp\"></span><span>3</span>"));
}

TEST(Page, KeepsIdentifiersApartAndLinksToThem) {
  const Json link{{"type", "list"},
                  {"items", {{{"text", "go"}, {"link", "#a b"}}, {{"text", "no"}, {"link", "#gone"}}}}};
  const std::string html = render({{"title", "t"},
                                   {"sections",
                                    {{{"id", "a-b"}, {"title", "first"}, {"blocks", Json::array({link})}},
                                     {{"id", "a b"}, {"title", "second"}},
                                     {{"title", "a/b"}},
                                     {{"id", "φ"}, {"title", "third"}}}}});
  EXPECT_TRUE(contains(html, "<section id=\"a-b\""));
  EXPECT_TRUE(contains(html, "<section id=\"a-b-2\""));
  EXPECT_TRUE(contains(html, "<section id=\"a-b-3\""));
  EXPECT_TRUE(contains(html, "<section id=\"section\""));
  EXPECT_TRUE(contains(html, "<li><a href=\"#a-b-2\">go</a></li>\n<li>no</li>"));
}

TEST(Page, ReplacesWhatIsNotText) {
  using namespace std::string_literals;
  const std::string body = body_of(render(page_of({{"type", "text"},
                                                   {"text",
                                                    "a\xFF"
                                                    "b\0c\xC0\xAF"
                                                    "d\xED\xA0\x80"
                                                    "e\xE2\x82"
                                                    "f\x1B"
                                                    "g\xF4\x90\x80\x80h\tφ"s}})));
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_TRUE(contains(body, "<p>a" + r + "b" + r + "c" + r + r + "d" + r + r + r + "e" + r + r + "f" + r +
                                 "g" + r + r + r + r + "h\tφ</p>"));
}

// Each string in turn, then all of them: hostile text makes exactly the tags that a plain word makes.
TEST(Page, HostileTextMakesNoTag) {
  const auto tags = [](const Json& page) {
    const std::string body = render(page);
    return std::array{count(body, "<"), count(body, ">"), count(body, "<script"), count(body, "</script")};
  };
  Json page = gallery();
  std::vector<std::string*> strings = strings_of(page);
  ASSERT_GT(strings.size(), 60u);
  for (std::string* one : strings) {
    const std::string before = std::exchange(*one, "word");
    const auto plain = tags(page);
    *one = hostile();
    EXPECT_EQ(tags(page), plain) << "in place of: " << before;
    *one = before;
  }
  for (std::string* one : strings) *one = "word";
  const auto plain = tags(page);
  for (std::string* one : strings) *one = hostile();
  EXPECT_EQ(tags(page), plain);
  const std::string html = render(page);
  EXPECT_FALSE(contains(body_of(html), "<script>"));
  for (const char* raw : {"\xE2\x80\xA8", "\xE2\x80\xA9", "<", "&", "\xFF"})
    EXPECT_FALSE(contains(data_of(html), raw)) << raw;
  EXPECT_EQ(html.find('\0'), std::string::npos);
}

// Within attributes hostile text must not end the quotes.
TEST(Page, HostileTextStaysInItsAttribute) {
  Json page = gallery();
  for (std::string* one : strings_of(page)) *one = "x\"y'z";
  const std::string body = body_of(render(page));
  const std::string markup = body.substr(0, body.find("<script"));
  EXPECT_FALSE(contains(markup, "x\"y"));
  EXPECT_FALSE(contains(markup, "y'z"));
}

TEST(Page, LinksOnlyWithinThePage) {
  for (const char* link : {"javascript:alert(1)", "https://example.org", "//example.org", " #s", "", "#",
                           "#nowhere", "data:text/html,x", "JaVaScRiPt:alert(1)"}) {
    Json page = page_of({{"type", "list"}, {"items", {{{"text", "shown"}, {"link", link}}}}});
    page["sections"][0]["id"] = "s";
    const std::string body = body_of(render(page));
    EXPECT_TRUE(contains(body, "<li>shown</li>")) << link;
    EXPECT_EQ(count(body, "href="), 1u) << link;
  }
}

TEST(Page, NamesThePlaceOfWhatIsWrong) {
  const auto wrong = [](const char* pointer, Json value) {
    Json page = gallery();
    page[Json::json_pointer(pointer)] = std::move(value);
    return complaint(page);
  };
  const auto begins = [](const std::string& text, const std::string& start) {
    EXPECT_EQ(text.substr(0, start.size()), start) << text;
  };
  begins(complaint(Json::object()), "the document: \"sections\" is missing");
  begins(complaint(3), "the document: must be an object, is number");
  begins(wrong("/title", nullptr), "the document: \"title\" is missing");
  begins(wrong("/title", 3), "title: must be a string, is number");
  begins(wrong("/lead", Json::array()), "lead: must be a string, is array");
  begins(wrong("/facts/0", {"alone"}), "facts[0]: must be a pair");
  begins(wrong("/facts/1/1", true), "facts[1][1]: must be a string, a number or an object");
  begins(wrong("/sections", 1), "sections: must be an array, is number");
  begins(wrong("/sections/1", "x"), "sections[1]: must be an object, is string");
  begins(wrong("/sections/1/title", nullptr), "sections[1]: \"title\" is missing");
  begins(wrong("/sections/1/level", 3), "sections[1].level: must be 1 or 2");
  begins(wrong("/sections/0/blocks/0/type", "video"),
         "sections[0].blocks[0].type: there is no block \"video\"");
  begins(wrong("/sections/0/blocks/0/type", nullptr), "sections[0].blocks[0]: \"type\" is missing");
  begins(wrong("/sections/0/blocks/0/text", nullptr), "sections[0].blocks[0]: \"text\" is missing");
  begins(wrong("/sections/0/blocks/1/items", "x"),
         "sections[0].blocks[1].items: must be an array, is string");
  begins(wrong("/sections/0/blocks/4/rows/1", {"x"}),
         "sections[0].blocks[4].rows[1]: has 1 cells, the table 4 columns");
  begins(wrong("/sections/0/blocks/4/columns/0", 1), "sections[0].blocks[4].columns[0]: must be a string");
  begins(wrong("/sections/1/blocks/0/blocks/0", {{"type", "columns"}, {"blocks", Json::array()}}),
         "sections[1].blocks[0].blocks[0]: columns cannot stand within columns");
  const std::string chart = "/sections/2/blocks/0", place = "sections[2].blocks[0]";
  const auto chart_wrong = [&](const char* below, Json value, const std::string& message) {
    begins(wrong((chart + below).c_str(), std::move(value)), place + message);
  };
  chart_wrong("/title", nullptr, ": \"title\" is missing");
  chart_wrong("/x/scale", "logarithmic", ".x.scale: must be linear or log, is logarithmic");
  chart_wrong("/x", {{"scale", "log"}, {"min", 0}}, ".x.min: must be positive on a log scale");
  chart_wrong("/x", {{"min", 2}, {"max", 1}}, ".x: min must be smaller than max");
  chart_wrong("/x/name", 5, ".x.name: must be a string, is number");
  chart_wrong("/series", nullptr, ": \"series\" is missing");
  chart_wrong("/series/0/style", "dotted",
              ".series[0].style: must be line, dashed, dots, path or bars, is dotted");
  chart_wrong("/series/0/style", "bars", ".series[0]: bars need categories");
  chart_wrong("/series/0/name", nullptr, ".series[0]: \"name\" is missing");
  chart_wrong("/series/0/points/2", {1, 2, 3}, ".series[0].points[2]: must be a pair of numbers");
  chart_wrong("/series/0/points/2", {1, "2"}, ".series[0].points[2][1]: must be a number or null, is string");
  chart_wrong("/field/x/1", -7, ".field.x: must be increasing");
  chart_wrong("/field/values/3", {1}, ".field.values[3]: has 1 elements, \"x\" 41");
  begins(wrong("/sections/2/blocks/1/series/0/values", {1}),
         "sections[2].blocks[1].series[0].values: has 1 elements, the chart 4 categories");
  chart_wrong("/horizontal", true, ".horizontal: needs categories");
  const auto lying = [&](const char* below, Json value) {
    return wrong(fmt::format("/sections/4/blocks/3{}", below).c_str(), std::move(value));
  };
  begins(lying("/series/0/style", "line"),
         "sections[4].blocks[3].series[0].style: must be bars or dots in a horizontal chart, is line");
  begins(lying("/y/scale", "log"), "sections[4].blocks[3]: categories have no log scale");
  begins(lying("/horizontal", 1), "sections[4].blocks[3].horizontal: must be true or false, is number");
  begins(wrong("/sections/4/blocks/1/search", "yes"),
         "sections[4].blocks[1].search: must be true or false, is string");
  begins(wrong("/sections/4/blocks/1/rows/203/1", true),
         "sections[4].blocks[1].rows[203][1]: must be a string, a number or an object");
  Json nothing = gallery();
  nothing["sections"][2]["blocks"][1]["series"] = Json::array();
  begins(complaint(nothing), "sections[2].blocks[1]: there is nothing to draw");
}

}  // namespace page_test
