#include <cmath>
#include <memory>

#include "commands.hpp"
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
std::vector<Symptom> check(bilevel::problems::ReferenceProblem& problem, const Vec& phi, const Vec& theta,
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

int run(const DoctorArguments& a) {
  if (a.problem.listed()) return ok;
  const auto problem = a.problem.make();
  const Vec theta = a.problem.start(*problem);
  const bilevel::Index size = problem->initial_phi().size();
  bilevel::MinimiserOptions inner_options;
  inner_options.gradient_tolerance = a.tolerance;
  const std::string inner_name = a.problem.inner_name(size);
  const auto inner = bilevel::make_inner_solver<Vec>(inner_name, *problem, inner_options);
  const auto estimator =
      bilevel::make_estimator<Vec>(fmt::format("implicit-{}", default_adjoint(size)), *problem, *inner,
                                   bilevel::EstimatorOptions{.adjoint = {.relative_tolerance = 1e-10}});
  const bilevel::Estimate<Vec> e = estimator->estimate(theta, {});
  Json j;
  std::vector<Symptom> symptoms = check(*problem, e.phi, theta, a.problem.settings.seed, j);

  // What settles, and into what kind of point.
  symptoms.push_back({"settles", succeeded(e.inner_status), e.message});
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  problem->linearise(e.phi, theta, 0, curvature);
  const bilevel::Spectrum spectrum =
      size <= 1000 ? bilevel::dense_spectrum(bilevel::dense_matrix(*curvature, e.phi), true)
                   : bilevel::lanczos_spectrum<Vec>(*curvature, e.phi, a.problem.settings.seed);
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
  symptoms.push_back({"certificate", e.certificate.verdict == Verdict::trusted,
                      fmt::format("{} {}: gradient norm {:.4g}, error bound {:.3g}; {}",
                                  name(e.certificate.kind), name(e.certificate.verdict), e.gradient.norm(),
                                  e.certificate.bound, e.certificate.reason)});
  if (const auto known = problem->outer_gradient(theta)) {
    const double error = (e.gradient - *known).norm(), scale = std::max(known->norm(), 1e-300);
    // A gradient that vanishes (a start at the optimum) is compared with the bound's own scale.
    const bool right = error <= 1e-8 * scale || error <= 1e-12;
    symptoms.push_back(
        {"known-answer", right,
         fmt::format("differs from the closed form by {:.2g}, relative {:.2g}", error, error / scale)});
  }

  bool healthy = true;
  for (const Symptom& s : symptoms) {
    healthy = healthy && s.healthy;
    say("{} {:<20} {}\n", s.healthy ? coloured(Colour::green, "ok  ") : coloured(Colour::red, "FAIL"), s.name,
        s.sentence);
  }
  std::string verdict =
      "healthy: derivatives agree, the inner problem settles, and its outer gradient can be trusted";
  if (!healthy) {
    std::vector<std::string> failed;
    for (const Symptom& s : symptoms)
      if (!s.healthy) failed.push_back(s.name);
    verdict = fmt::format("not healthy: {}", fmt::join(failed, ", "));
  }
  say("{}\n", coloured(healthy ? Colour::green : Colour::red, verdict));

  j["command"] = "doctor";
  j["version"] = bilevel::version;
  j["status"] = healthy ? "healthy" : "not-healthy";
  j["message"] = verdict;
  j["problem"] = a.problem.describe(*problem);
  j["theta"] = array(theta);
  j["phi_norm"] = number(e.phi.norm());
  j["outer_value"] = number(e.outer_value);
  j["gradient_norm"] = number(e.gradient.norm());
  j["iterations"] = e.inner_iterations;
  j["certificate"] = describe(e.certificate);
  j["cost"] = describe(e.cost);
  j["conditioning"] = {{"smallest_eigenvalue", number(spectrum.smallest)},
                       {"largest_eigenvalue", number(spectrum.largest)},
                       {"condition_number", definite ? number(kappa) : Json(nullptr)},
                       {"contraction_rate", number(rate)}};
  j["symptoms"] = Json::array();
  for (const Symptom& s : symptoms)
    j["symptoms"].push_back({{"name", s.name}, {"healthy", s.healthy}, {"sentence", s.sentence}});
  write_json(a.problem.json, j);
  return healthy ? ok : no;
}

}  // namespace

std::function<int()> add_doctor(CLI::App& program) {
  auto a = std::make_shared<DoctorArguments>();
  CLI::App& command = *program.add_subcommand(
      "doctor", "Examine a problem: derivatives, conditioning, contraction, certificate");
  a->problem.add_to(command);
  command
      .add_option("--tolerance", a->tolerance, "Residual norm at which the inner problem counts as settled")
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  bilevel doctor --problem pitchfork            healthy\n"
      "  bilevel doctor --problem pitchfork --theta 0  not healthy: three branches meet there, exit code 1");
  return [a] { return run(*a); };
}

}  // namespace app
