// The program as a person uses it: what it prints, what it writes, how it ends.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace program_test {

using namespace program;

std::vector<std::string> problem_names() {
  std::vector<std::string> names;
  std::istringstream lines(run("solve --list").out);
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find(' ')));
  return names;
}

void expect_common_fields(const json& j) {
  for (const char* field : {"status", "message", "theta", "phi_norm", "outer_value", "gradient_norm",
                            "iterations", "cost", "certificate"})
    EXPECT_TRUE(j.contains(field)) << field;
  EXPECT_TRUE(j["theta"].is_array());
  for (const char* field : {"kind", "bound", "delta", "delta_prime", "mu", "verdict"})
    EXPECT_TRUE(j["certificate"].contains(field)) << field;
  const std::string kind = j["certificate"]["kind"], verdict = j["certificate"]["verdict"];
  EXPECT_TRUE(kind == "rigorous" || kind == "estimated" || kind == "none") << kind;
  EXPECT_TRUE(verdict == "trusted" || verdict == "doubtful" || verdict == "untrusted") << verdict;
}

TEST(Program, HelpVersionAndUsage) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("--help").out.find("Examples"), std::string::npos);
  EXPECT_NE(run("--version").out.find("bilevel 0."), std::string::npos);
  for (const char* command : {"doctor", "solve", "compare"}) {
    const Result r = run(std::string(command) + " --help");
    EXPECT_EQ(r.code, 0);
    EXPECT_NE(r.out.find("Examples"), std::string::npos) << command;
    EXPECT_NE(r.out.find("--problem"), std::string::npos) << command;
  }
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("fly").code, 2);
  EXPECT_EQ(run("solve --fly").code, 2);
}

TEST(Program, MistypedWordsAreNamedInTheirOrder) {
  const Result command = run("tun x.csv");
  EXPECT_EQ(command.code, 2);
  EXPECT_NE(command.err.find("there is no command 'tun'; there are tune, predict"), std::string::npos)
      << command.err;
  const Result option = run("tune x.csv --taget price");
  EXPECT_NE(option.err.find("not understood: --taget price;"), std::string::npos) << option.err;
  EXPECT_EQ(option.code, 2);
}

TEST(Program, ATableOfRefusalsComparesNothing) {
  EXPECT_EQ(run("compare --problem ridge --methods implicit-sgd").code, 1);
}

