#include <algorithm>
#include <filesystem>
#include <memory>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/outer/search.hpp>

#include "commands.hpp"
#include "interrupt.hpp"
#include "kept_run.hpp"
#include "method_arguments.hpp"
#include "problem_arguments.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using Vec = Eigen::VectorXd;
using bilevel::InvalidInput;
using bilevel::Verdict;

struct SolveArguments {
  ProblemArguments problem;
  MethodArguments how;
  std::string method, adjoint, optimizer = "lbfgs", checkpoint, bounds;
  long budget = 0;
  double tolerance = 1e-6, inner_tolerance = 0, adjoint_tolerance = 0, step = 0, seconds = 0;
  long iterations = 200;
  bool resume = false, no_warm_start = false;
};

bool is_inner_solver(const std::string& name) {
  const auto& names = bilevel::inner_solver_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// LO:HI for every θ, or the problem's own bounds where nothing is said.
bilevel::Box box_of(const std::string& text, const PosedProblem& problem, bilevel::Index size) {
  if (text.empty()) {
    const auto own = problem.theta_bounds();
    return own ? bilevel::Box{Vec::Constant(size, own->first), Vec::Constant(size, own->second)}
               : bilevel::Box{};
  }
  const auto [low, high] = bounds_argument(text);
  return {Vec::Constant(size, low), Vec::Constant(size, high)};
}

bool trustworthy(const bilevel::Summary& s) {
  return succeeded(s.status) && s.certificate.verdict == Verdict::trusted;
}

void print(const bilevel::Summary& s, const bilevel::Box& box, const std::optional<Vec>& best) {
  say("{}: {}\n", coloured(trustworthy(s) ? Colour::green : Colour::red, name(s.status)), s.message);
  say("outer loss        {:.10g}\n", s.outer_value);
  if (!bilevel::is_search(s.optimizer)) say("gradient norm     {:.3g} (projected)\n", s.gradient_norm);
  say("certificate       {} {}, bound {:.3g}: {}\n", name(s.certificate.kind), name(s.certificate.verdict),
      s.certificate.bound, s.certificate.reason);
  if (!s.choice.empty()) say("method            {}\n", s.choice);
  if (s.theta.size() <= 8) {
    say("theta             {:.8g}\n", fmt::join(s.theta, ", "));
  } else {
    say("theta             {} numbers in [{:.6g}, {:.6g}]\n", s.theta.size(), s.theta.minCoeff(),
        s.theta.maxCoeff());
  }
  const auto at_bound = [&](const Vec& bound) {
    return bound.size() ? (s.theta.array() == bound.array()).count() : 0;
  };
  if (box.lower.size() || box.upper.size())
    say("at a bound        {} at the lower, {} at the upper of {}\n", at_bound(box.lower),
        at_bound(box.upper), s.theta.size());
  if (best) say("known optimum     at distance {:.3g}\n", (s.theta - *best).norm());
  say("cost              {} iteration{}, {} evaluation{}, {:.0f} gradient equivalents, {:.3g} s\n",
      s.iterations, s.iterations == 1 ? "" : "s", s.evaluations, s.evaluations == 1 ? "" : "s",
      s.cost.gradient_equivalents(), s.seconds);
}

/// What the command line comes to for one problem.
struct Plan {
  bool searching = false;
  std::string method, inner;
  bilevel::EstimatorOptions told;
  bilevel::SolveOptions options;
};

/// Options that contradict each other, or would change nothing.
void refuse_contradictions(const SolveArguments& a) {
  const auto refuse_unless = [](bool fine, std::string_view what) {
    if (!fine) throw InvalidInput(std::string(what));
  };
  const bool searching = bilevel::is_search(a.optimizer);
  const std::string method =
      a.method.empty() ? bilevel::estimator_name(a.adjoint.empty() ? "direct" : a.adjoint) : a.method;
  refuse_unless(a.step == 0 || (a.optimizer != "lbfgs" && !searching),
                "--step is for gradient-descent and adam; lbfgs and the searches find their own");
  const auto gradient_optimizers = bilevel::optimizer_names();
  refuse_unless(searching || std::count(gradient_optimizers.begin(), gradient_optimizers.end(), a.optimizer),
                fmt::format("there is no optimiser '{}'; there are: {}, and by values alone {}", a.optimizer,
                            fmt::join(gradient_optimizers, ", "), fmt::join(bilevel::search_names(), ", ")));
  const SolveArguments unsaid;
  refuse_unless(!searching || (a.iterations == unsaid.iterations && a.tolerance == unsaid.tolerance),
                "--iterations and --tolerance are for optimisers that use gradients; a search has --budget");
  refuse_unless(a.budget == 0 || searching,
                "--budget is for searches; the optimisers that use gradients have --iterations");
  refuse_unless(
      !searching || (a.checkpoint.empty() && !a.resume),
      "--checkpoint and --resume are for optimisers that use gradients; a search cannot be resumed");
  refuse_unless(
      !searching || (a.method.empty() && a.adjoint.empty() && a.adjoint_tolerance == 0),
      "--method, --adjoint and --adjoint-tolerance are for optimisers that use gradients; a search has "
      "no use for them");
  refuse_unless(a.method.empty() || a.adjoint.empty(),
                "--adjoint NAME is short for --method implicit-NAME: give one of the two");
  refuse_unless(
      a.how.beta == 0 || (!searching && nudges(method)),
      fmt::format("--beta is for the ep-… methods; {} does not take it", searching ? a.optimizer : method));
  const std::string& step = a.problem.inner;
  refuse_unless(searching || !differentiates_steps(method) || step.empty() || !is_inner_solver(step) ||
                    bilevel::differentiable_step(step),
                fmt::format("{} differentiates the inner steps, and those of {} cannot be differentiated: "
                            "take --inner gradient-descent, heavy-ball, nesterov or adam, or leave --inner "
                            "out for nesterov",
                            method, step));
  refuse_unless(!same_file(a.checkpoint, a.problem.json), "--json and --checkpoint name the same file");
  refuse_unless(!a.resume || !a.checkpoint.empty(),
                "--resume: name the file that keeps the run by --checkpoint FILE");
  if (!searching) bilevel::estimator_named(method);
}

Plan plan_of(const SolveArguments& a, const PosedProblem& problem, const Vec& start) {
  Plan plan;
  plan.searching = bilevel::is_search(a.optimizer);
  const std::string adjoint = a.adjoint.empty() ? default_adjoint(problem) : a.adjoint;
  plan.method = a.method.empty() ? bilevel::estimator_name(adjoint) : a.method;
  plan.inner = a.problem.inner_name(problem);
  plan.told = a.how.options(plan.inner, a.problem.settings.seed);
  bilevel::SolveOptions& options = plan.options;
  options.gradient_tolerance = a.tolerance;
  options.max_iterations = a.iterations;
  options.box = box_of(a.bounds, problem, start.size());
  options.warm_start = !a.no_warm_start;
  options.trust = a.how.trust;
  options.checkpoint = a.checkpoint;
  options.identity = fmt::format("{} inner={} method={} beta={}", a.problem.identity(problem),
                                 a.problem.inner, plan.method, a.how.beta);
  if (a.inner_tolerance > 0 || a.adjoint_tolerance > 0)
    options.tolerances =
        bilevel::ToleranceSchedule::fixed(a.inner_tolerance > 0 ? a.inner_tolerance : 1e-10,
                                          a.adjoint_tolerance > 0 ? a.adjoint_tolerance : 1e-10);
  if (!a.checkpoint.empty()) {
    const bilevel::KeptRun kept(a.checkpoint);
    kept.require_place(a.resume, options.identity);
    say_where_none_is_kept(kept, a.resume);
    options.resume = a.resume && std::filesystem::exists(a.checkpoint);
  }
  return plan;
}

bilevel::Summary by_gradients(const SolveArguments& a, const Plan& plan, PosedProblem& problem,
                              const Vec& start) {
  const Estimation estimation = problem.estimation(plan.method, plan.inner, plan.told);
  const auto optimizer = bilevel::make_optimizer(a.optimizer, a.step);
  return bilevel::solve<Vec>(*estimation.estimator, *optimizer, start, plan.options);
}

/// `seconds` are those that are left; 0: no limit.
bilevel::Summary by_values(const SolveArguments& a, const Plan& plan, PosedProblem& problem, const Vec& start,
                           double seconds) {
  const Valuation valuation = problem.valuation(plan.inner, a.inner_tolerance);
  bilevel::SettledValue<Vec> value(*valuation.equilibrium, *valuation.inner, !a.no_warm_start);
  bilevel::SearchOptions wanted;
  if (a.budget > 0) wanted.max_evaluations = a.budget;
  if (seconds > 0) wanted.max_seconds = seconds;
  wanted.box = plan.options.box;
  wanted.seed = a.problem.settings.seed;
  wanted.callback = plan.options.callback;
  return bilevel::search<Vec>(a.optimizer, value, start, wanted);
}

Json result_of(const SolveArguments& a, const Plan& plan, const PosedProblem& problem,
               const bilevel::Summary& s) {
  Json j;
  j["command"] = "solve";
  j["version"] = bilevel::version;
  j["status"] = name(s.status);
  j["message"] = s.message;
  a.problem.describe_into(j, problem);
  j["theta"] = array(s.theta);
  j["phi_norm"] = s.phi.size() ? number(s.phi.norm()) : Json(nullptr);
  j["outer_value"] = number(s.outer_value);
  j["gradient_norm"] = number(s.gradient_norm);
  j["at_kink"] = s.at_kink;
  j["iterations"] = s.iterations;
  j["evaluations"] = s.evaluations;
  j["certificate"] = describe(s.certificate);
  j["trusted_elements"] = trusted_elements(s.certificate, s.gradient);
  j["cost"] = describe(s.cost);
  j["seconds"] = s.seconds;
  const auto* implicit = std::get_if<bilevel::ImplicitMethod>(bilevel::find_estimator(plan.method));
  const bool solved = !plan.searching && implicit && solves(implicit->adjoint);
  j["methods"] = {
      {"inner", !plan.searching && differentiates_steps(plan.method) ? plan.told.step : plan.inner},
      {"adjoint", solved ? name(implicit->adjoint) : "none"},
      {"estimator", s.estimator},
      {"optimizer", s.optimizer}};
  if (!s.choice.empty()) j["methods"]["choice"] = s.choice;
  j["tolerances"] = {{"gradient", number(s.asked_gradient_tolerance)},
                     {"gradient_used", number(s.used_gradient_tolerance)},
                     {"inner_used", number(s.used_inner_tolerance)},
                     {"adjoint_used", number(s.used_adjoint_tolerance)}};
  j["bounds"] = {{"lower", array(plan.options.box.lower)}, {"upper", array(plan.options.box.upper)}};
  j["resumed"] = s.resumed;
  j["history"] = describe(s.history);
  return j;
}

int run(SolveArguments& a) {
  if (a.problem.listed()) return ok;
  refuse_contradictions(a);
  PosedProblem problem = a.problem.make("solve", a.bounds, a.seconds);
  const Vec start = a.problem.theta.empty() ? problem.start() : a.problem.start(problem);
  require_writable(a.checkpoint);
  Plan plan = plan_of(a, problem, start);

  Progress progress;
  // What finding the prior took is no longer there.
  const double seconds = a.seconds > 0 ? std::max(a.seconds - problem.seconds(), 1e-9) : 0;
  const bilevel::StopToken stop([] { return interrupted(); }, seconds);
  problem.obey(&stop);
  plan.options.stop = &stop;
  plan.options.callback = [&](const bilevel::HistoryEntry& h) {
    progress.show(plan.searching
                      ? fmt::format("improvement {:>4}  outer loss {:.8g}", h.iteration, h.outer_value)
                      : fmt::format("iteration {:>4}  outer loss {:.8g}  gradient {:.2e} ± {:.1e} ({})",
                                    h.iteration, h.outer_value, h.gradient_norm, h.bound, name(h.verdict)));
    return !interrupted();
  };
  const bilevel::Summary s =
      plan.searching ? by_values(a, plan, problem, start, seconds) : by_gradients(a, plan, problem, start);
  progress.show("");

  print(s, plan.options.box, problem.best_theta());
  write_json(a.problem.json, result_of(a, plan, problem, s));
  if (!a.checkpoint.empty() && !unfinished(s.status)) bilevel::KeptRun(a.checkpoint).forget();
  return trustworthy(s) ? ok : no;
}

}  // namespace

