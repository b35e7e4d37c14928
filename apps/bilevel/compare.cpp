#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/exact.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "interrupt.hpp"
#include "method_arguments.hpp"
#include "problem_arguments.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using Vec = Eigen::VectorXd;
using bilevel::Verdict;

struct CompareArguments {
  ProblemArguments problem;
  MethodArguments method;
  std::vector<std::string> methods;
  std::vector<double> tolerances{1e-12};
};

/// One estimator at one tolerance, beside the truth.
struct Row {
  std::string method;
  bilevel::Estimate<Vec> estimate;
  double absolute_error = bilevel::unknown, relative_error = bilevel::unknown, cosine = bilevel::unknown;
  std::string reason;  ///< why it could not be tried
};

struct Truth {
  std::string source;
  Vec gradient;
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
  j["trust"] = e.certificate.trust;
  j["trusted_elements"] = trusted_elements(e.certificate, e.gradient);
  j["certificate_reason"] = e.certificate.reason;
  j["gradient_equivalents"] = e.cost.gradient_equivalents();
  j["products"] = e.cost.hessian_products + e.cost.cross_products;
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

/// In four characters and a unit: 999, 1.2K, 340M.
std::string short_bytes(std::size_t bytes) {
  double value = static_cast<double>(bytes);
  for (const char* unit : {"", "K", "M", "G"}) {
    if (value < 999.5) return fmt::format("{:.{}f}{}", value, value < 9.95 && *unit ? 1 : 0, unit);
    value /= 1024;
  }
  return fmt::format("{:.0f}T", value);
}

/// In at most six characters.
std::string short_count(double count) {
  return count < 1e6 ? fmt::format("{:.0f}", count) : fmt::format("{:.0e}", count);
}

void print_table(const std::vector<Row>& rows, double truth_norm) {
  say("{}\n", coloured(Colour::bold, fmt::format("{:<26}{:>8}{:>8}{:>9} {:<10}{:<9}{:>8}{:>7}{:>6}{:>8}",
                                                 "method", "rel.err", "cosine", "bound", "kind", "verdict",
                                                 "grad.eq", "prod.", "bytes", "seconds")));
  const double unit = truth_norm > 0 ? truth_norm : 1;
  for (const Row& row : rows) {
    if (!row.reason.empty()) continue;
    const auto& e = row.estimate;
    const auto& c = e.certificate;
    say("{:<26}{:>8}{:>8}{:>9} {:<10}{}{:>8}{:>7}{:>6}{:>8.0e}\n", row.method,
        std::isnan(row.relative_error) ? "-" : fmt::format("{:.1e}", row.relative_error),
        std::isnan(row.cosine) ? "-" : fmt::format("{:.4f}", row.cosine),
        std::isfinite(c.bound) ? fmt::format("{:.1e}", c.bound / unit) : "-", name(c.kind),
        coloured(colour_of(c.verdict), fmt::format("{:<9}", name(c.verdict))),
        short_count(e.cost.gradient_equivalents()),
        short_count(static_cast<double>(e.cost.hessian_products + e.cost.cross_products)),
        short_bytes(e.cost.bytes), e.cost.seconds());
  }
  for (const Row& row : rows)
    if (!row.reason.empty()) print_wrapped(fmt::format("{:<26} not applicable:", row.method), row.reason, 27);
  say("\nrel.err and bound: relative to the norm of the true gradient; prod.: Hessian and cross products\n");
  for (const Row& row : rows) {
    const auto& e = row.estimate;
    if (!row.reason.empty() || (e.gradient.allFinite() && e.certificate.kind != bilevel::Kind::none))
      continue;
    const std::string& reason = e.certificate.reason.empty() ? e.message : e.certificate.reason;
    print_wrapped(row.method + ":", reason, 4);
  }
}

/// Accuracy against cost: a line for each method, a column for each tolerance, a few of them side by side.
void print_sweep(const std::vector<double>& tolerances, const std::vector<std::vector<Row>>& sweep) {
  constexpr std::size_t side_by_side = 4;
  const auto tried = [&](std::size_t method) {
    return std::any_of(sweep.begin(), sweep.end(),
                       [&](const std::vector<Row>& rows) { return rows[method].reason.empty(); });
  };
  for (std::size_t from = 0; from < tolerances.size(); from += side_by_side) {
    const std::size_t to = std::min(from + side_by_side, tolerances.size());
    std::string head = fmt::format("{:<26}", "rel.err (grad.eq) at");
    for (std::size_t t = from; t < to; ++t) head += fmt::format("{:>18.0e}", tolerances[t]);
    say("\n{}\n", coloured(Colour::bold, head));
    for (std::size_t i = 0; i < sweep.front().size(); ++i) {
      if (!tried(i)) continue;
      std::string line = fmt::format("{:<26}", sweep.front()[i].method);
      for (std::size_t t = from; t < to; ++t) {
        const Row& row = sweep[t][i];
        if (!row.reason.empty()) {
          line += fmt::format("{:>18}", "-");
          continue;
        }
        const Verdict verdict = row.estimate.certificate.verdict;
        line += fmt::format("{:>9}{} {:>7}",
                            std::isnan(row.relative_error) ? "-" : fmt::format("{:.1e}", row.relative_error),
                            coloured(colour_of(verdict), name(verdict).substr(0, 1)),
                            fmt::format("({})", short_count(row.estimate.cost.gradient_equivalents())));
      }
      write_raw(stdout, line + "\n");
    }
  }
  say("\nt trusted, d doubtful, u untrusted\n");
}

/// Everything that does not change between the estimates of one command.
class Comparison {
 public:
  explicit Comparison(CompareArguments& a)
      : a_(a),
        problem_(a.problem.make("compare")),
        theta_(a.problem.start(problem_)),
        inner_name_(a.problem.inner_name(problem_)) {
    problem_.obey(&stop_);
  }

