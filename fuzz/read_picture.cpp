#include <cstdio>
#include <cstdlib>

#include <bilevel/data/pictures.hpp>

using namespace bilevel::data;

/// The first byte chooses the size and the paper, the rest is the file. Either InvalidInput comes out of it,
/// or as many pixels as were asked for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  PicturesOptions options;
  options.height = 1 + bytes[0] % 16;
  options.width = 1 + bytes[0] / 16;
  options.paper = static_cast<Paper>(bytes[0] % 3);
  options.limits.pixels = 10'000;
  try {
    const auto pixels = read_picture("input", {reinterpret_cast<const char*>(bytes) + 1, size - 1}, options);
    if (pixels.size() != static_cast<std::size_t>(options.height * options.width)) {
      std::fprintf(stderr, "does not hold: as many pixels as were asked for\n");
      std::abort();
    }
  } catch (const bilevel::InvalidInput&) {
  }
  return 0;
}
