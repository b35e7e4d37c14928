#include <chrono>
#include <stdexcept>

#include <gtest/gtest.h>

#include <report/page.hpp>
#include <report/tune_page.hpp>

#include "sample_pages.hpp"
#include "sample_results.hpp"

namespace tune_page_test {

using report::Json;
using report::render;
using report::tune_page;
using namespace report_test;

Json section(const Json& page, const std::string& id) {
  for (const Json& one : page["sections"])
    if (one["id"] == id) return one;
  ADD_FAILURE() << "no section " << id;
  return {{"blocks", Json::array()}};
}

/// The first block of a section that has this type.
Json block(const Json& page, const std::string& id, const std::string& type, std::size_t which = 0) {
  const Json found = section(page, id);
  for (const Json& one : found["blocks"])
    if (one["type"] == type && which-- == 0) return one;
  ADD_FAILURE() << "no " << type << " in " << id;
  return Json::object();
}

bool contains(const Json& value, const std::string& part) {
  return (value.is_string() ? value.get<std::string>() : value.dump()).find(part) != std::string::npos;
}

TEST(TunePage, SaysWhatWasTunedAndHowWell) {
  const Json page = tune_page(tune_result());
  EXPECT_EQ(page["title"], "Tuned penalties for patients.csv");
  EXPECT_EQ(
      page["lead"],
      "22 penalties of a logistic regression, one for each feature, were tuned on 3,000 training rows and "
      "1,000 validation rows in 1.2 s.\n\n"
      "Validation loss: 0.412 with the default λ = 1, 0.392 with the best single λ = 0.04979 (21 fits, "
      "1.3 s), 0.371 tuned.\n\n"
      "On 1,000 test rows, which took no part: loss 0.417 with the default λ, 0.401 with the best single "
      "λ, 0.3899 tuned. Accuracy: 0.831 with the default λ, 0.842 with the best single λ, 0.853 tuned. "
      "The tuned test loss is 2.8 % lower than that of the best single λ, a difference of 0.011 ± 0.004 (its "
      "standard error, row by row).");
  EXPECT_EQ(page["facts"][0], Json({"Validation loss", "0.371"}));
  EXPECT_TRUE(contains(page["facts"], R"(["Outcome",{"text":"","status":"converged"}])"));
}

TEST(TunePage, HasItsPartsInOrder) {
  const Json page = tune_page(tune_result());
  std::vector<std::string> ids;
  for (const Json& one : page["sections"]) ids.push_back(one["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"result", "time", "penalties", "coefficients", "certificates",
                                           "data", "formulas", "again"}));
  EXPECT_EQ(section(page, "result")["blocks"][0]["type"], "notice");
  EXPECT_TRUE(contains(section(page, "result")["blocks"][0]["text"], "Try --cv 5"));
  EXPECT_EQ(section(page, "again")["blocks"].back(),
            Json({{"type", "code"},
                  {"text", "bilevel tune patients.csv --target ill --penalty per-feature --seed 1"}}));
  EXPECT_TRUE(contains(section(page, "data"), "3,000 training, 1,000 validation, 1,000 test"));
  EXPECT_TRUE(contains(section(page, "data"), "2: site, year"));
  EXPECT_TRUE(contains(section(page, "data"), "dense, 12,345,678 nonzero numbers"));
  EXPECT_TRUE(contains(section(page, "formulas"), "½ Σⱼ exp(θⱼ) φⱼ²"));
  EXPECT_TRUE(contains(section(page, "formulas"), "−10 ≤ θ = log λ ≤ 10"));
}

TEST(TunePage, ComparesInATable) {
  const Json table = block(tune_page(tune_result()), "result", "table");
  EXPECT_EQ(table["columns"], Json({"Penalties", "λ", "Validation loss", "Test loss", "Test accuracy",
                                    "Test AUC", "Fits", "Seconds"}));
  EXPECT_EQ(table["rows"][0], Json({"Default λ", "1", "0.412", "0.417", "0.831", "0.893", "–", "–"}));
  EXPECT_EQ(table["rows"][1],
            Json({"Best single λ", "0.04979", "0.392", "0.401", "0.842", "0.905", "21", "1.26"}));
  EXPECT_EQ(table["rows"][2], Json({"Tuned", "22 values", "0.371", "0.3899", "0.853", "0.912", "–", "1.25"}));
}

