#include "kept_run.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "interrupt.hpp"
#include "json_output.hpp"

namespace app {

using bilevel::InvalidInput;

namespace {

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
