#include <filesystem>
#include <memory>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include <bilevel/files/atomic_file.hpp>
#include <bilevel/outcome/violations.hpp>

#include "commands.hpp"
#include "json_output.hpp"
#include "report/clean_page.hpp"
#include "report/meta_page.hpp"
#include "report/page.hpp"
#include "report/paper_page.hpp"
#include "report/train_page.hpp"
#include "report/tune_page.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;

struct ReportArguments {
  std::string file, output;
};

/// Pages leave out what a result does not have: one that has nothing of what its command finds out is none.
void require_result(const Json& result, std::initializer_list<const char*> parts) {
  std::string missing;
  for (const char* part : parts)
    if (!result.contains(part)) missing += fmt::format("{}\"{}\"", missing.empty() ? "" : ", ", part);
  if (!missing.empty())
    throw InvalidInput(fmt::format("it is no whole result of {}: it has no {}",
                                   result["command"].get<std::string>(), missing));
}

/// The page of a result, or the page itself where the file describes one.
Json page_of(const Json& result) {
  if (!result.is_object()) throw InvalidInput("it is no object");
  const std::string command =
      result.contains("command") && result["command"].is_string() ? result["command"].get<std::string>() : "";
  if (command == "tune") require_result(result, {"status", "data", "model", "validation_loss", "penalties"});
  if (command == "clean") require_result(result, {"status", "data", "samples", "threshold"});
  if (command == "train") require_result(result, {"status", "data", "network", "settings"});
  if (command == "meta") require_result(result, {"status", "data", "learner", "settings"});
  if (command == "tune") return report::tune_page(result);
  if (command == "clean") return report::clean_page(result);
  if (command == "train") return report::train_page(result);
  if (command == "meta") return report::meta_page(result);
  if (command == "paper") return report::paper_page(result);
  if (result.contains("page")) return result["page"];
  if (result.contains("sections")) return result;
  if (command.empty())
    throw InvalidInput(
        "it is neither a result nor a page: it has no \"command\", no \"page\" and no \"sections\"");
  throw InvalidInput(fmt::format("the results of {} have no report", command));
}

int run(const ReportArguments& a) {
  const std::string output =
      a.output.empty() ? std::filesystem::path(a.file).replace_extension(".html").string() : a.output;
  require_outputs("report", {output}, {a.file});
  const auto text = bilevel::read_json_file(a.file);
  const auto refused = [&](std::string_view why) {
    return InvalidInput(fmt::format(
        "{}: {}; a report is made of what --json of tune, clean, train, meta or paper wrote, or of a page "
        "(docs/report.md)",
        a.file, why));
  };
  if (!text) throw refused("the file cannot be read");
  const Json result = Json::parse(*text, nullptr, false);
  if (result.is_discarded()) throw refused("it is truncated or not JSON at all");
  std::string html;
  try {
    html = report::render(page_of(result));
  } catch (const std::invalid_argument& error) {  // so are InvalidInput
    throw refused(error.what());
  }
  write_text(output, html);
  say("report: {}\n", output);
  return ok;
}

}  // namespace

std::function<int()> add_report(CLI::App& program) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App& command = *program.add_subcommand(
      "report", "Make the report of a result that --json wrote, or of a page described in JSON");
  command.add_option("file", a->file, "What --json of tune, clean, train, meta or paper wrote, or a page")
      ->required()
      ->type_name("FILE.json");
  command.add_option("--output", a->output, "Where to write the report (default: FILE.html beside it)")
      ->type_name("FILE");
  command.footer(
      "Examples:\n"
      "  bilevel report result.json                     writes result.html\n"
      "  bilevel report result.json --output page.html");
  return [a] { return run(*a); };
}

}  // namespace app