// Losses that got worse are said to be worse.
TEST(TunePage, IsHonestWhenTheTestLossRises) {
  Json result = tune_result();
  result["test"]["loss"] = 0.441;
  result["validation_loss"] = 0.392;
  const Json lead = tune_page(result)["lead"];
  EXPECT_TRUE(contains(lead, "The tuned test loss is 10 % higher than that of the best single λ")) << lead;
  EXPECT_FALSE(contains(lead, "which is")) << "what the judging rows say is no gain: " << lead;
}

TEST(TunePage, SaysAndDrawsWhatTheDataAnswered) {
  Json result = tune_result();
  result["model"]["penalty"] = "auto";
  result["model"]["hyperparameters"] = 2;
  result["choice"] = {{"kind", "adaptive"},
                      {"gamma", 0.8},
                      {"gain", 0.04},
                      {"gain_error", 0.01},
                      {"answers", {"Do features want different penalties? p 0.03: yes"}}};
  const Json page = tune_page(result);
  EXPECT_TRUE(
      contains(page["lead"], "22 penalties of a logistic regression, one for each feature, by 2 numbers,"))
      << page["lead"];
  const Json blocks = section(page, "result")["blocks"];
  EXPECT_TRUE(contains(blocks, "Do features want different penalties? p 0.03: yes."));
  const Json chart = blocks.back()["type"] == "chart" ? blocks.back() : blocks[blocks.size() - 2];
  EXPECT_EQ(chart["title"], "Loss compared with the best single λ");
  EXPECT_NEAR(chart["series"][0]["values"][0].get<double>(), -4, 1e-12);
  EXPECT_NEAR(chart["series"][1]["values"][0].get<double>(), -6, 1e-12);
  EXPECT_NEAR(chart["series"][0]["values"].back().get<double>(), 100 * (0.3899 - 0.401) / 0.401, 0.01);
}

TEST(TunePage, SaysWhenItDidNotConverge) {
  Json result = tune_result();
  EXPECT_FALSE(contains(tune_page(result), "ended before it converged"));
  result["status"] = "iteration-limit";
  result["message"] = "100 steps were not enough.";
  EXPECT_EQ(section(tune_page(result), "result")["blocks"][0]["text"],
            "The run ended before it converged (iteration-limit). 100 steps were not enough.");
}

TEST(TunePage, DrawsLossAgainstTime) {
  Json result = tune_result();
  Json points = Json::array();
  for (const double loss : {0.5, 0.4, 0.45}) points.push_back({{"validation_loss", loss}, {"seconds", 1}});
  result["baseline"]["grid"]["points"] = points;
  result["baseline"]["grid"]["seconds"] = 3;
  result["history"] =
      Json::parse(R"([{"outer_value": 0.4, "seconds": 0.5}, {"outer_value": 0.3, "seconds": 1}])");
  const Json chart = block(tune_page(result), "time", "chart");
  ASSERT_EQ(chart["series"].size(), 4u);
  EXPECT_EQ(chart["series"][0]["points"], Json::parse("[[1.0,0.5],[2.0,0.4],[3.0,0.45]]"));
  EXPECT_EQ(chart["series"][1]["points"], Json::parse("[[1.0,0.5],[2.0,0.5],[2.0,0.4],[3.0,0.4]]"));
  EXPECT_EQ(chart["series"][2]["points"], Json::parse("[[3.5,0.4],[4.0,0.3]]"));
  EXPECT_EQ(chart["series"][3]["points"], Json::parse("[[3.5,0.4],[4.0,0.4],[4.0,0.3],[4.0,0.3]]"));
  EXPECT_FALSE(chart["y"].contains("max"));
  result["baseline"]["grid"]["points"][0]["validation_loss"] = 50;
  const Json cut = block(tune_page(result), "time", "chart");
  EXPECT_NEAR(cut["y"]["max"], 0.9, 1e-12);
  EXPECT_TRUE(contains(cut["caption"], "One loss lies above the frame."));
}

