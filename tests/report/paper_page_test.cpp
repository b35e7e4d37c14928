#include <stdexcept>

#include <gtest/gtest.h>

#include <report/page.hpp>
#include <report/paper_page.hpp>

#include "sample_pages.hpp"

namespace paper_page_test {

using report::Json;
using report::paper_page;
using namespace report_test;

Json section(const Json& page, const std::string& title) {
  for (const Json& one : page["sections"])
    if (one["title"] == title) return one;
  ADD_FAILURE() << "no section " << title;
  return Json::object();
}

TEST(PaperPage, SumsUp) {
  const Json page = paper_page(paper_result());
  EXPECT_EQ(page["title"], "Beyond backpropagation, executed");
  EXPECT_EQ(page["facts"][0],
            Json::parse(R"(["Claims that hold", {"text": "35 of 36", "status": "fails"}])"));
  EXPECT_EQ(page["facts"][1], Json::parse(R"(["Seed", "1"])"));
  EXPECT_EQ(page["facts"][2], Json::parse(R"(["Time", "31 s"])"));
  const Json summary = section(page, "Summary");
  EXPECT_EQ(summary["blocks"][0]["rows"].size(), 36u);
  EXPECT_EQ(summary["blocks"][0]["rows"][9][0]["link"], "#claim-9");
  EXPECT_EQ(summary["blocks"][0]["rows"][9][4]["status"], "fails");
  EXPECT_EQ(summary["blocks"][0]["rows"][10][4]["status"], "holds");
  EXPECT_EQ(summary["blocks"].back()["text"], "bilevel paper --seed 1 --report FILE.html");
}

TEST(PaperPage, ShowsEachClaim) {
  const Json page = paper_page(paper_result());
  const Json claim = section(page, "What claim number 3 of the paper says in a few words");
  EXPECT_EQ(claim["id"], "claim-3");
  EXPECT_EQ(claim["level"], 2);
  EXPECT_EQ(claim["status"], "holds");
  EXPECT_EQ(claim["blocks"].back()["text"], "bilevel paper --claim claim-3 --seed 1");
  const std::string text = claim.dump();
  for (const char* part : {"For L_in =", "Newton's method", "Closed forms", "stationarity gives", "≤ 1e-08"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  // Its two charts stand side by side.
  EXPECT_EQ(claim["blocks"][3]["type"], "columns");
  EXPECT_EQ(claim["blocks"][3]["blocks"].size(), 2u);
}

TEST(PaperPage, OrdersTheFigures) {
  Json result = paper_result(3, 0);
  const auto figure = [](const char* label) {
    return Json{
        {"type", "table"}, {"label", label}, {"title", ""}, {"columns", {"c"}}, {"rows", Json::array()}};
  };
  result["claims"][0]["blocks"] = {figure("Figure 10"), figure("Figure 2B"), figure("Table 1"), figure("")};
  result["claims"][2]["blocks"] = {figure("Figure 2A"), figure("Figure 1"), figure("Figures of speech")};
  const Json page = paper_page(result);
  const Json figures = section(page, "The paper’s figures")["blocks"];
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0]["label"], "Figure 1");
  EXPECT_EQ(figures[0]["source"]["link"], "#claim-2");
  ASSERT_EQ(figures[1]["type"], "columns");
  EXPECT_EQ(figures[1]["blocks"][0]["label"], "Figure 2A");
  EXPECT_EQ(figures[1]["blocks"][1]["label"], "Figure 2B");
  EXPECT_EQ(figures[1]["blocks"][1]["source"]["link"], "#claim-0");
  EXPECT_EQ(figures[2]["label"], "Figure 10");
  EXPECT_EQ(section(page, "The paper’s tables")["blocks"].size(), 1u);
}

TEST(PaperPage, ListsTheSlips) {
  const Json rows = section(paper_page(paper_result()), "Corrected slips")["blocks"][1]["rows"];
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1][0]["link"], "#claim-10");
  EXPECT_EQ(rows[1][1], "The text says π* = dφ_β/dβ; stationarity gives −π*.");
  const Json without = paper_page(paper_result(3, 0));
  for (const Json& one : without["sections"]) EXPECT_NE(one["title"], "Corrected slips");
}

TEST(PaperPage, SaysWhatWasPlantedOrInterrupted) {
  Json result = paper_result(2, 0);
  EXPECT_EQ(paper_page(result)["lead"].get<std::string>().find("defect"), std::string::npos);
  result["planted"] = "cross-sign";
  result["interrupted"] = true;
  const Json page = paper_page(result);
  EXPECT_NE(page["lead"].get<std::string>().find("“cross-sign”"), std::string::npos);
  EXPECT_NE(page["lead"].get<std::string>().find("interrupted"), std::string::npos);
  EXPECT_NE(page.dump().find("--seed 1 --plant cross-sign --report"), std::string::npos);
}

TEST(PaperPage, NamesTheKeysThatItMisses) {
  const auto notices = [](const Json& result) {
    std::string text;
    const Json summary = section(paper_page(result), "Summary");
    for (const Json& one : summary["blocks"])
      if (one["type"] == "notice") text += one["text"].get<std::string>();
    return text;
  };
  Json result = paper_result(2, 0);
  EXPECT_EQ(notices(result), "");
  result.erase("asked");
  for (Json& claim : result["claims"]) {
    claim.erase("seconds");
    claim.erase("blocks");
  }
  EXPECT_EQ(notices(result),
            "Not in this file: asked, claims.seconds, claims.blocks. What would be made of it is left out of "
            "the page.");
}

TEST(PaperPage, KeepsLargeSeeds) {
  Json result = paper_result(1, 0);
  result["seed"] = 18446744073709551615u;
  EXPECT_EQ(paper_page(result)["facts"][1][1], "18446744073709551615");
}

TEST(PaperPage, NamesThePlaceOfWhatIsWrong) {
  const auto complaint = [](const char* pointer, Json value) -> std::string {
    Json result = paper_result(2, 0);
    result[Json::json_pointer(pointer)] = std::move(value);
    try {
      report::render(paper_page(result));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(complaint("/seed", 1.5), "seed: must be a whole number");
  EXPECT_EQ(complaint("/claims", nullptr), "the document: \"claims\" is missing");
  EXPECT_EQ(complaint("/claims/1/title", 3), "claims[1].title: must be a string, is number");
  EXPECT_EQ(complaint("/claims/1/checks/0/holds", "yes"),
            "claims[1].checks[0].holds: must be true or false, is string");
  EXPECT_EQ(complaint("/claims/1/blocks", {{{"type", "film"}}}),
            "sections[4].blocks[3].type: there is no block \"film\"");
}

TEST(PaperPage, HostileResultsMakeNoTag) {
  Json result = paper_result(3, 3);
  for (std::string* one : strings_of(result)) *one = hostile();
  const std::string html = report::render(paper_page(result));
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
}

TEST(PaperPage, IsSmall) {
  const std::string html = report::render(paper_page(paper_result()));
  RecordProperty("bytes", static_cast<int>(html.size()));
  EXPECT_LT(html.size(), 1500000u);
}

}  // namespace paper_page_test
