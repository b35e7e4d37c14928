#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bilevel::data {

/// The level that stands for missing cells of a categorical column.
inline constexpr std::string_view missing_level = "missing";

/// The distinct texts of a column, numbered as they come.
class Levels {
 public:
  Levels() = default;
  explicit Levels(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(text);
  }
  int size() const { return static_cast<int>(texts_.size()); }
  /// -1 where it was never added.
  int find(std::string_view text) const;
  int add(std::string_view text);
  /// Sorts the texts; the new number of each old one.
  std::vector<int> sort();
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, int, Hash, std::equal_to<>> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace bilevel::data
