#include "data/picture.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include <png.h>
#include <turbojpeg.h>

#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

void require_size(const std::string& name, std::int64_t width, std::int64_t height,
                  const PicturesOptions::Limits& limits) {
  if (width < 1 || height < 1)
    complain(name, "is a picture of {} × {} pixels: damaged or cut off; make or fetch it again", width,
             height);
  if (width > limits.pixels / height)
    complain(name,
             "is a picture of {} × {} pixels, more than {} (PicturesOptions.limits.pixels); make it smaller",
             width, height, limits.pixels);
}

std::uint8_t grey_of(double red, double green, double blue) {
  return static_cast<std::uint8_t>(std::lround(0.299 * red + 0.587 * green + 0.114 * blue));
}

std::vector<std::uint8_t> grey_of(const std::vector<std::uint8_t>& colours) {
  std::vector<std::uint8_t> grey(colours.size() / 3);
  for (std::size_t i = 0; i < grey.size(); ++i)
    grey[i] = grey_of(colours[3 * i], colours[3 * i + 1], colours[3 * i + 2]);
  return grey;
}

GreyPicture decode_png(const std::string& name, std::string_view bytes,
                       const PicturesOptions::Limits& limits) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> freed(&image, png_image_free);
  const auto damaged = [&] {
    complain(name, "this PNG picture is damaged or cut off ({}); make or fetch it again",
             static_cast<const char*>(image.message));
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) damaged();
  require_size(name, image.width, image.height, limits);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // deep pictures are as seldom linear as others
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, pixels.data(), 0, nullptr) == 0) damaged();
  return {image.height, image.width, colour ? grey_of(pixels) : std::move(pixels)};
}

GreyPicture decode_jpeg(const std::string& name, std::string_view bytes,
                        const PicturesOptions::Limits& limits) {
  const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitDecompress(), tjDestroy);
  if (!handle) complain(name, "cannot be read: {}", tjGetErrorStr());
  const auto damaged = [&] {
    complain(name, "this JPEG picture is damaged or cut off ({}); make or fetch it again",
             tjGetErrorStr2(handle.get()));
  };
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, samples = 0, space = 0;
  if (tjDecompressHeader3(handle.get(), data, bytes.size(), &width, &height, &samples, &space) != 0)
    damaged();
  require_size(name, width, height, limits);
  if (space == TJCS_CMYK || space == TJCS_YCCK)
    complain(name, "is a JPEG picture in the four colours of print; save it as grey or RGB");
  GreyPicture picture{height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * height)};
  // A warning, too, means that pixels were made up.
  if (tjDecompress2(handle.get(), data, bytes.size(), picture.pixels.data(), width, 0, height, TJPF_GRAY,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0)
    damaged();
  return picture;
}

/// PGM and PPM, as text (P2, P3) or bytes (P5, P6).
class Netpbm {
 public:
  Netpbm(const std::string& name, std::string_view bytes) : name_(name), rest_(bytes.substr(2)) {}

  GreyPicture read(char kind, const PicturesOptions::Limits& limits) {
    const bool colour = kind == '3' || kind == '6', text = kind == '2' || kind == '3';
    const std::int64_t width = number("its width"), height = number("its height");
    require_size(name_, width, height, limits);
    const std::int64_t largest = number("its largest value");
    if (largest < 1 || largest > 65535)
      complain(name_, "this PGM or PPM picture has {} as its largest value, not one of 1 … 65535", largest);
    const auto pixels = static_cast<std::size_t>(width * height), values = pixels * (colour ? 3 : 1);
    const std::size_t each = text ? 2 : largest > 255 ? 2 : 1;  // of a number in text at least, but the last
    if (!text) rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));  // one blank before the bytes
    if (rest_.size() < each * values - (text ? 1 : 0))
      complain(name_, "this PGM or PPM picture is cut off: {} × {} pixels need {} values", width, height,
               values);
    const double scale = 255.0 / static_cast<double>(largest);
    const auto value = [&] {
      const std::int64_t raw = text ? number("a value") : packed(each);
      if (raw > largest) complain(name_, "a value is {}, more than the {} of its head", raw, largest);
      return scale * static_cast<double>(raw);
    };
    GreyPicture picture{height, width, std::vector<std::uint8_t>(pixels)};
    for (std::uint8_t& pixel : picture.pixels) {
      if (!colour) {
        pixel = static_cast<std::uint8_t>(std::lround(value()));
        continue;
      }
      const double red = value(), green = value();
      pixel = grey_of(red, green, value());
    }
    return picture;
  }

 private:
  /// The next number of the head, after blanks and comments.
  std::int64_t number(std::string_view what) {
    constexpr std::string_view blanks = " \t\n\v\f\r";
    for (;;) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
      if (rest_.empty() || rest_.front() != '#') break;
      rest_.remove_prefix(std::min(rest_.find_first_of("\n\r"), rest_.size()));
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0)
      complain(name_, "this PGM or PPM picture is damaged or cut off: {} is missing", what);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::int64_t packed(std::size_t bytes) {
    std::int64_t value = 0;
    for (std::size_t k = 0; k < bytes; ++k) value = 256 * value + static_cast<unsigned char>(rest_[k]);
    rest_.remove_prefix(bytes);
    return value;
  }

  const std::string& name_;
  std::string_view rest_;
};

