#include <stdexcept>

#include <gtest/gtest.h>

#include <report/clean_page.hpp>
#include <report/page.hpp>

#include "sample_pages.hpp"
#include "sample_results.hpp"

namespace clean_page_test {

using report::clean_page;
using report::Json;
using report::render;
using namespace report_test;

std::string complaint(const Json& result) {
  try {
    render(clean_page(result));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

TEST(CleanPage, SaysWhatWasFound) {
  const Json page = clean_page(clean_result());
  EXPECT_EQ(page["title"], "Suspicious labels in train-images.idx");
  EXPECT_EQ(
      page["lead"],
      "2,480 of 5,000 training rows look mislabelled: learned to serve the trusted rows, their weight fell "
      "below 0.5, and the model contradicts their labels. The run took 95 s.\n\n"
      "The truth is known: 2,500 labels differ from the original. 96 % of the corrupted labels were found, "
      "and 96.8 % of the rows found are corrupted (F1 0.9639).\n\n"
      "Accuracy on 10,000 test rows, with all rows as they are and with the learned weights: 0.781 → "
      "0.902.");
  std::vector<std::string> ids;
  for (const Json& one : page["sections"]) ids.push_back(one["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"result", "weights", "suspects", "time", "certificates", "data",
                                           "formulas", "again"}));
  EXPECT_EQ(blocks(page, "result")[0]["text"], "Only 12 trusted rows have the label “7”.");
}

TEST(CleanPage, SaysWhoseBoundsTheyAre) {
  Json result = clean_result();
  result["command"] = "clean";
  result["model"]["bounds"] = {-10, 10};
  bool said = false;
  for (const Json& block : blocks(clean_page(result), "formulas"))
    said = said || block.dump().find("a row’s weight, as a logit") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(CleanPage, ComparesWithTheTruth) {
  const Json table = blocks(clean_page(clean_result()), "result")[1];
  EXPECT_EQ(table["columns"], Json({"Label", "Suspicious", "Kept", "All"}));
  EXPECT_EQ(table["rows"], Json::parse(R"([["corrupted", "2400", "100", "2500"],
                                           ["as in the original", "80", "2420", "2500"],
                                           ["all", "2480", "2520", "5000"]])"));
  const Json after = blocks(clean_page(clean_result()), "result")[2];
  EXPECT_EQ(after["rows"], Json::parse(R"([["Test accuracy", "0.781", "0.902"],
                                           ["Loss on the trusted rows", "0.912", "0.334"]])"));
}

TEST(CleanPage, DrawsTheHistogram) {
  Json result = clean_result();
  const Json chart = blocks(clean_page(result), "weights")[0];
  EXPECT_EQ(chart["categories"].size(), 10u);
  EXPECT_EQ(chart["categories"][3], "0.3 to 0.4");
  ASSERT_EQ(chart["series"].size(), 2u);
  EXPECT_EQ(chart["series"][1]["name"], "label corrupted");
  EXPECT_EQ(chart["series"][1]["values"][0], 1900);
  result["weights_histogram"] = Json::parse(R"({"edges": [0, 0.5, 1], "counts": [3, 4]})");
  const Json plain = blocks(clean_page(result), "weights")[0];
  ASSERT_EQ(plain["series"].size(), 1u);
  EXPECT_EQ(plain["series"][0]["values"], Json({3, 4}));
  result["weights_histogram"]["counts"].push_back(5);
  EXPECT_EQ(complaint(result), "weights_histogram.counts: has 3 elements, there are 3 edges");
}

TEST(CleanPage, ShowsTheSuspects) {
  Json result = clean_result(30, 3);
  const Json shown = blocks(clean_page(result), "suspects");
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0]["type"], "images");
  EXPECT_EQ(shown[0]["items"], result["images"]);
  EXPECT_EQ(shown[1]["columns"],
            Json({"Rank", "Row", "Label", "Predicted", "Weight", "Corrupted", "Original"}));
  EXPECT_EQ(shown[1]["rows"][1], Json({"2", "29", "1", "4", "0.0005715", "yes", "4"}));
  EXPECT_EQ(shown[1]["search"], true);
  // Without images and truth: fewer columns, and the table alone.
  result.erase("images");
  for (Json& one : result["suspects"])
    for (const char* key : {"predicted", "corrupted", "original"}) one.erase(key);
  result["suspects"][0]["row"] = 12345678;
  result["suspects"][0]["label"] = 7;
  const Json plain = blocks(clean_page(result), "suspects");
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0]["columns"], Json({"Rank", "Row", "Label", "Weight"}));
  EXPECT_EQ(plain[0]["rows"][0], Json({"1", "12345678", "7", "0.0003354"}));
}

