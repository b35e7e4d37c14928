// `bilevel meta` as a person uses it: what it learns, files, refusals, and runs that are cut short.

#include <chrono>
#include <csignal>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "apps/program.hpp"

namespace program_test {

using namespace program;

const std::string quick =
    "meta sinusoids --tasks 5 --inner-steps 10 --adjoint-steps 5 --test-tasks 20 --probe 0 --certify 0 "
    "--layers 8 ";

/// Pictures of classes that a task can tell apart: bars of different places and lengths, with noise.
std::string bars(const std::string& name, int classes, int pictures) {
  const std::string folder = scratch(name);
  unsigned noise = 7;
  for (int c = 0; c < classes; ++c) {
    const std::string own = fmt::format("{}/class{:02}", folder, c);
    std::filesystem::create_directories(own);
    for (int p = 0; p < pictures; ++p) {
      std::string pixels;
      for (int y = 0; y < 16; ++y)
        for (int x = 0; x < 16; ++x) {
          noise = noise * 1664525 + 1013904223;
          const bool ink = (c % 2 == 0 ? y : x) / 2 == (c / 2) % 8 && (c % 2 == 0 ? x : y) > p % 3;
          pixels += static_cast<char>(ink ? 200 + (noise >> 27) : noise >> 27);
        }
      std::ofstream(fmt::format("{}/{:02}.pgm", own, p), std::ios::binary) << "P5 16 16 255\n" << pixels;
    }
  }
  return folder;
}

TEST(MetaCommand, SinusoidsAreLearnedAndANewOneIsAdaptedTo) {
  const std::string saved = scratch("sines.learner"), report = scratch("sines.html");
  const json j =
      run_json(fmt::format("meta sinusoids --learner hypernetwork --embedding 8 --tasks 10 --steps 200 "
                           "--learning-rate 0.005 --test-tasks 200 "
                           "--looks 3 --certify 2 --save {} --report {}",
                           saved, report),
               0);
  EXPECT_EQ(j["command"], "meta");
  EXPECT_EQ(j["status"], "converged");
  EXPECT_LT(j["test_error"].get<double>(), 0.4);
  EXPECT_GT(j["test_error_before"].get<double>(), 3);
  EXPECT_GT(j["test_error_standard_error"].get<double>(), 0);
  EXPECT_EQ(j["curve"].size(), 4U);
  EXPECT_GT(j["probe"]["cosine"].get<double>(), 0.999);
  EXPECT_EQ(j["verdict"], "trusted");
  // Two, or one where it takes more than a tenth of the time.
  const int certified = j["certified"]["trusted"].get<int>() + j["certified"]["doubtful"].get<int>() +
                        j["certified"]["untrusted"].get<int>();
  EXPECT_TRUE(certified == 1 || certified == 2) << certified;
  EXPECT_NE(slurp(report).find("</html>"), std::string::npos);

  std::string rows = "x,y\n", fresh = "x\n";
  for (int i = 0; i < 10; ++i) rows += fmt::format("{},{}\n", i - 4.5, 2 * std::sin(i - 4.5 + 0.7));
  for (const double x : {-3.7, 0.2, 2.9}) fresh += fmt::format("{}\n", x);
  const Result r =
      run(fmt::format("meta adapt {} {} {}", saved, write("rows.csv", rows), write("new.csv", fresh)));
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream answers(r.out);
  std::string line;
  std::getline(answers, line);
  EXPECT_EQ(line, "prediction");
  for (const double x : {-3.7, 0.2, 2.9}) {
    std::getline(answers, line);
    EXPECT_NEAR(std::stod(line), 2 * std::sin(x + 0.7), 1.0) << "at " << x;
  }
  const Result grid = run(fmt::format("meta adapt {} {}", saved, scratch("rows.csv")));
  EXPECT_EQ(grid.out.substr(0, 18), "x,prediction\n-4.5,");
  EXPECT_EQ(run(fmt::format("meta adapt {} {}", saved, write("wide.csv", "a,b,c\n1,2,3\n2,3,4\n"))).code, 2);
  EXPECT_EQ(run(fmt::format("report {} --output {}", scratch("json"), scratch("again.html"))).code, 0);
}

TEST(MetaCommand, PicturesOfAFolderAreLearnedAndNewClassesAreToldApart) {
  const std::string folder = bars("bars", 14, 8), saved = scratch("bars.learner");
  const json j = run_json(
      fmt::format("meta {} --size 16 --ways 3 --shots 2 --queries 3 --filters 8 --blocks 3 --tasks 4 "
                  "--steps 60 --learning-rate 0.005 --test-tasks 100 --looks 2 --certify 0 --probe 1 "
                  "--no-rotations --save {} --report {}",
                  folder, saved, scratch("bars.html")),
      0);
  EXPECT_GT(j["test_accuracy"].get<double>(), 0.75);
  EXPECT_NEAR(j["test_accuracy_before"].get<double>(), 1.0 / 3, 0.02);
  EXPECT_EQ(j["verdict"], "trusted");
  EXPECT_LT(j["probe"]["relative_error"].get<double>(), 0.02);
  ASSERT_EQ(j["tasks"][0]["classes"].size(), 3U);
  EXPECT_EQ(j["tasks"][0]["classes"][0].get<std::string>().substr(0, 5), "class");
  EXPECT_NE(slurp(scratch("bars.html")).find(j["tasks"][0]["classes"][2].get<std::string>()),
            std::string::npos);
  // Five classes, where it was learned with three.
  const Result r = run(fmt::format("meta adapt {} {} {}", saved, bars("few", 5, 2), bars("more", 5, 4)));
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream answers(r.out);
  std::string line;
  std::getline(answers, line);
  EXPECT_EQ(line.substr(0, 44), "file,prediction,probability of class00,proba");
  int right = 0, rows = 0;
  for (; std::getline(answers, line); ++rows) {
    const std::string truth = line.substr(line.find("/more/") + 6, 7);
    right += line.find("," + truth + ",") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(rows, 20);
  EXPECT_GE(right, 14);
}

TEST(MetaCommand, OmniglotInAFewSeconds) {
  const char* given = std::getenv("BILEVEL_DATA");
  const std::string folder = std::string(given ? given : BILEVEL_DATA_DEFAULT) + "/omniglot";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const json j =
      run_json(fmt::format("meta {} --ways 5 --shots 1 --queries 5 --filters 16 --tasks 4 --steps 150 "
                           "--learning-rate 0.005 --test-tasks 200 --looks 1 --certify 1 --probe 1",
                           folder),
               0);
  EXPECT_EQ(j["data"]["training_classes"], 964);
  EXPECT_EQ(j["data"]["test_classes"], 659);
  EXPECT_GT(j["test_accuracy"].get<double>(), 0.7);
  EXPECT_EQ(j["probe"]["certificate"]["verdict"], "trusted");
}

TEST(MetaCommand, BadInputIsRefusedWithWhatToDo) {
  const std::string few = bars("refused", 4, 2);
  std::filesystem::create_directories(few + "/empty");
  std::filesystem::create_directories(scratch("none"));
  const std::string small = bars("small", 6, 2), single = bars("single", 6, 1);
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Result r = run("meta " + arguments);
    EXPECT_EQ(r.code, 2) << arguments << "\n" << r.out << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << arguments << "\n" << r.err;
  };
  refused("/nowhere/at/all", "there is no such folder");
  refused(scratch("none"), "there is no folder with pictures");
  refused(few, "empty: there is no picture in this class folder");
  refused(single + " --ways 2",
          "has 1 picture, and 1 to adapt to (--shots) and one to be judged by are needed");
  refused(small + " --ways 9", "ask for fewer --ways");
  refused(small + " --ways 2 --shots 2", "ask for fewer --shots");
  refused("sinusoids --learner foo", "there are: center, gain, heads, hypernetwork");
  refused("sinusoids --estimator foo", "--estimator foo must be one of");
  refused("sinusoids --inner newton", "--inner newton must be");
  refused("sinusoids --size 20", "--size is for pictures");
  refused("sinusoids --no-rotations", "--no-rotations is for pictures");
  refused("sinusoids --embedding 4", "--embedding is for --learner hypernetwork");
  refused("sinusoids --learner heads --strengths one", "--strengths is for --learner center");
  refused("sinusoids --beta 0.1", "--beta is for the ep-… estimators");
  refused("sinusoids --estimator ep-central --adjoint-steps 9", "--adjoint-steps is for the implicit-…");
  refused(small + " --ways 2 --layers 8", "--layers is for tasks of numbers");
  refused("sinusoids --estimator unrolled --inner barzilai-borwein", "has no derivative");
  refused("sinusoids --layers 4-x", "--layers 4-x must be sizes");
  refused("sinusoids --unit relu", "no second derivatives at its kinks");
  refused("sinusoids --steps 0", "bilevel: --steps");
  refused("sinusoids --shots 0", "bilevel: --shots");
  refused("sinusoids --device tpu9", "--device tpu9 must be");
  refused("sinusoids --json a.json --save a.json", "named for two outputs");
  refused("adapt " + write("no.learner", "x,y\n1,2\n") + " " + few, "it is no learner of bilevel");
  refused("adapt /nowhere " + few, "the file cannot be read");
  const std::string rows = write("some.csv", "x,y\n1,2\n2,3\n");
  refused(rows, "this is a file, and tasks are drawn from a folder");
  const std::string numbers = scratch("few.learner"), pictures = scratch("few-pictures.learner");
  EXPECT_EQ(run(quick + "--steps 2 --save " + numbers).code, 0);
  EXPECT_EQ(run("meta " + small +
                " --ways 2 --filters 2 --blocks 2 --tasks 2 --steps 2 --test-tasks 2 --probe 0 "
                "--certify 0 --save " +
                pictures)
                .code,
            0);
  refused("adapt " + numbers + " " + small, "this is a folder, and the learner takes rows of numbers");
  refused("adapt " + numbers + " " + write("odd.csv", "x,y\n1,2\n1\n"),
          "the learner takes a table of numbers");
  refused("adapt " + pictures + " " + rows + " " + small, "this is a file, and the learner takes pictures");
  refused("adapt " + pictures + " " + small + " " + rows, "is no PNG, JPEG, PGM or PPM picture");
  const Result odd = run("meta adapt " + numbers + " " + write("odd.csv", "x,y\n1,2\n1\n"));
  EXPECT_EQ(odd.err.find("--skip"), std::string::npos) << odd.err;
  refused("sinusoids --resume --checkpoint " + write("mine.txt", "my own"), "is no checkpoint of bilevel");
}

TEST(MetaCommand, AnInnerLoopThatDivergesEndsTheRunAndTheLastGoodLearnerIsKept) {
  const std::string saved = scratch("wild.learner");
  const json j =
      run_json(quick + "--steps 20 --inner gradient-descent --inner-rate 100000 --save " + saved, 1);
  EXPECT_EQ(j["status"], "diverged");
  EXPECT_NE(j["message"].get<std::string>().find("--inner-rate"), std::string::npos) << j["message"];
  EXPECT_NE(slurp(saved).find("bilevel-learner"), std::string::npos);
  const Result r =
      run("meta sinusoids --layers 8 --tasks 5 --test-tasks 20 --certify 0 --inner-steps 10 --steps 20 "
          "--inner gradient-descent --inner-rate 100000 --checkpoint " +
          scratch("wild.ckpt"));
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out.find("nan"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("does not end in numbers"), std::string::npos) << r.out;
}

/// Few steps leave tasks short of their minimum: the run is done, and neither its first line nor its exit
/// code says that all is well.
TEST(MetaCommand, ARunIsNoBetterThanItsVerdict) {
  const std::string report = scratch("few-steps.html");
  const std::string command =
      "meta sinusoids --layers 8 --tasks 5 --test-tasks 20 --certify 0 --steps 3 --report " + report;
  const Result few = run(command + " --inner-steps 3");
  EXPECT_EQ(few.code, 1) << few.out << few.err;
  EXPECT_NE(few.out.find("steps are done; the gradient is "), std::string::npos) << few.out;
  EXPECT_EQ(slurp(report).find(R"("status":"converged")"), std::string::npos);
  const Result settled = run(command);
  EXPECT_EQ(settled.code, 0) << settled.out << settled.err;
  EXPECT_NE(settled.out.find("trusted"), std::string::npos) << settled.out;
}

TEST(MetaCommand, ARunThatWasCutShortGoesOnAsIfItHadNotBeen) {
  const std::string whole = scratch("whole.learner"), parts = scratch("parts.learner"),
                    kept = scratch("kept.ckpt");
  // By steps that leave time to cut them short: those of the default are over too soon.
  const std::string command = quick + "--inner nesterov --steps 400 --looks 4 --checkpoint " + kept;
  const json uncut = run_json(command + " --save " + whole, 0);
  EXPECT_FALSE(std::filesystem::exists(kept));
  // By a limit, by Ctrl-C, and by force.
  EXPECT_EQ(run(command + " --seconds 0.3").code, 1);
  EXPECT_TRUE(std::filesystem::exists(kept));
  EXPECT_NE(run(command).err.find("add --resume to go on"), std::string::npos);
  EXPECT_EQ(run(command + " --resume --learning-rate 0.1").code, 2);
  for (const int signal : {SIGINT, SIGKILL}) {
    std::istringstream words(command + " --resume");
    const std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    const pid_t child = start(arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  const json resumed = run_json(command + " --resume --save " + parts, 0);
  EXPECT_EQ(slurp(parts), slurp(whole));
  EXPECT_EQ(resumed["test_error"], uncut["test_error"]);
  EXPECT_EQ(resumed["curve"].size(), uncut["curve"].size());
  for (std::size_t i = 0; i < uncut["curve"].size(); ++i)
    EXPECT_EQ(resumed["curve"][i]["training_loss"], uncut["curve"][i]["training_loss"]) << "look " << i;
}

}  // namespace program_test
