// `bilevel train` as a person uses it: results, files, refusals, and a run cut short.

#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>

#include "program.hpp"

namespace train_test {

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
      fmt::format("train --rows 2000 --layers 128 --epochs 8 --certify-every 100 --report {} --save {}",
                  report, saved),
      0);
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
  // Of 800 steps, 100 an epoch, each hundredth.
  EXPECT_EQ(j["certified"]["gradients"], 8);
  EXPECT_EQ(j["certified"]["batches"], 800);
  EXPECT_EQ(j["certified"]["interval"], 100);
  EXPECT_EQ(j["certified"]["cut_short"], 0);
  for (const json& e : j["epochs"]) {
    EXPECT_EQ(e["certified"]["gradients"], 1);
    EXPECT_EQ(e["certified"]["batches"], 100);
  }
  EXPECT_TRUE(j["certified"]["last"]["bound"].is_number());
  long rows = 0;
  for (const json& row : j["confusion"])
    for (const json& cell : row) rows += cell.get<long>();
  EXPECT_EQ(rows, j["data"]["test_rows"].get<long>());
  EXPECT_NE(slurp(report).find("</html>"), std::string::npos);
  EXPECT_EQ(json::parse(slurp(saved))["format"], "bilevel-network");
  // And on from there.
  const json more = run_json(fmt::format("train --rows 2000 --layers 128 --epochs 1 --start {}", saved), 0);
  EXPECT_LT(more["epochs"][0]["train_error"].get<double>(), j["epochs"][0]["train_error"].get<double>());
  const Result other =
      run(fmt::format("train --rows 2000 --layers 128 --activation tanh --epochs 1 --start {}", saved));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(
      other.err.find("--start is a network hopfield 144-128-10 (clip, squared), and hopfield 144-128-10 "
                     "(tanh, cross-entropy) is to be trained"),
      std::string::npos)
      << other.err;
}

TEST(TrainCommand, ASavedNetworkPredictsAndACircuitIsWritten) {
  const std::string net = scratch("kinds.json"), circuit = scratch("kinds.cir"),
                    out = scratch("kinds.out.csv");
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += fmt::format("{},{},{}\n", i % 11, i % 7, i % 11 > i % 7 ? "up" : "down");
  const std::string data = write("kinds.csv", text);
  const json j = run_json(
      fmt::format("train {} --energy resistive --layers 20 --epochs 30 --save {} --netlist {} --probe 0",
                  data, net, circuit),
      0);
  EXPECT_LT(j["epochs"].back()["test_error"].get<double>(), 0.15);
  const std::string netlist = slurp(circuit);
  EXPECT_EQ(netlist.find("* resistive network 2-20-2, inputs at V0 to V3, outputs: n"), 0U)
      << netlist.substr(0, 90);
  // 20 hidden units with 4 inputs, 2 rails and a leak, 2 outputs with 20, 2 and 1.
  EXPECT_NE(netlist.find("\nR185 "), std::string::npos);
  EXPECT_EQ(netlist.find("\nR186 "), std::string::npos);
  const Result r = run(fmt::format("predict {} {} --output {}", net, data, out));
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string answers = slurp(out);
  EXPECT_EQ(answers.find("prediction,output of down,output of up\n"), 0U) << answers.substr(0, 60);
  long right = 0, row = 0;
  for (std::size_t at = answers.find('\n') + 1; at < answers.size(); at = answers.find('\n', at) + 1, ++row)
    right += answers.compare(at, 2, row % 11 > row % 7 ? "up" : "do") == 0 ? 1 : 0;
  EXPECT_EQ(row, 200);
  EXPECT_GT(right, 170);
  EXPECT_EQ(run(fmt::format("train --netlist {} --epochs 1 --rows 200", circuit)).code, 2);
  const json drawn = run_json(fmt::format("train --rows 200 --layers 8 --epochs 1 --save {}", net), 0);
  const Result none = run(fmt::format("predict {} {}", net, data));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("trained on drawn pictures"), std::string::npos) << none.err;
}

