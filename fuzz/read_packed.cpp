#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <bzlib.h>
#include <zlib.h>

#include "property.hpp"

namespace {

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string bzip2(std::string_view bytes) {
  std::string packed(bytes.size() + bytes.size() / 50 + 1000, '\0');
  auto size = static_cast<unsigned>(packed.size());
  BZ2_bzBuffToBuffCompress(packed.data(), &size, const_cast<char*>(bytes.data()),
                           static_cast<unsigned>(bytes.size()), 1, 0, 0);
  packed.resize(size);
  return packed;
}

/// What a source gives, in pieces, or "refused"; nothing where it is more than anyone wants to wait for.
std::optional<std::string> unpacked(std::string_view bytes, std::size_t at_once) {
  std::string all, piece(at_once, '\0');
  try {
    bilevel::data::Source source("input", bytes);
    while (const std::size_t got = source.read(piece.data(), at_once)) {
      all.append(piece, 0, got);
      if (all.size() > 1'000'000) return std::nullopt;
    }
  } catch (const bilevel::InvalidInput&) {
    return std::string("refused");
  }
  return all;
}

void require_equal(const std::optional<std::string>& left, const std::optional<std::string>& right) {
  if (!left || !right || *left == *right) return;
  std::fprintf(stderr, "unpacking gives %zu bytes where there were %zu\n", left->size(), right->size());
  std::abort();
}

}  // namespace

/// The first byte chooses: the rest is taken as a packed stream (whole or damaged), or is packed here, in two
/// members, and must come back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0 || size > 100'000) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::size_t at_once = 1 + bytes[0] / 4;
  switch (bytes[0] % 4) {
    case 0:
    case 1:
      require_equal(unpacked(rest, at_once), unpacked(rest, 4096));
      bilevel::fuzz::read_and_check(rest, bilevel::fuzz::small_options(bilevel::data::Format::automatic));
      break;
    case 2:
      require_equal(
          unpacked(gzip(rest.substr(0, rest.size() / 2)) + gzip(rest.substr(rest.size() / 2)), at_once),
          std::string(rest));
      break;
    default:
      require_equal(
          unpacked(bzip2(rest.substr(0, rest.size() / 2)) + bzip2(rest.substr(rest.size() / 2)), at_once),
          std::string(rest));
  }
  return 0;
}
