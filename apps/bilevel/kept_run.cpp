#include "kept_run.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "interrupt.hpp"
#include "json_output.hpp"

namespace app {

using bilevel::InvalidInput;

namespace {

/// What runs that were killed while they wrote have left beside it: PATH.PID.tmp of processes that are gone.
void remove_leftovers(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path own(path), folder = own.has_parent_path() ? own.parent_path() : ".";
  const std::string stem = own.filename().string() + ".", ending = ".tmp";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(ending) || name.size() <= stem.size() + ending.size())
      continue;
    // PATH.grid.PID.tmp too.
    std::string_view middle =
        std::string_view(name).substr(stem.size(), name.size() - stem.size() - ending.size());
    if (middle.starts_with("grid.")) middle.remove_prefix(5);
    long process = 0;
    const auto [end, error] = std::from_chars(middle.data(), middle.data() + middle.size(), process);
    if (error != std::errc() || end != middle.data() + middle.size() || process <= 0) continue;
    if (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH)
      std::filesystem::remove(entry.path(), ignored);
  }
}

std::string kept_in(std::string_view command, const std::string& given, const std::string& identity,
                    bool resume) {
  const std::string path =
      given.empty() ? fmt::format("bilevel-{}-{:08x}.ckpt", command, bilevel::checksum(identity) & 0xffffffff)
                    : given;
  try {
    require_writable(path);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format(
        "{}; a run is kept there while it lasts: name another place by --checkpoint FILE", error.what()));
  }
  remove_leftovers(path);
  std::error_code ignored;
  const bool there = std::filesystem::is_regular_file(path, ignored),
             begun = there || std::filesystem::is_regular_file(path + ".grid", ignored);
  if (there) {
    const std::string_view head = "{\"format\":\"bilevel-checkpoint\"";
    std::string first(head.size(), '\0');
    std::ifstream(path, std::ios::binary).read(first.data(), static_cast<std::streamsize>(first.size()));
    if (first != head)
      throw InvalidInput(
          fmt::format("{} is no checkpoint of bilevel and is left alone; name another file by "
                      "--checkpoint",
                      path));
  }
  if (resume && !begun)
    fmt::print(stderr,
               "bilevel: {} does not exist: no run of these data and options is kept there, so one begins\n",
               path);
  if (!resume && begun)
    fmt::print(stderr, "bilevel: {} keeps an unfinished run, which begins anew (--resume would go on)\n",
               path);
  return path;
}

}  // namespace

tuning::TuneControl control_of(std::string_view command, const std::string& given, bool resume,
                               std::string identity, Progress& progress) {
  tuning::TuneControl control;
  control.checkpoint = kept_in(command, given, identity, resume);
  catch_interrupts();
  control.resume = resume;
  control.identity = std::move(identity);
  control.progress = [&progress](const std::string& text) { progress.show(text); };
  control.interrupted = [] { return interrupted(); };
  return control;
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
    } catch (const InvalidInput& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!problems.empty()) throw InvalidInput(problems);
}

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace app
