#include <algorithm>
#include <filesystem>

#include "texts.hpp"

namespace bilevel::data::testing {
namespace source_test {

// "a,b,y\n1,2,3\n4,5,6\n", packed.
const std::string gzipped =
    from_hex("1f8b08000000000002034bd449d2a9e432d431d231e632d131d531e3020031f9c47912000000");
const std::string bzipped = from_hex(
    "425a6839314159265359ed861bec000007d980001000043f0030000020200021a68034201a69a156d5e6f2e409048f1772453850"
    "90ed86"
    "1bec");
const std::string plain = "a,b,y\n1,2,3\n4,5,6\n";

std::string whole(Source& source, std::size_t at_once) {
  std::string all, piece(at_once, '\0');
  while (const std::size_t got = source.read(piece.data(), at_once)) all.append(piece, 0, got);
  return all;
}

TEST(Source, UnpacksInPiecesOfEverySize) {
  for (const std::string* packed : {&plain, &gzipped, &bzipped}) {
    for (const std::size_t at_once : {1, 2, 7, 100000}) {
      Source source("table", *packed);
      EXPECT_EQ(whole(source, at_once), plain);
    }
  }
}

TEST(Source, UnpacksMembersOneAfterTheOther) {
  for (const std::string* packed : {&gzipped, &bzipped}) {
    Source source("table", *packed);
    const std::string twice = *packed + *packed + std::string(3, '\0');
    Source both("table", twice);
    EXPECT_EQ(whole(both, 5), plain + plain);
  }
}

TEST(Source, NamesWhatIsDamaged) {
  for (const std::string* packed : {&gzipped, &bzipped}) {
    for (std::size_t size = 12; size < packed->size(); ++size) {
      expect_complaint(packed->substr(0, size), {}, "ends too early", "fetch the file again");
    }
    std::string broken = *packed;
    broken[broken.size() / 2] = static_cast<char>(broken[broken.size() / 2] ^ 0x55);
    expect_complaint(broken, {}, "damaged");
    expect_complaint(*packed + "trailing bytes", {}, "followed by other bytes");
  }
}

TEST(Source, FilesAreReadAsMemoryIs) {
  for (const std::string* packed : {&plain, &gzipped, &bzipped}) {
    const TemporaryFile file("source", *packed);
    const Dataset data = read(file.path(), {});
    EXPECT_EQ(data.rows(), 2);
    EXPECT_EQ(data.dense_rows()(1, 0), 4);
    EXPECT_EQ(data.source, file.path());
  }
  // Larger than any buffer, so that a file is read in several pieces.
  std::string large = "a,b\n";
  for (int row = 0; row < 300'000; ++row) large += std::to_string(row) + "," + std::to_string(2 * row) + "\n";
  const TemporaryFile file("large", large);
  const Dataset data = read(file.path(), {});
  ASSERT_EQ(data.rows(), 300'000);
  for (Index row = 0; row < data.rows(); ++row) {
    ASSERT_EQ(data.dense_rows()(row, 0), static_cast<double>(row));
    ASSERT_EQ(data.target[row], 2.0 * static_cast<double>(row));
  }
}

TEST(Source, PathsThatCannotBeRead) {
  const auto message = [](const std::string& path) {
    try {
      read(path, {});
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("/no/such/file.csv").find("/no/such/file.csv: cannot be opened"), std::string::npos);
  EXPECT_NE(message(::testing::TempDir()).find("is a directory"), std::string::npos);
  if (::geteuid() != 0) {  // root may read everything
    const TemporaryFile file("secret", plain);
    std::filesystem::permissions(file.path(), std::filesystem::perms::none);
    EXPECT_NE(message(file.path()).find("cannot be opened"), std::string::npos);
  }
}

}  // namespace source_test
}  // namespace bilevel::data::testing