TEST(TunePage, SortsThePenalties) {
  const Json page = tune_page(tune_result());
  const Json chart = block(page, "penalties", "chart"), table = block(page, "penalties", "table");
  EXPECT_EQ(section(page, "penalties")["blocks"][0]["text"],
            "7 of 22 penalties sit at the upper bound: these features are not used.");
  EXPECT_EQ(
      section(page, "penalties")["blocks"][1]["text"],
      "1 of 22 penalties sits at the lower bound: this feature is hardly penalised, and a smaller lower "
      "bound (--bounds) may reduce the loss further.");
  EXPECT_EQ(chart["horizontal"], true);
  EXPECT_EQ(chart["categories"].size(), 22u);
  EXPECT_EQ(chart["categories"][0], "feature 1");
  ASSERT_EQ(chart["series"].size(), 3u);
  EXPECT_EQ(chart["series"][1]["name"], "at the upper bound");
  EXPECT_EQ(chart["series"][1]["values"].back(), 10);
  EXPECT_TRUE(chart["series"][0]["values"].back().is_null());
  EXPECT_EQ(chart["series"][2]["values"][0], -10);
  EXPECT_EQ(table["search"], true);
  ASSERT_EQ(table["rows"].size(), 22u);
  EXPECT_EQ(table["rows"][0], Json({"feature 1", "−10", "4.54e−5", "lower"}));
  EXPECT_EQ(table["rows"].back(), Json({"feature 21", "10", "22030", "upper"}));
}

TEST(TunePage, NamesGroupsAndClasses) {
  Json result = tune_result();
  result["model"]["penalty"] = "per-class";
  const Json page = tune_page(result);
  EXPECT_TRUE(contains(page["lead"], "one for each class"));
  EXPECT_TRUE(contains(section(page, "penalties"), "these classes are not used"));
  result["model"]["penalty"] = "global";
  result["model"]["hyperparameters"] = 1;
  result["penalties"] = Json::parse(R"([{"name": "all", "log_lambda": 0.0, "at_bound": null}])");
  const Json single = tune_page(result);
  EXPECT_TRUE(contains(single["lead"], "The penalty of a logistic regression was tuned on"))
      << single["lead"];
  EXPECT_EQ(block(single, "result", "table")["rows"][2][1], "1");
  const Json penalties = section(single, "penalties");
  for (const Json& one : penalties["blocks"]) EXPECT_NE(one["type"], "chart");
}

TEST(TunePage, SpeaksOfANetworksWeights) {
  Json result = tune_result();
  result["model"]["name"] = "mlp";
  result["model"]["penalty"] = "auto";
  result["choice"] = {{"kind", "per-layer"}, {"gain", 0.04}, {"gain_error", 0.01}};
  result["penalties"] = Json::parse(R"([{"name": "layer 1", "log_lambda": -10.0, "at_bound": "lower"},
                                        {"name": "layer 2", "log_lambda": 0.0, "at_bound": null}])");
  const Json page = tune_page(result), penalties = section(page, "penalties");
  EXPECT_TRUE(
      contains(penalties, "1 of 2 penalties sits at the lower bound: this layer is hardly penalised"));
  EXPECT_TRUE(contains(penalties, "The penalty of each layer"));
  EXPECT_TRUE(contains(penalties, "the more freely its weights are used"));
  EXPECT_EQ(block(page, "penalties", "table")["columns"][0], "Layer");
  EXPECT_FALSE(contains(penalties, "eature")) << penalties;
  EXPECT_TRUE(contains(section(page, "result"), "held-out rows: per-layer"));

  result["choice"]["kind"] = "single";
  result["penalties"] = Json::parse(R"([{"name": "all", "log_lambda": -10.0, "at_bound": "lower"}])");
  const Json single = section(tune_page(result), "penalties");
  EXPECT_TRUE(contains(single, "1 of 1 penalty sits at the lower bound: the weights are hardly penalised"));
  EXPECT_FALSE(contains(single, "eature")) << single;
}

// The screen advises a narrower box for such a run.
TEST(TunePage, AdvisesNoWiderBoxForARunThatIsNotTrustworthy) {
  Json result = tune_result();
  result["status"] = "stalled";
  const Json stalled = tune_page(result);
  EXPECT_TRUE(contains(section(stalled, "penalties"), "this feature is hardly penalised."));
  EXPECT_FALSE(contains(stalled, "a smaller lower bound"));
  EXPECT_TRUE(contains(section(stalled, "result"), "a narrower box (--bounds -7:7) is easier to certify."));
  result["status"] = "converged";
  result["certificate"]["verdict"] = "doubtful";
  EXPECT_FALSE(contains(tune_page(result), "a smaller lower bound"));
}

