#include <bilevel/outcome/atomic_file.hpp>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace bilevel {

std::string replace_file(const std::string& path, std::string_view contents) {
  // The process id keeps two programs that write the same file from sharing the temporary one.
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const auto failed = [&](std::string_view what) {
    const std::string reason = std::strerror(errno);
    ::unlink(temporary.c_str());
    return fmt::format("cannot write {}: {} failed: {}", path, what, reason);
  };
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failed("opening a file beside it");
  const char* next = contents.data();
  std::size_t left = contents.size();
  while (left > 0) {
    const ssize_t written = ::write(file, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string message = failed("writing");
      ::close(file);
      return message;
    }
    next += written;
    left -= static_cast<std::size_t>(written);
  }
  if (::fsync(file) != 0) {
    const std::string message = failed("flushing");
    ::close(file);
    return message;
  }
  if (::close(file) != 0) return failed("closing");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failed("renaming");
  return {};
}

}  // namespace bilevel
