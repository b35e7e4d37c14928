#include "kept_run.hpp"

#include <cstdio>

#include <bilevel/files/container.hpp>

#include "interrupt.hpp"
#include "json_output.hpp"

namespace app {

using bilevel::InvalidInput;

std::string place_of(std::string_view command, const std::string& given, const std::string& identity) {
  std::string path = given.empty() ? fmt::format("bilevel-{}-{:08x}.ckpt", command,
                                                 bilevel::checksum(identity) & 0xffffffff)
                                   : given;
  try {
    require_writable(path);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format(
        "{}; a run is kept there while it lasts: name another place by --checkpoint FILE", error.what()));
  }
  return path;
}

void say_where_none_is_kept(const bilevel::KeptRun& kept, bool resume) {
  if (resume && !kept.exists())
    say(stderr, "bilevel: {} does not exist: no run of these data and options is kept there, so one begins\n",
        kept.files().front());
}

bilevel::models::TuneControl control_of(const bilevel::KeptRun& kept, bool resume, std::string identity,
                                        Progress& progress) {
  say_where_none_is_kept(kept, resume);
  catch_interrupts();
  bilevel::models::TuneControl control;
  control.checkpoint = kept.files().front();
  control.resume = resume;
  control.forget = false;  // not before all that it gave is written
  control.identity = std::move(identity);
  control.progress = [&progress](const std::string& text) { progress.show(text); };
  control.interrupted = [] { return interrupted(); };
  return control;
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

}  // namespace app
