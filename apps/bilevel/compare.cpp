#include <algorithm>
#include <cmath>
#include <memory>

#include "commands.hpp"
#include "problem_arguments.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using Vec = Eigen::VectorXd;
using bilevel::Verdict;

struct CompareArguments {
  ProblemArguments problem;
  std::vector<std::string> methods;
  double tolerance = 1e-12;
};

struct Row {
  std::string method;
  bilevel::Estimate<Vec> estimate;
  double absolute_error = bilevel::unknown, relative_error = bilevel::unknown, cosine = bilevel::unknown;
  std::string reason;  ///< why it could not be tried
};

Json describe_row(const Row& row) {
  Json j;
  j["method"] = row.method;
  if (!row.reason.empty()) {
    j["reason"] = row.reason;
    return j;
  }
  const auto& e = row.estimate;
  j["relative_error"] = number(row.relative_error);
  j["absolute_error"] = number(row.absolute_error);
  j["cosine"] = number(row.cosine);
  j["bound"] = number(e.certificate.bound);
  j["kind"] = name(e.certificate.kind);
  j["verdict"] = name(e.certificate.verdict);
  j["gradient_equivalents"] = e.cost.gradient_equivalents();
  j["bytes"] = e.cost.bytes;
  j["seconds"] = e.cost.seconds();
  j["status"] = name(e.status);
  j["message"] = e.message;
  j["cost"] = describe(e.cost);
  return j;
}

Colour colour_of(Verdict verdict) {
  return verdict == Verdict::trusted    ? Colour::green
         : verdict == Verdict::doubtful ? Colour::yellow
                                        : Colour::red;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{}\n", coloured(Colour::bold, fmt::format("{:<26}{:>9}{:>9}{:>9}{:>9}  {:<10}{:<10}{:>8}{:>8}",
                                                        "method", "rel.err", "cosine", "error", "bound",
                                                        "kind", "verdict", "grad.eq", "seconds")));
  for (const Row& row : rows) {
    if (!row.reason.empty()) continue;
    const auto& c = row.estimate.certificate;
    const std::string cosine = std::isnan(row.cosine) ? "-" : fmt::format("{:.5f}", row.cosine);
    fmt::print("{:<26}{:>9.1e}{:>9}{:>9.1e}{:>9.1e}  {:<10}{}{:>8.0f}{:>8.0e}\n", row.method,
               row.relative_error, cosine, row.absolute_error, c.bound, name(c.kind),
               coloured(colour_of(c.verdict), fmt::format("{:<10}", name(c.verdict))),
               row.estimate.cost.gradient_equivalents(), row.estimate.cost.seconds());
  }
  for (const Row& row : rows)
    if (!row.reason.empty()) fmt::print("{:<26}not applicable: {}\n", row.method + " ", row.reason);
}

int run(const CompareArguments& a) {
  if (a.problem.listed()) return ok;
  const std::vector<std::string> known = bilevel::estimator_names();
  const std::vector<std::string>& methods = a.methods.empty() ? known : a.methods;
  for (const std::string& method : methods)
    if (std::find(known.begin(), known.end(), method) == known.end())
      throw bilevel::InvalidInput(fmt::format("--methods: there is no estimator '{}'; there are: {}", method,
                                              fmt::join(known, ", ")));
  const auto problem = a.problem.make();
  const Vec theta = a.problem.start(*problem);
  const bilevel::Index size = problem->initial_phi().size();
  bilevel::MinimiserOptions inner_options;
  inner_options.gradient_tolerance = a.tolerance;
  const std::string inner_name = a.problem.inner_name(size);
  const auto settle = [&](std::string_view method) {
    const auto inner = bilevel::make_inner_solver<Vec>(inner_name, *problem, inner_options);
    return bilevel::make_estimator<Vec>(method, *problem, *inner,
                                        {.relative_tolerance = std::max(a.tolerance, 1e-14)})
        ->estimate(theta, {});
  };

  std::string truth_source = "closed form";
  std::optional<Vec> truth = problem->outer_gradient(theta);
  if (!truth) {
    const char* reference = size <= bilevel::Exact<Vec>::limit ? "exact" : "implicit-cg";
    truth_source = fmt::format("{} at tolerance 1e-13", reference);
    inner_options.gradient_tolerance = std::min(a.tolerance, 1e-13);
    const bilevel::Estimate<Vec> tight = settle(reference);
    inner_options.gradient_tolerance = a.tolerance;
    truth = tight.gradient;
    if (tight.certificate.verdict == Verdict::untrusted) {
      fmt::print(stderr,
                 "bilevel: there is nothing to compare with: no closed form, and the reference gradient "
                 "cannot be trusted ({})\n",
                 tight.certificate.reason);
      return no;
    }
  }
  if (!truth->allFinite()) {
    fmt::print(
        stderr,
        "bilevel: the gradient does not exist or is not finite at this theta: nothing to compare with\n");
    return no;
  }

  std::vector<Row> rows;
  for (const std::string& method : methods) {
    Row row;
    row.method = method;
    try {
      row.estimate = settle(method);
      const Vec& g = row.estimate.gradient;
      row.absolute_error = (g - *truth).norm();
      row.relative_error = truth->norm() > 0 ? row.absolute_error / truth->norm() : row.absolute_error;
      row.cosine =
          g.norm() > 0 && truth->norm() > 0 ? g.dot(*truth) / (g.norm() * truth->norm()) : bilevel::unknown;
    } catch (const bilevel::InvalidInput& refusal) {
      row.reason = refusal.what();
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& x, const Row& y) {
    const auto key = [](const Row& r) {
      return std::isnan(r.relative_error) ? bilevel::everywhere : r.relative_error;
    };
    return key(x) < key(y);
  });

  fmt::print("{}: {} inner variables, {} outer parameters; truth: {} (norm {:.6g})\n\n", a.problem.problem,
             size, theta.size(), truth_source, truth->norm());
  print(rows);
  Json j;
  j["command"] = "compare";
  j["version"] = bilevel::version;
  j["problem"] = a.problem.describe(*problem);
  j["theta"] = array(theta);
  j["truth"] = {{"source", truth_source}, {"gradient", array(*truth)}, {"norm", truth->norm()}};
  j["inner"] = inner_name;
  j["tolerance"] = a.tolerance;
  j["estimates"] = Json::array();
  for (const Row& row : rows) j["estimates"].push_back(describe_row(row));
  write_json(a.problem.json, j);
  if (!a.problem.json.empty()) fmt::print("\nwritten to {}\n", a.problem.json);
  return ok;
}

}  // namespace

std::function<int()> add_compare(CLI::App& program) {
  auto a = std::make_shared<CompareArguments>();
  CLI::App& command =
      *program.add_subcommand("compare", "Every estimator on one problem: error, certificate, cost");
  a->problem.add_to(command);
  command.add_option("--methods", a->methods, "Estimators to compare, separated by commas (default: all)")
      ->delimiter(',')
      ->type_name("NAME,…");
  command.add_option("--tolerance", a->tolerance, "Inner residual norm and adjoint relative residual")
      ->capture_default_str();
  command.footer(fmt::format(
      "Estimators: {}\n\nExamples:\n  bilevel compare --problem ridge\n"
      "  bilevel compare --problem quadratic --condition 1e6 --methods implicit-cg,implicit-neumann",
      fmt::join(bilevel::estimator_names(), ", ")));
  return [a] { return run(*a); };
}

}  // namespace app