TEST(TunePage, SaysOfOneGradientThatItWasTrusted) {
  Json result = tune_result();
  result["history"] = Json::array({result["history"].back()});
  result["history"][0]["verdict"] = "trusted";
  EXPECT_TRUE(
      contains(block(tune_page(result), "certificates", "text")["text"], "1 of 1 gradient was trusted."));
}

TEST(TunePage, ShowsCoefficientsByClass) {
  const Json page = tune_page(tune_result(6, 3));
  const Json chart = block(page, "coefficients", "chart"), table = block(page, "coefficients", "table");
  ASSERT_EQ(chart["series"].size(), 4u);
  EXPECT_EQ(chart["series"][1]["name"], "class 1");
  EXPECT_EQ(chart["series"][1]["points"].size(), 6u);
  EXPECT_EQ(chart["series"][3]["name"], "equal");
  EXPECT_EQ(table["columns"], Json({"Feature", "Class", "Best single λ", "Tuned"}));
  ASSERT_EQ(table["rows"].size(), 18u);
  Json largest = Json::object();
  const Json result = tune_result(6, 3);
  for (const Json& one : result["coefficients"])
    if (largest.empty() || std::abs(one["tuned"].get<double>()) > std::abs(largest["tuned"].get<double>()))
      largest = one;
  EXPECT_EQ(table["rows"][0][0], largest["name"]);
  EXPECT_EQ(table["rows"][0][1], largest["class"]);
}

TEST(TunePage, CountsZeros) {
  Json result = tune_result();
  result["coefficients"][0]["tuned"] = 0;
  EXPECT_EQ(section(tune_page(result), "coefficients")["blocks"][0]["text"],
            "Exactly zero: 0 of 22 coefficients with the best single λ, 1 tuned.");
}

TEST(TunePage, ShowsTheCertificates) {
  const Json page = tune_page(tune_result());
  EXPECT_TRUE(contains(block(page, "certificates", "text")["text"], "24 of 25 gradients were trusted."));
  const Json chart = block(page, "certificates", "chart");
  EXPECT_EQ(chart["y"]["scale"], "log");
  EXPECT_EQ(chart["series"][0]["points"].size(), 25u);
  EXPECT_EQ(chart["series"][1]["style"], "dashed");
  const Json table = block(page, "certificates", "table");
  EXPECT_EQ(table["rows"][3][1], "no");
  EXPECT_EQ(table["rows"][24][6]["status"], "trusted");
}

/// Every member of every object below `value`, as pointers.
void collect_places(const Json& value, const Json::json_pointer& here,
                    std::vector<Json::json_pointer>& places) {
  if (!here.empty()) places.push_back(here);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) collect_places(member, here / key, places);
  // One element stands for all of an array.
  if (value.is_array() && !value.empty()) collect_places(value[0], here / 0, places);
}

// Each part of a result may be missing or null; numbers of arrays of numbers and texts of arrays may not.
TEST(TunePage, DoesWithoutAnyPart) {
  const Json whole = tune_result(5, 3, 4);
  std::vector<Json::json_pointer> places;
  collect_places(whole, Json::json_pointer(), places);
  ASSERT_GT(places.size(), 80u);
  int tried = 0;
  for (const auto& place : places) {
    if (place.back() == "0") continue;
    Json result = whole;
    result[place] = nullptr;
    EXPECT_NO_THROW(render(tune_page(result))) << place;
    result[place.parent_pointer()].erase(place.back());
    EXPECT_NO_THROW(render(tune_page(result))) << place;
    ++tried;
  }
  EXPECT_GT(tried, 70);
  EXPECT_NO_THROW(render(tune_page(Json::object())));
}

TEST(TunePage, NamesTheKeysThatItMisses) {
  const auto notice = [](const Json& result) {
    const std::string first = section(tune_page(result), "result")["blocks"][0].value("text", "");
    return first.starts_with("Not in this file: ") ? first : "";
  };
  const Json whole = tune_result();
  EXPECT_EQ(notice(whole), "");
  Json result = whole;
  result["baseline"]["grid"].erase("points");
  EXPECT_EQ(notice(result),
            "Not in this file: baseline.grid.points. What would be made of it is left out of the page.");
  EXPECT_TRUE(contains(render(tune_page(result)), "Not in this file: baseline.grid.points"));
  result.erase("baseline");
  result.erase("history");
  for (Json& one : result["penalties"]) one.erase("log_lambda");
  EXPECT_TRUE(contains(notice(result), "file: baseline.grid.points, penalties.log_lambda, history. "))
      << notice(result);
  // What a run has nothing to say about is null or empty, and what it need not have is not missed.
  result = whole;
  result["certificate"] = nullptr;
  result["history"] = Json::array();
  for (const char* key : {"test", "warnings", "choice", "validation"}) result.erase(key);
  EXPECT_EQ(notice(result), "");
}