TEST(Program, ListIsOneLineAProblemAndNothingElse) {
  const auto names = problem_names();
  const std::vector<std::string> expected{"quadratic", "pitchfork", "log-cosh",
                                          "ridge",     "logistic",  "duopoly"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(run("doctor --list").out, run("solve --list").out);
  EXPECT_EQ(run("solve --list").code, 0);
}

TEST(Program, EveryProblemIsHealthyFromItsOwnStart) {
  for (const std::string& name : problem_names()) {
    const json j = run_json("doctor --problem " + name, 0);
    expect_common_fields(j);
    EXPECT_EQ(j["status"], "healthy") << j["message"];
    EXPECT_EQ(j["certificate"]["verdict"], "trusted");
    EXPECT_EQ(j["certificate"]["kind"], "rigorous") << name;
    for (const json& check : j["checks"]) EXPECT_TRUE(check["passed"]) << name << ": " << check;
  }
}

TEST(Program, DoctorRefusesWhereBranchesMeet) {
  const json j = run_json("doctor --problem pitchfork --theta 0", 1);
  EXPECT_EQ(j["status"], "not-healthy");
  EXPECT_EQ(j["certificate"]["verdict"], "untrusted");
  EXPECT_EQ(run_json("doctor --problem pitchfork --theta 2", 0)["status"], "healthy");
}

TEST(Program, SolvesEveryProblem) {
  for (const std::string& name : problem_names()) {
    const json j = run_json("solve --problem " + name, 0);
    expect_common_fields(j);
    EXPECT_EQ(j["status"], "converged") << name << ": " << j["message"];
    EXPECT_LE(j["gradient_norm"].get<double>(), 1e-6);
    EXPECT_EQ(j["certificate"]["verdict"], "trusted");
  }
  // Closed forms: θ = (a − 2c_l + c_f)/2b and θ = 2y².
  const json duopoly = run_json("solve --problem duopoly --tolerance 1e-9", 0);
  EXPECT_EQ(duopoly["theta"].size(), 1U);
  const json pitchfork = run_json("solve --problem pitchfork --tolerance 1e-9", 0);
  EXPECT_NEAR(pitchfork["theta"][0].get<double>(), 2, 1e-6);
}

TEST(Program, NumbersHaveFullPrecision) {
  const json j = run_json("solve --problem quadratic --tolerance 1e-9", 0);
  const double value = j["outer_value"];
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  EXPECT_NE(value, std::atof(text)) << "more than six digits are written";
}

TEST(Program, SolversAndOptimisersByName) {
  for (const char* inner : {"gradient-descent", "heavy-ball", "nesterov", "lbfgs", "newton", "trust-region",
                            "anderson", "broyden"})
    EXPECT_EQ(run(std::string("solve --problem log-cosh --condition 10 --inner ") + inner).code, 0) << inner;
  for (const char* adjoint : {"direct", "cg", "minres", "gmres", "bicgstab", "neumann"})
    EXPECT_EQ(run(std::string("solve --problem log-cosh --condition 10 --adjoint ") + adjoint).code, 0)
        << adjoint;
  for (const char* optimizer : {"gradient-descent", "lbfgs"})
    EXPECT_EQ(
        run(std::string("solve --problem log-cosh --condition 10 --iterations 2000 --optimizer ") + optimizer)
            .code,
        0)
        << optimizer;
  EXPECT_EQ(run("solve --problem log-cosh --adjoint zero").code, 1)
      << "a first-order gradient is not trustworthy";
}

TEST(Program, SearchesByName) {
  for (const char* search : {"random-search", "grid-search", "nlopt-bobyqa", "nlopt-direct"}) {
    const std::string arguments =
        std::string("solve --problem duopoly --bounds 0:10 --budget 101 --optimizer ") + search;
    // Exit code 1: there is no certificate.
    const json j = run_json(arguments, 1);
    expect_common_fields(j);
    EXPECT_EQ(j["methods"]["optimizer"], search);
    EXPECT_EQ(j["methods"]["adjoint"], "none");
    EXPECT_EQ(j["certificate"]["verdict"], "untrusted");
    EXPECT_EQ(j["certificate"]["reason"], "a search of values has no gradient");
    EXPECT_TRUE(j["gradient_norm"].is_null());
    EXPECT_LE(j["evaluations"].get<long>(), 101);
    EXPECT_EQ(j["history"].size(), j["evaluations"].get<std::size_t>());
    // The leader's best quantity, (a − 2c_l + c_f)/2b.
    EXPECT_NEAR(j["theta"][0].get<double>(), 5, 0.2) << search;
    EXPECT_EQ(run_json(arguments, 1)["theta"], j["theta"]);
    const Result r = run(arguments);
    EXPECT_EQ(r.out.find("gradient norm"), std::string::npos) << r.out;
    EXPECT_NE(run("solve --help").out.find(search), std::string::npos);
    // Log-penalties have bounds of their own.
    EXPECT_EQ(
        run_json(std::string("solve --problem ridge --penalty global --budget 20 --optimizer ") + search,
                 1)["bounds"]["lower"][0],
        -10);
  }
}

TEST(Program, BadInputSaysWhatToDo) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"solve", "--list"},
      {"solve --problem nothing", "quadratic"},
      {"solve --problem quadratic --inner magic", "lbfgs"},
      {"solve --problem quadratic --adjoint magic", "minres"},
      {"solve --problem quadratic --optimizer magic", "adam"},
      {"solve --problem quadratic --theta 1,2", "wants 1 or 5"},
      {"solve --problem quadratic --theta nan", "not a finite number"},
      {"solve --problem quadratic --tolerance -1", "gradient_tolerance = -1"},
      {"solve --problem quadratic --inner-tolerance -1", "--inner-tolerance"},
      {"solve --problem quadratic --bounds 3", "LO:HI"},
      {"solve --problem quadratic --bounds 3:x", "LO:HI"},
      {"solve --problem quadratic --bounds 3:1", "LO:HI"},
      {"solve --problem quadratic --size -4", "--size"},
      {"solve --problem quadratic --size 0", "--size"},
      {"solve --problem quadratic --bounds inf:inf", "LO:HI"},
      {"solve --problem quadratic --condition 0.5", "condition = 0.5"},
      {"solve --problem pitchfork --size 7", "not a setting"},
      {"solve --problem quadratic --resume", "checkpoint"},
      {"solve --problem quadratic --json /nonexistent/x.json", "does not exist"},
      {"solve --problem quadratic --checkpoint /nonexistent/x", "does not exist"},
      {"solve --problem quadratic --inner-tolerance nan", "--inner-tolerance"},
      {"solve --problem quadratic --seconds -3", "--seconds"},
      {"solve --problem quadratic --step 5", "gradient-descent and adam"},
      {"solve --problem quadratic --optimizer adam --step -1", "--step"},
      {"solve --problem quadratic --seed -1", "whole number"},
      {"solve --problem quadratic --size 1000000", "at most 20000"},
      {"solve --problem quadratic --json same.json --checkpoint ./same.json", "the same file"},
      {"solve --problem quadratic --optimizer magic", "nlopt-bobyqa"},
      {"solve --problem quadratic --optimizer random-search", "bounds"},
      {"solve --problem quadratic --optimizer grid-search --bounds=-1:1 --budget 20", "5 dimensions"},
      {"solve --problem quadratic --optimizer nlopt-bobyqa --checkpoint search.ckpt", "cannot be resumed"},
      {"solve --problem quadratic --optimizer nlopt-bobyqa --adjoint cg", "no use for them"},
      {"solve --problem quadratic --optimizer nlopt-bobyqa --iterations 5", "--budget"},
      {"solve --problem quadratic --optimizer nlopt-bobyqa --step 1", "searches find their own"},
      {"solve --problem quadratic --budget 5", "--iterations"},
      {"solve --problem quadratic --step 0", "bilevel: --step"},
      {"solve --problem quadratic --optimizer nlopt-bobyqa --budget -5", "--budget"},
      {"solve --problem log-cosh --method unrolled --inner lbfgs", "cannot be differentiated"},
      {"solve --problem log-cosh --method forward-mode --inner newton", "heavy-ball"},
      {"solve --problem log-cosh --method unrolled --inner magic", "trust-region"},
      {"solve --problem log-cosh --beta 0.1", "implicit-direct does not take it"},
      {"solve --problem log-cosh --method auto --beta 0.1", "auto does not take it"},
      {"solve --problem log-cosh --method unrolled --memory 3Q", "64M"},
      {"solve --problem log-cosh --method unrolled --memory K", "64M"},
      {"solve --problem log-cosh --method unrolled --memory -1K", "64M"},
      {"compare --problem quadratic --methods implicit-cg --beta 0.1", "--beta"},
      {"compare --problem quadratic --methods magic", "implicit-cg"},
      {"doctor --problem nothing", "quadratic"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << arguments << "\n" << r.out << r.err;
    EXPECT_NE(r.err.find(expected), std::string::npos) << arguments << " says: " << r.err;
    EXPECT_EQ(r.out, "") << arguments;
  }
}

