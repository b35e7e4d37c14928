// `bilevel clean` as a person uses it: results, files, refusals, and a run cut short.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "program.hpp"

namespace clean_test {

using namespace program;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Two clouds with the labels "yes" and "no, never"; every `wrong`-th row has the other one's.
std::string clouds(const std::string& name, int rows, int wrong, std::uint64_t seed, int features = 2) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::ostringstream out;
  out.precision(17);
  for (int j = 0; j < features; ++j) out << "x" << j << ",";
  out << "answer\n";
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < features; ++j) out << (i % 2 ? 2 : -2) / (j + 1.0) + normal(engine) << ",";
    out << ((i % 2 == 1) != (wrong > 0 && i % wrong == 0) ? "yes" : "\"no, never\"") << "\n";
  }
  return write(name, out.str());
}

TEST(CleanCommand, HelpPrintsWhatIsMinimised) {
  const Result r = run("clean --help");
  EXPECT_EQ(r.code, 0);
  for (const char* word :
       {"σ(θ_i)·ℓ_i(φ) + ½λ‖φ‖²", "trusted rows, without penalty", "penalised too", "--ranking"})
    EXPECT_NE(r.out.find(word), std::string::npos) << word;
  for (const std::string& line : lines_of(r.out)) EXPECT_LE(line.size(), 140U) << line;
}

TEST(CleanCommand, AFileWithWrongLabelsAndAllItsOutputs) {
  const std::string data = clouds("noisy.csv", 300, 10, 1), checked = clouds("checked.csv", 60, 0, 2);
  const std::string output = scratch("cleaned.csv"), ranking = scratch("ranking.csv"),
                    report = scratch("clean.html"), json_path = scratch("clean.json");
  const Result r = run(fmt::format("clean {} --trusted {} --output {} --ranking {} --report {} --json {}",
                                   data, checked, output, ranking, report, json_path));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(r.err, "");
  const json j = json::parse(slurp(json_path));
  EXPECT_EQ(j["command"], "clean");
  EXPECT_EQ(j["status"], "relative-decrease");
  EXPECT_EQ(j["samples"], 300);
  EXPECT_EQ(j["data"]["rows"], (json{{"training", 300}, {"trusted", 60}, {"test", 0}}));
  EXPECT_EQ(j["data"]["classes"], (json{"no, never", "yes"}));
  EXPECT_EQ(j["model"]["hyperparameters"], 300);
  EXPECT_TRUE(j["truth"].is_null());
  EXPECT_TRUE(j["accuracy"].is_null());
  EXPECT_EQ(j["certificate"]["kind"], "rigorous");
  EXPECT_EQ(j["certificate"]["verdict"], "trusted");
  EXPECT_LT(j["trusted_loss"]["after"], j["trusted_loss"]["before"]);
  EXPECT_EQ(j["history"].size(), j["evaluations"].get<std::size_t>());
  EXPECT_TRUE(j["warnings"].empty()) << j["warnings"];
  double counted = 0;
  for (const auto& count : j["weights_histogram"]["counts"]) counted += count.get<double>();
  EXPECT_EQ(counted, 300);
  EXPECT_NE(r.out.find(fmt::format("{} of 300 training rows look mislabelled:", j["flagged"].get<int>())),
            std::string::npos)
      << r.out;

  // Rows 1, 11, 21, … are wrong.
  const auto flagged = j["flagged"].get<std::size_t>();
  std::set<int> found;
  std::size_t right = 0;
  for (std::size_t k = 0; k < flagged; ++k) {
    const json& suspect = j["suspects"][k];
    EXPECT_EQ(suspect["rank"], k + 1);
    EXPECT_LT(suspect["weight"], 0.5);
    EXPECT_NE(suspect["label"], suspect["predicted"]);
    found.insert(suspect["row"].get<int>());
    right += suspect["row"].get<int>() % 10 == 1;
  }
  EXPECT_EQ(found.size(), flagged);
  EXPECT_GE(right, 26U);
  EXPECT_LE(flagged - right, 8U);
  EXPECT_GE(j["below_threshold"], j["flagged"]);

  const auto ranked = lines_of(slurp(ranking));
  ASSERT_EQ(ranked.size(), 301U);
  EXPECT_EQ(ranked[0], "rank,row,label,weight,predicted");
  EXPECT_EQ(ranked[1].find(fmt::format("1,{},", j["suspects"][0]["row"].get<int>())), 0U) << ranked[1];
  EXPECT_TRUE(std::any_of(ranked.begin(), ranked.end(), [](const std::string& line) {
    return line.find("\"no, never\"") != std::string::npos;
  }));

  // The cleaned file: the original lines, header first, without those rows.
  std::string expected;
  const auto original = lines_of(slurp(data));
  for (std::size_t i = 0; i < original.size(); ++i)
    if (!found.count(static_cast<int>(i))) expected += original[i] + "\n";
  EXPECT_EQ(slurp(output), expected);
  EXPECT_EQ(run(fmt::format("clean {} --trusted {}", output, checked)).code, 0) << "it can be read again";

  const std::string page = slurp(report);
  EXPECT_NE(page.find("Suspicious labels in"), std::string::npos);
  EXPECT_NE(page.find("bilevel clean"), std::string::npos);
}