TEST(CleanPage, NamesTheKeysThatItMisses) {
  Json result = clean_result(5, 2);
  EXPECT_EQ(clean_page(result).dump().find("Not in this file"), std::string::npos);
  result.erase("weights_histogram");
  EXPECT_NE(render(clean_page(result)).find("Not in this file: weights_histogram."), std::string::npos);
}

TEST(CleanPage, DoesWithoutAnyPart) {
  const Json whole = clean_result(5, 2);
  EXPECT_NO_THROW(render(clean_page(Json::object())));
  const auto without = [&](const Json::json_pointer& parent, const std::string& key) {
    Json result = whole;
    result[parent][key] = nullptr;
    EXPECT_EQ(complaint(result), "none") << parent / key;
    result[parent].erase(key);
    EXPECT_EQ(complaint(result), "none") << parent / key;
  };
  for (const auto& [key, value] : whole.items()) {
    without(Json::json_pointer(), key);
    // A histogram without edges is none, and an image has to have its size and its pixels.
    const bool array = value.is_array() && !value.empty() && value[0].is_object();
    if (key == "weights_histogram" || key == "images") continue;
    const Json::json_pointer place = Json::json_pointer() / key;
    if (value.is_object())
      for (const auto& [inner, unused] : value.items()) without(place, inner);
    if (array)
      for (const auto& [inner, unused] : value[0].items()) without(place / 0, inner);
  }
  Json empty = whole;
  for (const char* key : {"suspects", "images", "history", "warnings"}) empty[key] = Json::array();
  EXPECT_EQ(complaint(empty), "none");
}

TEST(CleanPage, NamesThePlaceOfWhatIsWrong) {
  Json result = clean_result(5, 2);
  result["images"][1]["pixels"] = "x";
  EXPECT_EQ(complaint(result), "sections[2].blocks[0].items[1].pixels: must be 28 × 28 bytes in base64");
  result = clean_result(5, 2);
  result["suspects"][2]["weight"] = "much";
  EXPECT_EQ(complaint(result), "suspects[2].weight: must be a number, is string");
  result = clean_result(5, 2);
  result["flagged"] = "all";
  EXPECT_EQ(complaint(result), "flagged: must be a number, is string");
}

TEST(CleanPage, HostileResultsMakeNoTag) {
  const auto tags = [](const Json& result) {
    const std::string html = render(clean_page(result));
    return std::array{std::count(html.begin(), html.end(), '<'), std::count(html.begin(), html.end(), '>')};
  };
  Json result = clean_result(3, 2);
  const std::vector<std::string*> strings = strings_of(result);
  ASSERT_GT(strings.size(), 30u);
  for (std::string* one : strings) {
    const std::string before = std::exchange(*one, "word");
    const auto plain = tags(result);
    *one = hostile();
    EXPECT_EQ(tags(result), plain) << "in place of: " << before;
    *one = before;
  }
}

TEST(CleanPage, IsSmall) {
  const std::string html = render(clean_page(clean_result(60000, 200)));
  RecordProperty("bytes", static_cast<int>(html.size()));
  EXPECT_LT(html.size(), 2000000u);
  EXPECT_NE(html.find("The most suspicious 10,000 of 60,000 are in this page"), std::string::npos);
  EXPECT_NE(html.find("The first 120 of 200 images."), std::string::npos);
}

}  // namespace clean_page_test
