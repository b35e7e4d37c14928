// `bilevel tune` and `bilevel predict` as a person uses them: results, files, refusals. Runs cut short are in
// kept_run_test.cpp.

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace tune_test {

using namespace program;

std::vector<std::vector<std::string>> table(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(slurp(path));
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

std::size_t checkpoints() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("."))
    count += entry.path().filename().string().starts_with("bilevel-tune-");
  return count;
}

TEST(Tune, HelpPrintsWhatIsMinimised) {
  const Result r = run("tune --help");
  EXPECT_EQ(r.code, 0);
  for (const char* expected : {"exp(θ_j) φ_j²", "mean validation loss", "--bounds", "-10:10", "Examples"})
    EXPECT_NE(r.out.find(expected), std::string::npos) << expected;
  EXPECT_NE(run("predict --help").out.find("Examples"), std::string::npos);
}

TEST(Tune, TheExampleWithAllItsOutputs) {
  const std::string json_path = scratch("tune.json"), report = scratch("tune.html"),
                    model = scratch("model.json");
  // A folder of its own: other tests may be at work in this one.
  std::filesystem::current_path(std::filesystem::path(json_path).parent_path());
  const std::size_t before = checkpoints();
  const Result r = run("tune --example --json " + json_path + " --report " + report + " --save " + model);
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(checkpoints(), before) << "a run that ends leaves nothing behind";
  EXPECT_EQ(r.err, "") << "no progress where there is no terminal";
  for (const char* expected : {"chosen: adaptive", "Do features want different penalties?", "default", "validation loss", "certificate", "trusted", "written"})
    EXPECT_NE(r.out.find(expected), std::string::npos) << expected;
  const json j = json::parse(slurp(json_path));
  EXPECT_EQ(j["command"], "tune");
  EXPECT_EQ(j["status"], "converged");
  EXPECT_EQ(j["certificate"]["verdict"], "trusted");
  for (const char* field : {"train_loss", "validation_loss", "seconds", "gradient_norm"})
    EXPECT_TRUE(j[field].is_number()) << field;
  EXPECT_LE(j["gradient_norm"].get<double>(), 1e-6);
  for (const char* field : {"loss", "accuracy", "auc", "rows"})
    EXPECT_TRUE(j["test"][field].is_number()) << field;
  ASSERT_EQ(j["penalties"].size(), 60U);
  const auto expect_penalties = [](const json& result) {
    std::size_t upper = 0;
    for (const json& penalty : result["penalties"]) {
      EXPECT_TRUE(penalty["name"].is_string());
      const double value = penalty["log_lambda"];
      EXPECT_GE(value, -10);
      EXPECT_LE(value, 10);
      EXPECT_EQ(penalty["at_bound"], value >= 10    ? json("upper")
                                     : value <= -10 ? json("lower")
                                                    : json(nullptr));
      upper += value >= 10;
    }
    return upper;
  };
  EXPECT_EQ(expect_penalties(j), 0U);
  const json& choice = j["choice"];
  EXPECT_EQ(choice["kind"], "adaptive");
  for (const char* field : {"gamma", "gain", "gain_error"}) EXPECT_TRUE(choice[field].is_number()) << field;
  for (const char* field : {"rho", "nu", "p"}) EXPECT_TRUE(choice["score"][field].is_number()) << field;
  EXPECT_GT(choice["gain"].get<double>(), choice["gain_error"].get<double>());
  EXPECT_EQ(choice["answers"].size(), 2U);
  EXPECT_EQ(j["model"]["hyperparameters"], 2);
  EXPECT_TRUE(j["test"]["difference_error"].is_number());
  const json own = run_json("tune --example --penalty per-feature --prior-width inf --bounds -10:10", 0);
  EXPECT_GT(expect_penalties(own), 10U) << "without a prior useless features run to the upper end";
  EXPECT_EQ(own["choice"]["kind"], "per-feature");
  const json &grid = j["baseline"]["grid"], &standard = j["baseline"]["default"];
  for (const char* field : {"validation_loss", "fits", "seconds", "lambda"})
    EXPECT_TRUE(grid[field].is_number()) << field;
  EXPECT_TRUE(grid["test"]["loss"].is_number());
  EXPECT_TRUE(standard["validation_loss"].is_number());
  EXPECT_EQ(grid["fits"], 21 * 5);
  EXPECT_LT(j["validation_loss"].get<double>(), grid["validation_loss"].get<double>());
  EXPECT_LE(grid["validation_loss"].get<double>(), standard["validation_loss"].get<double>() * (1 + 1e-3));
  EXPECT_NEAR(std::log(grid["lambda"].get<double>()), grid["log_lambda"].get<double>(), 1e-9);
  EXPECT_LE(grid["seconds"].get<double>(), j["seconds"].get<double>());

  const std::string page = slurp(report);
  EXPECT_NE(page.find("<html"), std::string::npos);
  EXPECT_NE(page.find("strong_1"), std::string::npos);
  EXPECT_NE(page.find("--example"), std::string::npos) << "the command that reproduces it";
  const json saved = json::parse(slurp(model));
  EXPECT_EQ(saved["format"], "bilevel-model");
  EXPECT_EQ(saved["version"], 1);
  EXPECT_EQ(saved["coefficients"].size(), 60U);

  // Again: the same numbers.
  const json again = run_json("tune --example", 0);
  EXPECT_EQ(again["penalties"], j["penalties"]);
  EXPECT_EQ(again["validation_loss"], j["validation_loss"]);
}