TEST(CleanCommand, ATrialMeasuresWhatWasPlanted) {
  const std::string data = clouds("trial.csv", 500, 0, 3);
  const std::string settings = "clean " + data + " --trusted 100 --test 0.2 --corrupt 0.4 --seed 5";
  const json j = run_json(settings, 0);
  EXPECT_EQ(j["data"]["rows"], (json{{"training", 300}, {"trusted", 100}, {"test", 100}}));
  EXPECT_GE(j["truth"]["f1"], 0.85);
  EXPECT_GE(j["accuracy"]["after"], j["accuracy"]["before"]);
  EXPECT_EQ(j["accuracy"]["test_rows"], 100);
  double clean = 0, corrupted = 0;
  for (const auto& count : j["weights_histogram"]["clean"]) clean += count.get<double>();
  for (const auto& count : j["weights_histogram"]["corrupted"]) corrupted += count.get<double>();
  EXPECT_EQ(corrupted, j["truth"]["corrupted"].get<double>());
  EXPECT_EQ(clean + corrupted, 300);
  for (const json& suspect : j["suspects"])
    EXPECT_EQ(suspect["corrupted"].get<bool>(), suspect["label"] != suspect["original"]);
  EXPECT_EQ(run_json(settings, 0)["suspects"], j["suspects"]) << "the same every time";
}

TEST(CleanCommand, PicturesAreDrawn) {
  // 40 pictures of 2×2: the upper half is bright, or the lower one.
  std::string images("\0\0\x08\x03\0\0\0\x28\0\0\0\x02\0\0\0\x02", 16), labels("\0\0\x08\x01\0\0\0\x28", 8);
  for (int i = 0; i < 40; ++i) {
    const auto bright = static_cast<char>(200 + i), dark = static_cast<char>(i);
    images += i % 2 ? std::string{bright, bright, dark, dark} : std::string{dark, dark, bright, bright};
    labels += static_cast<char>(i == 7 ? 0 : i % 2);
  }
  const std::string files = write("pictures", images) + " --labels " + write("picture_labels", labels);
  const json j = run_json("clean " + files + " --trusted 12 --seed 3", 0);
  ASSERT_EQ(j["images"].size(), 28U);
  const json& first = j["images"][0];
  EXPECT_EQ(first["width"], 2);
  EXPECT_EQ(first["height"], 2);
  EXPECT_EQ(first["pixels"].get<std::string>().size(), 8U) << "four bytes in base64";
  EXPECT_EQ(first["caption"].get<std::string>().find("row "), 0U);
  EXPECT_FALSE(first.contains("status"));
}

