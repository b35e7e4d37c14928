#include <bilevel/files/container.hpp>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "encoding/foreign_json.hpp"

namespace bilevel {
namespace {

constexpr std::string_view run_field = "\"run\":";

void require_version(const nlohmann::json& fields, const FileKind& kind) {
  if (const auto found = whole_number(fields.at("version")); found != kind.version)
    throw InvalidInput(fmt::format(
        "it is a {} of version {}, and this program reads version {}: only the program that wrote it "
        "can go on with it; delete it to begin anew",
        kind.format, found, kind.version));
}

}  // namespace

std::uint64_t checksum(std::string_view bytes, std::uint64_t hash) {
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
  return hash;
}

std::string sealed(const FileKind& kind, std::string run, std::string_view bytes) {
  const std::string head = fmt::format("{{\"format\":\"{}\",\"version\":{},\"checksum\":\"{:016x}\",{}",
                                       kind.format, kind.version, checksum(bytes, checksum(run)), run_field);
  run.reserve(head.size() + run.size() + bytes.size() + 2);
  run.insert(0, head);
  run += "}\n";
  return run.append(bytes);
}

Contents unsealed(std::string_view text, const FileKind& kind) {
  const std::size_t newline = text.find('\n');
  const std::string_view line = text.substr(0, newline);
  const bool foreign = !line.starts_with(fmt::format("{{\"format\":\"{}\",", kind.format));
  require_shallow(foreign ? text : line);
  if (foreign && nlohmann::json::accept(text))
    throw InvalidInput(fmt::format("it is not a bilevel checkpoint of the kind {}", kind.format));
  const std::size_t field = line.substr(0, 200).find(run_field);
  // Before there was one container for all kinds, "run" was not where it is now.
  if (!foreign && field == std::string_view::npos && nlohmann::json::accept(line))
    require_version(nlohmann::json::parse(line), kind);
  if (foreign || field == std::string_view::npos || newline == std::string_view::npos ||
      !line.ends_with("}}"))
    throw InvalidInput("it is truncated or not a checkpoint at all");
  const auto fields = nlohmann::json::parse(fmt::format("{}\"run\":0}}", line.substr(0, field)));
  require_version(fields, kind);
  Contents contents;
  contents.run = line.substr(0, line.size() - 1);
  contents.run.remove_prefix(std::min(contents.run.size(), field + run_field.size()));
  contents.bytes = text.substr(newline + 1);
  if (fields.at("checksum") != fmt::format("{:016x}", checksum(contents.bytes, checksum(contents.run))))
    throw InvalidInput("its checksum does not fit: the file is cut off or damaged");
  return contents;
}

}  // namespace bilevel
