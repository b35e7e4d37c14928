#include <bilevel/files/kept_run.hpp>

#include <filesystem>

#include <gtest/gtest.h>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/files/container.hpp>
#include <bilevel/outcome/violations.hpp>

#include "scratch.hpp"

namespace bilevel {
namespace {

constexpr FileKind kind{"bilevel-test", 1};

std::string kept(const std::string& name, const std::string& identity) {
  const std::string path = scratch(name);
  EXPECT_EQ(replace_file(path, sealed(kind, "{\"identity\":\"" + identity + "\",\"x\":[1,2]}", "bytes\xff")),
            "");
  return path;
}

TEST(KeptRun, NowhereIsAlwaysFree) {
  const KeptRun nowhere("", {".grid"});
  EXPECT_TRUE(nowhere.files().empty());
  EXPECT_FALSE(nowhere.exists());
  EXPECT_NO_THROW(nowhere.require_place(true, "me"));
  nowhere.forget();
}

TEST(KeptRun, IsResumedByItsOwnRunAlone) {
  const KeptRun run(scratch("run"), {".grid", ".wide1"});
  EXPECT_EQ(run.files().size(), 3U);
  EXPECT_NO_THROW(run.require_place(false, "me"));
  EXPECT_NO_THROW(run.require_place(true, "me"));
  kept("run.grid", "me");
  kept("run.wide1", "me and words of my own");
  EXPECT_TRUE(run.exists());
  EXPECT_THROW(run.require_place(false, "me"), InvalidInput);
  EXPECT_NO_THROW(run.require_place(true, "me"));
  EXPECT_THROW(run.require_place(true, "you"), InvalidInput);
  kept("run", "mean");  // begins alike
  EXPECT_THROW(run.require_place(true, "me"), InvalidInput);
  EXPECT_EQ(std::filesystem::exists(run.files()[0]), true);
  run.forget();
  EXPECT_FALSE(run.exists());
}

TEST(KeptRun, OtherFilesAreLeftAlone) {
  const std::string notes = write("notes", "my notes\n");
  EXPECT_THROW(KeptRun(notes).require_place(true, "me"), InvalidInput);
  EXPECT_TRUE(std::filesystem::exists(notes));
  // Of a process that is gone, and of one that cannot be.
  const std::string left = write("fresh.4194001.tmp", "{\"format\":\"bilevel-test\""),
                    dated = write("fresh.20240101.tmp", "{\"format\":\"bilevel-test\"");
  KeptRun(scratch("fresh")).require_place(false, "me");
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(dated));
}

}  // namespace
}  // namespace bilevel
