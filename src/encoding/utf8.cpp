#include <bilevel/encoding/utf8.hpp>

#include <nlohmann/json.hpp>

namespace bilevel {

std::string as_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

}  // namespace bilevel