  const PosedProblem& problem() const { return problem_; }
  const Vec& theta() const { return theta_; }
  const std::string& inner_name() const { return inner_name_; }

  bilevel::Estimate<Vec> settle(std::string_view method, double tolerance) {
    bilevel::MinimiserOptions inner_options;
    inner_options.gradient_tolerance = tolerance;
    const Estimation made = problem_.estimation(
        method, inner_name_, a_.method.options(inner_name_, a_.problem.settings.seed), inner_options);
    made.estimator->set_tolerances(tolerance, std::max(tolerance, 1e-14));
    return made.estimator->estimate(theta_, {});
  }

  /// The closed form, or the best reference there is; empty, with the reason printed, where neither can be
  /// had.
  std::optional<Truth> truth() {
    std::optional<Truth> found;
    if (const auto known = problem_.outer_gradient(theta_)) {
      found = Truth{"closed form", *known};
    } else {
      const bool small = problem_.phi_size() <= bilevel::Exact<Vec>::limit;
      const char* reference = small ? "exact" : "implicit-cg";
      const bilevel::Estimate<Vec> tight = settle(reference, 1e-13);
      if (tight.certificate.verdict == Verdict::untrusted) {
        say(stderr,
            "bilevel: there is nothing to compare with: no closed form, and the reference gradient "
            "cannot be trusted ({})\n",
            tight.certificate.reason);
        return {};
      }
      found = Truth{fmt::format("{} at tolerance 1e-13", reference), tight.gradient};
    }
    if (found->gradient.allFinite()) return found;
    say(stderr,
        "bilevel: the gradient does not exist or is not finite at this theta: nothing to compare with\n");
    return {};
  }

  Row row(const std::string& method, double tolerance, const Vec& truth) {
    Row row;
    row.method = method;
    try {
      row.estimate = settle(method, tolerance);
    } catch (const bilevel::InvalidInput& refusal) {
      row.reason = refusal.what();
      return row;
    }
    const Vec& g = row.estimate.gradient;
    const double unit = truth.norm();
    row.absolute_error = (g - truth).norm();
    row.relative_error = unit > 0 ? row.absolute_error / unit : row.absolute_error;
    if (g.norm() > 0 && unit > 0) row.cosine = g.dot(truth) / (g.norm() * unit);
    return row;
  }