TEST(Program, ABadKernelChoiceIsRefused) {
  ::setenv("BILEVEL_KERNELS", "magic", 1);
  const Result r = run("solve --problem ridge --samples 40000");
  ::unsetenv("BILEVEL_KERNELS");
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_NE(r.err.find("BILEVEL_KERNELS"), std::string::npos) << r.err;
}

TEST(Program, ComparesOnlyWithATruthThatExists) {
  EXPECT_EQ(run("compare --problem logistic --theta 800").code, 1);
  EXPECT_EQ(run("compare --problem pitchfork --theta 0").code, 1);
  const json loose = run_json("compare --problem logistic --tolerances 0.3", 0),
             tight = run_json("compare --problem logistic", 0);
  EXPECT_NEAR(loose["truth"]["norm"].get<double>(), tight["truth"]["norm"].get<double>(), 1e-10);
}

TEST(Program, NoColoursAndNoProgressWhereThereIsNoTerminal) {
  const Result r = run("solve --problem quadratic");
  EXPECT_EQ(r.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(r.err, "");
}

TEST(Program, CompareFindsWhichEstimatorsAreRight) {
  for (const std::string& name : problem_names()) {
    const json j = run_json("compare --problem " + name, 0);
    ASSERT_TRUE(j["estimates"].is_array());
    std::size_t ran = 0;
    for (const json& e : j["estimates"]) {
      const std::string method = e["method"];
      if (e.contains("reason")) {
        EXPECT_GT(e["reason"].get<std::string>().size(), 20U) << method;
        continue;
      }
      ++ran;
      const double allowed =
          method == "exact" || method == "implicit-direct" || method == "auto" ? 1e-7 : 1e300;
      EXPECT_LE(e["relative_error"].get<double>(), allowed) << name << " " << method;
      const double bound =
          e["verdict"] == "trusted" || e["kind"] == "rigorous" ? e["bound"].get<double>() : 1e300;
      EXPECT_LE(e["absolute_error"].get<double>(), bound + 1e-13) << name << " " << method;
      for (const char* field : {"cosine", "kind", "gradient_equivalents", "products", "bytes", "seconds"})
        EXPECT_TRUE(e.contains(field)) << method << " " << field;
    }
    EXPECT_GE(ran, 22U) << name;  // of 27; five more run where they are named
  }
}

// Characters of UTF-8, each of which takes one column here.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

TEST(Program, CompareFitsOnAPageAndExplainsWhatIsMissing) {
  for (const char* arguments :
       {"--problem ridge", "--problem pitchfork", "--problem duopoly", "--problem quadratic --beta 100",
        "--problem log-cosh --tolerances 1e-1,1e-2,1e-4,1e-6,1e-8",
        "--problem quadratic --size 600 --parameters 100 --methods auto,implicit-cg,ep-central,forward-mode "
        "--memory 1K"}) {
    const std::string out = run(std::string("compare ") + arguments).out;
    EXPECT_GT(out.size(), 300U) << arguments;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns(line), 100U) << line;
      EXPECT_EQ(line.find("bytesseconds"), std::string::npos);
    }
  }
  const std::string refused = run("compare --problem quadratic --methods ep-central --beta 100").out;
  EXPECT_NE(refused.find("\nep-central: "), std::string::npos) << refused;
  EXPECT_EQ(run("compare --problem quadratic --methods implicit-cg").out.find("\nimplicit-cg: "),
            std::string::npos);
}