std::function<int()> add_solve(CLI::App& program) {
  auto a = std::make_shared<SolveArguments>();
  CLI::App& command = *program.add_subcommand("solve",
                                              "Learn θ of a ready-made problem, or the penalties of a model "
                                              "on your data, by certified gradient descent");
  a->problem.add_to(command);
  a->how.add_to(command);
  command
      .add_option("--method", a->method,
                  "Estimator of the outer gradient (default: implicit-direct up to 500 variables, "
                  "implicit-cg beyond)")
      ->type_name("NAME");
  command.add_option("--adjoint", a->adjoint, "Short for --method implicit-NAME")->type_name("NAME");
  command
      .add_option(
          "--optimizer", a->optimizer,
          fmt::format("By gradients: {}; by values alone, without a certificate: {}",
                      fmt::join(bilevel::optimizer_names(), ", "), fmt::join(bilevel::search_names(), ", ")))
      ->capture_default_str();
  command.add_option("--budget", a->budget, "Whole solves that a search may make (default: 200)")
      ->type_name("N")
      ->check(positive);
  command.add_option("--step", a->step, "Step of gradient-descent (0: searched for) or adam")
      ->type_name("X")
      ->check(positive);
  command.add_option("--tolerance", a->tolerance, "Stop at this norm of the projected outer gradient")
      ->capture_default_str();
  command
      .add_option("--inner-tolerance", a->inner_tolerance,
                  "Fix the inner residual norm (default: tightens as the outer gradient shrinks)")
      ->type_name("X")
      ->check(positive);
  command
      .add_option("--adjoint-tolerance", a->adjoint_tolerance,
                  "Fix the adjoint's relative residual (default: tightens likewise)")
      ->type_name("X")
      ->check(positive);
  command.add_option("--iterations", a->iterations, "Most outer iterations")->capture_default_str();
  command.add_option("--seconds", a->seconds, "Most seconds (default: no limit)")
      ->type_name("X")
      ->check(positive);
  command
      .add_option("--bounds", a->bounds,
                  "Keep every θ within LO:HI (default: the problem's own bounds, -10:10 for log-penalties)")
      ->type_name("LO:HI");
  command.add_flag("--no-warm-start", a->no_warm_start,
                   "Start every inner solve from the problem's own start");
  command
      .add_option("--checkpoint", a->checkpoint,
                  "Keep the run in this file, replaced before every evaluation")
      ->type_name("FILE");
  command.add_flag("--resume", a->resume, "Go on from the checkpoint");
  command.footer(fmt::format(
      "Inner solvers: {}\nEstimators: {}\n\nExamples:\n"
      "  bilevel solve --problem logistic --penalty per-feature --bounds=-8:4\n"
      "  bilevel solve --problem quadratic --size 2000 --inner lbfgs --adjoint cg --checkpoint run.ckpt\n"
      "  bilevel solve --problem quadratic --size 2000 --inner lbfgs --adjoint cg --checkpoint run.ckpt "
      "--resume\n"
      "  bilevel solve --problem log-cosh --method ep-central\n"
      "  bilevel solve houses.csv --target price --model ridge --penalty per-feature --method ep-central\n"
      "  bilevel solve --problem ridge --penalty global --optimizer nlopt-bobyqa --budget 40",
      fmt::join(bilevel::inner_solver_names(), ", "), fmt::join(bilevel::estimator_names(), ", ")));
  return [a] { return run(*a); };
}

}  // namespace app
