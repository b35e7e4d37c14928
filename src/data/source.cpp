#include <bilevel/data/source.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include <bzlib.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

constexpr std::size_t packed_bytes = std::size_t{1} << 18;

enum class Packing { none, gzip, bzip2 };

Packing packing_of(std::string_view start) {
  if (start.substr(0, 3) == "\x1f\x8b\x08") return Packing::gzip;
  if (start.size() < 10 || start.substr(0, 3) != "BZh" || start[3] < '1' || start[3] > '9')
    return Packing::none;
  const std::string_view block = start.substr(4, 6);
  if (block == "1AY&SY" || block == "\x17\x72\x45\x38\x50\x90") return Packing::bzip2;
  return Packing::none;
}

}  // namespace

struct Source::State {
  std::string name;
  int file = -1;
  std::vector<char> buffer;  ///< of a file
  std::string_view input;    ///< what has been fetched and not yet consumed
  bool exhausted = false;    ///< nothing more can be fetched
  Packing packing = Packing::none;
  bool inside = false;  ///< of a member that has not ended
  z_stream inflater{};
  bz_stream bzip{};

  ~State() {
    close_member();
    if (file >= 0) ::close(file);
  }

  void close_member() {
    if (inside && packing == Packing::gzip) ::inflateEnd(&inflater);
    if (inside && packing == Packing::bzip2) ::BZ2_bzDecompressEnd(&bzip);
    inside = false;
  }

  /// Makes at least `least` bytes of input available unless the end comes first.
  void fetch(std::size_t least) {
    if (exhausted || input.size() >= least) return;
    if (!input.empty()) std::memmove(buffer.data(), input.data(), input.size());
    std::size_t held = input.size();
    while (held < least && !exhausted) {
      const ssize_t got = ::read(file, buffer.data() + held, buffer.size() - held);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) complain(name, "cannot be read: {}", std::strerror(errno));
      exhausted = got == 0;
      held += static_cast<std::size_t>(got);
    }
    input = {buffer.data(), held};
  }

  void start() {
    fetch(10);
    packing = packing_of(input);
  }

  [[noreturn]] void damaged(std::string_view what) const {
    complain(name, "the {} stream {}; make or fetch the file again",
             packing == Packing::gzip ? "gzip" : "bzip2", what);
  }

  /// Opens the next member; false where only padding is left.
  bool open_member() {
    fetch(10);
    if (packing_of(input) != packing) {
      while (!input.empty() && input.front() == '\0') {
        input.remove_prefix(1);
        fetch(1);
      }
      if (input.empty()) return false;
      damaged("is followed by other bytes");
    }
    const int opened = packing == Packing::gzip ? ::inflateInit2(&(inflater = z_stream{}), 15 + 16)
                                                : ::BZ2_bzDecompressInit(&(bzip = bz_stream{}), 0, 0);
    if (opened != 0) complain(name, "cannot be unpacked: no memory for it");
    inside = true;
    return true;
  }

  template <class Stream>
  void offer(Stream& stream, char* into, unsigned room) {
    using Byte = std::remove_pointer_t<decltype(stream.next_out)>;
    stream.next_in = reinterpret_cast<Byte*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<unsigned>(std::min<std::size_t>(input.size(), UINT_MAX));
    stream.next_out = reinterpret_cast<Byte*>(into);
    stream.avail_out = room;
  }

  /// Unpacks into `into` what one call gives; `ended` where the member ended with it.
  std::size_t unpack(char* into, unsigned room, bool& ended) {
    const std::size_t before = input.size();
    std::size_t left_in = 0, left_out = 0;
    if (packing == Packing::gzip) {
      offer(inflater, into, room);
      const std::size_t offered = inflater.avail_in;
      const int result = ::inflate(&inflater, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) damaged("is damaged");
      ended = result == Z_STREAM_END;
      left_in = before - (offered - inflater.avail_in);
      left_out = inflater.avail_out;
    } else {
      offer(bzip, into, room);
      const std::size_t offered = bzip.avail_in;
      const int result = ::BZ2_bzDecompress(&bzip);
      if (result != BZ_OK && result != BZ_STREAM_END) damaged("is damaged");
      ended = result == BZ_STREAM_END;
      left_in = before - (offered - bzip.avail_in);
      left_out = bzip.avail_out;
    }
    input.remove_prefix(before - left_in);
    return room - left_out;
  }

  std::size_t read_packed(char* into, std::size_t most) {
    const auto room = static_cast<unsigned>(std::min<std::size_t>(most, UINT_MAX));
    while (true) {
      if (!inside && !open_member()) return 0;
      fetch(1);
      const std::size_t before = input.size();
      bool ended = false;
      const std::size_t got = unpack(into, room, ended);
      if (ended) close_member();
      if (got > 0) return got;
      // Neither input taken nor output given: what is missing can no longer come.
      if (!ended && input.size() == before) damaged("ends too early");
    }
  }

  std::size_t read_plain(char* into, std::size_t most) {
    if (input.empty() && !exhausted && most >= buffer.size()) {
      while (true) {  // straight into the caller's memory
        const ssize_t got = ::read(file, into, std::min<std::size_t>(most, SSIZE_MAX));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) complain(name, "cannot be read: {}", std::strerror(errno));
        exhausted = got == 0;
        return static_cast<std::size_t>(got);
      }
    }
    fetch(1);
    const std::size_t count = std::min(most, input.size());
    std::memcpy(into, input.data(), count);
    input.remove_prefix(count);
    return count;
  }
};

Source::Source(const std::string& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.name = path;
  state.file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (state.file < 0) complain(path, "cannot be opened: {}; check the path", std::strerror(errno));
  struct stat kind {};
  if (::fstat(state.file, &kind) == 0 && S_ISDIR(kind.st_mode)) {
    complain(path, "is a directory; name a file in it");
  }
  state.buffer.resize(packed_bytes);
  state.start();
}

Source::Source(std::string name, std::string_view bytes) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->input = bytes;
  state_->exhausted = true;
  state_->start();
}

Source::~Source() = default;
Source::Source(Source&&) noexcept = default;
Source& Source::operator=(Source&&) noexcept = default;

const std::string& Source::name() const {
  return state_->name;
}

std::size_t Source::read(char* into, std::size_t most) {
  if (most == 0) return 0;
  return state_->packing == Packing::none ? state_->read_plain(into, most) : state_->read_packed(into, most);
}

}  // namespace bilevel::data
