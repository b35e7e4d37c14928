#include <bilevel/problems/registry.hpp>

#include <algorithm>

#include <bilevel/problems/duopoly.hpp>
#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/ridge.hpp>

namespace bilevel::problems {
namespace {

/// Refuses the settings that a family does not have, all at once.
void only(const Settings& s, std::string_view family, std::initializer_list<std::string_view> allowed) {
  Violations v(family);
  const auto check = [&](std::string_view name, bool given, const auto& value) {
    bool known = false;
    for (const std::string_view a : allowed) known = known || a == name;
    v.require(known || !given, name, value, "is not a setting of this problem");
  };
  check("size", s.phi != 0, s.phi);
  check("parameters", s.theta != 0, s.theta);
  check("samples", s.samples != 0, s.samples);
  check("condition", s.condition != 0, s.condition);
  check("penalty", !s.penalty.empty(), s.penalty);
  v.throw_if_any();
}

template <class Options>
Options with_shape(const Settings& s) {
  Options options;
  if (s.phi) options.phi = s.phi;
  if (s.theta) options.theta = s.theta;
  if (s.condition != 0) options.condition = s.condition;
  options.seed = s.seed;
  return options;
}

LinearModelOptions linear_model(const Settings& s, std::string_view family) {
  only(s, family, {"size", "samples", "penalty"});
  LinearModelOptions options;
  if (s.phi) options.features = s.phi;
  if (s.samples) {
    options.rows = s.samples;
    options.validation_rows = std::max<Index>(1, s.samples / 2);
  }
  options.seed = s.seed;
  if (s.penalty == "global") options.penalty = Penalty::global;
  Violations v(family);
  v.require(s.penalty.empty() || s.penalty == "global" || s.penalty == "per-feature", "penalty", s.penalty,
            "must be global or per-feature");
  v.throw_if_any();
  return options;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"quadratic", "quadratic inner and outer loss, closed form for everything",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         only(s, "quadratic", {"size", "parameters", "condition"});
         return std::make_unique<Quadratic>(Quadratic::random(with_shape<QuadraticOptions>(s)));
       }},
      {"pitchfork", "φ⁴ − θφ²: one minimum for θ ≤ 0, two for θ > 0, no derivative where they meet",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         only(s, "pitchfork", {});
         return std::make_unique<Pitchfork>();
       }},
      {"log-cosh", "smooth, strongly convex, not quadratic, θ in both losses, all constants known",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         only(s, "log-cosh", {"size", "parameters", "condition"});
         return std::make_unique<LogCosh>(LogCosh::random(with_shape<LogCoshOptions>(s)));
       }},
      {"ridge", "least squares, one penalty exp(θ_j) a feature (or one for all), closed form",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         return std::make_unique<Ridge>(Ridge::random(linear_model(s, "ridge")));
       }},
      {"logistic", "binary logistic regression, one penalty exp(θ_j) a feature (or one for all)",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         return std::make_unique<Logistic>(Logistic::random(linear_model(s, "logistic")));
       }},
      {"duopoly", "a leader's quantity against a follower's best response (Stackelberg)",
       [](const Settings& s) -> std::unique_ptr<ReferenceProblem> {
         only(s, "duopoly", {});
         return std::make_unique<Duopoly>();
       }},
  };
  return all;
}

std::unique_ptr<ReferenceProblem> make(std::string_view name, const Settings& settings) {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    if (family.name == name) return family.make(settings);
    names.push_back(family.name);
  }
  throw InvalidInput(fmt::format("there is no problem '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace bilevel::problems
