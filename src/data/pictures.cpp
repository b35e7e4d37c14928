#include <bilevel/data/pictures.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>

#include <bilevel/files/atomic_file.hpp>

#include "data/complaint.hpp"
#include "data/picture.hpp"
#include "threads/side_by_side.hpp"

namespace bilevel::data {
namespace {

namespace fs = std::filesystem;

constexpr int deepest = 8;  // a link that leads to a folder above it must end somewhere

/// Of a file's name, in small letters: ".png".
std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return ending;
}

template <std::size_t count>
bool among(const std::array<std::string_view, count>& endings, const fs::path& path) {
  return std::find(endings.begin(), endings.end(), ending_of(path)) != endings.end();
}

bool is_picture(const fs::path& path) {
  static constexpr std::array<std::string_view, 8> endings{".png", ".jpg", ".jpeg", ".jpe",
                                                           ".pgm", ".ppm", ".pnm",  ".jfif"};
  return among(endings, path);
}

/// One that a person takes for a picture and that is left out by nobody's wish.
bool is_other_picture(const fs::path& path) {
  static constexpr std::array<std::string_view, 9> endings{".gif",  ".bmp",  ".tif", ".tiff", ".webp",
                                                           ".heic", ".avif", ".pbm", ".svg"};
  return among(endings, path);
}

/// What a folder holds, by name.
struct Folder {
  fs::path place;
  std::vector<fs::path> folders, pictures, others;
};

Folder look_into(const fs::path& place) {
  Folder folder{place, {}, {}, {}};
  std::error_code error;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.filename().native().front() == '.') continue;
    std::error_code unknown;
    if (fs::is_directory(path, unknown))
      folder.folders.push_back(path);
    else
      (is_picture(path) || is_other_picture(path) ? folder.pictures : folder.others).push_back(path);
  }
  if (error) complain(place.string(), "this folder cannot be read: {}", error.message());
  for (auto* paths : {&folder.folders, &folder.pictures, &folder.others})
    std::sort(paths->begin(), paths->end());
  return folder;
}

/// All below the root that hold pictures; each is a class.
class Search {
 public:
  explicit Search(const std::string& root) : root_(root) {}

  std::vector<Folder> classes() {
    if (std::error_code error; !fs::is_directory(root_, error))
      complain(root_.string(),
               "is no folder; pictures are read from a folder with one folder for each class");
    const Folder top = look_into(root_);
    if (!top.pictures.empty())
      complain(root_.string(),
               "pictures lie in this folder itself ({}); put those of each class into a folder of its own",
               top.pictures.front().filename().string());
    add(top, 0);
    if (classes_.empty())
      complain(root_.string(),
               "there is no folder with pictures in it; put those of each class into a folder of its own");
    std::sort(classes_.begin(), classes_.end(),
              [](const Folder& a, const Folder& b) { return a.place < b.place; });
    return std::move(classes_);
  }
  const std::vector<fs::path>& others() const { return others_; }

 private:
  void add(const Folder& folder, int depth) {
    others_.insert(others_.end(), folder.others.begin(), folder.others.end());
    if (depth > deepest)
      complain(folder.place.string(), "this folder lies more than {} deep; does a link lead upwards?",
               deepest);
    if (folder.folders.empty() && folder.pictures.empty() && depth > 0)
      complain(folder.place.string(),
               "there is no picture in this class folder; remove it, or put PNG, JPEG, PGM or PPM files in");
    if (!folder.folders.empty() && !folder.pictures.empty())
      complain(folder.place.string(),
               "holds both pictures ({}) and folders ({}); a class is a folder of pictures alone",
               folder.pictures.front().filename().string(), folder.folders.front().filename().string());
    if (!folder.pictures.empty()) classes_.push_back(folder);
    for (const fs::path& each : folder.folders) add(look_into(each), depth + 1);
  }

  fs::path root_;
  std::vector<Folder> classes_;
  std::vector<fs::path> others_;
};

void invert(std::vector<std::uint8_t>& pixels) {
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(255 - pixel);
}

/// Whether the pictures are to be inverted.
bool white_paper(Paper paper, const std::vector<std::uint8_t>& pixels) {
  if (paper != Paper::automatic) return paper == Paper::white;
  const auto sum = std::accumulate(pixels.begin(), pixels.end(), std::uint64_t{0});
  return 2 * sum > 255 * static_cast<std::uint64_t>(pixels.size());
}

GreyPicture picture_in(const std::string& file, const PicturesOptions::Limits& limits) {
  // A pipe would be waited for.
  if (std::error_code error; !fs::is_regular_file(file, error))
    complain(file, "is no file, or leads to none; remove it or put a picture there");
  const auto bytes = read_file(file, static_cast<std::size_t>(limits.file_bytes));
  if (!bytes) complain(file, "cannot be read; may you read it?");
  return decode_picture(file, *bytes, limits);
}

}  // namespace