TEST(Program, CompareTriesEveryMethodAndToleranceOnce) {
  const json j = run_json(
      "compare --problem quadratic --methods 'implicit-cg, ep-central ,implicit-cg' --tolerances "
      "1e-3,1e-6,1e-3",
      0);
  EXPECT_EQ(j["estimates"].size(), 2U);
  EXPECT_EQ(j["sweep"].size(), 4U);
}

TEST(Program, CompareSweepsAccuracyAgainstCost) {
  const std::string command =
      "compare --problem quadratic --methods implicit-cg,ep-central --tolerances 1e-3,1e-9,1e-6";
  const json j = run_json(command, 0);
  ASSERT_EQ(j["sweep"].size(), 6U);
  EXPECT_EQ(j["tolerance"], 1e-9);
  for (const char* method : {"implicit-cg", "ep-central"}) {
    std::vector<std::pair<double, double>> points;  // loosest first
    for (const json& e : j["sweep"])
      if (e["method"] == method) points.emplace_back(e["relative_error"], e["gradient_equivalents"]);
    ASSERT_EQ(points.size(), 3U);
    EXPECT_GT(points[0].first, points[2].first) << method << " gets more accurate";
  }
  const std::string out = run(command).out;
  EXPECT_NE(out.find("1e-03"), std::string::npos) << out;
  EXPECT_LT(out.find("1e-03"), out.find("1e-09"));
  EXPECT_NE(out.find("t trusted, d doubtful, u untrusted"), std::string::npos) << out;
  // Every number of the sweep has its verdict: the method, then number and letter, then the cost.
  const std::size_t line = out.find("\nimplicit-cg", out.find("rel.err (grad.eq)"));
  ASSERT_NE(line, std::string::npos) << out;
  std::istringstream words(out.substr(line + 1, out.find('\n', line + 1) - line - 1));
  std::string word;
  words >> word;
  for (int entry = 0; entry < 3; ++entry) {
    ASSERT_TRUE(words >> word);
    EXPECT_NE(std::string("tdu").find(word.back()), std::string::npos) << word;
    ASSERT_TRUE(words >> word);
    EXPECT_EQ(word.front(), '(') << word;
  }
}

