#include <cmath>
#include <memory>

#include <bilevel/gradient/spectrum.hpp>
#include <bilevel/models/diagnosis.hpp>
#include "commands.hpp"
#include "interrupt.hpp"
#include "problem_arguments.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using Vec = Eigen::VectorXd;
using bilevel::Verdict;

struct DoctorArguments {
  ProblemArguments problem;
  double tolerance = 1e-10;
};

/// One thing that was looked at: a line on the screen and an object in the JSON.
struct Symptom {
  std::string name;
  bool healthy;
  std::string sentence;
};

/// The checks at the settled state and at a displaced one: a first derivative that vanishes at rest hides a
/// wrong factor there.
std::vector<Symptom> check(bilevel::Equilibrium<Vec>& problem, const Vec& phi, const Vec& theta,
                           std::uint64_t seed, Json& json) {
  Vec away = phi;
  bilevel::Space<Vec>::random(seed + 1, away);
  away = phi + 0.1 * (1 + phi.norm() / std::sqrt(static_cast<double>(phi.size()))) * away;
  const bilevel::CheckOptions options{.seed = seed};
  const bilevel::CheckReport settled = check_derivatives(problem, phi, theta, options);
  const bilevel::CheckReport displaced = check_derivatives(problem, away, theta, options);
  std::vector<Symptom> symptoms;
  json["checks"] = Json::array();
  for (const bilevel::Finding& finding : displaced.findings) {
    const bilevel::Finding* other = settled.find(finding.name);
    const bilevel::Finding& worse = other && !other->passed ? *other : finding;
    symptoms.push_back({std::string(worse.name), worse.passed, worse.sentence});
    json["checks"].push_back({{"name", worse.name},
                              {"passed", worse.passed},
                              {"error", number(worse.error)},
                              {"tolerance", number(worse.tolerance)},
                              {"sentence", worse.sentence}});
  }
  return symptoms;
}

