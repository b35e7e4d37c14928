// Where the program meets a terminal, a pipe, a full disk and a small machine.

#include <algorithm>

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace edge_test {

using namespace program;

/// The program under a shell, whose words come before and after the arguments.
Result under(const std::string& before, const std::string& arguments, const std::string& after) {
  const std::string err = scratch("edge_err");
  const int status = std::system(
      fmt::format("{{ {} {} {} {} ; }} 2>{}", before, BILEVEL_PROGRAM, arguments, after, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", slurp(err)};
}

TEST(Edge, WhatCannotBeSaidIsNoInternalError) {
  const std::string path = scratch("edge.json");
  for (const char* where : {">/dev/full", ">&-"}) {
    SCOPED_TRACE(where);
    for (const std::string& command : {std::string("--help"), std::string("doctor --problem ridge"),
                                       "solve --problem quadratic --json " + path}) {
      std::filesystem::remove(path);
      const Result r = under("", command, where);
      EXPECT_EQ(r.code, 2) << command << r.err;
      EXPECT_NE(r.err.find("standard output could not be written"), std::string::npos) << r.err;
      EXPECT_EQ(r.err.find("internal"), std::string::npos) << r.err;
    }
    // What was asked for beside it is there, and nothing else is in it.
    EXPECT_EQ(json::parse(slurp(path))["status"], "converged");
  }
  // All streams closed: none lends its number to a file.
  std::filesystem::remove(path);
  EXPECT_EQ(under("", "solve --problem quadratic --json " + path, "<&- >&- 2>&-").code, 2);
  EXPECT_EQ(json::parse(slurp(path))["status"], "converged");
}

TEST(Edge, AReaderThatLeavesLosesNoFile) {
  const std::string path = scratch("piped.json");
  const Result r = under("", "solve --problem quadratic --json " + path, "| true");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(json::parse(slurp(path))["status"], "converged");
}

bool harmless(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  });
}

TEST(Edge, NamesDoNotReachTheTerminalAsCommands) {
  // A title of the window, colours, a C1 control, a mark that turns the direction of writing.
  const std::string evil =
      "\x1b]0;evil\x07\x1b[31m\xc2\x9b"
      "2J\xe2\x80\xae";
  std::string table = "one" + evil + ",two" + evil + ",why" + evil + "\n";
  for (int i = 0; i < 60; ++i)
    table += fmt::format("{},{},{}\n", i % 7, i % 11, (i % 7 > 3 ? "yes" : "no") + evil);
  const std::string data = write("escapes" + evil + ".csv", table), model = scratch("escapes.json");
  // So many of them are no text to the program unless it is told so.
  const std::string quoted = "'" + data + "' --format csv";
  const auto expect_harmless = [&](const Result& r) {
    EXPECT_TRUE(harmless(r.out)) << r.out;
    EXPECT_TRUE(harmless(r.err)) << r.err;
    EXPECT_EQ(r.out.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_EQ((r.out + r.err).find("\xc2\x9b"), std::string::npos);
    EXPECT_NE((r.out + r.err).find("\\x1b"), std::string::npos) << r.out << r.err;
  };
  const std::string report = scratch("escapes_result.json");
  const Result tuned = run("tune " + quoted + " --save " + model + " --json " + report);
  EXPECT_LE(tuned.code, 1) << tuned.err;
  expect_harmless(tuned);
  EXPECT_EQ(json::parse(slurp(report))["data"]["classes"][0], "no" + evil) << "files hold it as it is";
  expect_harmless(run("clean " + quoted + " --trusted 20 --iterations 3"));
  expect_harmless(run("train " + quoted + " --layers 4 --epochs 1 --probe 0"));
  expect_harmless(run("tune " + quoted + " --target '" + evil + "'"));
  expect_harmless(run("tune '" + evil + "'"));
  expect_harmless(run("tune --example '--no" + evil + "'"));
  EXPECT_NE(run("predict " + model + " " + quoted).out.find(evil), std::string::npos)
      << "a program that reads the predictions gets the names as they are";
}

TEST(Edge, EmptyNamesOfFilesAreRefused) {
  for (const char* command :
       {"tune --example --save ''", "tune --example --json ''", "tune --example --report ''",
        "tune --example --checkpoint ''", "train --epochs 1 --save ''", "train --netlist ''",
        "clean x.csv --output ''", "clean x.csv --ranking ''", "solve --problem ridge --json ''",
        "solve --problem ridge --checkpoint ''", "predict a b --output ''",
        "compare --problem ridge --json ''"}) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 2) << command << r.out << r.err;
    EXPECT_NE(r.err.find("empty"), std::string::npos) << command << r.err;
  }
}

TEST(Edge, MoreThreadsThanAnyMachineHas) {
  for (const char* command :
       {"solve --problem quadratic", "train --rows 100 --layers 8 --epochs 1 --probe 0"}) {
    const Result r = under("OMP_NUM_THREADS=200000", command, ">/dev/null");
    EXPECT_EQ(r.code, 0) << command << r.err;
    EXPECT_NE(r.err.find("200000 threads are asked for"), std::string::npos) << r.err;
  }
}

#ifndef __SANITIZE_ADDRESS__
// Whatever the limit, there is an end, and where there is too little memory it is said.
TEST(Edge, SmallAddressSpaces) {
  const std::string kept = scratch("small.ckpt");
  constexpr int largest = 700;
  // With less than 120 OpenBLAS ends the program before it begins.
  for (const int mebibytes : {120, 200, 300, 450, largest}) {
    for (const char* command :
         {"train --rows 200 --layers 16 --epochs 1 --probe 0", "tune --example --iterations 2"}) {
      remove_files_of(kept);
      SCOPED_TRACE(fmt::format("{} MiB for {}", mebibytes, command));
      const Result r =
          under(fmt::format("ulimit -v {}; OMP_NUM_THREADS=4 timeout -s KILL 60", mebibytes * 1024), command,
                "--checkpoint " + kept + " >/dev/null");
      EXPECT_TRUE(r.code >= 0 && r.code <= (mebibytes == largest ? 1 : 3)) << r.code << r.err;
      if (r.code > 1) {
        EXPECT_NE(r.err, "");
      }
    }
  }
}
#endif

}  // namespace edge_test