TEST(Tune, PredictionsReproduceTheTestQuality) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"2", "logistic"},   {"2", "squared-hinge"}, {"3", "softmax --penalty per-class"},
      {"3", "softmax"},    {"number", "ridge"},    {"number", "huber"},
      {"count", "poisson"}};
  for (const auto& [target, model] : cases) {
    SCOPED_TRACE(model);
    const std::string first = data_file("first.csv", 150, target, 1),
                      second = data_file("second.csv", 60, target, 2);
    const std::string saved = scratch("saved.json"), predicted = scratch("predicted.csv");
    const json j =
        run_json("tune " + first + " --model " + model + " --cv 3 --test " + second + " --save " + saved, 0);
    const Result r = run("predict " + saved + " " + second + " --output " + predicted);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(run("predict " + saved + " " + second).out, slurp(predicted));
    const auto predictions = table(predicted), truth = table(second);
    ASSERT_EQ(predictions.size(), truth.size());
    double right = 0, square = 0, loss = 0;
    for (std::size_t i = 1; i < truth.size(); ++i) {
      const std::string &given = predictions[i][0], &own = truth[i].back();
      if (j["test"].contains("accuracy")) {
        right += given == own;
        double sum = 0;
        for (std::size_t c = 1; c < predictions[i].size(); ++c) {
          if (predictions[0][c] == "probability of " + own) loss -= std::log(std::stod(predictions[i][c]));
          sum += std::stod(predictions[i][c]);
        }
        if (predictions[0][1].starts_with("probability")) {
          EXPECT_NEAR(sum, 1, 1e-12);
        }
      } else {
        square += std::pow(std::stod(given) - std::stod(own), 2);
      }
    }
    const double rows = static_cast<double>(truth.size() - 1);
    if (j["test"].contains("accuracy")) {
      EXPECT_NEAR(j["test"]["accuracy"].get<double>(), right / rows, 1e-12);
      if (predictions[0][1].starts_with("probability")) {
        EXPECT_NEAR(j["test"]["loss"].get<double>(), loss / rows, 1e-9);
      }
    } else {
      EXPECT_NEAR(j["test"]["rmse"].get<double>(), std::sqrt(square / rows), 1e-9 * std::sqrt(square / rows));
    }
    // A file without the target, its columns in another order.
    std::string bare = "noise,colour,weight,size\n";
    std::istringstream lines(slurp(second));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      const auto comma = [&](int k) {
        std::size_t at = 0;
        for (bool quoted = false; k > 0; ++at) {
          quoted ^= line[at] == '"';
          k -= line[at] == ',' && !quoted;
        }
        return at;
      };
      bare += line.substr(comma(3), comma(4) - comma(3)) + line.substr(comma(2), comma(3) - comma(2)) +
              line.substr(comma(1), comma(2) - comma(1)) + line.substr(0, comma(1) - 1) + "\n";
    }
    EXPECT_EQ(run("predict " + saved + " " + write("bare.csv", bare)).out, slurp(predicted));
  }
}

