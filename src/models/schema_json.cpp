#include "schema_json.hpp"

#include <fmt/format.h>

#include "encoding/foreign_json.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
using Json = nlohmann::ordered_json;
using bilevel::InvalidInput;

constexpr data::Format formats[] = {data::Format::csv, data::Format::libsvm, data::Format::idx,
                                    data::Format::npy};
constexpr data::ColumnKind kinds[] = {data::ColumnKind::numeric, data::ColumnKind::categorical,
                                      data::ColumnKind::ignored, data::ColumnKind::target,
                                      data::ColumnKind::weight,  data::ColumnKind::offset,
                                      data::ColumnKind::split};

template <class Values>
auto named(const Values& values, const std::string& text) {
  for (const auto value : values)
    if (data::name(value) == text) return value;
  throw InvalidInput(fmt::format("'{}' is not known", text));
}

}  // namespace

Json encode(const data::Schema& s) {
  Json columns = Json::array();
  for (const data::Column& c : s.columns) {
    Json column{{"name", c.name}, {"kind", data::name(c.kind)}};
    if (!c.levels.empty()) column["levels"] = c.levels;
    columns.push_back(std::move(column));
  }
  return {{"format", data::name(s.format)}, {"header", s.header},      {"sparse", s.sparse},
          {"zero_based", s.zero_based},     {"target", s.target_name}, {"target_levels", s.target_levels},
          {"features", s.features},         {"names", s.names},        {"columns", std::move(columns)}};
}

data::Schema decode_schema(const Json& j) {
  data::Schema s;
  s.format = named(formats, j.at("format"));
  s.header = j.at("header");
  s.sparse = j.at("sparse");
  s.zero_based = j.at("zero_based");
  s.target_name = j.at("target");
  s.target_levels = j.at("target_levels").get<std::vector<std::string>>();
  s.features = bilevel::whole_number(j.at("features"));
  s.names = j.at("names").get<std::vector<std::string>>();
  for (const Json& c : j.at("columns")) {
    data::Column column{c.at("name"), named(kinds, c.at("kind")), {}};
    if (c.contains("levels")) column.levels = c.at("levels").get<std::vector<std::string>>();
    s.columns.push_back(std::move(column));
  }
  s.validate().throw_if_any();
  return s;
}

std::vector<data::Index> whole_numbers(const Json& list) {
  std::vector<data::Index> numbers;
  for (const Json& each : list) numbers.push_back(bilevel::whole_number(each));
  return numbers;
}

}  // namespace bilevel::models