/// What has kinks has no derivatives away from the settled state to be checked there: the gradient is held
/// against differences of whole solves along random directions.
Symptom check_by_solves(PosedProblem& problem, std::string_view inner, const Vec& theta, const Vec& gradient,
                        std::uint64_t seed, Json& json) {
  const Valuation valuation = problem.valuation(inner, 1e-12);
  bilevel::SettledValue<Vec> value(*valuation.equilibrium, *valuation.inner, false);
  // Truncation is of the order of its square, rounding of 1e-16 divided by it.
  constexpr double step = 1e-5, tolerance = 1e-6;
  double worst = 0;
  for (std::uint64_t k = 0; k < 3; ++k) {
    Vec direction(theta.size());
    bilevel::Space<Vec>::random(seed + k, direction);
    direction.normalize();
    const double above = value.at(theta + step * direction).value,
                 below = value.at(theta - step * direction).value;
    const double error = std::abs((above - below) / (2 * step) - gradient.dot(direction)) /
                         (gradient.norm() + std::abs(above) + std::abs(below));
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  const Symptom symptom{"gradient-difference", worst <= tolerance,
                        fmt::format("the gradient and differences of whole solves along 3 random directions "
                                    "differ by {:.2g} of their size",
                                    worst)};
  json["checks"] = Json::array({{{"name", symptom.name},
                                 {"passed", symptom.healthy},
                                 {"error", number(worst)},
                                 {"tolerance", number(tolerance)},
                                 {"sentence", symptom.sentence}}});
  return symptom;
}

/// What settles, and into what kind of point.
void examine_state(PosedProblem& problem, const Vec& phi, const Vec& theta, std::uint64_t seed,
                   std::vector<Symptom>& symptoms, Json& j) {
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  problem.part().linearise(phi, theta, 0, curvature);
  const bilevel::Spectrum spectrum = phi.size() <= 1000
                                         ? bilevel::dense_spectrum(bilevel::dense_matrix(*curvature, phi),
                                                                   problem.part().capabilities().symmetric)
                                         : bilevel::lanczos_spectrum<Vec>(*curvature, phi, seed);
  const double kappa = spectrum.largest / spectrum.smallest;
  const bool definite = spectrum.smallest > 0;
  const double rate = definite ? (kappa - 1) / (kappa + 1) : 1;
  symptoms.push_back(
      {"conditioning", definite && kappa < 1e12,
       definite ? fmt::format("eigenvalues of the Hessian in [{:.3g}, {:.3g}], condition number {:.3g}",
                              spectrum.smallest, spectrum.largest, kappa)
                : fmt::format("the Hessian is not positive definite: smallest eigenvalue {:.3g}",
                              spectrum.smallest)});
  symptoms.push_back(
      {"contraction", definite,
       !definite ? "gradient descent does not contract towards this state"
       : rate > 0
           ? fmt::format("gradient descent at its best step contracts by {:.6g} a step: {:.3g} steps a digit",
                         rate, std::log(10) / -std::log(rate))
           : std::string("gradient descent at its best step is there in one step")});
  j["conditioning"] = {{"smallest_eigenvalue", number(spectrum.smallest)},
                       {"largest_eigenvalue", number(spectrum.largest)},
                       {"condition_number", definite ? number(kappa) : Json(nullptr)},
                       {"contraction_rate", number(rate)}};
}

/// What a statistician would say of the data: nothing that makes a problem unfit, but what to expect of it.
Json say_findings(const bilevel::models::Prepared& prepared, const Vec& theta,
                  const bilevel::models::DiagnosisOptions& options) {
  Json list = Json::array();
  for (const bilevel::models::DataFinding& each : diagnose(prepared, theta, options)) {
    say("{} {:<20} {}\n", each.good ? coloured(Colour::green, "ok  ") : coloured(Colour::yellow, "note"),
        each.name, each.sentence);
    Json numbers = Json::object();
    for (const auto& [key, value] : each.numbers) numbers[key] = number(value);
    list.push_back({{"name", each.name},
                    {"good", each.good},
                    {"looked_at", each.looked_at},
                    {"sentence", each.sentence},
                    {"columns", each.columns},
                    {"numbers", std::move(numbers)}});
  }
  return list;
}

int run(DoctorArguments& a) {
  if (a.problem.listed()) return ok;
  PosedProblem problem = a.problem.make("doctor");
  const Vec theta = a.problem.start(problem);
  const bilevel::StopToken stop([] { return interrupted(); });
  problem.obey(&stop);
  const auto ended = [] {
    if (interrupted())
      say(stderr, "bilevel: doctor was interrupted; nothing is said of what it had not looked at\n");
    return interrupted();
  };
  bilevel::MinimiserOptions inner_options;
  inner_options.gradient_tolerance = a.tolerance;
  const std::string inner = a.problem.inner_name(problem);
  const Estimation made = problem.estimation(fmt::format("implicit-{}", default_adjoint(problem)), inner,
                                             {.adjoint = {.relative_tolerance = 1e-10}}, inner_options);
  const bilevel::Estimate<Vec> e = made.estimator->estimate(theta, {});
  if (ended()) return no;
  // Folds are alike: derivatives and curvature are those of the first.
  const Vec phi = problem.state_of_part(e.phi);
  Json examined;
  const std::uint64_t seed = a.problem.settings.seed;
  std::vector<Symptom> symptoms;
  if (problem.own_inner())
    symptoms = {check_by_solves(problem, inner, theta, e.gradient, seed, examined)};
  else
    symptoms = check(problem.part(), phi, theta, seed, examined);
  symptoms.push_back({"settles", succeeded(e.inner_status), e.message});
  examine_state(problem, phi, theta, seed, symptoms, examined);
  symptoms.push_back({"certificate", e.certificate.verdict == Verdict::trusted,
                      fmt::format("{} {}: gradient norm {:.4g}, error bound {:.3g}; {}",
                                  name(e.certificate.kind), name(e.certificate.verdict), e.gradient.norm(),
                                  e.certificate.bound, e.certificate.reason)});
  if (const auto known = problem.outer_gradient(theta)) {
    const double error = (e.gradient - *known).norm(), scale = std::max(known->norm(), 1e-300);
    // A gradient that vanishes (a start at the optimum) is compared with the bound's own scale.
    const bool right = error <= 1e-8 * scale || error <= 1e-12;
    symptoms.push_back(
        {"known-answer", right,
         fmt::format("differs from the closed form by {:.2g}, relative {:.2g}", error, error / scale)});
  }

  Json findings;
  if (problem.data()) findings = say_findings(*problem.data(), theta, {.seed = seed, .stop = &stop});
  if (ended()) return no;
  std::vector<std::string> failed;
  for (const Symptom& s : symptoms) {
    if (!s.healthy) failed.push_back(s.name);
    say("{} {:<20} {}\n", s.healthy ? coloured(Colour::green, "ok  ") : coloured(Colour::red, "FAIL"), s.name,
        s.sentence);
  }
  const bool healthy = failed.empty();
  std::string verdict =
      healthy ? "healthy: derivatives agree, the inner problem settles, and its outer gradient can be trusted"
              : fmt::format("not healthy: {}", fmt::join(failed, ", "));
  std::vector<std::string> noted;
  for (const Json& each : findings)
    if (!each.at("good")) noted.push_back(each.at("name"));
  if (!noted.empty())
    verdict += fmt::format("; of the data {} {} a look: {}", noted.size(),
                           noted.size() == 1 ? "note wants" : "notes want", fmt::join(noted, ", "));
  say("{}\n", coloured(healthy ? Colour::green : Colour::red, verdict));

  Json j;
  j["checks"] = examined["checks"];
  j["command"] = "doctor";
  j["version"] = bilevel::version;
  j["status"] = healthy ? "healthy" : "not-healthy";
  j["message"] = verdict;
  a.problem.describe_into(j, problem);
  j["theta"] = array(theta);
  j["phi_norm"] = number(e.phi.norm());
  j["outer_value"] = number(e.outer_value);
  j["gradient_norm"] = number(e.gradient.norm());
  j["iterations"] = e.inner_iterations;
  j["certificate"] = describe(e.certificate);
  j["cost"] = describe(e.cost);
  j["conditioning"] = examined["conditioning"];
  j["symptoms"] = Json::array();
  for (const Symptom& s : symptoms)
    j["symptoms"].push_back({{"name", s.name}, {"healthy", s.healthy}, {"sentence", s.sentence}});
  if (problem.data()) j["findings"] = std::move(findings);
  write_json(a.problem.json, j);
  return healthy ? ok : no;
}

}  // namespace

std::function<int()> add_doctor(CLI::App& program) {
  auto a = std::make_shared<DoctorArguments>();
  CLI::App& command = *program.add_subcommand("doctor",
                                              "Examine a problem or your data: derivatives, conditioning, "
                                              "certificate; collinear columns, separable classes");
  a->problem.add_to(command);
  command
      .add_option("--tolerance", a->tolerance, "Residual norm at which the inner problem counts as settled")
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  bilevel doctor houses.csv --target price --penalty per-feature   what a statistician would say of "
      "the data\n"
      "  bilevel doctor --problem pitchfork            healthy\n"
      "  bilevel doctor --problem pitchfork --theta 0  not healthy: three branches meet there, exit code 1");
  return [a] { return run(*a); };
}

}  // namespace app
