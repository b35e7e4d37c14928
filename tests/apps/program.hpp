#pragma once

// The program as a person starts it.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "scratch.hpp"

namespace program {

using nlohmann::json;

struct Result {
  int code = -1;
  std::string out, err;
};

inline std::string slurp(const std::string& path) {
  std::stringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

inline Result run(const std::string& arguments) {
  const std::string out = scratch("out"), err = scratch("err");
  const int status =
      std::system((std::string(BILEVEL_PROGRAM) + " " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}

inline json run_json(const std::string& arguments, int expected_code) {
  const std::string path = scratch("json");
  std::filesystem::remove(path);
  const Result r = run(arguments + " --json " + path);
  EXPECT_EQ(r.code, expected_code) << arguments << "\n" << r.out << r.err;
  return json::parse(slurp(path));
}

}  // namespace program
