// Every command is interrupted, asked to end and killed at random moments: none crashes, none lasts, no file
// is half written, and what is kept can be gone on with. BILEVEL_INTERRUPTIONS says how many times.

#include <array>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace interruption_test {

using namespace program;
using Clock = std::chrono::steady_clock;

struct Command {
  std::vector<std::string> arguments;
  std::vector<std::string> json;  ///< files that must be whole where they are
  std::string checkpoint;         ///< empty: it keeps nothing
  double seconds = 0;             ///< that it takes
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void remove_files(const Command& c) {
  for (const std::string& file : c.json) std::filesystem::remove(file);
  if (!c.checkpoint.empty()) remove_files_of(c.checkpoint);
}

/// The exit status, and how long it took to come after `signal`, sent after so many seconds (0: never).
std::pair<int, double> run_until(const std::vector<std::string>& arguments, double delay, int signal) {
  const pid_t child = start(arguments);
  if (signal != 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    ::kill(child, signal);
  }
  const auto asked = Clock::now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    // A hang must not hang the tests.
    if (since(asked) > 60) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {status, since(asked)};
}

std::vector<Command> commands() {
  const std::string data = data_file("cut.csv", 120, "2", 3);
  const auto file = [](const std::string& name) { return scratch("cut_" + name); };
  const std::string json = file("result.json"), model = file("model.json"), checkpoint = file("ckpt");
  std::vector<Command> all{
      {{"tune", data, "--json", json, "--save", model, "--checkpoint", checkpoint},
       {json, model},
       checkpoint},
      {{"clean", data, "--trusted", "30", "--iterations", "20", "--json", json, "--checkpoint", checkpoint},
       {json},
       checkpoint},
      {{"train", "--rows", "300", "--layers", "16", "--epochs", "4", "--probe", "4", "--json", json, "--save",
        model, "--checkpoint", checkpoint},
       {json, model},
       checkpoint},
      {{"solve", "--problem", "log-cosh", "--size", "60", "--inner", "gradient-descent", "--json", json,
        "--checkpoint", checkpoint},
       {json},
       checkpoint},
      {{"compare", "--problem", "ridge", "--json", json}, {json}, ""}};
#if BILEVEL_PROGRAM_HAS_CLAIMS
  all.push_back({{"paper", "--claim", "branching", "--json", json}, {json}, ""});
#endif
  const std::string kept = file("kept.json");
  EXPECT_EQ(run("tune " + data + " --iterations 1 --save " + kept).code, 1);
  all.push_back({{"predict", kept, data, "--output", file("predicted.csv")}, {}, ""});
  for (Command& c : all) {
    remove_files(c);
    const auto begin = Clock::now();
    const int status = run_until(c.arguments, 0, 0).first;
    c.seconds = since(begin);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1)
        << fmt::format("{}", fmt::join(c.arguments, " ")) << "\n"
        << slurp(scratch("said"));
  }
  return all;
}

TEST(Interruption, NoMomentIsABadOne) {
  const char* const wanted = std::getenv("BILEVEL_INTERRUPTIONS");
  const int times = wanted != nullptr ? std::atoi(wanted) : 28;
  std::random_device device;
  const auto seed = device();
  std::mt19937 engine(seed);
  const std::vector<Command> all = commands();
  int ended_in_order = 0, killed = 0, finished = 0;
  double longest = 0;
  for (int k = 0; k < times; ++k) {
    const Command& c = all[static_cast<std::size_t>(k) % all.size()];
    const int signal = std::array{SIGINT, SIGTERM, SIGKILL}[engine() % 3];
    const double delay = std::uniform_real_distribution<double>(0, 1.1 * c.seconds)(engine);
    SCOPED_TRACE(fmt::format("seed {}, time {}: signal {} after {:.4f} s of {}", seed, k, signal, delay,
                             fmt::join(c.arguments, " ")));
    remove_files(c);
    const auto [status, took] = run_until(c.arguments, delay, signal);
    const bool by_signal = WIFSIGNALED(status) && WTERMSIG(status) == signal;
    // Before a command looks for them, signals end it as they end any program.
    EXPECT_TRUE(by_signal || (WIFEXITED(status) && WEXITSTATUS(status) <= 1)) << "status " << status << "\n"
                                                                              << slurp(scratch("said"));
    EXPECT_LT(took, 5) << slurp(scratch("said"));
    longest = std::max(longest, took);
    killed += by_signal;
    finished += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ended_in_order += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    for (const std::string& file : c.json)
      if (std::filesystem::exists(file)) {
        EXPECT_FALSE(json::parse(slurp(file), nullptr, false).is_discarded()) << file;
      }
    if (c.checkpoint.empty() ||
        !(std::filesystem::exists(c.checkpoint) || std::filesystem::exists(c.checkpoint + ".grid")))
      continue;
    auto rest = c.arguments;
    rest.emplace_back("--resume");
    const int then = run_until(rest, 0, 0).first;
    EXPECT_TRUE(WIFEXITED(then) && WEXITSTATUS(then) <= 1) << slurp(scratch("said"));
  }
  for (const Command& c : all) remove_files(c);
  fmt::print(
      "{} times, seed {}: {} ended in order, {} by the signal, {} were done before; at most {:.2f} s\n",
      times, seed, ended_in_order, killed, finished, longest);
}

}  // namespace interruption_test
