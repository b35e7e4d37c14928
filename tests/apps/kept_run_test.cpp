// Runs of `bilevel tune` that are cut short: what they keep, how they go on, and whose files they leave
// alone.

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace kept_run_test {

using namespace program;

TEST(KeptRun, ARunThatReachedItsLimitIsKeptAndGoesOn) {
  const std::string data = data_file("limit.csv", 80, "number", 6), checkpoint = scratch("limit.ckpt"),
                    model = scratch("limit.json");
  const std::string command =
      "tune " + data + " --penalty per-feature --prior-width inf --checkpoint " + checkpoint;
  const Result cut = run(command + " --iterations 2 --save " + model);
  EXPECT_EQ(cut.code, 1);
  EXPECT_NE(cut.out.find("resume from"), std::string::npos) << cut.out;
  ASSERT_TRUE(std::filesystem::exists(checkpoint)) << "what is offered is there";
  EXPECT_NE(run("predict " + model + " " + data).err.find("iteration-limit"), std::string::npos);
  const std::string kept = slurp(checkpoint);
  const Result again = run(command + " --iterations 2");
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("add --resume"), std::string::npos) << again.err;
  EXPECT_EQ(slurp(checkpoint), kept) << "a run that is kept is not lost unasked";
  EXPECT_EQ(run(command + " --model oracle").code, 2);
  EXPECT_EQ(slurp(checkpoint), kept);
  const Result rest = run(command + " --resume");
  EXPECT_EQ(rest.code, 0) << rest.out << rest.err;
  EXPECT_NE(rest.err.find("resumed from"), std::string::npos) << rest.err;
  EXPECT_FALSE(std::filesystem::exists(checkpoint));
  EXPECT_NE(run(command + " --resume").err.find("does not exist"), std::string::npos);
}

TEST(KeptRun, FilesOfAPersonAreNotTakenForCheckpoints) {
  const std::string notes = write("notes.txt", "my notes\n"), data = data_file("d.csv", 40, "2", 7);
  const Result r = run("tune " + data + " --checkpoint " + notes);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("left alone"), std::string::npos) << r.err;
  EXPECT_EQ(slurp(notes), "my notes\n");
}

TEST(KeptRun, FilesBesideTheCheckpointAreThoseOfThePerson) {
  std::string table = "a,b,y\n";
  for (int i = 0; i < 60; ++i)
    table += fmt::format("{},{},{}\n", i % 7, i % 11, 3 * (i % 7) - i % 11 + i % 3);
  const std::string own = scratch("own"), data = write("own.1", table), other = write("elsewhere.csv", table);
  EXPECT_EQ(run("tune " + data + " --checkpoint " + own).code, 2) << "own.1 is the data";
  EXPECT_EQ(slurp(data), table);
  Result r = run("tune " + other + " --checkpoint " + own);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("is no checkpoint of bilevel and is left alone"), std::string::npos) << r.err;
  EXPECT_EQ(slurp(data), table);
  std::filesystem::remove(data);
  write("own.grid", "notes");
  EXPECT_EQ(run("tune " + other + " --checkpoint " + own).code, 2);
  EXPECT_EQ(slurp(own + ".grid"), "notes");
  std::filesystem::remove(own + ".grid");
  r = run("tune " + other + " --checkpoint " + own + " --save " + own + ".grid");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("two outputs"), std::string::npos) << r.err;
  // A number beyond any process, and a text that is not ours: both stay.
  write("own.20240101.tmp", "{\"format\":\"bilevel-checkpoint\"");
  write("own.4194000.tmp", "mine");
  // What a killed run left goes; what another run left is not taken for a part of this one.
  const std::vector<std::string> left{".4194001.tmp", ".grid.4194001.tmp", ".adaptive.4194001.tmp",
                                      ".wide2.4194001.tmp", ".1.4194001.tmp"};
  for (const std::string& ending : left) write("own" + ending, "{\"format\":\"bilevel-checkpoint\"");
  EXPECT_EQ(run("tune " + other + " --checkpoint " + own).code, 0);
  EXPECT_TRUE(std::filesystem::exists(own + ".20240101.tmp"));
  EXPECT_TRUE(std::filesystem::exists(own + ".4194000.tmp"));
  for (const std::string& ending : left) EXPECT_FALSE(std::filesystem::exists(own + ending)) << ending;
  EXPECT_FALSE(std::filesystem::exists(own));
  for (const char* ending : {".20240101.tmp", ".4194000.tmp"}) std::filesystem::remove(own + ending);
}

