#include <bilevel/outer/json.hpp>

#include <type_traits>

#include "outer/describe.hpp"

namespace bilevel {

namespace {

/// An object with every field of a record, enumerations by their names.
template <class Record>
Description fields_of(const Record& record) {
  Description j;
  Record::for_each_field([&](const char* name, auto field) {
    const auto& value = record.*field;
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_enum_v<Value>)
      j[name] = bilevel::name(value);
    else if constexpr (std::is_floating_point_v<Value>)
      j[name] = finite_or_null(value);
    else
      j[name] = value;
  });
  return j;
}

}  // namespace

Description described(const Certificate& certificate) {
  return fields_of(certificate);
}

Description described(const Cost& c) {
  Description j = fields_of(c);
  j["gradient_equivalents"] = c.gradient_equivalents();
  return j;
}

Description described(const std::vector<HistoryEntry>& history) {
  Description list = Description::array();
  for (const HistoryEntry& h : history) list.push_back(fields_of(h));
  return list;
}

std::string as_json(const Certificate& certificate) {
  return described(certificate).dump();
}
std::string as_json(const Cost& cost) {
  return described(cost).dump();
}
std::string as_json(const std::vector<HistoryEntry>& history) {
  return described(history).dump();
}

}  // namespace bilevel
