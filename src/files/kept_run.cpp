#include <bilevel/files/kept_run.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {
namespace {

/// What every file of a kept run begins with.
constexpr std::string_view head = "{\"format\":\"bilevel-";

bool begins_so(const std::filesystem::path& path) {
  std::string first(head.size(), '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(first.data(), static_cast<std::streamsize>(first.size()));
  return first == head;
}

/// What a kept file says it is a part of; nothing where it does not get that far. Bytes that are no JSON may
/// follow.
std::optional<std::string> identity_in(const std::string& path) {
  using nlohmann::json;
  std::optional<std::string> identity;
  bool next = false;
  std::ifstream stream(path, std::ios::binary);
  [[maybe_unused]] const json rest = json::parse(
      stream,
      [&](int, json::parse_event_t event, const json& parsed) {
        if (next && !identity && event == json::parse_event_t::value && parsed.is_string())
          identity = parsed.get<std::string>();
        next = event == json::parse_event_t::key && parsed == "identity";
        return event != json::parse_event_t::value;  // vectors may be long
      },
      false);
  return identity;
}

bool is_process(std::string_view text, pid_t& process) {
  constexpr pid_t largest = 1 << 22;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), process);
  return error == std::errc() && end == text.data() + text.size() && process > 0 && process <= largest;
}

/// What runs that were killed while they wrote have left beside a file: FILE.PID.tmp of processes that are
/// gone.
void remove_leftovers(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const std::string stem = file.filename().string() + ".", ending = ".tmp";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(ending) || name.size() <= stem.size() + ending.size())
      continue;
    pid_t process = 0;
    if (!is_process(std::string_view(name).substr(stem.size(), name.size() - stem.size() - ending.size()),
                    process))
      continue;
    // It may have been killed before it wrote anything.
    if (!begins_so(entry.path()) && entry.file_size(ignored) != 0) continue;
    if (::kill(process, 0) != 0 && errno == ESRCH) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

KeptRun::KeptRun(const std::string& checkpoint, const std::vector<std::string>& endings) {
  if (checkpoint.empty()) return;
  files_.push_back(checkpoint);
  for (const std::string& ending : endings) files_.push_back(checkpoint + ending);
}

bool KeptRun::exists() const {
  std::error_code ignored;
  return std::any_of(files_.begin(), files_.end(),
                     [&](const std::string& file) { return std::filesystem::exists(file, ignored); });
}

std::vector<std::string> KeptRun::there() const {
  std::error_code ignored;
  std::vector<std::string> found;
  for (const std::string& file : files_) {
    if (!std::filesystem::exists(file, ignored)) continue;
    if (!std::filesystem::is_regular_file(file, ignored) || !begins_so(file))
      throw InvalidInput(fmt::format(
          "{} is no checkpoint of bilevel and is left alone; name another place for the run by `checkpoint`",
          file));
    found.push_back(file);
  }
  return found;
}

void KeptRun::require_ours() const {
  there();
}

void KeptRun::require_place(bool resume, const std::string& identity) const {
  const std::vector<std::string> there = this->there();
  // All of them, also those that this run may never read: it removes them at its end.
  if (resume)
    for (const std::string& file : there) {
      const auto found = identity_in(file);
      if (!found || (*found != identity && !found->starts_with(identity + " ")))
        throw InvalidInput(fmt::format(
            "cannot resume from {}: {}, and this run is '{}'; nothing was begun: name the right place by "
            "`checkpoint`",
            file, found ? fmt::format("it belongs to another run, '{}'", *found) : "it is damaged",
            identity));
    }
  for (const std::string& file : files_) remove_leftovers(file);
  if (!resume && !there.empty())
    throw InvalidInput(
        fmt::format("{} keeps an unfinished run, and nothing was begun: add `resume` to go on with it, "
                    "delete {} to begin "
                    "anew, or name another place by `checkpoint`",
                    files_.front(), fmt::join(there, " and ")));
}

void KeptRun::forget() const {
  std::error_code ignored;
  for (const std::string& file : files_) std::filesystem::remove(file, ignored);
}

}  // namespace bilevel
