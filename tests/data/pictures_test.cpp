#include <bilevel/data/pictures.hpp>

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include "refusal.hpp"
#include "scratch.hpp"

namespace bilevel::data {
namespace pictures_test {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;

/// `format` of libpng: PNG_FORMAT_GRAY, PNG_FORMAT_RGBA, …
std::string png(png_uint_32 format, unsigned height, unsigned width, const Bytes& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = format;
  image.width = width;
  image.height = height;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr), 0);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  bytes.resize(size);
  return bytes;
}

std::string jpeg(unsigned height, unsigned width, const Bytes& grey) {
  unsigned char* out = nullptr;
  unsigned long size = 0;
  void* const handle = tjInitCompress();
  EXPECT_EQ(tjCompress2(handle, grey.data(), static_cast<int>(width), 0, static_cast<int>(height), TJPF_GRAY,
                        &out, &size, TJSAMP_GRAY, 100, 0),
            0);
  std::string bytes(reinterpret_cast<const char*>(out), size);
  tjFree(out);
  tjDestroy(handle);
  return bytes;
}

std::string pgm(unsigned height, unsigned width, const Bytes& grey) {
  return fmt::format("P5\n{} {}\n255\n", width, height) + std::string(grey.begin(), grey.end());
}

/// Sizes as they are, colours as they are.
PicturesOptions plain(Index height, Index width) {
  return {.height = height, .width = width, .paper = Paper::black};
}

Bytes noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(engine());
  return bytes;
}

/// A new folder of class folders: of each the name and how many pictures, grey level 10·class + picture.
std::string folder_of(const std::string& name, const std::vector<std::pair<std::string, int>>& classes) {
  const fs::path root = scratch(name);
  fs::create_directories(root);
  int level = 0;
  for (const auto& [label, count] : classes) {
    fs::create_directories(root / label);
    for (int k = 0; k < count; ++k)
      std::ofstream(root / label / fmt::format("{}.pgm", k), std::ios::binary)
          << pgm(2, 2, Bytes(4, static_cast<std::uint8_t>(level + k)));
    level += 10;
  }
  return root.string();
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Pictures, AreTheSameFromEveryFormat) {
  const Bytes grey = noise(12, 1);
  EXPECT_EQ(read_picture("a", png(PNG_FORMAT_GRAY, 3, 4, grey), plain(3, 4)), grey);
  EXPECT_EQ(read_picture("a", pgm(3, 4, grey), plain(3, 4)), grey);
  EXPECT_EQ(read_picture("a", "P2 # text\n2 1\n#\n15\n0 15", plain(1, 2)), (Bytes{0, 255}));
  EXPECT_EQ(read_picture("a", std::string("P5 2 1 65535\n\x80\0\xff\xff", 17), plain(1, 2)),
            (Bytes{128, 255}));
  // Smooth, so that JPEG keeps it to a step or two.
  Bytes slope(256);
  for (std::size_t i = 0; i < 256; ++i) slope[i] = static_cast<std::uint8_t>(8 * (i % 16) + 4 * (i / 16));
  const Bytes read = read_picture("a", jpeg(16, 16, slope), plain(16, 16));
  for (std::size_t i = 0; i < 256; ++i) EXPECT_NEAR(read[i], slope[i], 3) << i;
}

