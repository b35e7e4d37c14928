#include "kept_run.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "interrupt.hpp"
#include "json_output.hpp"

namespace app {

using bilevel::InvalidInput;

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
  std::optional<std::string> identity;
  bool next = false;
  std::ifstream stream(path, std::ios::binary);
  [[maybe_unused]] const Json rest = Json::parse(
      stream,
      [&](int, Json::parse_event_t event, const Json& parsed) {
        if (next && !identity && event == Json::parse_event_t::value && parsed.is_string())
          identity = parsed.get<std::string>();
        next = event == Json::parse_event_t::key && parsed == "identity";
        return event != Json::parse_event_t::value;  // vectors may be long
      },
      false);
  return identity;
}

/// Each file of a run has the run's identity, alone or before words of its own.
bool belongs(const std::optional<std::string>& found, const std::string& identity) {
  return found && (*found == identity || found->starts_with(identity + " "));
}

bool is_number(std::string_view text, long& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

/// What runs that were killed while they wrote have left beside a file: FILE.PID.tmp of processes that are
/// gone.
void remove_leftovers(const std::filesystem::path& file) {
  constexpr long largest_process = 1 << 22;
  std::error_code ignored;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const std::string stem = file.filename().string() + ".", ending = ".tmp";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(ending) || name.size() <= stem.size() + ending.size())
      continue;
    const std::string_view middle =
        std::string_view(name).substr(stem.size(), name.size() - stem.size() - ending.size());
    long process = 0;
    if (!is_number(middle, process) || process > largest_process) continue;
    // It may have been killed before it wrote anything.
    if (!begins_so(entry.path()) && entry.file_size(ignored) != 0) continue;
    if (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH)
      std::filesystem::remove(entry.path(), ignored);
  }
}

std::string kept_in(std::string_view command, const std::string& given, const std::string& identity,
                    bool resume, const std::vector<std::string>& endings) {
  const std::string path =
      given.empty() ? fmt::format("bilevel-{}-{:08x}.ckpt", command, bilevel::checksum(identity) & 0xffffffff)
                    : given;
  try {
    require_writable(path);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format(
        "{}; a run is kept there while it lasts: name another place by --checkpoint FILE", error.what()));
  }
  require_place(path, resume, identity, endings);
  return path;
}

}  // namespace

void require_place(const std::string& path, bool resume, const std::string& identity,
                   const std::vector<std::string>& endings) {
  std::error_code ignored;
  std::vector<std::string> there;
  for (const std::string& file : kept_files(path, endings)) {
    if (!std::filesystem::exists(file, ignored)) continue;
    if (!std::filesystem::is_regular_file(file, ignored) || !begins_so(file))
      throw InvalidInput(
          fmt::format("{} is no checkpoint of bilevel and is left alone; name another place for the run by "
                      "--checkpoint FILE",
                      file));
    there.push_back(file);
  }
  // All of them, also those that this run may never read: it removes them at its end.
  if (resume)
    for (const std::string& file : there)
      if (const auto found = identity_in(file); !belongs(found, identity))
        throw InvalidInput(fmt::format(
            "cannot resume from {}: {}, and this run is '{}'; nothing was begun: name the right place by "
            "--checkpoint FILE",
            file, found ? fmt::format("it belongs to another run, '{}'", *found) : "it is damaged",
            identity));
  for (const std::string& file : kept_files(path, endings)) remove_leftovers(file);
  if (resume && there.empty())
    say(stderr, "bilevel: {} does not exist: no run of these data and options is kept there, so one begins\n",
        path);
  if (!resume && !there.empty())
    throw InvalidInput(
        fmt::format("{} keeps an unfinished run, and nothing was begun: add --resume to go on with it, "
                    "delete {} to begin "
                    "anew, or name another place by --checkpoint FILE",
                    path, fmt::join(there, " and ")));
}

bilevel::models::TuneControl control_of(std::string_view command, const std::string& given, bool resume,
                               std::string identity, Progress& progress,
                               const std::vector<std::string>& endings) {
  bilevel::models::TuneControl control;
  control.checkpoint = kept_in(command, given, identity, resume, endings);
  catch_interrupts();
  control.resume = resume;
  control.identity = std::move(identity);
  control.progress = [&progress](const std::string& text) { progress.show(text); };
  control.interrupted = [] { return interrupted(); };
  return control;
}

std::vector<std::string> kept_files(const std::string& checkpoint, const std::vector<std::string>& endings) {
  std::vector<std::string> files{checkpoint};
  for (const std::string& ending : endings) files.push_back(checkpoint + ending);
  return files;
}

void forget(const std::string& checkpoint, const std::vector<std::string>& endings) {
  std::error_code ignored;
  for (const std::string& file : kept_files(checkpoint, endings)) std::filesystem::remove(file, ignored);
}

bool unfinished(bilevel::Status status) {
  return status == bilevel::Status::interrupted || status == bilevel::Status::iteration_limit ||
         status == bilevel::Status::time_limit;
}

void write_outputs(const std::vector<Output>& outputs) {
  std::string problems;
  for (const auto& [path, text] : outputs) {
    if (path.empty()) continue;
    try {
      write_text(path, text());
      print_entry("written", path);
    } catch (const std::exception& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!problems.empty()) throw InvalidInput(problems);
}

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace app