 private:
  const CompareArguments& a_;
  PosedProblem problem_;
  Vec theta_;
  std::string inner_name_;
  bilevel::StopToken stop_{[] { return interrupted(); }};
};

/// Without the spaces around them, each once.
std::vector<std::string> tidied(const std::vector<std::string>& methods) {
  std::vector<std::string> tidy;
  for (const std::string& given : methods) {
    const std::size_t from = given.find_first_not_of(" \t"), to = given.find_last_not_of(" \t");
    const std::string method = from == std::string::npos ? "" : given.substr(from, to - from + 1);
    if (std::find(tidy.begin(), tidy.end(), method) == tidy.end()) tidy.push_back(method);
  }
  return tidy;
}

void require_known(const std::vector<std::string>& methods) {
  try {
    for (const std::string& method : methods) bilevel::estimator_named(method);
  } catch (const bilevel::InvalidInput& refusal) {
    throw bilevel::InvalidInput(fmt::format("--methods: {}", refusal.what()));
  }
}

int run(CompareArguments& a) {
  if (a.problem.listed()) return ok;
  const std::vector<std::string> methods = a.methods.empty() ? bilevel::estimator_names() : tidied(a.methods);
  require_known(methods);
  if (a.method.beta != 0 && std::none_of(methods.begin(), methods.end(), nudges))
    throw bilevel::InvalidInput("--beta is for the ep-… methods, and --methods names none of them");
  std::vector<double> tolerances = a.tolerances;
  std::sort(tolerances.rbegin(), tolerances.rend());
  tolerances.erase(std::unique(tolerances.begin(), tolerances.end()), tolerances.end());

  Comparison comparison(a);
  const std::optional<Truth> truth = comparison.truth();
  const auto ended = [] {
    if (interrupted()) say(stderr, "bilevel: compare was interrupted; there is no table of a part of the methods\n");
    return interrupted();
  };
  if (ended() || !truth) return no;

  // Loosest first; the table shows the tightest.
  std::vector<std::vector<Row>> sweep;
  Progress progress;
  for (std::size_t t = 0; t < tolerances.size(); ++t) {
    sweep.emplace_back();
    for (std::size_t i = 0; i < methods.size(); ++i) {
      progress.show(fmt::format("tolerance {:.0e} ({} of {}), {} ({} of {})", tolerances[t], t + 1,
                                tolerances.size(), methods[i], i + 1, methods.size()));
      sweep.back().push_back(comparison.row(methods[i], tolerances[t], truth->gradient));
      if (interrupted()) break;
    }
    if (interrupted()) break;
  }
  progress.show("");
  if (ended()) return no;

  std::vector<Row> rows = sweep.back();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& x, const Row& y) {
    const auto key = [](const Row& r) {
      return std::isnan(r.relative_error) ? bilevel::everywhere : r.relative_error;
    };
    return key(x) < key(y);
  });

  const double norm = truth->gradient.norm();
  print_wrapped(
      a.problem.title() + ":",
      fmt::format(
          "{} inner variables{}, {} outer parameters; truth: {} (norm {:.6g})",
          comparison.problem().whole_phi_size(),
          comparison.problem().parts() > 1 ? fmt::format(" in {} folds", comparison.problem().parts()) : "",
          comparison.theta().size(), truth->source, norm),
      4);
  say("\n");
  print_table(rows, norm);
  for (const Row& row : rows)
    if (!row.estimate.choice.empty()) print_wrapped("", row.estimate.choice, 4);
  if (tolerances.size() > 1) print_sweep(tolerances, sweep);

  Json j;
  j["command"] = "compare";
  j["version"] = bilevel::version;
  a.problem.describe_into(j, comparison.problem());
  j["theta"] = array(comparison.theta());
  j["truth"] = {{"source", truth->source}, {"gradient", array(truth->gradient)}, {"norm", norm}};
  j["inner"] = comparison.inner_name();
  j["tolerance"] = tolerances.back();
  j["estimates"] = Json::array();
  for (const Row& row : rows) j["estimates"].push_back(describe_row(row));
  if (tolerances.size() > 1) {
    j["sweep"] = Json::array();
    for (std::size_t t = 0; t < tolerances.size(); ++t)
      for (const Row& row : sweep[t]) {
        if (!row.reason.empty()) continue;
        Json entry = describe_row(row);
        entry["tolerance"] = tolerances[t];
        j["sweep"].push_back(std::move(entry));
      }
  }
  write_json(a.problem.json, j);
  if (!a.problem.json.empty()) say("\nwritten to {}\n", a.problem.json);
  const auto ran = [](const Row& row) { return row.reason.empty(); };
  return std::any_of(rows.begin(), rows.end(), ran) ? ok : no;  // a table of refusals compares nothing
}

}  // namespace

std::function<int()> add_compare(CLI::App& program) {
  auto a = std::make_shared<CompareArguments>();
  CLI::App& command = *program.add_subcommand(
      "compare", "Every estimator on one problem, or on your data: error, certificate, cost");
  a->problem.add_to(command);
  a->method.add_to(command);
  command.add_option("--methods", a->methods, "Estimators to compare, separated by commas (default: all)")
      ->delimiter(',')
      ->type_name("NAME,…");
  command
      .add_option("--tolerances", a->tolerances,
                  "Inner residual norms and adjoint relative residuals, separated by commas; with several, a "
                  "second table sets accuracy against cost (default: 1e-12)")
      ->delimiter(',')
      ->type_name("X,…")
      ->check(positive);
  command.footer(fmt::format(
      "Estimators: {}\n\nExamples:\n  bilevel compare --problem ridge\n"
      "  bilevel compare houses.csv --target price --model ridge --penalty per-feature\n"
      "  bilevel compare --problem quadratic --condition 1e6 --methods implicit-cg,implicit-neumann\n"
      "  bilevel compare --problem logistic --tolerances 1e-2,1e-4,1e-8 --json sweep.json",
      fmt::join(bilevel::estimator_names(), ", ")));
  return [a] { return run(*a); };
}

}  // namespace app