TEST(Program, EstimatorsThatCannotServeSayWhy) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::string, std::string>>{{"--beta 0", "other than 0"},
                                                        {"--beta nan", "finite number"},
                                                        {"--methods ep-forward-9", "ep-forward-8"},
                                                        {"--methods ep-forward-1", "ep-forward-2"},
                                                        {"--tolerances 0", "positive"},
                                                        {"--memory 0", "positive"}}) {
    const Result r = run("compare --problem quadratic " + arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
  const json small =
      run_json("compare --problem quadratic --methods forward-mode,unrolled-checkpointed --memory 200", 1);
  for (const json& e : small["estimates"])
    EXPECT_NE(e["reason"].get<std::string>().find("bytes"), std::string::npos) << e.dump();
  const auto forward_mode_within = [](const std::string& memory, int code) {
    return run_json("compare --problem quadratic --methods forward-mode --memory " + memory,
                    code)["estimates"][0]
        .contains("reason");
  };
  EXPECT_TRUE(forward_mode_within("0.2K", 1));
  for (const char* memory : {"64k", "1M", "0.5G", "65536"})
    EXPECT_FALSE(forward_mode_within(memory, 0)) << memory;
  const json tiny = run_json("compare --problem log-cosh --methods ep-central --beta 1e-15", 0);
  EXPECT_NE(tiny["estimates"][0]["verdict"], "trusted") << tiny.dump();
  const json pole = run_json("compare --problem quadratic --methods ep-central,ep-holomorphic --beta 100", 0);
  for (const json& e : pole["estimates"]) {
    EXPECT_EQ(e["verdict"], "untrusted");
    EXPECT_EQ(e["status"], "negative-curvature");
  }
}

TEST(Program, LearnsWithAnyEstimator) {
  const json expected = run_json("solve --problem log-cosh", 0);
  for (const char* method :
       {"auto", "ep-central", "ep-forward-4", "ep-holomorphic", "unrolled", "forward-mode",
        "unrolled-checkpointed", "finite-difference", "implicit-cg-inherited", "ep-forward-5"}) {
    const json j = run_json(std::string("solve --problem log-cosh --tolerance 1e-5 --method ") + method, 0);
    EXPECT_EQ(j["methods"]["estimator"], method);
    const bool steps = std::string(method).starts_with("unrolled") || std::string(method) == "forward-mode";
    EXPECT_EQ(j["methods"]["inner"], steps ? "nesterov" : "newton") << method;
    EXPECT_EQ(j["methods"].contains("choice"), std::string(method) == "auto");
    EXPECT_NEAR(j["outer_value"].get<double>(), expected["outer_value"].get<double>(), 1e-8) << method;
  }
  EXPECT_EQ(run_json("solve --problem log-cosh --method unrolled --inner heavy-ball --tolerance 1e-5",
                     0)["methods"]["inner"],
            "heavy-ball");
  const json automatic = run_json("solve --problem log-cosh --method auto", 0);
  EXPECT_TRUE(automatic["methods"]["choice"].get<std::string>().starts_with("auto chose implicit-"));
  EXPECT_NE(run("solve --problem log-cosh --method auto").out.find("auto chose implicit-"),
            std::string::npos);
  EXPECT_EQ(run("solve --problem log-cosh --method magic").code, 2);
  for (const char* removed : {"--method implicit-cg-recycled", "--adjoint nystrom", "--adjoint inherited"}) {
    const auto refused = run(std::string("solve --problem log-cosh ") + removed);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("was removed in 0.1.0"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run("solve --problem log-cosh --method ep-central --adjoint cg").code, 2);
}

/// Starts the program without waiting for it.
pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int null = ::open("/dev/null", O_WRONLY);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  std::vector<char*> argv{const_cast<char*>(BILEVEL_PROGRAM)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(BILEVEL_PROGRAM, argv.data());
  ::_exit(127);
}

// A slow run (gradient descent inside and outside) is killed at many moments and resumed; the answer has the
// same bits.
TEST(Program, KilledAndInterruptedRunsResumeToTheSameAnswer) {
  const std::string settings =
      "--problem log-cosh --size 120 --condition 2000 --inner gradient-descent --adjoint neumann --optimizer "
      "gradient-descent --tolerance 1e-5";
  std::vector<std::string> arguments{"solve"};
  {
    std::istringstream words(settings);
    for (std::string word; words >> word;) arguments.push_back(word);
  }
  const json expected = run_json("solve " + settings, 0);
  const std::string checkpoint = scratch("ckpt");
  int cut_short = 0;
  for (const int signal : {SIGKILL, SIGINT, SIGTERM}) {
    for (int delay = 5; delay <= 65; delay += 20) {
      std::filesystem::remove(checkpoint);
      auto with_checkpoint = arguments;
      with_checkpoint.insert(with_checkpoint.end(), {"--checkpoint", checkpoint});
      const pid_t child = start(with_checkpoint);
      // Let it get as far as its first checkpoint, then a little further.
      for (int i = 0; i < 1000 && !std::filesystem::exists(checkpoint); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
      ::kill(child, signal);
      int status = 0;
      ::waitpid(child, &status, 0);
      cut_short += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      const json j = run_json("solve " + settings + " --checkpoint " + checkpoint + " --resume", 0);
      EXPECT_EQ(j["theta"], expected["theta"]) << "signal " << signal << " after " << delay << " ms";
      EXPECT_EQ(j["evaluations"], expected["evaluations"]);
    }
  }
  EXPECT_GT(cut_short, 3) << "the run must be long enough to be cut short";
  std::filesystem::remove(checkpoint);
}

// Of a processor that OpenBLAS does not know it takes the oldest kernels, unless it is told. Its own report
// comes once for each start of the program.
TEST(Program, BlasUsesTheProcessorsWideVectors) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    GTEST_SKIP() << "no wide vectors here";
  ASSERT_EQ(::setenv("OPENBLAS_VERBOSE", "2", 1), 0);
  const Result r = run("--version");
  ::unsetenv("OPENBLAS_VERBOSE");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto last = r.err.rfind("Core: ");
  if (last == std::string::npos) GTEST_SKIP() << "this OpenBLAS does not say: " << r.err;
  for (const char* narrow : {"Prescott", "Core2", "Nehalem"})
    EXPECT_EQ(r.err.find(narrow, last), std::string::npos) << r.err;
#else
  GTEST_SKIP();
#endif
}

}  // namespace program_test