/// What each pixel along an axis is made of: a run of old ones with their shares.
struct Share {
  std::size_t first = 0;
  std::vector<float> shares;
};

std::vector<Share> shares(Index from, Index to) {
  std::vector<Share> all(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (Index i = 0; i < to; ++i) {
    Share& share = all[static_cast<std::size_t>(i)];
    if (from > to) {
      const double begin = scale * static_cast<double>(i), end = scale * static_cast<double>(i + 1);
      const auto first = static_cast<Index>(begin);
      share.first = static_cast<std::size_t>(first);
      for (Index k = first; k < std::min(from, static_cast<Index>(std::ceil(end - 1e-9))); ++k) {
        const double covered =
            std::min(end, static_cast<double>(k + 1)) - std::max(begin, static_cast<double>(k));
        share.shares.push_back(static_cast<float>(covered / scale));
      }
    } else {
      const double at =
          std::clamp(scale * (static_cast<double>(i) + 0.5) - 0.5, 0.0, static_cast<double>(from - 1));
      const double first = std::min(std::floor(at), static_cast<double>(std::max<Index>(from - 2, 0)));
      share.first = static_cast<std::size_t>(first);
      share.shares = {static_cast<float>(1 - (at - first))};
      if (from > 1) share.shares.push_back(static_cast<float>(at - first));
    }
  }
  return all;
}

}  // namespace

GreyPicture decode_picture(const std::string& name, std::string_view bytes,
                           const PicturesOptions::Limits& limits) {
  using namespace std::string_view_literals;
  if (bytes.empty()) complain(name, "is empty, and no picture");
  if (static_cast<std::int64_t>(bytes.size()) > limits.file_bytes)
    complain(name, "has {} bytes, more than {} (PicturesOptions.limits.file_bytes)", bytes.size(),
             limits.file_bytes);
  if (bytes.substr(0, 8) == "\x89PNG\r\n\x1a\n"sv) return decode_png(name, bytes, limits);
  if (bytes.substr(0, 3) == "\xff\xd8\xff"sv) return decode_jpeg(name, bytes, limits);
  if (bytes.size() > 3 && bytes[0] == 'P' && "2356"sv.find(bytes[1]) != std::string_view::npos)
    return Netpbm(name, bytes).read(bytes[1], limits);
  complain(name, "is no PNG, JPEG, PGM or PPM picture, or its beginning is damaged; convert it to one");
}

std::vector<std::uint8_t> resized(const GreyPicture& picture, Index height, Index width) {
  if (picture.height == height && picture.width == width) return picture.pixels;
  const std::vector<Share> down = shares(picture.height, height), along = shares(picture.width, width);
  const auto wide = static_cast<std::size_t>(picture.width);
  std::vector<float> row(wide);
  std::vector<std::uint8_t> result;
  result.reserve(static_cast<std::size_t>(height * width));
  for (const Share& rows : down) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (std::size_t k = 0; k < rows.shares.size(); ++k)
      for (std::size_t j = 0; j < wide; ++j)
        row[j] += rows.shares[k] * static_cast<float>(picture.pixels[(rows.first + k) * wide + j]);
    for (const Share& columns : along) {
      float sum = 0;
      for (std::size_t k = 0; k < columns.shares.size(); ++k)
        sum += columns.shares[k] * row[columns.first + k];
      result.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(sum, 0.0F, 255.0F))));
    }
  }
  return result;
}

}  // namespace bilevel::data
