#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/outcome/cost.hpp>
#include "threads/side_by_side.hpp"
#include <bilevel/outcome/status.hpp>
#include <bilevel/outcome/violations.hpp>

#include "scratch.hpp"

namespace bilevel {
namespace outcome_test {

TEST(Status, EveryCodeHasItsOwnNameAndSentence) {
  std::set<std::string_view> names, sentences;
  for (int i = 0; i <= static_cast<int>(Status::interrupted); ++i) {
    names.insert(name(static_cast<Status>(i)));
    sentences.insert(sentence(static_cast<Status>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Status::interrupted) + 1);
  EXPECT_EQ(sentences.size(), names.size());
  EXPECT_TRUE(succeeded(Status::converged));
  EXPECT_FALSE(succeeded(Status::approximate));
}

TEST(SideBySide, EveryPieceIsDoneOnceHoweverDeepAndHoweverMany) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 100U}) {
    std::vector<std::atomic<int>> done(count * 50);
    side_by_side(count, [&](std::size_t i) {
      side_by_side(
          10, [&](std::size_t j) { side_by_side(5, [&](std::size_t k) { ++done[(i * 10 + j) * 5 + k]; }); });
    });
    for (const auto& each : done) EXPECT_EQ(each, 1) << count;
  }
}

TEST(SideBySide, WhatAPieceThrowsArrivesAndLaterLoopsRun) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> within = 0;
    EXPECT_THROW(side_by_side(8,
                              [&](std::size_t i) {
                                side_by_side(8, [&](std::size_t j) {
                                  if (i == 3 && j == 5) throw std::out_of_range("piece");
                                  ++within;
                                });
                              }),
                 std::out_of_range);
    EXPECT_LT(within, 64);
    std::atomic<int> after = 0;
    side_by_side(8, [&](std::size_t) { ++after; });
    EXPECT_EQ(after, 8);
  }
}

TEST(Violations, AllAreReportedAtOnceWithTheirValues) {
  Violations v("owner");
  v.positive("a", 1).positive("b", -1).not_negative("c", -2).at_least("d", 3, 4).positive("e", std::nan(""));
  ASSERT_EQ(v.texts().size(), 4U);
  try {
    v.throw_if_any();
    FAIL();
  } catch (const InvalidInput& e) {
    for (const char* text :
         {"owner.b = -1", "owner.c = -2", "owner.d = 3 must be at least 4", "owner.e = nan"})
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(Cost, AddsCountsAndKeepsThePeakOfMemory) {
  Cost a{.inner_values = 2, .inner_gradients = 3, .hessian_products = 5, .bytes = 100, .seconds_inner = 1};
  a += Cost{.inner_values = 1, .cross_products = 1, .bytes = 60, .seconds_adjoint = 2};
  EXPECT_EQ(a.inner_values, 3);
  EXPECT_EQ(a.bytes, 100U);
  EXPECT_DOUBLE_EQ(a.seconds(), 3);
  EXPECT_DOUBLE_EQ(a.gradient_equivalents(), 0.5 * 3 + 3 + 2 * 6);
}

std::string slurp(const std::string& path) {
  std::stringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

TEST(AtomicFile, ReplacesAsAWholeAndLeavesNothingBehind) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("bilevel_atomic_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "file").string();
  EXPECT_EQ(replace_file(path, "one"), "");
  EXPECT_EQ(replace_file(path, "two"), "");
  EXPECT_EQ(slurp(path), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);

  // Renaming onto a folder fails after the contents were written: the folder stays, the temporary file goes.
  const std::string blocked = (folder / "blocked").string();
  std::filesystem::create_directory(blocked);
  EXPECT_NE(replace_file(blocked, "x").find(blocked), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  EXPECT_NE(replace_file("/nonexistent/file", "x").find("/nonexistent/file"), std::string::npos);

  // A link leads to the file that is replaced, and the file keeps its mode.
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string link = (folder / "link").string();
  std::filesystem::create_symlink(path, link);
  EXPECT_EQ(replace_file(link, "three"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(slurp(path), "three");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  // What is not a file is written into, not replaced.
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(replace_file(pipe, "through"), "");
  char text[16] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::remove_all(folder);
}

TEST(ReadFile, WhatIsNoJsonIsNotReadToItsEnd) {
  const std::string object = "\xEF\xBB\xBF \n{" + std::string(1000000, ' ') + "}";
  const std::string path = write("object.json", object);
  EXPECT_EQ(read_json_file(path), object);
  EXPECT_EQ(read_json_file(path, object.size()), object);
  EXPECT_THROW(read_json_file(path, object.size() - 1), InvalidInput);
  EXPECT_EQ(read_file(path), object);
  EXPECT_LE(read_json_file("/dev/zero")->size(), 1U << 20);
  EXPECT_THROW(read_file("/dev/zero", 1 << 20), InvalidInput);
  EXPECT_EQ(read_json_file(write("empty.json", "")), "");
  EXPECT_EQ(read_json_file(scratch("none.json")), std::nullopt);
}

}  // namespace outcome_test
}  // namespace bilevel
