#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include <bilevel/data/read.hpp>

namespace bilevel::data::testing {

/// Reads a text as though it were the file "table".
inline Dataset read_text(std::string_view text, const ReadOptions& options = {},
                         const Schema* like = nullptr) {
  Source source("table", text);
  return read(source, options, like);
}

/// The message with which reading fails; empty where it does not.
inline std::string complaint(std::string_view text, const ReadOptions& options = {},
                             const Schema* like = nullptr) {
  try {
    read_text(text, options, like);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return {};
}

/// Expects that reading fails with a message that has each of these in it.
template <class... Parts>
void expect_complaint(std::string_view text, const ReadOptions& options, const Parts&... parts) {
  const std::string message = complaint(text, options);
  EXPECT_NE(message, "") << "no complaint about: " << text.substr(0, 200);
  EXPECT_NE(message.find("table"), std::string::npos) << message;
  const auto expect_part = [&](std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  };
  (expect_part(parts), ...);
}

/// A file that lasts as long as this.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view bytes)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("bilevel-data-" + std::to_string(::getpid()) + "-" + name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Bytes written as pairs of hexadecimal digits.
inline std::string from_hex(std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string bytes;
  for (std::size_t k = 0; k + 1 < digits.size(); k += 2) {
    bytes += static_cast<char>(value(digits[k]) * 16 + value(digits[k + 1]));
  }
  return bytes;
}

}  // namespace bilevel::data::testing
