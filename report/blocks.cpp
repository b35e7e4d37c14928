#include "blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace report {

Json text_block(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

Json code_block(std::string text) {
  return {{"type", "code"}, {"text", std::move(text)}};
}

Json notice_block(std::string text) {
  return {{"type", "notice"}, {"text", std::move(text)}};
}

Json facts_block(Json items) {
  return {{"type", "facts"}, {"items", std::move(items)}};
}

Json table_block(std::string title, Json columns, Json rows, std::string caption) {
  return {{"type", "table"},
          {"title", std::move(title)},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"caption", std::move(caption)}};
}

Json long_table_block(std::string title, Json columns, Json rows, std::string caption) {
  Json table = table_block(std::move(title), std::move(columns), std::move(rows), std::move(caption));
  table["search"] = true;
  return table;
}

Json chart_block(std::string title, std::string x, std::string y, Json series, std::string caption) {
  return {{"type", "chart"},
          {"title", std::move(title)},
          {"x", {{"name", std::move(x)}}},
          {"y", {{"name", std::move(y)}}},
          {"series", std::move(series)},
          {"caption", std::move(caption)}};
}

Json columns_block(Json blocks) {
  if (blocks.size() == 1) return blocks[0];
  return {{"type", "columns"}, {"blocks", std::move(blocks)}};
}

Json series(std::string name, const char* style, Json points) {
  return {{"name", std::move(name)}, {"style", style}, {"points", std::move(points)}};
}

Json category_series(std::string name, const char* style, Json values) {
  return {{"name", std::move(name)}, {"style", style}, {"values", std::move(values)}};
}

Json status_cell(std::string status) {
  return {{"text", ""}, {"status", std::move(status)}};
}

void add_section(Json& sections, const char* id, std::string title, Json blocks) {
  if (blocks.empty()) return;
  sections.push_back({{"id", id},
                      {"title", std::move(title)},
                      {"blocks", blocks.is_array() ? std::move(blocks) : Json::array({std::move(blocks)})}});
}

Json page(std::string title, std::string lead, Json facts, Json sections) {
  return {{"title", std::move(title)},
          {"lead", std::move(lead)},
          {"facts", std::move(facts)},
          {"sections", std::move(sections)}};
}

double number_or_nan(const Reading& object, const char* key) {
  const auto found = object.find(key);
  return found ? found->number() : std::numeric_limits<double>::quiet_NaN();
}

std::string word_or_empty(const Reading& object, const char* key) {
  const auto found = object.find(key);
  if (!found) return "";
  const Json& json = found->json();
  if (json.is_boolean()) return json.get<bool>() ? "yes" : "no";
  // Whole numbers are names of rows and classes: all of their digits count.
  if (json.is_number_integer()) return json.dump();
  return json.is_number() ? number_text(json.get<double>()) : found->text();
}

bool truth_or(const Reading& object, const char* key, bool otherwise) {
  const auto found = object.find(key);
  return found ? found->truth() : otherwise;
}

std::string number_word(double value, int digits) {
  if (!std::isfinite(value)) return std::string(missing);
  return number_text(std::stod(fmt::format("{:.{}g}", value, digits)));
}

std::string count_word(double count) {
  if (!std::isfinite(count)) return std::string(missing);
  std::string text = fmt::format("{:.0f}", count);
  const std::size_t start = count < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > start + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string plural(const std::string& noun) {
  if (noun.ends_with("y")) return noun.substr(0, noun.size() - 1) + "ies";
  return noun + (noun.ends_with("s") ? "es" : "s");
}

std::string counted(double count, const std::string& noun) {
  return fmt::format("{} {}", count_word(count), count == 1 ? noun : plural(noun));
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return std::string(missing);
  if (seconds < 10) return fmt::format("{:.2g} s", seconds);
  return seconds < 600 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

std::string in_seconds(double seconds) {
  return std::isfinite(seconds) ? duration(seconds) : "";
}

void add_fact(Json& facts, const char* name, const std::string& text) {
  if (!text.empty() && text != missing) facts.push_back(Json::array({name, text}));
}

void add_status(Json& facts, const char* name, const std::string& status) {
  if (!status.empty()) facts.push_back(Json::array({name, status_cell(status)}));
}

std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  const std::size_t wanted = std::min(count, most);
  for (std::size_t i = 0; i < wanted; ++i)
    chosen.push_back(wanted < 2 ? 0 : (i * (count - 1) + (wanted - 1) / 2) / (wanted - 1));
  return chosen;
}

}  // namespace report
