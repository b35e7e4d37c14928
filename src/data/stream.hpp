#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/dataset.hpp>
#include <bilevel/data/source.hpp>

namespace bilevel::data {

/// A source that can be looked at ahead of being consumed.
class Stream {
 public:
  explicit Stream(Source& source) : source_(source), buffer_(smallest) {}

  const std::string& name() const { return source_.name(); }
  /// Everything that is held, at least `least` bytes of it unless the source ends before. Valid until the
  /// next call.
  std::string_view ahead(std::size_t least);
  void consume(std::size_t count);
  std::uint64_t consumed() const { return consumed_; }

 private:
  static constexpr std::size_t smallest = std::size_t{1} << 12, usual = std::size_t{1} << 20;
  Source& source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t consumed_ = 0;
  bool ended_ = false;
};

/// The lines of a text. A line ends with \n or \r\n, the last one also without.
class Lines {
 public:
  Lines(Stream& stream, std::int64_t longest) : stream_(stream), longest_(longest) {}

  /// Goes to the next line; false at the end.
  bool next();
  /// Joins the following line to this one, the line break included; false at the end.
  bool join();
  /// Without the line break at its end. Valid until next() or join().
  std::string_view text() const { return text_; }
  Index number() const { return number_; }  ///< from 1; of the first of joined lines

 private:
  Stream& stream_;
  std::int64_t longest_;
  std::string_view text_;
  std::size_t bytes_ = 0;  ///< of the line with its break
  Index number_ = 0, joined_ = 1;
};

}  // namespace bilevel::data