Violations PicturesOptions::validate() const {
  Violations v("PicturesOptions");
  constexpr Index widest = 4096;
  v.require(height >= 1 && height <= widest, "height", height, fmt::format("must be 1 to {}", widest));
  v.require(width >= 1 && width <= widest, "width", width, fmt::format("must be 1 to {}", widest));
  v.at_least("per_class", per_class, 0).at_least("least_classes", least_classes, 1);
  v.at_least("limits.file_bytes", limits.file_bytes, 1).at_least("limits.pixels", limits.pixels, 1);
  v.at_least("limits.bytes", limits.bytes, 1);
  return v;
}

ClassPictures read_class_pictures(const std::string& folder, const PicturesOptions& options) {
  options.validate().throw_if_any();
  Search search(folder);
  ClassPictures read{.source = folder, .height = options.height, .width = options.width};
  std::vector<fs::path> paths;
  for (Folder& each : search.classes()) {
    auto& pictures = each.pictures;
    if (options.per_class > 0 && static_cast<Index>(pictures.size()) > options.per_class)
      pictures.resize(static_cast<std::size_t>(options.per_class));
    for (const fs::path& picture : pictures) {
      paths.push_back(picture);
      read.files.push_back(picture.lexically_relative(folder).generic_string());
      read.labels.push_back(static_cast<int>(read.classes.size()));
    }
    read.classes.push_back(each.place.lexically_relative(folder).generic_string());
  }
  const auto classes = static_cast<Index>(read.classes.size());
  if (classes < options.least_classes)
    complain(folder,
             "there {} ({}), and at least {} are needed; put the pictures of each into a folder of its own",
             classes == 1 ? "is one class folder" : fmt::format("are {} class folders", classes),
             read.classes.front(), options.least_classes);
  const auto each = static_cast<std::size_t>(options.height * options.width);
  if (static_cast<std::int64_t>(paths.size()) > options.limits.bytes / static_cast<std::int64_t>(each))
    complain(
        folder,
        "{} pictures of {} × {} take more than {} bytes (PicturesOptions.limits.bytes); take fewer of each "
        "class, or smaller ones",
        paths.size(), options.height, options.width, options.limits.bytes);

  read.pixels.resize(paths.size() * each);
  side_by_side(paths.size(), [&](std::size_t i) {
    const auto picture =
        resized(picture_in(paths[i].string(), options.limits), options.height, options.width);
    std::copy(picture.begin(), picture.end(), read.pixels.begin() + static_cast<std::ptrdiff_t>(i * each));
  });
  read.inverted = white_paper(options.paper, read.pixels);
  if (read.inverted) invert(read.pixels);
  if (read.inverted && options.paper == Paper::automatic)
    read.notes.push_back(
        "the pictures are light for the most part, so they are inverted: paper is 0, ink 255");
  if (const auto& others = search.others(); !others.empty())
    read.notes.push_back(fmt::format(
        "left out as no pictures: {}{}", others.front().lexically_relative(folder).generic_string(),
        others.size() > 1 ? fmt::format(" and {} more", others.size() - 1) : ""));
  return read;
}

std::vector<std::uint8_t> read_picture(const std::string& name, std::string_view bytes,
                                       const PicturesOptions& options) {
  options.validate().throw_if_any();
  auto pixels = resized(decode_picture(name, bytes, options.limits), options.height, options.width);
  if (white_paper(options.paper, pixels)) invert(pixels);
  return pixels;
}

std::vector<std::uint8_t> read_picture(const std::string& file, const PicturesOptions& options) {
  options.validate().throw_if_any();
  auto pixels = resized(picture_in(file, options.limits), options.height, options.width);
  if (white_paper(options.paper, pixels)) invert(pixels);
  return pixels;
}

Dataset dataset(const ClassPictures& pictures) {
  const Index features = pictures.height * pictures.width;
  Dataset d;
  d.source = pictures.source;
  d.format = Format::idx;  // an array of bytes in three axes, whatever files it came from
  d.x = DenseRows(
      Eigen::Map<const Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
          pictures.pixels.data(), pictures.size(), features)
          .cast<double>());
  for (Index cell = 0; cell < features; ++cell)
    d.names.push_back(fmt::format("pixel[{},{}]", cell / pictures.width, cell % pictures.width));
  d.origins = d.names;
  d.target_name = "class";
  d.target.resize(pictures.size());
  for (Index i = 0; i < pictures.size(); ++i) d.target[i] = pictures.labels[static_cast<std::size_t>(i)];
  d.levels = pictures.classes;
  d.image = {pictures.height, pictures.width};
  d.notes = pictures.notes;
  d.schema.format = d.format;
  d.schema.features = features;
  d.schema.names = d.names;
  d.schema.target_name = d.target_name;
  d.schema.target_levels = d.levels;
  d.schema.validate().throw_if_any();
  return d;
}

}  // namespace bilevel::data
