#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/pictures.hpp>

namespace bilevel::data {

/// A picture as its file has it: bytes, row after row, 0 black and 255 white.
struct GreyPicture {
  Index height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

/// Throws InvalidInput, which begins with `name`, where the bytes are no picture, are damaged or cut off, or
/// exceed the limits. Colours become grey by Rec. 601; what is transparent lies on white.
GreyPicture decode_picture(const std::string& name, std::string_view bytes,
                           const PicturesOptions::Limits& limits);

/// Averages of boxes along an axis that shrinks, bilinear along one that grows.
std::vector<std::uint8_t> resized(const GreyPicture& picture, Index height, Index width);

}  // namespace bilevel::data
