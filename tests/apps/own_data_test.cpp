// solve, compare and doctor on a person's own data.

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace own_data_test {

using namespace program;

const json& named(const json& list, const std::string& name) {
  for (const json& each : list)
    if (each.value("name", "") == name || each.value("method", "") == name) return each;
  ADD_FAILURE() << "there is no " << name;
  return list.front();
}

TEST(OwnData, EveryEstimatorSideBySide) {
  const std::string data = data_file("own.csv", 80, "number", 11);
  for (const char* how : {" --validation 0.25", " --cv 3"}) {
    SCOPED_TRACE(how);
    const json j = run_json("compare " + data + " --target answer --model ridge --penalty per-feature" + how +
                                " --methods exact,implicit-cg,implicit-direct,ep-central,unrolled,one-step",
                            0);
    EXPECT_EQ(j["problem"]["name"], "ridge");
    EXPECT_EQ(j["problem"]["theta_size"], 6);
    EXPECT_EQ(j["data"]["source"], data);
    EXPECT_EQ(j["model"]["penalty"], "per-feature");
    for (const char* method : {"exact", "implicit-cg", "implicit-direct"}) {
      EXPECT_LE(named(j["estimates"], method)["relative_error"].get<double>(), 1e-8) << method;
      EXPECT_EQ(named(j["estimates"], method)["verdict"], "trusted") << method;
    }
    EXPECT_LE(named(j["estimates"], "ep-central")["relative_error"].get<double>(), 1e-4);
  }
}

TEST(OwnData, SolveEndsWhereTuneDoes) {
  const std::string data = data_file("own.csv", 120, "2", 12), common = data + " --validation 0.3 --penalty ";
  const json tuned = run_json("tune " + common + "global --bounds -10:10", 0),
             solved = run_json("solve " + common + "global", 0);
  EXPECT_NEAR(solved["theta"][0].get<double>(), tuned["penalties"][0]["log_lambda"].get<double>(), 0.5)
      << "tune may stay on its grid where few rows judge";
  EXPECT_LE(solved["outer_value"].get<double>(), tuned["validation_loss"].get<double>() + 1e-9);
  EXPECT_EQ(solved["data"], tuned["data"]);
  const json many = run_json("tune " + common + "per-feature --bounds -10:10", 0),
             again = run_json("solve " + common + "per-feature --bounds -10:10", 0);
  ASSERT_EQ(again["theta"].size(), many["penalties"].size());
  for (std::size_t k = 0; k < again["theta"].size(); ++k)
    EXPECT_NEAR(again["theta"][k].get<double>(), many["penalties"][k]["log_lambda"].get<double>(), 1e-3);
  EXPECT_EQ(again["problem"]["prior"]["width"], 0.5);
  const json searched = run_json("solve " + common + "global --optimizer nlopt-bobyqa --budget 60", 1);
  EXPECT_NEAR(searched["outer_value"].get<double>(), solved["outer_value"].get<double>(), 1e-6);
}

TEST(OwnData, SearchesLookAtTheMeanOfTheFolds) {
  const std::string data = data_file("own.csv", 120, "2", 12),
                    common = "solve " + data + " --cv 3 --penalty global";
  const json solved = run_json(common, 0),
             searched = run_json(common + " --optimizer nlopt-bobyqa --budget 60", 1);
  EXPECT_NEAR(searched["outer_value"].get<double>(), solved["outer_value"].get<double>(), 1e-7);
  EXPECT_NEAR(searched["theta"][0].get<double>(), solved["theta"][0].get<double>(), 1e-2);
}

TEST(OwnData, LassoToo) {
  const std::string data = data_file("own.csv", 90, "number", 14) + " --model lasso --cv 3";
  const json j = run_json("compare " + data, 0);
  EXPECT_EQ(j["inner"], "coordinate-descent");
  EXPECT_LE(named(j["estimates"], "implicit-cg-preconditioned")["relative_error"].get<double>(), 1e-8);
  EXPECT_TRUE(named(j["estimates"], "ep-central").contains("reason"));
  EXPECT_EQ(run_json("doctor " + data, 0)["status"], "healthy");
  EXPECT_EQ(run_json("solve " + data, 0)["status"], "converged");
  const Result r = run("solve " + data + " --inner lbfgs");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("coordinate-descent only"), std::string::npos) << r.err;
}

TEST(OwnData, DoctorTakesConstantsThatAreNotStandardised) {
  std::string text = "a,same,answer\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},7,{}\n", i % 7, i * i % 11);
  const json j = run_json("doctor --no-standardize " + write("still.csv", text), 0);
  EXPECT_EQ(named(j["findings"], "constant-columns")["columns"], json{"same"});
}

TEST(OwnData, DoctorSaysWhatAStatisticianWould) {
  std::string text = "a,b,twice,same,answer\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("{},{},{},7,{}\n", i % 7, i * i % 11, 2 * (i % 7), i % 7 > 3 ? "x" : "y");
  const json j = run_json("doctor " + write("planted.csv", text) + " --penalty per-feature", 0);
  EXPECT_EQ(j["status"], "healthy") << j["message"];
  EXPECT_NE(j["message"].get<std::string>().find("of the data 6 notes want a look: "), std::string::npos)
      << j["message"];
  EXPECT_EQ(named(j["findings"], "collinear-columns")["columns"], json{"twice"});
  EXPECT_EQ(named(j["findings"], "constant-columns")["columns"], json{"same"});
  EXPECT_EQ(named(j["findings"], "separable-classes")["columns"], json{"a"});
  EXPECT_EQ(named(j["findings"], "penalties-told-apart")["columns"], (json{"a", "twice"}));
  EXPECT_EQ(named(j["findings"], "rows-per-coefficient")["numbers"]["rows"], 48);
  EXPECT_TRUE(named(j["findings"], "condition-number")["numbers"]["condition_number"].is_null());
  const std::string out = run("doctor " + scratch("planted.csv")).out;
  EXPECT_NE(out.find("'twice' is a combination of 'a'"), std::string::npos) << out;
}

TEST(OwnData, WhatMakesNoSenseIsRefused) {
  const std::string data = data_file("own.csv", 60, "number", 13);
  const std::pair<std::string, const char*> cases[] = {
      {"compare " + data + " --problem ridge", "one of the two"},
      {"solve " + data + " --size 7", "--size"},
      {"doctor " + data + " --samples 7", "--samples"},
      {"compare --problem ridge --model ridge", "--model"},
      {"doctor --problem ridge --target x", "--target"},
      {"solve " + data + " --prior-width 1", "many penalties"},
      {"compare " + data + " --penalty auto", "bilevel tune"},
      {"compare " + data + " --penalty sometimes", "per-group"},
      {"solve " + data + " --json " + data, "is an input"},
      {"compare nowhere.csv", "nowhere.csv"},
      {"compare " + data + " --cv 1", "--cv 1"},
  };
  for (const auto& [arguments, says] : cases) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << arguments << r.out << r.err;
    EXPECT_NE(r.err.find(says), std::string::npos) << arguments << "\n" << r.err;
  }
}

}  // namespace own_data_test
