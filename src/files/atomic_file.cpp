#include <bilevel/files/atomic_file.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {
namespace {

bool write_all(int file, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(file, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Reads on after the first piece where `promising` says so of it.
template <class Promising>
std::optional<std::string> read_pieces(const std::string& path, std::size_t most, Promising promising) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text;
  constexpr std::size_t piece = 1 << 16;
  while (stream) {
    const std::size_t held = text.size(), at_once = std::min(std::max(piece, held / 2), most + 1 - held);
    text.resize(held + at_once);
    stream.read(text.data() + held, static_cast<std::streamsize>(at_once));
    text.resize(held + static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most)
      throw InvalidInput(
          fmt::format("{}: it has more than {} bytes, which no file of bilevel has", path, most));
    if (held == 0 && !promising(text)) break;
  }
  return text;
}

}  // namespace

std::string replace_file(const std::string& path, std::string_view contents, bool durable) {
  char resolved[PATH_MAX];
  const std::string target = ::realpath(path.c_str(), resolved) ? resolved : path;
  struct stat old {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  const bool in_place = exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode);
  // The process id keeps two programs that write the same file from sharing the temporary one.
  const std::string written = in_place ? target : fmt::format("{}.{}.tmp", target, ::getpid());
  int file = -1;
  const auto failed = [&](std::string_view what) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) ::close(file);
    if (!in_place) ::unlink(written.c_str());
    return fmt::format("cannot write {}: {} failed: {}", path, what, reason);
  };
  file = ::open(written.c_str(), in_place ? O_WRONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                0666);
  if (file < 0) return failed(in_place ? "opening it" : "opening a file beside it");
  if (!write_all(file, contents)) return failed("writing");
  if (in_place) {
    ::close(file);
    return {};
  }
  if (exists && ::fchmod(file, old.st_mode & 07777) != 0) return failed("keeping its mode");
  if (durable && ::fsync(file) != 0) return failed("flushing");
  const int closed = ::close(file);
  file = -1;
  if (closed != 0) return failed("closing");
  if (::rename(written.c_str(), target.c_str()) != 0) return failed("renaming");
  return {};
}

std::optional<std::string> read_file(const std::string& path, std::size_t most) {
  return read_pieces(path, most, [](const std::string&) { return true; });
}

std::optional<std::string> read_json_file(const std::string& path, std::size_t most) {
  return read_pieces(path, most, [](const std::string& beginning) {
    const std::size_t first = beginning.find_first_not_of(" \t\r\n\xEF\xBB\xBF");  // a byte order mark
    return first == std::string::npos || beginning[first] == '{';
  });
}

}  // namespace bilevel
