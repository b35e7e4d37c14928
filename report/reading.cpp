#include "reading.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace report {

void Reading::fail(const std::string& what) const {
  throw std::invalid_argument((place_.empty() ? "the document" : clean(place_)) + ": " + what);
}

const Json& Reading::member(const char* key) const {
  static const Json none;
  if (!value_->is_object()) fail(fmt::format("must be an object, is {}", value_->type_name()));
  const auto found = value_->find(key);
  return found == value_->end() ? none : *found;
}

Reading Reading::at(const char* key) const {
  const Json& value = member(key);
  if (value.is_null()) fail(fmt::format("\"{}\" is missing", key));
  return {value, below(key)};
}

std::optional<Reading> Reading::find(const char* key) const {
  const Json& value = member(key);
  if (value.is_null()) return std::nullopt;
  return Reading(value, below(key));
}

std::size_t Reading::size() const {
  if (!value_->is_array()) fail(fmt::format("must be an array, is {}", value_->type_name()));
  return value_->size();
}

Reading Reading::operator[](std::size_t i) const {
  if (i >= size()) fail(fmt::format("has {} elements, needs {}", size(), i + 1));
  return {(*value_)[i], fmt::format("{}[{}]", place_, i)};
}

std::string Reading::text() const {
  if (!value_->is_string()) fail(fmt::format("must be a string, is {}", value_->type_name()));
  return clean(value_->get_ref<const std::string&>());
}

std::string Reading::text_or_empty(const char* key) const {
  const auto found = find(key);
  return found ? found->text() : "";
}

double Reading::number() const {
  if (!value_->is_number()) fail(fmt::format("must be a number, is {}", value_->type_name()));
  return value_->get<double>();
}

bool Reading::truth() const {
  if (!value_->is_boolean()) fail(fmt::format("must be true or false, is {}", value_->type_name()));
  return value_->get<bool>();
}

}  // namespace report