TEST(KeptRun, NoCommandOverwritesOne) {
  const std::string data = data_file("kept.csv", 60, "2", 7), other = "{\"format\":\"bilevel-checkpoint\",";
  for (const std::string& command :
       {"tune " + data, "clean " + data + " --trusted 10",
        std::string("train --rows 100 --layers 8 --epochs 1"), std::string("solve --problem quadratic")}) {
    SCOPED_TRACE(command);
    const std::string checkpoint = write("once.ckpt", other);
    const Result r = run(command + " --checkpoint " + checkpoint);
    EXPECT_EQ(r.code, 2);
    EXPECT_NE(r.err.find("keeps an unfinished run"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("delete " + checkpoint), std::string::npos) << r.err;
    EXPECT_EQ(slurp(checkpoint), other);
    std::filesystem::remove(checkpoint);
    EXPECT_LE(run(command + " --checkpoint " + checkpoint).code, 1);
    EXPECT_FALSE(std::filesystem::exists(checkpoint)) << "a run that is over is not kept";
  }
}

TEST(KeptRun, TimeThatIsOverSaysHowToGoOn) {
  const std::string data = data_file("late.csv", 4000, "number", 7), checkpoint = scratch("late.ckpt");
  const Result r = run("tune " + data + " --grid 10000 --seconds 1 --checkpoint " + checkpoint);
  EXPECT_EQ(r.code, 1) << r.out;
  ASSERT_FALSE(files_of(checkpoint).empty()) << r.err;
  EXPECT_NE(r.err.find(checkpoint + ".grid keeps the run: the same command with --resume added goes on"),
            std::string::npos)
      << r.err;
  for (const std::string& file : files_of(checkpoint)) std::filesystem::remove(file);
}

TEST(KeptRun, NoCommandGoesOnWithThatOfAnother) {
  const std::string data = data_file("other.csv", 60, "2", 7), checkpoint = scratch("other.ckpt");
  const std::vector<std::string> commands{
      "tune " + data + " --penalty per-feature --iterations 1 --tolerance 1e-12",
      "clean " + data + " --trusted 10 --iterations 1 --decrease 1e-12",
      "train --rows 200 --layers 8 --epochs 100000 --probe 0 --seconds 0.2",
      "solve --problem logistic --iterations 1 --tolerance 1e-12"};
  for (const std::string& first : commands) {
    ASSERT_EQ(run(first + " --checkpoint " + checkpoint).code, 1) << first;
    ASSERT_TRUE(std::filesystem::exists(checkpoint)) << first;
    // The checkpoint alone: what `tune` keeps beside it is refused for its own sake.
    for (const std::string& file : files_of(checkpoint))
      if (file != checkpoint) std::filesystem::remove(file);
    const std::string kept = slurp(checkpoint);
    // `--penalty auto` may never read the file that it removes in the end.
    for (const std::string& second : {std::string("tune --example"), "tune " + data + " --seed 2",
                                      commands[1], commands[2], commands[3]}) {
      if (second == first) continue;
      SCOPED_TRACE(first + " | " + second);
      const Result r = run(second + " --resume --checkpoint " + checkpoint);
      EXPECT_EQ(r.code, 2) << r.out;
      EXPECT_NE(r.err.find(checkpoint + ": it belongs to another run"), std::string::npos) << r.err;
      EXPECT_TRUE(slurp(checkpoint) == kept);
      EXPECT_EQ(files_of(checkpoint), std::vector<std::string>{checkpoint});
    }
    std::filesystem::remove(checkpoint);
  }
  // A part of another run beside it.
  ASSERT_EQ(run(commands[2] + " --checkpoint " + checkpoint).code, 1);
  std::filesystem::rename(checkpoint, checkpoint + ".wide3");
  const Result r = run("tune --example --resume --checkpoint " + checkpoint);
  EXPECT_EQ(r.code, 2) << r.out;
  EXPECT_NE(r.err.find(checkpoint + ".wide3: it belongs to another run"), std::string::npos) << r.err;
  EXPECT_EQ(files_of(checkpoint), std::vector<std::string>{checkpoint + ".wide3"});
}

/// Long enough to be cut short.
const std::string lasting = "--tolerance 1e-8 --iterations 1000 --penalty per-feature --prior-width inf";

std::vector<std::string> lasting_run(const std::string& checkpoint) {
  return {"tune",      "--example",   "--tolerance",   "1e-8", "--iterations", "1000",
          "--penalty", "per-feature", "--prior-width", "inf",  "--checkpoint", checkpoint};
}

/// A busy machine may take its time.
void wait_for(const std::string& path) {
  for (int i = 0; i < 60000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(std::filesystem::exists(path)) << path << " never came\n" << slurp(scratch("said"));
}

TEST(KeptRun, KilledRunsResumeToTheSameBits) {
  const std::string checkpoint = scratch("tune.ckpt");
  const std::string settings = "tune --example " + lasting + " --checkpoint " + checkpoint;
  const json expected = run_json(settings, 0);
  const auto took = expected["seconds"].get<double>();
  std::random_device device;
  const auto seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 engine(seed);
  int cut_short = 0;
  for (int k = 0; k < 10; ++k) {
    remove_files_of(checkpoint);
    // Killed again and again until it gets to its end, every time from where it was.
    bool first = true;
    for (int kills = 0; kills < 5; ++kills, first = false) {
      std::vector<std::string> arguments = lasting_run(checkpoint);
      if (!first) arguments.emplace_back("--resume");
      const pid_t child = start(arguments);
      wait_for(checkpoint + ".grid");
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::uniform_real_distribution<double>(0, 0.3 * took)(engine)));
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      cut_short += WIFSIGNALED(status);
    }
    const json j = run_json(settings + " --resume", 0);
    EXPECT_EQ(j["penalties"], expected["penalties"]);
    EXPECT_EQ(j["validation_loss"], expected["validation_loss"]);
    EXPECT_EQ(j["baseline"]["grid"]["lambda"], expected["baseline"]["grid"]["lambda"]);
    EXPECT_FALSE(std::filesystem::exists(checkpoint)) << "removed at the end";
    EXPECT_FALSE(std::filesystem::exists(checkpoint + ".grid"));
  }
  EXPECT_TRUE(files_of(checkpoint).empty());
  EXPECT_GE(cut_short, 30) << "the run must be long enough to be cut short";
}

