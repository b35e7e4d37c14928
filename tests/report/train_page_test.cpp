#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include <report/page.hpp>
#include <report/train_page.hpp>

#include "sample_pages.hpp"
#include "sample_training.hpp"

namespace train_page_test {

using report::Json;
using report::render;
using report::train_page;
using namespace report_test;

std::string complaint(const Json& result) {
  try {
    render(train_page(result));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

/// The block of this title, wherever it stands; null if there is none.
Json titled(const Json& value, const std::string& title) {
  if (value.is_object() && value.contains("type") && value.contains("title") && value["title"] == title)
    return value;
  if (value.is_structured())
    for (const Json& one : value)
      if (Json found = titled(one, title); !found.is_null()) return found;
  return nullptr;
}

TEST(TrainPage, SaysHowWellAndWhetherToTrust) {
  const Json page = train_page(train_result());
  EXPECT_EQ(page["title"], "A network that settles, trained on mnist");
  EXPECT_EQ(
      page["lead"],
      "After 25 epochs the network is wrong on 1.83 % of 10,000 test samples and on 0.0435 % of those it "
      "learned from.\n\n"
      "Its gradients can be trusted: on 16 samples they point within 2.9° of the exact ones (cosine "
      "0.9987), and the error is estimated to be at most 8 % of their length.");
  std::vector<std::string> ids;
  for (const Json& one : page["sections"]) ids.push_back(one["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"warnings", "learning", "gradients", "relaxation", "settings",
                                           "weights", "confusion", "wrong", "data", "again"}));
  EXPECT_EQ(page["facts"][0], Json({"Test error", "1.83 %"}));
  EXPECT_EQ(page["facts"][2], Json::parse(R"(["Gradients", {"text": "", "status": "trusted"}])"));
}

TEST(TrainPage, BelievesTheWorseOfTwoVerdicts) {
  const auto lead = [](Json trusted, Json verdict) {
    Json result = train_result();
    result["trusted"] = std::move(trusted);
    result["probe"]["certificate"]["verdict"] = std::move(verdict);
    const std::string text = train_page(result)["lead"];
    const std::size_t from = text.find("\n\n") + 2;
    return text.substr(from, text.find(':') - from);
  };
  const std::string good = "Its gradients can be trusted", doubt = "Its gradients are doubtful",
                    bad = "Do not trust its gradients";
  EXPECT_EQ(lead(true, "trusted"), good);
  EXPECT_EQ(lead(true, nullptr), good);
  EXPECT_EQ(lead(nullptr, "trusted"), good);
  EXPECT_EQ(lead(true, "doubtful"), doubt);
  EXPECT_EQ(lead(false, "doubtful"), doubt);
  EXPECT_EQ(lead(false, "trusted"), bad);
  EXPECT_EQ(lead(false, nullptr), bad);
  EXPECT_EQ(lead(true, "untrusted"), bad);
  EXPECT_EQ(lead(nullptr, nullptr), "Its gradients have no verdict");
}

TEST(TrainPage, SaysThatARunEndedEarly) {
  Json result = train_result(7);
  result["status"] = "diverged";
  result["message"] = "The cost is not finite.";
  result["trusted"] = false;
  result["epochs"][6]["test_error"] = nullptr;
  result["epochs"][5]["test_error"] = 0.9;
  const Json page = train_page(result);
  const std::string lead = page["lead"];
  // The training error of another epoch is not named beside it.
  EXPECT_TRUE(
      lead.starts_with("Training diverged after 7 of 25 epochs. After 6 epochs the network is wrong on "
                       "90 % of 10,000 test samples. It was better before: 2.12 % after 5 epochs.\n"))
      << lead;
  const Json care = blocks(page, "warnings");
  ASSERT_EQ(care.size(), 3u);
  EXPECT_EQ(care[0]["text"], "The run ended before it converged (diverged). The cost is not finite.");
  EXPECT_EQ(care[1]["text"], "The test cost has not fallen for 3 epochs.");
  EXPECT_EQ(care[2]["text"],
            "The gradients are untrusted: bias and noise of the nudge, estimated from a second β");
}

TEST(TrainPage, ExplainsTheProbe) {
  const Json table = titled(train_page(train_result()), "The last network’s gradient against the exact one");
  EXPECT_EQ(table["rows"], Json::parse(R"([
    ["Estimator", "ep-central", "compared with implicit-cg-preconditioned on 16 samples"],
    ["Cosine", "0.9987", "2.9° from the exact direction"],
    ["Relative error", "0.05", "length of the difference over that of the exact gradient"],
    ["Norm", "0.12", "length of the gradient"],
    ["Certificate", "estimated", "how far the bound can be relied on"],
    ["Bound", "0.0096", "of the gradient’s error: 8 % of its length"],
    ["Verdict", {"text": "", "status": "trusted"}, "bias and noise of the nudge, estimated from a second β"]])"));
}

TEST(TrainPage, ChoosesTheScaleOfErrors) {
  const char* const title = "How often the network is wrong";
  Json result = train_result();
  EXPECT_EQ(titled(train_page(result), title)["y"]["scale"], "log");
  EXPECT_EQ(titled(train_page(result), title)["series"][1]["points"][0],
            Json({1.0, 100 * result["epochs"][0]["test_error"].get<double>()}));
  // A log axis has no place for a network that is always right.
  result["epochs"][24]["train_error"] = 0;
  EXPECT_EQ(titled(train_page(result), title)["y"], Json::parse(R"({"name": "wrong, %", "min": 0})"));
}

TEST(TrainPage, DrawsNudgedPhasesAfterTheFreeOne) {
  Json result = train_result();
  const auto moved = [&](int series) {
    return titled(train_page(result), "Movement from step to step")["series"][series]["points"];
  };
  const Json energy = titled(train_page(result), "Nudged phases: mean energy");
  ASSERT_EQ(energy["series"].size(), 3u);
  EXPECT_EQ(energy["series"][0]["points"][0][0], -4);
  EXPECT_EQ(energy["series"][0]["points"][4][0], 0);
  EXPECT_EQ(energy["series"][2]["name"], "β = −0.5");
  EXPECT_EQ(moved(0)[0][0], 1);
  EXPECT_EQ(moved(1)[0][0], 21);
  EXPECT_EQ(moved(1)[3][0], 24);
  // With a zeroth movement, as long as the energies.
  Json& list = result["relaxation"]["free"]["moved"];
  list.insert(list.begin(), 0);
  EXPECT_EQ(moved(0)[0][0], 0);
  EXPECT_EQ(moved(0)[20][0], 20);
  EXPECT_EQ(
      blocks(train_page(result), "relaxation")[0]["text"],
      "In 20 steps of the free phase the mean energy went from −3.1 to −58.2 and the mean movement went "
      "from 0.3 to 1.83e−5.");
  result["relaxation"]["free"]["energy"][7] = 3;
  const std::string rose = blocks(train_page(result), "relaxation")[0]["text"];
  EXPECT_TRUE(rose.ends_with(" The energy rose at 1 step: without noise, a sign that the step is too long."))
      << rose;
}

TEST(TrainPage, ListsTheSettings) {
  Json result = train_result();
  result["settings"]["noise"] = nullptr;
  const Json page = train_page(result);
  EXPECT_EQ(titled(page, "The network")["rows"][1], Json({"Layers", "196 – 32 – 10"}));
  EXPECT_EQ(titled(page, "Learning")["rows"][3], Json({"Learning rates", "0.1, 0.05"}));
  EXPECT_EQ(titled(page, "Settling")["rows"].back(), Json({"Persistent states", "no"}));
  EXPECT_EQ(blocks(page, "data")[0]["items"][4], Json({"Features", "196, pictures of 14 × 14"}));
}

TEST(TrainPage, DrawsWeightsOnOneScale) {
  Json result = train_result(2, 2, 0, 0);
  result["weights"] =
      Json::parse(R"({"rows": 1, "columns": 3, "images": [[-0.5, 0, 0.25], [0.5, null, 0.1]]})");
  const Json images = blocks(train_page(result), "weights")[0];
  EXPECT_EQ(images["range"], 0.5);
  // 1, 128, 192 and 255, 128, 153.
  EXPECT_EQ(images["items"][0], Json::parse(R"({"width": 3, "height": 1, "pixels": "AYDA"})"));
  EXPECT_EQ(images["items"][1]["pixels"], "/4CZ");
  result["weights"]["images"][1].push_back(1);
  EXPECT_EQ(complaint(result), "weights.images[1]: has 4 elements, a picture of 1 × 3 has 3");
  // Inputs that are no pictures have no shape.
  result["weights"].erase("rows");
  EXPECT_TRUE(blocks(train_page(result), "weights").empty());
}

TEST(TrainPage, CountsConfusions) {
  Json result = train_result();
  const Json shown = blocks(train_page(result), "confusion");
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(shown[0]["text"], "101 of 9,936 samples are wrong; most often “4” is taken for “9”.");
  EXPECT_EQ(shown[1]["classes"], result["data"]["classes"]);
  EXPECT_EQ(shown[1]["counts"], result["confusion"]);
  EXPECT_EQ(shown[2]["rows"][0], Json({"4 → 9", "21", "2.09 %"}));
  EXPECT_EQ(shown[2]["rows"].size(), 10u);
  result["confusion"][3].push_back(1);
  EXPECT_EQ(complaint(result), "confusion[3]: has 11 elements, there are 10 classes");
  result["confusion"][3].erase(10);
  result["confusion"][3][1] = -1;
  EXPECT_EQ(complaint(result), "confusion[3][1]: must be a count");
  // Too many classes for a matrix, and none of them named.
  result["confusion"] = Json::array();
  for (int i = 0; i < 100; ++i) result["confusion"].push_back(Json(std::vector<int>(100, i == 7)));
  const Json many = blocks(train_page(result), "confusion");
  ASSERT_EQ(many.size(), 2u);
  EXPECT_EQ(many[1]["rows"][0][0], "7 → 0");
}

TEST(TrainPage, ShowsWrongSamples) {
  Json result = train_result(2, 2, 1, 2);
  result["wrong"][0]["image"] = {0, 1, 0.5, 7};
  const Json images = blocks(train_page(result), "wrong")[0];
  EXPECT_EQ(images["items"][0], Json::parse(R"({"width": 2, "height": 2, "pixels": "AP+A/w==",
                                                "caption": "4 → 9\nsample 115"})"));
  EXPECT_EQ(images["caption"], "Label → predicted.");
  // Samples that are no pictures stand in a table.
  result["data"].erase("image");
  const Json table = blocks(train_page(result), "wrong")[0];
  EXPECT_EQ(table["columns"], Json({"Sample", "Label", "Predicted"}));
  EXPECT_EQ(table["rows"], Json::parse(R"([["115", "4", "9"], ["212", "7", "2"]])"));
}

TEST(TrainPage, NamesTheKeysThatItMisses) {
  Json result = train_result(3, 4, 2, 2);
  EXPECT_EQ(train_page(result).dump().find("Not in this file"), std::string::npos);
  result.erase("confusion");
  EXPECT_NE(render(train_page(result)).find("Not in this file: confusion."), std::string::npos);
}

TEST(TrainPage, DoesWithoutAnyPart) {
  const Json whole = train_result(3, 4, 2, 2);
  EXPECT_EQ(complaint(Json::object()), "none");
  EXPECT_EQ(complaint(Json::parse(R"({"command": "train"})")), "none");
  const auto without = [&](const Json::json_pointer& parent, const std::string& key) {
    Json result = whole;
    result[parent][key] = nullptr;
    EXPECT_EQ(complaint(result), "none") << parent / key;
    result[parent].erase(key);
    EXPECT_EQ(complaint(result), "none") << parent / key;
  };
  // Every member of every object, and of the first object of every list.
  const auto all = [&](const auto& self, const Json::json_pointer& place) -> void {
    const Json& value = whole[place];
    if (value.is_array() && !value.empty() && value[0].is_object()) self(self, place / 0);
    if (!value.is_object()) return;
    for (const auto& [key, unused] : value.items()) {
      without(place, key);
      self(self, place / key);
    }
  };
  all(all, Json::json_pointer());
  Json empty = whole;
  for (const char* key : {"epochs", "confusion", "wrong", "warnings"}) empty[key] = Json::array();
  for (const char* key : {"data", "network", "settings", "probe", "relaxation", "weights"})
    empty[key] = Json::object();
  EXPECT_EQ(complaint(empty), "none");
  // Every number may be one that JSON cannot write, but for the shape of pictures.
  Json gaps = whole;
  gaps["data"]["image"] = nullptr;
  for (Json& epoch : gaps["epochs"])
    for (Json& value : epoch) value = nullptr;
  for (const char* key : {"energy", "moved"})
    for (Json& value : gaps["relaxation"]["free"][key]) value = nullptr;
  for (Json& row : gaps["confusion"])
    for (Json& value : row) value = nullptr;
  EXPECT_EQ(complaint(gaps), "none");
}

TEST(TrainPage, NamesThePlaceOfWhatIsWrong) {
  const auto wrong = [](const char* pointer, Json value) {
    Json result = train_result(3, 4, 2, 2);
    result[Json::json_pointer(pointer)] = std::move(value);
    return complaint(result);
  };
  EXPECT_EQ(wrong("/epochs/1/test_error", "low"), "epochs[1].test_error: must be a number, is string");
  EXPECT_EQ(wrong("/trusted", "yes"), "trusted: must be true or false, is string");
  EXPECT_EQ(wrong("/relaxation/nudged/1/energy/2", "x"),
            "relaxation.nudged[1].energy[2]: must be a number, is string");
  EXPECT_EQ(wrong("/wrong/1/image", {0, 1}), "wrong[1].image: has 2 elements, a picture of 4 × 4 has 16");
  EXPECT_EQ(wrong("/settings/beta", Json::object()), "settings.beta: must be a string, is object");
  EXPECT_EQ(wrong("/data/classes/3", 3), "data.classes[3]: must be a string, is number");
}

TEST(TrainPage, HostileResultsMakeNoTag) {
  const auto tags = [](const Json& result) {
    const std::string html = render(train_page(result));
    return std::array{std::count(html.begin(), html.end(), '<'), std::count(html.begin(), html.end(), '>')};
  };
  Json result = train_result(2, 2, 1, 1);
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

TEST(TrainPage, IsSmall) {
  Json result = train_result(5000, 28, 64, 100);
  std::string html = render(train_page(result));
  RecordProperty("bytes", static_cast<int>(html.size()));
  EXPECT_LT(html.size(), 2000000u);
  EXPECT_NE(html.find("Label → predicted. The first 60 of 100."), std::string::npos);
  html = render(train_page(train_result(2, 500, 3, 3)));
  EXPECT_LT(html.size(), 2000000u);
  EXPECT_NE(html.find("The first 1 of 3."), std::string::npos);
}

}  // namespace train_page_test
