#include "problem_arguments.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

#include <bilevel/models/json.hpp>

#include "data_output.hpp"
#include "interrupt.hpp"
#include "terminal.hpp"

namespace app {

using bilevel::InvalidInput;

void ProblemArguments::add_to(CLI::App& command) {
  model.add_to(command);
  prior_width_ =
      command
          .add_option("--prior-width", model.options.prior_width,
                      "How far log λ of one feature is believed to lie from another's; inf: anywhere")
          ->type_name("X")
          ->capture_default_str();
  for (CLI::Option* option : command.get_options()) {
    if (option->get_name() == "--help" || option->get_name() == "data") continue;
    of_data_.push_back(option);
    if (option->get_group() == "Options") option->group("A model on your own data, as for bilevel tune");
  }
  command.add_flag("--list", list, "Print one line for each ready-made problem, its name first, and stop");
  command.add_option("--problem", problem, "Name of a ready-made problem (see --list)")->type_name("NAME");
  command
      .add_option("--theta", theta,
                  "Outer parameters: one number for all or one for each, separated by commas")
      ->delimiter(',')
      ->type_name("X,…");
  of_problems_.push_back(
      command.add_option("--size", settings.phi, "Number of inner variables φ (default: the problem's own)")
          ->type_name("N")
          ->check(positive));
  of_problems_.push_back(command
                             .add_option("--parameters", settings.theta,
                                         "Number of outer parameters θ (default: the problem's own)")
                             ->type_name("N")
                             ->check(positive));
  of_problems_.push_back(
      command.add_option("--samples", settings.samples, "Training samples, for problems with data")
          ->type_name("N")
          ->check(positive));
  of_problems_.push_back(
      command
          .add_option("--condition", settings.condition,
                      "Condition number of the inner Hessian, for problems that can choose it")
          ->type_name("K")
          ->check(positive));
  command.add_option(
      "--penalty", settings.penalty,
      "global or per-feature, for problems with penalties; of your own data also per-group, per-class "
      "(default: global)");
  command.add_option("--seed", settings.seed, "Seed of everything random")
      ->capture_default_str()
      ->transform(whole_number());
  command.add_option("--inner", inner, "Inner solver (default: newton up to 500 variables, lbfgs beyond)")
      ->type_name("NAME");
  command.add_option("--json", json, "Write the result as JSON to this file")->type_name("FILE");
}

bool ProblemArguments::listed() const {
  if (!list) return false;
  for (const auto& family : bilevel::problems::families()) say("{:<12}{}\n", family.name, family.summary);
  return true;
}

PosedProblem ProblemArguments::make(std::string_view command, const std::string& bounds, double seconds) {
  const auto refuse_any = [&](const std::vector<CLI::Option*>& options, std::string_view why) {
    for (const CLI::Option* option : options)
      if (option->count() > 0) throw InvalidInput(fmt::format("{}: {} {}", command, option->get_name(), why));
  };
  if (!inner.empty() && inner != "coordinate-descent") bilevel::inner_solver_named(inner);
  if (!model.given()) {
    refuse_any(of_data_, "is for data of your own: name the file, or leave it out");
    if (problem.empty())
      throw InvalidInput("--problem is missing, or a file with data; `--list` prints the names of problems");
    require_writable(json);
    catch_interrupts();
    return PosedProblem(bilevel::problems::make(problem, settings));
  }
  if (!problem.empty())
    throw InvalidInput(
        fmt::format("{}: --problem {} is a ready-made problem and {} is data: give one of the two", command,
                    problem, title()));
  refuse_any(of_problems_, "is for ready-made problems, and data have a size of their own");
  if (settings.penalty == "auto")
    throw InvalidInput(fmt::format(
        "{}: --penalty auto, which lets the data choose while they are tuned, is for bilevel tune; "
        "name one of global, per-feature, per-group, per-class",
        command));
  model.penalty = settings.penalty.empty() ? "global" : settings.penalty;
  model.options.seed = settings.seed;
  if (!bounds.empty()) {
    std::tie(model.options.lower, model.options.upper) = bounds_argument(bounds);
    model.options.bounds_given = true;
  }
  model.resolve(command);
  if (prior_width_->count() > 0 && model.options.penalty == bilevel::models::Penalty::global)
    throw InvalidInput(
        fmt::format("{}: --prior-width is for many penalties; --penalty global has one", command));
  require_outputs(command, {json}, model.inputs());
  bilevel::models::Prepared prepared = model.prepare();
  catch_interrupts();
  Progress progress;
  bilevel::models::TuneOptions options = model.options;
  options.seconds = seconds;
  bilevel::models::TuneControl control;
  control.progress = [&](const std::string& text) { progress.show(text); };
  control.interrupted = interrupted;
  bilevel::models::Posed posed = bilevel::models::pose(prepared, options, control);
  progress.show("");
  return PosedProblem(std::move(prepared), std::move(posed));
}

Eigen::VectorXd ProblemArguments::start(const PosedProblem& made) const {
  Eigen::VectorXd start = made.initial_theta();
  if (theta.empty()) return start;
  if (theta.size() != 1 && static_cast<bilevel::Index>(theta.size()) != start.size())
    throw InvalidInput(
        fmt::format("--theta has {} numbers; {} wants 1 or {}", theta.size(), title(), start.size()));
  for (bilevel::Index i = 0; i < start.size(); ++i) {
    start[i] = theta.size() == 1 ? theta[0] : theta[static_cast<std::size_t>(i)];
    if (!std::isfinite(start[i]))
      throw InvalidInput(fmt::format("--theta: element {} is {}, not a finite number", i, start[i]));
  }
  return start;
}

std::string ProblemArguments::identity(const PosedProblem& made) const {
  if (made.data()) return identity_of(*made.data(), model.options);
  return fmt::format("{} size={} parameters={} samples={} condition={} penalty={} seed={}", problem,
                     settings.phi, settings.theta, settings.samples, settings.condition, settings.penalty,
                     settings.seed);
}

Json ProblemArguments::describe(const PosedProblem& made) const {
  Json j;
  j["name"] = made.data() ? std::string(name(made.data()->kind())) : problem;
  j["phi_size"] = made.whole_phi_size();
  j["theta_size"] = made.initial_theta().size();
  j["seed"] = settings.seed;
  const auto given = [&](const char* key, const auto& value, bool set) {
    if (set) j[key] = value;
  };
  given("samples", settings.samples, settings.samples != 0);
  given("condition", settings.condition, settings.condition != 0);
  given("penalty", made.data() ? model.penalty : settings.penalty, made.data() || !settings.penalty.empty());
  given("folds", made.parts(), made.data() && made.parts() > 1);
  if (const auto& prior = made.prior(); prior.precision > 0)
    j["prior"] = {
        {"width", model.options.prior_width}, {"precision", prior.precision}, {"centre", prior.centre}};
  return j;
}

void ProblemArguments::describe_into(Json& j, const PosedProblem& made) const {
  j["problem"] = describe(made);
  if (!made.data()) return;
  j["data"] = Json::parse(bilevel::models::data_as_json(*made.data(), model.options));
  j["model"] = Json::parse(bilevel::models::model_as_json(*made.data(), model.options));
}

std::string positive(const std::string& text) {
  return finite_number(text) > 0 ? std::string() : fmt::format("{} must be a positive number", text);
}

std::vector<bilevel::Index> sizes_argument(const std::string& text, std::string_view how) {
  std::vector<bilevel::Index> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    long size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (next < end && (*next != '-' || next + 1 == end)))
      throw InvalidInput(fmt::format("--layers {}{}", text, how));
    sizes.push_back(size);
    at = next < end ? next + 1 : next;
  }
  return sizes;
}

