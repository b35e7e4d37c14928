#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace bilevel {

/// Thrown before any work starts: options out of range, sizes that do not match, an estimator
/// that a problem cannot serve. Numerical outcomes are never exceptions; they are a Status.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Everything that is wrong with a set of options, collected so that all of it is reported at once.
class Violations {
 public:
  explicit Violations(std::string_view owner) : owner_(owner) {}

  /// `field` must satisfy `constraint` (words, as in "must be positive") and has `value`.
  template <class Value>
  Violations& require(bool holds, std::string_view field, const Value& value, std::string_view constraint) {
    if (!holds) texts_.push_back(fmt::format("{}.{} = {} {}", owner_, field, value, constraint));
    return *this;
  }
  Violations& positive(std::string_view field, double value) {
    return require(value > 0 && std::isfinite(value), field, value, "must be positive and finite");
  }
  Violations& not_negative(std::string_view field, double value) {
    return require(value >= 0 && std::isfinite(value), field, value, "must be zero or more and finite");
  }
  Violations& at_least(std::string_view field, long value, long least) {
    return require(value >= least, field, value, fmt::format("must be at least {}", least));
  }

  Violations& add(const Violations& other) {
    texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
    return *this;
  }

  bool empty() const { return texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }

  void throw_if_any() const {
    if (!texts_.empty()) throw InvalidInput(fmt::format("{}", fmt::join(texts_, "; ")));
  }

 private:
  std::string owner_;
  std::vector<std::string> texts_;
};

}  // namespace bilevel
