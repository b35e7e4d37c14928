#include <bilevel/learning/saved_learner.hpp>

#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include <bilevel/encoding/utf8.hpp>
#include <bilevel/files/atomic_file.hpp>
#include <bilevel/files/container.hpp>
#include <bilevel/learning/adaptation.hpp>

#include "in_a_row.hpp"

namespace bilevel::learning {

using torch::SingleTensor;

namespace {

using Json = nlohmann::ordered_json;

/// What looks at its numbers on the way: neither has a derivative.
constexpr std::string_view quasi_newton = "lbfgs", taskwise = "barzilai-borwein";
/// Steps towards a tolerance: looked at so often, and given up after so many.
constexpr long look_every = 4, most_steps = 500;

bool differentiable_by_name(const std::string& inner) {
  return inner != quasi_newton && inner != taskwise;
}
constexpr FileKind learner_file{"bilevel-learner", 1};

/// A whole number of a file, between these.
long whole(const Json& j, long least, long most) {
  if (!j.is_number_integer() || j.get<double>() < static_cast<double>(least) ||
      j.get<double>() > static_cast<double>(most))
    throw InvalidInput("a number in it is out of range");
  return j.get<long>();
}

}  // namespace

Violations AdaptationOptions::validate() const {
  Violations v("meta");
  v.require(inner_steps >= 0 && inner_steps <= 100000, "inner_steps", inner_steps, "must lie in 0 … 100000");
  v.not_negative("inner_rate", inner_rate).not_negative("inner_tolerance", inner_tolerance);
  if (!inner.empty() && differentiable_by_name(inner)) {
    const InnerChoice* const known = find_inner_solver(inner);
    v.require(known && differentiable(*known), "inner", inner,
              "must be lbfgs, barzilai-borwein, gradient-descent, heavy-ball, nesterov or adam");
  }
  return v;
}

AdaptationOptions resolve(const AdaptationOptions& options, const Learner& learner) {
  options.validate().throw_if_any();
  AdaptationOptions o = options;
  const bool convex = learner.convex();
  const LearnerOptions& l = learner.options();
  // The plainer steps need five times as many for a network of its own, of which each costs a tenth in the
  // lanes of a processor (TaskPhases).
  const bool lanes = l.kind == LearnerKind::center && !learner.form().pictures() && l.unit == Unit::tanh;
  if (o.inner.empty()) o.inner = lanes ? taskwise : quasi_newton;
  if (o.inner_tolerance == 0) o.inner_tolerance = 1e-3;
  // Heads are convex with constants that are known: a step of 0 follows from them at every θ.
  if (o.inner_rate == 0 && !differentiable_by_name(o.inner)) o.inner_rate = 0.1;
  if (o.inner_rate == 0 && !convex) o.inner_rate = o.inner == "adam" ? 0.05 : 0.005;
  return o;
}

InnerChoice inner_choice(const AdaptationOptions& o) {
  if (!differentiable_by_name(o.inner))
    throw InvalidInput(fmt::format(
        "meta.inner = {} chooses its steps on the way and has no derivative: take gradient-descent, "
        "heavy-ball, nesterov or adam, or an estimator that does not differentiate steps",
        o.inner));
  InnerChoice choice = inner_solver_named(o.inner);
  std::visit(
      [&](auto& options) {
        if constexpr (requires { options.step = o.inner_rate; })
          if (o.inner_rate > 0) options.step = o.inner_rate;
      },
      choice);
  return choice;
}

StepLimits limits_of(const AdaptationOptions& o, long tasks) {
  const double tolerance = o.inner_tolerance * std::sqrt(static_cast<double>(tasks));
  if (o.inner_steps > 0) return {.steps = o.inner_steps, .tolerance = tolerance};
  return {.steps = most_steps, .tolerance = tolerance, .look_every = look_every};
}

template <Vector V>
std::unique_ptr<UnwatchedSteps<V>> make_adaptation(const AdaptationOptions& o, Problem<V>& problem,
                                                   long tasks) {
  const StepLimits limits = limits_of(o, tasks);
  if (o.inner == quasi_newton)
    return std::make_unique<TaskwiseLbfgs<V>>(problem, tasks, o.inner_rate, limits);
  if (o.inner == taskwise) return std::make_unique<TaskwiseDescent<V>>(problem, tasks, o.inner_rate, limits);
  return std::make_unique<FixedSteps<V>>(problem, inner_choice(o), limits);
}
template std::unique_ptr<UnwatchedSteps<Tensor>> make_adaptation(const AdaptationOptions&, Problem<Tensor>&,
                                                                 long);
template std::unique_ptr<UnwatchedSteps<SingleTensor>> make_adaptation(const AdaptationOptions&,
                                                                       Problem<SingleTensor>&, long);

Tensors SavedLearner::tensors(at::ScalarType type, const at::Device& device) const {
  const Learner whose = learner();
  if (theta.size() != static_cast<std::size_t>(whose.shared_parameters()))
    throw InvalidInput("the learner's numbers do not fit its network");
  Tensor row = at::empty({whose.shared_parameters()}, at::kFloat);
  if (!theta.empty()) std::memcpy(row.data_ptr<float>(), theta.data(), theta.size() * sizeof(float));
  return parts_of(row.to(device, type), whose.theta_shapes());
}

Adapted SavedLearner::adapt(const Tasks& given) const {
  const at::NoGradGuard guard;
  const Tasks tasks = given.to(at::kFloat, given.support_x.device());
  TaskForm own = form;
  // Heads take any number of classes.
  own.outputs = static_cast<long>(tasks.support_y.size(2));
  if (own.outputs != form.outputs && options.kind != LearnerKind::heads)
    throw InvalidInput(fmt::format("the task has {} classes, and this learner ({}) is for {}", own.outputs,
                                   name(options.kind), form.outputs));
  const Learner learner(options, own);
  const Tensors prepared = learner.prepare(tensors(at::kFloat, tasks.support_x.device()), tasks);
  auto problem = prepared_adaptation<SingleTensor>(learner, tasks, prepared, {.look_first = false});
  const auto solver = make_adaptation<SingleTensor>(resolve(adaptation, learner), problem, tasks.size());
  const SingleTensor at = problem.initial_theta(), start = problem.initial_phi();
  const auto answers = [&](const SingleTensor& phi) {
    return learner.answers(problem.phi_list(phi)[0], prepared, tasks);
  };
  const auto fit = [&](const SingleTensor& phi, double value) {
    const double size = norm(phi);
    return (value - 0.5 * size * size) / static_cast<double>(tasks.size());
  };
  Adapted adapted;
  adapted.before = answers(start).detach().cpu();
  adapted.loss_before = fit(start, problem.inner(start, at, {}));
  const Solution<SingleTensor> solution = solver->solve(at, 0, start);
  adapted.after = answers(solution.phi).detach().cpu();
  adapted.loss_after = fit(solution.phi, solution.value);
  adapted.residual = solution.residual_norm / std::sqrt(static_cast<double>(tasks.size()));
  adapted.status = solution.status;
  adapted.message = solution.message;
  return adapted;
}

std::string SavedLearner::text() const {
  const Json j{{"learner", name(options.kind)},
               {"layers", options.layers},
               {"filters", options.filters},
               {"blocks", options.blocks},
               {"unit", options.unit ? Json(name(*options.unit)) : Json(nullptr)},
               {"strengths", name(options.strengths)},
               {"strength", options.strength},
               {"embedding", options.embedding},
               {"input", form.input},
               {"outputs", form.outputs},
               {"classes", form.classes},
               {"support", form.support},
               {"query", form.query},
               {"inner", adaptation.inner},
               {"inner_steps", adaptation.inner_steps},
               {"inner_tolerance", adaptation.inner_tolerance},
               {"inner_rate", adaptation.inner_rate},
               {"source", as_utf8(source)},
               {"inverted", inverted}};
  return sealed(learner_file, j.dump(),
                {reinterpret_cast<const char*>(theta.data()), theta.size() * sizeof(float)});
}

void SavedLearner::save(const std::string& path) const {
  if (const std::string problem = replace_file(path, text()); !problem.empty()) throw InvalidInput(problem);
}

SavedLearner read_learner(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return InvalidInput(fmt::format("{}: {}; a learner is written by bilevel meta --save FILE", path, why));
  };
  const std::optional<std::string> text = read_file(path, longest_file / 2);
  if (!text) throw refuse("the file cannot be read");
  if (!text->starts_with(fmt::format("{{\"format\":\"{}\",", learner_file.format)))
    throw refuse("it is no learner of bilevel");
  try {
    const Contents contents = unsealed(*text, learner_file);
    const Json j = Json::parse(contents.run);
    SavedLearner s;
    LearnerOptions& o = s.options;
    // No product of these overflows; the numbers of θ must be there.
    constexpr long most = 1 << 16, most_filters = 1 << 12, most_blocks = 16, most_layers = 64;
    o.kind = learner_kind_of(j.at("learner").get<std::string>());
    o.layers.clear();
    for (const Json& each : j.at("layers")) o.layers.push_back(whole(each, 1, most));
    o.filters = whole(j.at("filters"), 1, most_filters);
    o.blocks = whole(j.at("blocks"), 1, most_blocks);
    if (!j.at("unit").is_null()) o.unit = unit_of(j.at("unit").get<std::string>());
    o.strengths = strengths_of(j.at("strengths").get<std::string>());
    o.strength = j.at("strength");
    o.embedding = whole(j.at("embedding"), 1, most);
    for (const Json& each : j.at("input"))
      s.form.input.push_back(whole(each, 1, j.at("input").size() == 3 ? most_filters : most));
    s.form.outputs = whole(j.at("outputs"), 1, most);
    s.form.classes = j.at("classes");
    s.form.support = whole(j.at("support"), 1, most);
    s.form.query = whole(j.at("query"), 1, most);
    s.adaptation.inner = j.at("inner").get<std::string>();
    s.adaptation.inner_steps = whole(j.at("inner_steps"), 0, most);
    s.adaptation.inner_tolerance = j.value("inner_tolerance", 0.0);
    s.adaptation.inner_rate = j.at("inner_rate");
    s.adaptation.validate().throw_if_any();
    s.source = j.at("source").get<std::string>();
    s.inverted = j.at("inverted");
    if (o.layers.size() > most_layers || s.form.input.size() > 3)
      throw InvalidInput("it has more layers or axes than any network");
    const Learner learner = s.learner();
    if (contents.bytes.size() != static_cast<std::size_t>(learner.shared_parameters()) * sizeof(float))
      throw InvalidInput("its numbers do not fit its network");
    s.theta.resize(contents.bytes.size() / sizeof(float));
    std::memcpy(s.theta.data(), contents.bytes.data(), contents.bytes.size());
    for (const float each : s.theta)
      if (!std::isfinite(each)) throw InvalidInput("one of its numbers is not finite");
    return s;
  } catch (const Json::exception&) {
    throw refuse("it is damaged or cut off");
  } catch (const InvalidInput& error) {
    throw refuse(error.what());
  }
}

}  // namespace bilevel::learning