TEST(KeptRun, CtrlCSavesAndSaysHowToGoOn) {
  const std::string checkpoint = scratch("stopped.ckpt"), json_path = scratch("stopped.json");
  const json expected = run_json("tune --example " + lasting, 0);
  for (const bool in_the_grid : {true, false}) {
    SCOPED_TRACE(in_the_grid);
    remove_files_of(checkpoint);
    // A grid of many values lasts long enough to be stopped within it.
    std::vector<std::string> arguments = lasting_run(checkpoint);
    if (in_the_grid) arguments.insert(arguments.end(), {"--grid", "2001"});
    const pid_t child = start(arguments);
    wait_for(checkpoint + (in_the_grid ? ".grid" : ""));
    ::kill(child, SIGINT);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1) << slurp(scratch("said"));
    EXPECT_NE(slurp(scratch("said")).find("--resume"), std::string::npos) << slurp(scratch("said"));
    EXPECT_NE(slurp(scratch("said")).find(checkpoint), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(checkpoint + (in_the_grid ? ".grid" : "")));
    if (in_the_grid) continue;
    // Another command may not go on with it.
    const Result other = run("tune --example --seed 2 --resume --checkpoint " + checkpoint);
    EXPECT_EQ(other.code, 2);
    EXPECT_NE(other.err.find("another run"), std::string::npos) << other.err;
    const json j = run_json("tune --example " + lasting + " --resume --checkpoint " + checkpoint, 0);
    EXPECT_EQ(j["penalties"], expected["penalties"]);
    EXPECT_EQ(j["resumed"], true);
  }
}

}  // namespace kept_run_test
