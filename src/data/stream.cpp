#include "data/stream.hpp"

#include <cstring>

#include "data/complaint.hpp"

namespace bilevel::data {

std::string_view Stream::ahead(std::size_t least) {
  if (end_ - begin_ < least && !ended_) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    // A small file needs no large buffer, and a large one soon has it.
    if (consumed_ >= buffer_.size() && buffer_.size() < usual) buffer_.resize(usual);
    while (end_ < least && !ended_) {
      // Grown only as bytes arrive: a wish for more than there is takes no memory.
      if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
      const std::size_t got = source_.read(buffer_.data() + end_, buffer_.size() - end_);
      ended_ = got == 0;
      end_ += got;
    }
  }
  return {buffer_.data() + begin_, end_ - begin_};
}

void Stream::consume(std::size_t count) {
  begin_ += count;
  consumed_ += count;
}

bool Lines::next() {
  stream_.consume(bytes_);
  bytes_ = 0;
  number_ += joined_;
  joined_ = 0;
  return join();
}

bool Lines::join() {
  std::size_t searched = bytes_;
  std::string_view held = stream_.ahead(searched + 1);
  if (held.size() <= searched) return false;
  const auto too_long = [&](std::size_t size) { return size > static_cast<std::size_t>(longest_); };
  while (true) {
    const void* const found = std::memchr(held.data() + searched, '\n', held.size() - searched);
    if (found != nullptr) {
      bytes_ = static_cast<std::size_t>(static_cast<const char*>(found) - held.data()) + 1;
      break;
    }
    searched = held.size();
    if (!too_long(searched)) held = stream_.ahead(searched + 1);
    if (held.size() == searched) {
      bytes_ = searched;
      break;
    }
  }
  if (too_long(bytes_)) {
    complain(stream_.name(), "line {} is longer than {} bytes; {}", number_, longest_,
             joined_ > 0 ? "a quoted cell that begins in it is never closed"
                         : "is this a text file, and ReadOptions.format right?");
  }
  ++joined_;
  text_ = held.substr(0, bytes_);
  if (text_.back() == '\n') text_.remove_suffix(1);
  if (!text_.empty() && text_.back() == '\r') text_.remove_suffix(1);
  return true;
}

}  // namespace bilevel::data
