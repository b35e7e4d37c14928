// `bilevel train` as a person uses it: results, files, refusals, and a run cut short.

#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>

#include "program.hpp"

namespace {

using namespace program;

TEST(TrainCommand, HelpHasExamples) {
  const Result r = run("train --help");
  EXPECT_EQ(r.code, 0);
  for (const char* word : {"--energy", "hopfield, predictive-coding or resistive", "Examples:", "--resume"})
    EXPECT_NE(r.out.find(word), std::string::npos) << word;
}

TEST(TrainCommand, DrawnDigitsAndAllOutputs) {
  const std::string report = scratch("train.html"), saved = scratch("net.json");
  const json j = run_json(
      fmt::format("train --rows 2000 --layers 128 --epochs 8 --report {} --save {}", report, saved), 0);
  EXPECT_EQ(j["command"], "train");
  EXPECT_EQ(j["status"], "converged");
  ASSERT_EQ(j["epochs"].size(), 8U);
  for (const json& e : j["epochs"]) {
    for (const char* field :
         {"train_error", "test_error", "samples_per_second", "relaxation_residual", "gradient_cosine"})
      EXPECT_TRUE(e[field].is_number()) << field;
    EXPECT_GE(e["test_error"].get<double>(), 0);
    EXPECT_LE(e["test_error"].get<double>(), 1);
  }
  EXPECT_LT(j["epochs"][7]["test_error"].get<double>(), 0.2);
  long rows = 0;
  for (const json& row : j["confusion"])
    for (const json& cell : row) rows += cell.get<long>();
  EXPECT_EQ(rows, j["data"]["test_rows"].get<long>());
  EXPECT_NE(slurp(report).find("</html>"), std::string::npos);
  EXPECT_EQ(json::parse(slurp(saved))["format"], "bilevel-network");
  // And on from there.
  const json more = run_json(fmt::format("train --rows 2000 --layers 128 --epochs 1 --start {}", saved), 0);
  EXPECT_LT(more["epochs"][0]["train_error"].get<double>(), j["epochs"][0]["train_error"].get<double>());
}

TEST(TrainCommand, RefusalsNameWhatIsWrong) {
  const auto refused = [](const std::string& arguments, const std::string& part) {
    const Result r = run("train " + arguments);
    EXPECT_EQ(r.code, 2) << arguments << "\n" << r.out << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refused("/nowhere/at/all.csv", "/nowhere/at/all.csv");
  refused("--layers 100-20-10", "the data has 144 features, the first layer 100 units");
  refused("--energy ising", "known are hopfield, predictive-coding, resistive");
  refused("--batch -3", "--batch -3 must be at least 1");
  refused("--energy resistive --activation tanh", "must be diode");
  refused("--resume --checkpoint " + scratch("nothing.ckpt"), "nothing.ckpt");
  refused("--report /nowhere/report.html", "the folder /nowhere does not exist");
  const std::string data = write("labels.csv", "1,2,a\n2,3,b\n1,1,a\n3,3,b\n2,1,a\n");
  refused(data + " --test " + data, "is the data itself");
}

TEST(TrainCommand, CtrlCKeepsTheRunAndResumeGoesOn) {
  const std::string kept = scratch("train.ckpt"), whole_json = scratch("whole.json"),
                    part_json = scratch("part.json");
  const std::string command = "train --rows 8000 --layers 256 --epochs 4 --probe 0";
  ASSERT_EQ(run(command + " --json " + whole_json).code, 0);
  const pid_t child = start(
      {"train", "--rows", "8000", "--layers", "256", "--epochs", "4", "--probe", "0", "--checkpoint", kept});
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  // On a fast machine it may have been done before.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) GTEST_SKIP() << "the run was over before Ctrl-C";
  ASSERT_TRUE(std::filesystem::exists(kept)) << slurp(scratch("said"));
  const Result r = run(command + " --resume --checkpoint " + kept + " --json " + part_json);
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_FALSE(std::filesystem::exists(kept));
  const json whole = json::parse(slurp(whole_json)), part = json::parse(slurp(part_json));
  ASSERT_EQ(part["epochs"].size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(part["epochs"][i]["train_error"], whole["epochs"][i]["train_error"]);
}

}  // namespace
