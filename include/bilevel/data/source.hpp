#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace bilevel::data {

/// The bytes of a file, unpacked on the way where they begin as gzip or bzip2 do (several members one after
/// the other too). A stream that is cut off or damaged is an InvalidInput that names the file.
class Source {
 public:
  /// Throws InvalidInput where the file cannot be opened or is a directory.
  explicit Source(const std::string& path);
  /// Bytes in memory, which must outlive the source; `name` is what messages call them.
  Source(std::string name, std::string_view bytes);
  ~Source();
  Source(Source&&) noexcept;
  Source& operator=(Source&&) noexcept;

  const std::string& name() const;
  /// At least one byte and at most `most`; 0 only at the end.
  std::size_t read(char* into, std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bilevel::data
