#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

// What targets share that edit files which the program has written.
namespace bilevel::fuzz {

using Json = nlohmann::ordered_json;

/// Numbers drawn from the input; zeros once it is used up.
class Choices {
 public:
  Choices(const std::uint8_t* bytes, std::size_t size) : at_(bytes), end_(bytes + size) {}
  bool left() const { return at_ != end_; }
  std::size_t below(std::size_t bound) {
    const std::size_t high = next(), low = next();
    return bound == 0 ? 0 : (256 * high + low) % bound;
  }

 private:
  std::size_t next() { return at_ == end_ ? 0 : *at_++; }
  const std::uint8_t *at_, *end_;
};

/// Of a file in a folder of this process, which goes when it ends.
std::string path_of(const std::string& name);
/// Writes it there; its path.
std::string write(const std::string& name, std::string_view text);
std::string slurp(const std::string& path);

/// Edits at nodes that the input chooses, until it is used up.
Json edited(Json j, Choices& choose);

}  // namespace bilevel::fuzz