TEST(Tune, BadInputSaysWhatToDoAndLeavesFilesAlone) {
  const std::string good = data_file("good.csv", 40, "2", 3),
                    numbers = data_file("numbers.csv", 40, "number", 3);
  const std::string alone = write("alone.csv", "a,b\n1,p\n2,p\n3,p\n4,p\n5,p\n6,p\n");
  const std::string ragged = write("ragged.csv", "a,b,c\n1,2,p\n3,4,q\n5,6\n7,8,p\n");
  const std::string hole = write("hole.csv", "a,b,c\n1,2,p\n3,,q\n5,6,p\n7,8,q\n");
  const std::string nan = write("nan.csv", "a,b,c\n1,2,p\n3,nan,q\n5,6,p\n7,8,q\n");
  const std::string infinite = write("infinite.csv", "a,b,c\n1,2,p\n3,inf,q\n5,6,p\n7,8,q\n");
  const std::string empty = write("empty.csv", "");
  struct Refused {
    std::string arguments;
    std::vector<std::string> expected;
  };
  const std::vector<Refused> cases{
      {"tune", {"--example"}},
      {"tune --example " + good, {"leave the file out"}},
      {"tune " + alone + " --model logistic --cv 2", {"alone.csv", "'p'", "two classes"}},
      {"tune /nonexistent/x.csv", {"/nonexistent/x.csv"}},
      {"tune /tmp", {"/tmp"}},
      {"tune " + empty, {"empty.csv"}},
      {"tune " + ragged, {"ragged.csv", "line 4"}},
      {"tune " + hole, {"hole.csv", "line 3", "--missing mean"}},
      {"tune " + nan, {"nan.csv", "line 3"}},
      {"tune " + infinite, {"infinite.csv", "line 3"}},
      {"tune " + good + " --target nobody", {"nobody"}},
      {"tune " + good + " --model ridge", {"text", "--model logistic"}},
      {"tune " + good + " --model nothing", {"nothing", "squared-hinge"}},
      {"tune " + good + " --penalty nothing", {"nothing", "per-group"}},
      {"tune " + good + " --cv 1", {"--cv 1", "at least 2"}},
      {"tune " + good + " --cv 30", {"30 folds", "--cv"}},
      {"tune " + good + " --cv 3 --validation 0.3", {"one of the two"}},
      {"tune " + good + " --bounds 3:1", {"LO:HI"}},
      {"tune " + good + " --bounds 3", {"LO:HI"}},
      {"tune " + good + " --bounds=-400:1", {"-300:300"}},
      {"tune " + good + " --test 1.5", {"--test 1.5", "below 1"}},
      {"tune " + good + " --test 100%", {"--test 100%", "below 1"}},
      {"tune " + good + " --test " + ragged + " --test-labels x", {"--test-labels", "--labels"}},
      {"tune " + good + " --validation 0", {"--cv"}},
      {"tune " + good + " --tolerance -1", {"--tolerance: -1 must be a positive number"}},
      {"tune " + good + " --grid 1", {"--grid 1"}},
      {"tune " + good + " --seed -1", {"--seed"}},
      {"tune " + good + " --penalty per-class", {"softmax"}},
      {"tune " + good + " --group-separator xy", {"one character"}},
      {"tune " + good + " --delimiter xy", {"one character"}},
      {"tune " + good + " --groups /nonexistent/g --penalty per-group", {"/nonexistent/g"}},
      {"tune " + good + " --report /nonexistent/r.html", {"/nonexistent", "does not exist"}},
      {"tune " + good + " --json /nonexistent/r.json", {"does not exist"}},
      {"tune " + good + " --save /nonexistent/m.json", {"does not exist"}},
      {"tune " + good + " --report " + std::filesystem::temp_directory_path().string(), {"folder"}},
      {"tune " + good + " --checkpoint /nonexistent/c", {"does not exist"}},
      {"predict /nonexistent/m.json " + good, {"/nonexistent/m.json", "--save"}},
      {"predict " + good + " " + good, {"good.csv", "--save"}},
  };
  const std::string json_path = scratch("kept.json"), report = scratch("kept.html"),
                    model = scratch("kept.model");
  for (const std::string& path : {json_path, report, model}) std::ofstream(path) << "precious";
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.arguments);
    std::string arguments = refused.arguments;
    if (arguments.starts_with("tune")) {
      for (const auto& [option, path] :
           {std::pair{"--json", json_path}, {"--report", report}, {"--save", model}})
        if (arguments.find(option) == std::string::npos) arguments += fmt::format(" {} {}", option, path);
    } else {
      arguments += " --output " + report;
    }
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.out << r.err;
    EXPECT_EQ(r.out, "");
    for (const std::string& expected : refused.expected)
      EXPECT_NE(r.err.find(expected), std::string::npos) << "says: " << r.err;
    for (const std::string& path : {json_path, report, model}) EXPECT_EQ(slurp(path), "precious") << path;
  }
  // An output must not be an input, nor two outputs one file.
  EXPECT_EQ(run("tune " + good + " --json " + good).code, 2);
  EXPECT_EQ(run("tune " + good + " --json " + json_path + " --report " + json_path).code, 2);
  EXPECT_EQ(run("tune " + numbers + " --model poisson --target noise").code, 2) << "negative counts";
  EXPECT_EQ(slurp(json_path), "precious");
}