TEST(TunePage, DoesWithEmptyLists) {
  Json result = tune_result();
  for (const char* place :
       {"/penalties", "/coefficients", "/history", "/warnings", "/baseline/grid/points", "/data/classes",
        "/data/constant", "/data/notes", "/data/groups", "/model/bounds"})
    result[Json::json_pointer(place)] = Json::array();
  EXPECT_NO_THROW(render(tune_page(result)));
}

TEST(TunePage, NamesThePlaceOfWhatIsWrong) {
  const auto complaint = [](const char* pointer, Json value) -> std::string {
    Json result = tune_result();
    result[Json::json_pointer(pointer)] = std::move(value);
    try {
      render(tune_page(result));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(complaint("/validation_loss", "low"), "validation_loss: must be a number, is string");
  EXPECT_EQ(complaint("/penalties/3/log_lambda", true),
            "penalties[3].log_lambda: must be a number, is boolean");
  EXPECT_EQ(complaint("/penalties", 3), "penalties: must be an array, is number");
  EXPECT_EQ(complaint("/baseline/grid/points/2", 7), "baseline.grid.points[2]: must be an object, is number");
  EXPECT_EQ(complaint("/data/standardized", 1), "data.standardized: must be true or false, is number");
  EXPECT_EQ(complaint("/history/1/verdict", 1), "history[1].verdict: must be a string, is number");
}

TEST(TunePage, HostileResultsMakeNoTag) {
  const auto tags = [](const Json& result) {
    const std::string html = render(tune_page(result));
    return std::array{std::count(html.begin(), html.end(), '<'), std::count(html.begin(), html.end(), '>')};
  };
  Json result = tune_result(4, 3, 3);
  const std::vector<std::string*> strings = strings_of(result);
  ASSERT_GT(strings.size(), 40u);
  for (std::string* one : strings) {
    const std::string before = std::exchange(*one, "word");
    const auto plain = tags(result);
    *one = hostile();
    EXPECT_EQ(tags(result), plain) << "in place of: " << before;
    *one = before;
  }
  for (std::string* one : strings) *one = hostile();
  const std::string html = render(tune_page(result));
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
}

TEST(TunePage, StaysSmallWithLongNames) {
  Json result = tune_result(5000);
  for (const char* list : {"penalties", "coefficients"})
    for (Json& one : result[list]) one["name"] = std::string(400, 'x') + one["name"].get<std::string>();
  const Json page = tune_page(result);
  EXPECT_LT(render(page).size(), 2000000u);
  const Json table = block(page, "penalties", "table");
  EXPECT_GT(table["rows"].size(), 1000u);
  EXPECT_TRUE(contains(table["caption"], " of 5,000 are in this page")) << table["caption"];
}

TEST(TunePage, StaysSmallAndQuick) {
  for (const auto& [features, classes] : {std::pair{5000, 2}, std::pair{100000, 2}, std::pair{5000, 20}}) {
    const Json result = tune_result(features, classes, 400);
    const auto start = std::chrono::steady_clock::now();
    const Json page = tune_page(result);
    const std::string html = render(page);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    RecordProperty(fmt::format("bytes_{}_{}", features, classes), static_cast<int>(html.size()));
    EXPECT_LT(html.size(), 2000000u) << features;
    EXPECT_LT(seconds, 5) << features;
    if (features == 100000) {
      EXPECT_EQ(block(page, "penalties", "table")["caption"],
                "The smallest 10,000 of 100,000 are in this page; the file written by --json has all.");
    }
    EXPECT_EQ(block(page, "penalties", "chart", 1)["categories"].size(), 40u);
    EXPECT_LE(block(page, "coefficients", "chart")["series"][0]["points"].size(), 2000u);
  }
}

}  // namespace tune_page_test
