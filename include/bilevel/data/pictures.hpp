#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/dataset.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {

/// What stands for paper, so that ink is 255 and paper 0 as in MNIST's pictures.
enum class Paper {
  automatic,  ///< white where the pictures are lighter than half on average, as scans of writing are
  black,      ///< pictures as they are: 0 is black, 255 white
  white       ///< inverted: 255 is black, 0 white
};

struct PicturesOptions {
  /// Every picture becomes grey and of this size, whatever its own: averages of boxes where it shrinks,
  /// bilinear where it grows; its proportions change where they are others.
  Index height = 28, width = 28;
  Paper paper = Paper::automatic;
  Index per_class = 0;      ///< the first so many pictures of each class, by name; 0: all
  Index least_classes = 2;  ///< fewer are refused; 1 where a folder only adds to others

  /// Beyond these a file, or the folder, is refused before memory is taken for it.
  struct Limits {
    std::int64_t file_bytes = std::int64_t{1} << 28;
    std::int64_t pixels = std::int64_t{1} << 27;  ///< of one picture as it is in its file
    std::int64_t bytes = std::int64_t{1} << 33;   ///< of all pictures as they are kept
  } limits = {};

  Violations validate() const;
};

/// Grey pictures of one size, sorted by class and within it by name.
struct ClassPictures {
  std::string source = {};  ///< the folder
  Index height = 0, width = 0;
  /// The folders that hold pictures, as paths within the source ("Greek/alpha"), sorted.
  std::vector<std::string> classes = {};
  std::vector<std::uint8_t> pixels = {};  ///< picture after picture, each row after row
  std::vector<int> labels = {};           ///< of each picture: which of the classes
  std::vector<std::string> files = {};    ///< of each picture: its path within the source
  bool inverted = false;                  ///< Paper::white was said, or found
  std::vector<std::string> notes = {};    ///< what a person should know, a sentence each

  Index size() const { return static_cast<Index>(labels.size()); }
  std::span<const std::uint8_t> picture(Index i) const {
    const auto each = static_cast<std::size_t>(height * width);
    return std::span(pixels).subspan(static_cast<std::size_t>(i) * each, each);
  }
};

/// Reads a folder of class folders with pictures: PNG, JPEG, PGM and PPM, known by their content. A class is
/// a folder that holds pictures, at any depth ("alphabet/letter/"). Hidden files are passed over, others that
/// are no pictures too, with a note. The pictures are read on all cores; what comes out does not depend on
/// that. Throws InvalidInput that names the file or folder and says what to do: no class folder, an empty
/// one, too few, pictures beside class folders, a picture that is damaged, cut off, too large or of another
/// format.
ClassPictures read_class_pictures(const std::string& folder, const PicturesOptions& options = {});

/// One picture, height × width bytes; Paper::automatic looks at it alone. The second reads it from memory,
/// where `name` is what messages call it.
std::vector<std::uint8_t> read_picture(const std::string& file, const PicturesOptions& options = {});
std::vector<std::uint8_t> read_picture(const std::string& name, std::string_view bytes,
                                       const PicturesOptions& options = {});

/// The same as rows of features 0 … 255 with their classes as target, for `models` and `networks`.
Dataset dataset(const ClassPictures& pictures);

}  // namespace bilevel::data