TEST(Tune, PredictRefusesDamagedModelsAndForeignData) {
  const std::string good = data_file("good.csv", 40, "2", 3), saved = scratch("saved.json");
  ASSERT_EQ(run("tune " + good + " --cv 2 --save " + saved).code, 0);
  const std::string text = slurp(saved);
  for (const double share : {0.0, 0.1, 0.5, 0.99}) {
    const std::string cut =
        write("cut.json", text.substr(0, static_cast<std::size_t>(share * static_cast<double>(text.size()))));
    const Result r = run("predict " + cut + " " + good);
    EXPECT_EQ(r.code, 2) << share;
    EXPECT_NE(r.err.find("cut.json"), std::string::npos);
    EXPECT_NE(r.err.find("--save"), std::string::npos) << r.err;
  }
  json changed = json::parse(text);
  changed["version"] = 99;
  EXPECT_EQ(run("predict " + write("changed.json", changed.dump()) + " " + good).code, 2);
  changed = json::parse(text);
  changed["coefficients"].push_back(1);
  EXPECT_EQ(run("predict " + write("changed.json", changed.dump()) + " " + good).code, 2);
  changed = json::parse(text);
  changed["columns"][0] = 1000;
  EXPECT_EQ(run("predict " + write("changed.json", changed.dump()) + " " + good).code, 2);
  changed = json::parse(text);
  changed["coefficients"][0] = "many";
  EXPECT_EQ(run("predict " + write("changed.json", changed.dump()) + " " + good).code, 2);
  const Result r = run("predict " + saved + " " + write("foreign.csv", "size,height\n1,2\n"));
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("foreign.csv"), std::string::npos) << r.err;
}

TEST(Tune, MissingCellsOfNewRowsGetTheMeansOfTheTrainingRows) {
  const std::string data = data_file("whole.csv", 60, "number", 5), model = scratch("whole.json");
  ASSERT_EQ(run("tune " + data + " --test 0 --save " + model).code, 0);
  const std::string rows = write("holes.csv", "size,weight,colour,noise\n,0.5,red,0\n30,0.5,red,0\n");
  EXPECT_EQ(run("predict " + model + " " + rows).code, 2) << "refused unless asked for";
  const std::string out = scratch("holes.out");
  ASSERT_EQ(run("predict " + model + " " + rows + " --missing mean --output " + out).code, 0);
  const auto cells = table(out);
  double mean = 0;
  const auto all = table(data);
  for (std::size_t i = 1; i < all.size(); ++i)
    mean += std::stod(all[i][0]) / static_cast<double>(all.size() - 1);
  const std::string filled =
      write("filled.csv", fmt::format("size,weight,colour,noise\n{},0.5,red,0\n", mean));
  ASSERT_EQ(run("predict " + model + " " + filled + " --output " + out).code, 0);
  EXPECT_NEAR(std::stod(cells[1][0]), std::stod(table(out)[1][0]), 1e-9);
}

