#pragma once

#include <limits>
#include <optional>
#include <string>

#include "text.hpp"

namespace report {

/// What a page does not know, and what nothing exceeds.
inline constexpr double nothing = std::numeric_limits<double>::quiet_NaN(),
                        infinity = std::numeric_limits<double>::infinity();

/// A value of a JSON document together with its place there. Whatever is missing or of the wrong type
/// becomes a std::invalid_argument that names the place: "sections[3].blocks[0]: …".
class Reading {
 public:
  Reading(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const Json& json() const { return *value_; }
  [[noreturn]] void fail(const std::string& what) const;

  /// The member `key` of an object; null counts as missing.
  Reading at(const char* key) const;
  std::optional<Reading> find(const char* key) const;
  /// The elements of an array.
  std::size_t size() const;
  Reading operator[](std::size_t i) const;
  struct Iterator {
    const Reading* array;
    std::size_t i;
    Reading operator*() const { return (*array)[i]; }
    Iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  std::string text() const;
  std::string text(const char* key) const { return at(key).text(); }
  /// "" where it is missing.
  std::string text_or_empty(const char* key) const;
  double number() const;
  bool truth() const;

 private:
  const Json& member(const char* key) const;
  std::string below(const char* key) const { return place_.empty() ? key : place_ + "." + key; }

  const Json* value_;
  std::string place_;
};

}  // namespace report