TEST(Pictures, ColoursBecomeGreyAlike) {
  const Bytes colours{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  const Bytes grey{76, 150, 29, 255};  // Rec. 601
  EXPECT_EQ(read_picture("a", png(PNG_FORMAT_RGB, 2, 2, colours), plain(2, 2)), grey);
  EXPECT_EQ(read_picture("a", "P6 2 2 255 " + std::string(colours.begin(), colours.end()), plain(2, 2)),
            grey);
  EXPECT_EQ(read_picture("a", "P3 2 2 255 255 0 0 0 255 0 0 0 255 255 255 255", plain(2, 2)), grey);
  // What is transparent lies on white.
  EXPECT_EQ(read_picture("a", png(PNG_FORMAT_GA, 1, 2, {7, 255, 7, 0}), plain(1, 2)), (Bytes{7, 255}));
}

TEST(Pictures, ShrinkByBoxesAndGrowByLines) {
  // 3 → 2: one and a half pixels each; 1 → 3 rows: the same row.
  EXPECT_EQ(read_picture("a", pgm(1, 3, {0, 90, 180}), plain(3, 2)), (Bytes{30, 150, 30, 150, 30, 150}));
  // 2 → 4: a quarter of the way past each centre.
  EXPECT_EQ(read_picture("a", pgm(1, 2, {0, 100}), plain(1, 4)), (Bytes{0, 25, 75, 100}));
  EXPECT_EQ(read_picture("a", pgm(4, 4, {0, 8, 1, 1, 4, 4, 1, 1, 9, 9, 0, 0, 9, 9, 0, 255}), plain(2, 2)),
            (Bytes{4, 1, 9, 64}));
  // A mean stays a mean, whatever the sizes.
  const Bytes grey = noise(105 * 67, 5);
  double before = 0, after = 0;
  for (const auto each : grey) before += each / double(grey.size());
  for (const auto each : read_picture("a", pgm(105, 67, grey), plain(28, 28))) after += each / 784.0;
  EXPECT_NEAR(before, after, 0.5);
}

TEST(Pictures, OfAFolderComeSortedWithTheirClasses) {
  const std::string root = folder_of("sorted", {{"b/two", 3}, {"a", 2}, {"b/one", 1}});
  put(root + "/b/one/.hidden.png", "nothing");
  put(root + "/b/read.me", "words");
  const ClassPictures read = read_class_pictures(root, {.height = 2, .width = 2, .paper = Paper::black});
  EXPECT_EQ(read.classes, (std::vector<std::string>{"a", "b/one", "b/two"}));
  EXPECT_EQ(read.labels, (std::vector<int>{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(read.files[3], "b/two/0.pgm");
  ASSERT_EQ(read.size(), 6);
  EXPECT_EQ(read.picture(1)[0], 11);
  EXPECT_EQ(read.picture(5)[3], 2);
  EXPECT_EQ(read.notes, (std::vector<std::string>{"left out as no pictures: b/read.me"}));

  EXPECT_EQ(read_class_pictures(root, {.per_class = 1}).labels, (std::vector<int>{0, 1, 2}));
  const ClassPictures white = read_class_pictures(root, {.height = 2, .width = 2, .paper = Paper::white});
  EXPECT_EQ(white.picture(1)[0], 244);
  const Dataset rows = dataset(read);
  rows.validate().throw_if_any();
  EXPECT_EQ(rows.dense_rows()(1, 0), 11);
  EXPECT_EQ(rows.levels[static_cast<std::size_t>(rows.target[5])], "b/two");
  EXPECT_EQ(rows.image, (std::pair<Index, Index>{2, 2}));
}

TEST(Pictures, OnWhitePaperAreInverted) {
  const std::string root = folder_of("dark", {{"a", 1}, {"b", 1}});
  EXPECT_FALSE(read_class_pictures(root).inverted);
  put(root + "/a/0.pgm", pgm(1, 2, {250, 255}));
  put(root + "/b/0.pgm", pgm(1, 2, {0, 255}));
  const ClassPictures read = read_class_pictures(root, {.height = 1, .width = 2});
  EXPECT_TRUE(read.inverted);
  EXPECT_EQ(read.pixels, (Bytes{5, 0, 255, 0}));
  EXPECT_EQ(read.notes.size(), 1U);
}

TEST(Pictures, FoldersThatAreNoneAreRefusedWithWhatToDo) {
  const auto refused = [](const std::string& root, const PicturesOptions& options = {}) {
    return refusal([&] { read_class_pictures(root, options); });
  };
  EXPECT_TRUE(
      refused(scratch("nowhere"))
          .ends_with(
              "nowhere: is no folder; pictures are read from a folder with one folder for each class"));
  const std::string root = folder_of("wrong", {{"a", 1}});
  EXPECT_EQ(refused(root),
            root +
                ": there is one class folder (a), and at least 2 are needed; put the pictures of "
                "each into a folder of its own");
  EXPECT_EQ(refused(root, {.least_classes = 1}), "accepted");
  fs::create_directories(root + "/b");
  EXPECT_EQ(refused(root),
            root +
                "/b: there is no picture in this class folder; remove it, or put PNG, JPEG, PGM "
                "or PPM files in");
  put(root + "/b/notes.txt", "words");
  EXPECT_TRUE(refused(root).starts_with(root + "/b: there is no picture in this class folder"));
  fs::create_directories(root + "/b/c");
  put(root + "/b/c/1.pgm", pgm(1, 1, {1}));
  EXPECT_EQ(refused(root), "accepted");
  put(root + "/b/0.pgm", pgm(1, 1, {1}));
  EXPECT_EQ(refused(root),
            root + "/b: holds both pictures (0.pgm) and folders (c); a class is a folder of pictures alone");
  fs::remove(root + "/b/0.pgm");
  put(root + "/1.png", pgm(1, 1, {1}));
  EXPECT_EQ(refused(root), root +
                               ": pictures lie in this folder itself (1.png); put those of each class into a "
                               "folder of its own");
  fs::remove(root + "/1.png");
  put(root + "/a/2.gif", "GIF89a");
  EXPECT_EQ(refused(root), root +
                               "/a/2.gif: is no PNG, JPEG, PGM or PPM picture, or its beginning is damaged; "
                               "convert it to one");
  fs::remove(root + "/a/2.gif");
  fs::create_symlink("nothing", root + "/a/3.png");
  EXPECT_EQ(refused(root), root + "/a/3.png: is no file, or leads to none; remove it or put a picture there");
  fs::remove(root + "/a/3.png");
  fs::create_directory_symlink("..", root + "/b/up");
  EXPECT_NE(refused(root).find("does a link lead upwards?"), std::string::npos);
  fs::remove(root + "/b/up");
  PicturesOptions small;
  small.limits.bytes = 100;
  EXPECT_EQ(refused(root, small),
            root +
                ": 2 pictures of 28 × 28 take more than 100 bytes (PicturesOptions.limits.bytes); "
                "take fewer of each class, or smaller ones");
  EXPECT_EQ(refused(root, {.width = 0}), "PicturesOptions.width = 0 must be 1 to 4096");
  fs::create_directories(scratch("bare"));
  EXPECT_TRUE(
      refused(scratch("bare"))
          .ends_with(
              "there is no folder with pictures in it; put those of each class into a folder of its own"));
}

TEST(Pictures, ThatAreDamagedAreNamed) {
  const auto refused = [](const std::string& bytes, const PicturesOptions& options = {}) {
    return refusal([&] { read_picture("x", bytes, options); });
  };
  const Bytes grey = noise(40 * 40, 3);
  for (const std::string& whole :
       {png(PNG_FORMAT_GRAY, 40, 40, grey), jpeg(40, 40, grey), pgm(40, 40, grey)}) {
    EXPECT_EQ(refused(whole), "accepted");
    for (const std::size_t cut : {whole.size() / 2, whole.size() - 20, std::size_t{10}}) {
      const std::string said = refused(whole.substr(0, cut));
      EXPECT_TRUE(said.find("cut off") != std::string::npos) << cut << " of " << whole.size() << ": " << said;
    }
  }
  std::string flipped = png(PNG_FORMAT_GRAY, 40, 40, grey);
  flipped[flipped.size() / 2] ^= 4;
  EXPECT_NE(refused(flipped).find("x: this PNG picture is damaged"), std::string::npos);
  EXPECT_EQ(refused(""), "x: is empty, and no picture");
  EXPECT_EQ(refused("P5 2 1 0\n12"),
            "x: this PGM or PPM picture has 0 as its largest value, not one of 1 … 65535");
  EXPECT_EQ(refused("P2 2 1 7\n1 8"), "x: a value is 8, more than the 7 of its head");
  EXPECT_EQ(refused("P5 2"), "x: this PGM or PPM picture is damaged or cut off: its height is missing");
  PicturesOptions small;
  small.limits.pixels = 1000;
  EXPECT_EQ(
      refused(pgm(40, 40, grey), small),
      "x: is a picture of 40 × 40 pixels, more than 1000 (PicturesOptions.limits.pixels); make it smaller");
  EXPECT_EQ(refused("P5 99999999999 99999999999 255\n"),
            "x: is a picture of 99999999999 × 99999999999 pixels, more than 134217728 "
            "(PicturesOptions.limits.pixels); make it smaller");
}

}  // namespace pictures_test
}  // namespace bilevel::data