TEST(CleanCommand, BadInputSaysWhatToDoAndLeavesFilesAlone) {
  const std::string data = clouds("good.csv", 60, 0, 4), kept = write("kept", "as it was");
  const std::string one_class = write("one.csv", "a,b\n1,x\n2,x\n3,x\n");
  const std::string numbers = write("numbers.csv", "a,b\n1,2.5\n2,3.5\n3,1.5\n4,9\n");
  const std::string ragged = write("ragged.csv", "a,b\n1,x\n2,y,z\n");
  const std::string foreign = write("foreign.csv", "x0,x1,answer\n1,2,perhaps\n");
  const std::string features = write("features.csv", "a\n1\n2\n3\n4\n5\n6\n7\n8\n");
  const std::string labels = write("labels.txt", "x\ny\nx\ny\nx\ny\nx\ny\n");
  struct Case {
    std::string arguments, says;
  };
  const std::vector<Case> cases{
      {"", "name a data file"},
      {data, "trusted"},
      {data + " --trusted 60", "only 60 rows"},
      {data + " --trusted 99.9%", "only 60 rows"},
      {data + " --trusted 100%", "below 1"},
      {data + " --trusted 1.5", "a share below 1, or a whole number"},
      {data + " --trusted 10 --trusted-labels x", "goes with --trusted FILE"},
      {data + " --trusted nowhere.csv", "nowhere.csv"},
      {data + " --trusted " + foreign, "perhaps"},
      {data + " --trusted 10 --corrupt 1.5", "corrupt"},
      {data + " --trusted 10 --lambda 0", "lambda"},
      {data + " --trusted 10 --threshold 2", "threshold"},
      {data + " --trusted 10 --rows 1000", "only 50 rows"},
      {data + " --trusted 10 --target missing", "missing"},
      {data + " --trusted 10 --corrupt 0.5 --output " + scratch("x"), "trial"},
      {one_class + " --trusted 1", "same label"},
      {numbers + " --trusted 1", "no class label"},
      {ragged + " --trusted 1", "line 3"},
      {scratch("absent.csv") + " --trusted 1", "absent.csv"},
      {data + " --trusted 10 --json " + data, "is an input"},
      {data + " --trusted 10 --ranking " + kept + " --json " + kept, "two outputs"},
      {data + " --trusted 10 --report " + scratch("no/such/folder/r.html"), "does not exist"},
      {features + " --trusted 2 --labels " + labels + " --output " + scratch("x"), "a file of their own"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.arguments);
    const bool has_output = each.arguments.find("--json") != std::string::npos;
    const Result r = run("clean " + each.arguments + (has_output ? "" : " --json " + kept));
    EXPECT_EQ(r.code, 2) << r.out << r.err;
    EXPECT_NE(r.err.find(each.says), std::string::npos) << r.err;
    EXPECT_EQ(slurp(kept), "as it was");
  }
}

TEST(CleanCommand, CtrlCSavesAndSaysHowToGoOn) {
  const std::string data = clouds("long.csv", 4000, 10, 6, 8), checkpoint = scratch("clean.ckpt"),
                    output = scratch("half.csv");
  const std::string settings = " --trusted 400 --decrease 0 --iterations 60 --lambda 1e-5";
  // Not converged, on purpose: the exit code says so.
  const json expected = run_json("clean " + data + settings, 1);
  const pid_t child = start({"clean", data, "--trusted", "400", "--decrease", "0", "--iterations", "60",
                             "--lambda", "1e-5", "--checkpoint", checkpoint, "--output", output});
  for (int k = 0; k < 2000 && !std::filesystem::exists(checkpoint); ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << slurp(scratch("said"));
  const std::string said = slurp(scratch("said"));
  EXPECT_NE(said.find("--resume"), std::string::npos) << said;
  EXPECT_NE(said.find("is not written"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(output));
  ASSERT_TRUE(std::filesystem::exists(checkpoint));
  const Result other = run("clean " + data + settings + " --seed 2 --resume --checkpoint " + checkpoint);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("another run"), std::string::npos) << other.err;
  const json j = run_json("clean " + data + settings + " --resume --checkpoint " + checkpoint, 1);
  EXPECT_EQ(j["resumed"], true);
  EXPECT_EQ(j["suspects"], expected["suspects"]);
  EXPECT_EQ(j["trusted_loss"], expected["trusted_loss"]);
  EXPECT_TRUE(std::filesystem::exists(checkpoint))
      << "its limit ended the run: more steps could go on from there";
}

}  // namespace clean_test
