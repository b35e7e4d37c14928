// Folders of pictures need libpng and TurboJPEG: refused without them.

#include <bilevel/data/pictures.hpp>

namespace bilevel::data {

ClassPictures read_class_pictures(const std::string& folder, const PicturesOptions&) {
  throw InvalidInput(folder + ": pictures cannot be read here; give the files of MNIST's format");
}

Dataset dataset(const ClassPictures&) {
  return {};
}

}  // namespace bilevel::data
