#include "json_output.hpp"

#include <cmath>
#include <filesystem>

#include <unistd.h>

#include <bilevel/outer/json.hpp>

namespace app {

Json number(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

Json array(const Eigen::VectorXd& x) {
  Json j = Json::array();
  for (const double value : x) j.push_back(number(value));
  return j;
}

Json describe(const bilevel::Certificate& certificate) {
  return Json::parse(bilevel::as_json(certificate));
}
Json describe(const bilevel::Cost& cost) {
  return Json::parse(bilevel::as_json(cost));
}
Json describe(const std::vector<bilevel::HistoryEntry>& history) {
  return Json::parse(bilevel::as_json(history));
}

void require_writable(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path file(path);
  const std::filesystem::path folder =
      file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw bilevel::InvalidInput(
        fmt::format("cannot write {}: the folder {} does not exist", path, folder.string()));
  if (std::filesystem::is_directory(file, error))
    throw bilevel::InvalidInput(fmt::format("cannot write {}: it is a folder", path));
  if (::access(folder.c_str(), W_OK) != 0)
    throw bilevel::InvalidInput(
        fmt::format("cannot write {}: no permission to write in {}", path, folder.string()));
}

void require_outputs(std::string_view command, const std::vector<std::string>& outputs,
                     const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_writable(outputs[i]);
    for (std::size_t k = 0; k < i; ++k)
      if (same_file(outputs[i], outputs[k]))
        throw bilevel::InvalidInput(fmt::format("{}: {} is named for two outputs", command, outputs[i]));
    for (const std::string& input : inputs)
      if (same_file(outputs[i], input))
        throw bilevel::InvalidInput(
            fmt::format("{}: {} is an input; name another file for the output", command, outputs[i]));
  }
}

void require_not_the_data(std::string_view command, const std::string& data,
                          const std::vector<std::pair<std::string_view, std::string>>& options,
                          std::string_view remedy) {
  for (const auto& [option, path] : options)
    if (same_file(data, path))
      throw bilevel::InvalidInput(fmt::format("{}: {} is the data itself: {}", command, option, remedy));
}

bool same_file(const std::string& a, const std::string& b) {
  const auto spelt_out = [](const std::string& path) {
    // A pipe under /dev or /proc has no canonical name.
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path);
    const std::filesystem::path canonical = std::filesystem::weakly_canonical(whole, error);
    return error ? whole.lexically_normal() : canonical;
  };
  return !a.empty() && !b.empty() && spelt_out(a) == spelt_out(b);
}

std::string json_text(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_json(const std::string& path, const Json& object) {
  if (!path.empty()) write_text(path, json_text(object));
}

void write_text(const std::string& path, const std::string& text) {
  if (const std::string problem = bilevel::replace_file(path, text); !problem.empty())
    throw bilevel::InvalidInput(problem);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace app