TEST(TrainCommand, AKeptRunGoesOnWithItsOwnRowsAndGainsAlone) {
  const auto rows = [](const char* first, const char* second) {
    std::string text;
    for (int i = 0; i < 100; ++i)
      text += fmt::format("{},{},{}\n", i % 11, i % 7, i % 11 > i % 7 ? first : second);
    return write("kept.csv", text);
  };
  const std::string data = rows("up", "down");
  const std::string command = fmt::format(
      "train {} --energy resistive --layers 8 --epochs 100000 --seconds 0.2 "
      "--probe 0 --checkpoint {} --input-gain ",
      data, scratch("kept.ckpt"));
  ASSERT_EQ(run(command + "10").code, 1);
  EXPECT_EQ(run(command + "10 --resume").code, 1);
  const Result gain = run(command + "1000 --resume");
  EXPECT_EQ(gain.code, 2);
  EXPECT_NE(gain.err.find("it belongs to another run"), std::string::npos) << gain.err;
  rows("down", "up");
  EXPECT_EQ(run(command + "10 --resume").code, 2);
}

/// What a run was kept in before there was one container for all.
TEST(TrainCommand, ARunThatAnOlderVersionKeptIsRefusedByName) {
  const std::string kept = scratch("old.ckpt");
  const std::string command =
      "train --rows 200 --layers 8 --epochs 100000 --seconds 0.2 --probe 0 --checkpoint " + kept;
  ASSERT_EQ(run(command).code, 1);
  const json line = json::parse(slurp(kept).substr(0, slurp(kept).find('\n')));
  write("old.ckpt",
        fmt::format("{{\"format\":\"bilevel-training\",\"identity\":\"{}\",\"version\":2}}\n0123456789abcdef",
                    line["run"]["identity"].get<std::string>()));
  const Result r = run(command + " --resume");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("it is a bilevel-training of version 2, and this program reads version 4"),
            std::string::npos)
      << r.err;
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
  refused("--beta 0", "compare a phase with itself");
  refused("--epochs 0", "0 must be a positive number");
  refused("--batch -3", "-3 must be a positive number");
  refused("--energy resistive --activation tanh", "must be diode");
  const Result anew = run("train --rows 200 --layers 8 --epochs 1 --probe 0 --resume --checkpoint " +
                          scratch("nothing.ckpt"));
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_NE(anew.err.find("so one begins"), std::string::npos) << anew.err;
  refused("--report /nowhere/report.html", "the folder /nowhere does not exist");
  const std::string data = write("labels.csv", "1,2,a\n2,3,b\n1,1,a\n3,3,b\n2,1,a\n");
  refused(data + " --test " + data, "is the data itself");
  for (const char* bad : {"20-", "-4", "a", "20--4", "0", "20-7x-4"})
    refused(fmt::format("--layers={}", bad), "joined by '-'");
  refused(data + " --test 1.5", "--test 1.5 must be a file or a share between 0 and 1");
  // The library's names of options are those of C++, the program's its own.
  refused("--weight-decay=-1 --points 3", "--weight-decay -1 must be zero or more; --points 3 must be even");
  refused("--layers 144-9-9-9-10 --nudged-steps 2",
          "--nudged-steps 2: the nudge of the outputs would not reach the first of 4 layers");
  refused("--estimator backpropagation", "--estimator backpropagation is for --energy predictive-coding");
}

TEST(TrainCommand, CtrlCKeepsTheRunAndResumeGoesOn) {
  const std::string kept = scratch("train.ckpt"), whole_json = scratch("whole.json"),
                    part_json = scratch("part.json");
  const std::string command = "train --rows 8000 --layers 256 --epochs 4 --probe 0";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(command + " --json " + whole_json).code, 0);
  const auto took = std::chrono::steady_clock::now() - begin;
  const pid_t child = start(
      {"train", "--rows", "8000", "--layers", "256", "--epochs", "4", "--probe", "0", "--checkpoint", kept});
  // Within the second epoch or the third.
  std::this_thread::sleep_for(took / 2);
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

}  // namespace train_test