TEST(Tune, OptionsThatWouldChangeNothingAreRefused) {
  const std::string data = data_file("d.csv", 40, "2", 7);
  for (const char* options : {"--groups nofile", "--penalty per-feature --group-separator _",
                              "--penalty global --prior-width 1", "--prior-width 0", "--refit", "--huber-threshold 2",
                              "--start 50", "--penalty per-group --groups a --group-separator _",
                              "--split answer --cv 3", "--grid 50000", "--cv 1"}) {
    const Result r = run("tune " + data + " " + options);
    EXPECT_EQ(r.code, 2) << options;
    EXPECT_NE(r.err.find("--"), std::string::npos) << r.err;
  }
  EXPECT_NE(run("tune " + data + " --test " + data).err.find("the data itself"), std::string::npos);
}

TEST(Tune, WhatAFileHoldsIsNotTakenForAnOption) {
  const std::string hole = write("hole.csv", "a,`target`,y\n1,2,3\n2,,4\n3,1,5\n");
  const Result r = run("tune " + hole);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("'`target`'"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("--missing mean fills such cells, --ignore leaves the column out"), std::string::npos)
      << r.err;
  const std::string mixed = write("mixed.csv", "a,`target`,y\n1,2,3\n2,red,4\n3,1,5\n");
  EXPECT_NE(run("tune " + mixed).err.find("--categorical `target`, or"), std::string::npos);
  EXPECT_NE(run("tune " + hole + " --target '`skip`'").err.find("--target '`skip`': there is no such"),
            std::string::npos);
}

TEST(Tune, AShareCanBeWrittenInPercent) {
  const std::string data = data_file("d.csv", 60, "number", 7);
  json share = run_json("tune " + data + " --test 0.2 --validation 0.25", 0),
       percent = run_json("tune " + data + " --test 20% --validation 25%", 0);
  for (const char* field : {"data", "penalties", "test", "coefficients"})
    EXPECT_EQ(share[field], percent[field]) << field;
}

TEST(Tune, ResultsGoIntoPipesToo) {
  const std::string data = data_file("d.csv", 40, "2", 7);
  const Result r = run("tune " + data + " --json /dev/stdout");
  EXPECT_NE(r.code, 3) << r.err;
  EXPECT_NE(r.code, 2) << r.err;
  EXPECT_NE(r.out.find("\"command\": \"tune\""), std::string::npos) << r.out;
}

TEST(Tune, NamesThatAreNoUtf8AreRefusedBeforeTheWork) {
  std::string text = "gr\xf6\xdf,answer\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("{},{}\n", i % 7, i % 2);
  const std::string data = write("latin.csv", text);
  const Result r = run("tune " + data + " --save " + scratch("latin.json"));
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_NE(r.err.find("iconv"), std::string::npos) << r.err;
  EXPECT_NE(run("tune " + data + " --json " + scratch("latin.out")).code, 3);
}

TEST(Tune, WhatCanBeWrittenIsWritten) {
  const std::string data = data_file("d.csv", 40, "2", 7), model = scratch("saved.json");
  const Result r = run("tune " + data + " --json /dev/full --save " + model);
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(std::filesystem::exists(model));
}

TEST(Tune, TextThatAModelFileCannotHoldIsRefusedBeforeTheWork) {
  std::string table = "a,b,y\n";
  for (int i = 0; i < 60; ++i) table += fmt::format("{},{},{}\n", i % 7, i % 11, i % 2 ? "j\xe4" : "nein");
  const std::string path = write("latin.csv", table), kept = scratch("latin.json");
  const Result r = run("tune " + path + " --save " + scratch("latin.model") + " --json " + kept);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("UTF-8"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(kept));
  EXPECT_NE(run("tune " + path + " --json " + kept).code, 3);
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST(Tune, LargeCountsSettle) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  for (const double mean : {3e2, 1e4, 1e6}) {
    std::string table = "a,b,y\n";
    for (int i = 0; i < 100; ++i) {
      const double a = normal(engine), b = normal(engine);
      table += fmt::format("{},{},{:.0f}\n", a, b, mean * std::exp(0.3 * a + 0.05 * normal(engine)));
    }
    const json j = run_json("tune " + write("counts.csv", table) + " --model poisson", 0);
    EXPECT_GT(j["validation"]["r2"].get<double>(), 0.8) << mean;
  }
}

}  // namespace tune_test
