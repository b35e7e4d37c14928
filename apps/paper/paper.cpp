#include <algorithm>
#include <memory>

#include "bilevel/commands.hpp"
#include "bilevel/interrupt.hpp"
#include "bilevel/problem_arguments.hpp"
#include "bilevel/terminal.hpp"
#include "claims/execute.hpp"
#include "report/page.hpp"
#include "report/paper_page.hpp"

namespace app {
namespace {

struct PaperArguments {
  bool list = false;
  std::vector<std::string> names;
  std::uint64_t seed = 1;
  std::string planted;
  std::string json, report;
};

std::vector<const claims::Claim*> chosen(std::vector<std::string>& names) {
  for (std::string& name : names) std::erase_if(name, [](char c) { return c == ' ' || c == '\t'; });
  if (names.empty()) return claims::all();
  for (const std::string& name : names) {
    const auto& all = claims::all();
    if (std::none_of(all.begin(), all.end(), [&](const claims::Claim* c) { return name == c->name; }))
      throw bilevel::InvalidInput(
          fmt::format("--claim: there is no claim '{}'; bilevel paper --list names them all", name));
  }
  std::vector<const claims::Claim*> some;
  for (const claims::Claim* claim : claims::all())
    if (std::find(names.begin(), names.end(), claim->name) != names.end()) some.push_back(claim);
  return some;
}

claims::Defect defect_of(std::string_view name) {
  for (const auto& [other, defect] : claims::defects())
    if (name == other) return defect;
  return claims::Defect::none;
}

/// What is wrong with the name of a defect, or nothing.
std::string unknown_defect(const std::string& name) {
  if (defect_of(name) != claims::Defect::none) return {};
  std::vector<std::string_view> known;
  for (const auto& [other, defect] : claims::defects()) known.push_back(other);
  return fmt::format("there is no defect '{}'; there are: {}", name, fmt::join(known, ", "));
}

int list_claims() {
  for (const claims::Claim* claim : claims::all())
    print_wrapped(fmt::format("{:<28}", claim->name), fmt::format("{} ({})", claim->title, claim->place), 29);
  return ok;
}

constexpr std::size_t name_width = 28, cell_width = 31;

/// One row: long cells go on below themselves.
void print_row(std::string_view name, std::string_view expected, std::string_view measured,
               const std::string& end) {
  const auto line_of = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() ? std::string_view(lines[i]) : std::string_view();
  };
  const auto left = wrapped(expected, cell_width), right = wrapped(measured, cell_width);
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto cell = [](std::string_view text, std::size_t width) {
      return std::string(text) + std::string(width - std::min(width, columns(text)), ' ');
    };
    std::string line = cell(i == 0 ? name : "", name_width) + " " + cell(line_of(left, i), cell_width) + " ";
    line += cell(line_of(right, i), cell_width) + " " + (i == 0 ? end : "");
    write_raw(stdout, line.substr(0, line.find_last_not_of(' ') + 1) + "\n");
  }
}

void print_row(const claims::Executed& e) {
  const bool holds = e.outcome.holds();
  print_row(e.claim->name, e.claim->expected, e.outcome.measured,
            coloured(holds ? Colour::green : Colour::red, holds ? "holds" : "FAILS").text);
  std::fflush(stdout);
}

void print_failures(const std::vector<claims::Executed>& executed) {
  for (const claims::Executed& e : executed)
    for (const auto& check : e.outcome.checks())
      if (!check.holds)
        print_wrapped(fmt::format("{}:", e.claim->name),
                      fmt::format("{}: expected {}, measured {}", check.what, check.expected, check.measured),
                      4);
}

int run(PaperArguments a) {
  if (a.list) return list_claims();
  require_writable(a.json);
  require_writable(a.report);
  if (same_file(a.json, a.report)) throw bilevel::InvalidInput("--json and --report name the same file");
  const std::vector<const claims::Claim*> wanted = chosen(a.names);
  claims::Laboratory laboratory(a.seed, defect_of(a.planted));

  catch_interrupts();
  say("seed {}{}\n", a.seed, a.planted.empty() ? "" : ", planted: " + a.planted);
  print_row("claim", "expected", "measured", "verdict");
  std::vector<claims::Executed> executed;
  {
    Progress progress;
    for (const claims::Claim* claim : wanted) {
      if (interrupted()) break;
      progress.show(fmt::format("{} of {}: {}", executed.size() + 1, wanted.size(), claim->name));
      executed.push_back(claims::execute(*claim, laboratory));
      progress.show("");
      print_row(executed.back());
    }
  }

  const auto holding = static_cast<std::size_t>(std::count_if(
      executed.begin(), executed.end(), [](const claims::Executed& e) { return e.outcome.holds(); }));
  const bool whole = executed.size() == wanted.size();
  const bool all_hold = whole && holding == executed.size();
  double seconds = 0;
  Json j{{"command", "paper"},   {"version", bilevel::version}, {"seed", a.seed},       {"asked", a.names},
         {"planted", a.planted}, {"holds", all_hold},           {"interrupted", !whole}};
  Json list = Json::array();
  for (const claims::Executed& e : executed) {
    seconds += e.seconds;
    list.push_back(claims::describe(e));
  }
  j["seconds"] = seconds;
  j["claims"] = std::move(list);

  say("\n");
  print_failures(executed);
  say("{}\n", coloured(all_hold ? Colour::green : Colour::red,
                       fmt::format("{} of {} claims hold ({:.1f} s)", holding, wanted.size(), seconds)));
  if (!whole) say("interrupted: {} claims were not tried\n", wanted.size() - executed.size());
  write_json(a.json, j);
  if (!a.json.empty()) say("json: {}\n", a.json);
  if (!a.report.empty()) {
    write_text(a.report, report::render(report::paper_page(j)));
    say("report: {}\n", a.report);
  }
  return all_hold ? ok : no;
}

}  // namespace

std::function<int()> add_paper(CLI::App& program) {
  auto a = std::make_shared<PaperArguments>();
  CLI::App& command =
      *program.add_subcommand("paper", "Put every claim of the paper to the test, against its ground truth");
  command.add_flag("--list", a->list, "List the claims");
  command.add_option("--claim", a->names, "Only these, separated by commas (default: all)")
      ->delimiter(',')
      ->type_name("NAME,…");
  command.add_option("--seed", a->seed, "Of everything random")
      ->capture_default_str()
      ->type_name("N")
      ->transform(whole_number());
  command.add_option("--json", a->json, "Write everything measured to this file")->type_name("FILE");
  command.add_option("--report", a->report, "Write a page with figures, tables and claims")
      ->type_name("FILE.html");
  command
      .add_option(
          "--plant", a->planted,
          "Plant a mistake, to see the claims about it fail: cross-sign (of ∂θ∂φ L_in), hessian-scale "
          "(∂φ² L_in halved), adjoint-scale (π doubled), nudge-scale (equilibrium propagation doubled), "
          "stencil (its points shifted by one), not-a-number (every gradient)")
      ->type_name("DEFECT")
      ->check(unknown_defect);
  command.footer(
      "Ends with 1 if a claim fails.\n\nExamples:\n"
      "  bilevel paper --report paper.html\n"
      "  bilevel paper --claim branching,implicit-bound --seed 7\n"
      "  bilevel paper --plant cross-sign            most claims about implicit differentiation fail");
  return [a] { return run(*a); };
}

}  // namespace app