std::pair<double, double> bounds_argument(const std::string& text) {
  const auto refuse = [&] {
    return bilevel::InvalidInput(fmt::format("--bounds {}: write LO:HI, two numbers with LO ≤ HI", text));
  };
  const std::size_t colon = text.find(':', 1);
  if (colon == std::string::npos) throw refuse();
  const auto parse = [&](const std::string& part) {
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(part, &used);
    } catch (const std::exception&) {
      throw refuse();
    }
    if (used != part.size()) throw refuse();
    return value;
  };
  const double low = parse(text.substr(0, colon)), high = parse(text.substr(colon + 1));
  if (!(low <= high) || low == bilevel::everywhere || high == -bilevel::everywhere) throw refuse();
  return {low, high};
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (text.empty() || stop != end || error != std::errc())
          return fmt::format("{} must be a whole number from 0 to {}", text,
                             std::numeric_limits<std::uint64_t>::max());
        text = fmt::format("{}", value);
        return std::string();
      },
      "");
}

double finite_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size();
  return whole && std::isfinite(value) ? value : bilevel::unknown;
}

std::string ProblemArguments::inner_name(const PosedProblem& made) const {
  if (const auto* own = made.own_inner()) {
    if (!inner.empty() && inner != own->name())
      throw InvalidInput(fmt::format("--inner {}: {} has no smooth inner loss and settles by {} only", inner,
                                     name(made.data()->model), own->name()));
    return std::string(own->name());
  }
  return !inner.empty() ? inner : made.phi_size() <= 500 ? "newton" : "lbfgs";
}

std::string default_adjoint(const PosedProblem& made) {
  return made.own_inner() ? "cg-preconditioned" : made.phi_size() <= 500 ? "direct" : "cg";
}

}  // namespace app
