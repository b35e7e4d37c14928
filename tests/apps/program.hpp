#pragma once

// The program as a person starts it.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
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

/// A checkpoint and all that stands beside it.
inline std::vector<std::string> files_of(const std::string& checkpoint) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(checkpoint).parent_path()))
    if (entry.path().string().starts_with(checkpoint)) files.push_back(entry.path().string());
  return files;
}

inline void remove_files_of(const std::string& checkpoint) {
  for (const std::string& file : files_of(checkpoint)) std::filesystem::remove(file);
}

/// Starts the program without waiting for it; what it says goes to scratch("said").
inline pid_t start(const std::vector<std::string>& arguments) {
  const std::string said = scratch("said");
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int file = ::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> argv{const_cast<char*>(BILEVEL_PROGRAM)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(BILEVEL_PROGRAM, argv.data());
  ::_exit(127);
}

}  // namespace program
