#pragma once

// What the programs of docs/learning-problems.md share: what they may be told, digits and networks as
// tensors, and where their results go.

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include <bilevel/encoding/base64.hpp>
#include <bilevel/networks/training_data.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <bilevel/torch/losses.hpp>

#include "device.hpp"
#include "pages.hpp"

namespace learning_run {

using pages::Json, pages::Series, pages::section, pages::write;
using torch::Tensor;

inline const auto numbers = torch::dtype(torch::kDouble);

using arguments::Told;

/// The arguments of a program whose one outer loop can be kept.
inline arguments::Defaults kept(arguments::Defaults defaults) {
  defaults.insert({{"--checkpoint", ""}, {"--resume", "no"}, {"--seconds", "1e9"}});
  return defaults;
}

/// Exit code 0 where the program says that its aim was met, 1 where it was not.
template <class Program>
int run(int argc, char** argv, arguments::Defaults defaults, Program program) {
  defaults.insert({{"--device", "cpu"}, {"--json", ""}, {"--report", ""}});
  return arguments::run(argc, argv, std::move(defaults), [&](const arguments::Told& told) {
    pages::check_report(told);
    return program(told) ? 0 : 1;
  });
}

/// Pictures of digits in rows of numbers in 0 … 1, and which digits they are.
struct Digits {
  Tensor x, y, test_x, test_y;
  long height = 0, width = 0;
};

/// Of MNIST's four files in the folder `--data`, or drawn here where none is named.
inline Digits digits(const Told& told, long rows, long test_rows) {
  using namespace bilevel::networks;
  const std::string& folder = told.text("--data");
  const auto seed = static_cast<std::uint64_t>(told.whole("--seed", 0));
  const TrainingData data = folder.empty()
                                ? drawn_digits(rows, seed, test_rows)
                                : read_training_data({.data = folder}, {.rows = rows, .seed = seed});
  if (!data.image) throw bilevel::InvalidInput(fmt::format("--data {}: these are no pictures", folder));
  const auto rows_of = [&](const LabelledSamples& s, long most) {
    const std::vector<std::int64_t> labels(s.labels.begin(), s.labels.end());
    const Tensor x =
        torch::from_blob(const_cast<float*>(s.inputs.data()), {s.inputs.cols(), s.inputs.rows()});
    const Tensor y = torch::tensor(labels);
    most = std::min<long>(most, s.rows());
    return std::pair{x.narrow(0, 0, most).to(torch::kDouble).to(arguments::device(told)),
                     y.narrow(0, 0, most).to(arguments::device(told))};
  };
  const auto [x, y] = rows_of(data.train, rows);
  const auto [test_x, test_y] = rows_of(data.test, test_rows);
  return {x, y, test_x, test_y, data.image->first, data.image->second};
}

using Tensors = std::vector<Tensor>;

/// Layers of tanh, the last one linear; tensors are weights and biases in turn.
inline Tensor through(const Tensors& w, Tensor x) {
  for (std::size_t i = 0; i < w.size(); i += 2) {
    x = x.matmul(w[i]) + w[i + 1];
    if (i + 2 < w.size()) x = torch::tanh(x);
  }
  return x;
}
inline Tensors network(const std::vector<long>& widths, const torch::TensorOptions& like) {
  Tensors w;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    w.push_back(torch::randn({widths[i], widths[i + 1]}, like) / std::sqrt(static_cast<double>(widths[i])));
    w.push_back(torch::zeros({widths[i + 1]}, like));
  }
  return w;
}

/// The mean loss of a classifier's scores, and its share of right answers.
inline Tensor cross_entropy(const Tensor& scores, const Tensor& y) {
  return torch::nn::functional::cross_entropy(scores, y);
}
inline double right(const Tensor& scores, const Tensor& y) {
  return (scores.argmax(1) == y).to(torch::kDouble).mean().item<double>();
}
inline Tensor squares(const Tensors& w) {
  Tensor sum = w[0].new_zeros({});
  for (const Tensor& each : w) sum = sum + each.pow(2).sum();
  return sum;
}

// Blocks of a report (docs/report.md).

using Cells = std::vector<std::vector<std::string>>;

inline Json table(const std::vector<std::string>& columns, const Cells& rows) {
  return pages::table(columns, rows);
}

inline Json page(const std::string& title, const std::string& lead, const Cells& facts,
                 const std::vector<Json>& sections) {
  return {{"title", title}, {"lead", lead}, {"facts", facts}, {"sections", sections}};
}

inline std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}
inline const char* yes(bool it) {
  return it ? "yes" : "no";
}

/// A picture of each row. Numbers with a sign where `range` > 0, else 0 is paper and 1 ink.
inline Json pictures(const std::string& title, const Tensor& x, long height, long width,
                     const std::vector<std::string>& captions = {}, double range = 0) {
  Json block{{"type", "images"}, {"title", title}, {"items", Json::array()}};
  if (range > 0) block["range"] = range;
  const Tensor bytes = (range > 0 ? 128 + 127 * x / range : 255 * x)
                           .round()
                           .clamp(range > 0 ? 1 : 0, 255)
                           .to(torch::kByte)
                           .cpu();
  for (long i = 0; i < x.size(0); ++i) {
    std::string pixels;
    bilevel::append_base64(bytes[i].contiguous().data_ptr(), static_cast<std::size_t>(height * width),
                           pixels);
    block["items"].push_back({{"width", width}, {"height", height}, {"pixels", pixels}});
    if (i < static_cast<long>(captions.size()))
      block["items"].back()["caption"] = captions[static_cast<std::size_t>(i)];
  }
  return block;
}

/// What the outer loop of a program may be told: `--steps` and `--seconds` at most, and where to keep the run
/// and go on.
inline bilevel::SolveOptions outer_options(const Told& told, const std::string& identity) {
  bilevel::SolveOptions outer;
  outer.max_iterations = told.whole("--steps");
  outer.max_seconds = told.number("--seconds");
  outer.checkpoint = told.text("--checkpoint");
  outer.resume = told.text("--resume") == "yes";
  outer.identity = fmt::format("{}, seed {}", identity, told.text("--seed"));
  return outer;
}

/// How many gradients of a run were trusted.
inline long trusted(const bilevel::Summary& s) {
  return std::count_if(s.history.begin(), s.history.end(),
                       [](const auto& h) { return h.verdict == bilevel::Verdict::trusted; });
}

/// How an outer loop went, for `--json`.
inline void add_run(Json& result, const bilevel::Summary& s) {
  result["status"] = name(s.status);
  result["message"] = s.message;
  result["outer_value"] = s.outer_value;
  result["evaluations"] = s.evaluations;
  result["trusted"] = trusted(s);
  result["seconds"] = s.seconds;
}

/// The same for a report.
inline Json progress(const bilevel::Summary& s, const std::string& loss, bool certified = false) {
  Json losses = Json::array(), norms = losses, bounds = losses;
  for (const bilevel::HistoryEntry& h : s.history) {
    if (!h.accepted) continue;
    losses.push_back({h.iteration, h.outer_value});
    norms.push_back({h.iteration, h.gradient_norm});
    bounds.push_back({h.iteration, std::isfinite(h.bound) ? Json(h.bound) : Json()});
  }
  return section(
      "How it was learned",
      {pages::text(
           certified
               ? fmt::format("{}; {} of {} gradients were trusted.", s.message, trusted(s), s.evaluations)
               : fmt::format(
                     "{}; gradients were not certified one by one, the first was held against differences.",
                     s.message)),
       pages::scaled(pages::chart("What is minimised", "step", loss, {Series{"outer loss", losses}}), "y",
                     "log"),
       pages::scaled(
           pages::chart("The gradient, and how far off it may be", "step", "norm",
                        {Series{"gradient", norms}, Series{"bound of its error", bounds, "dashed"}}),
           "y", "log")});
}

/// How far a gradient is from the slope of F(θ) = `value(θ)`, whole solves, along a random direction, for its
/// own length: by differences of the fourth order, at the best of three steps. What they leave out falls with
/// the step, which matters where μ is small and F bends within a thousandth; what solves leave grows.
template <class Value>
double apart(const Tensor& gradient, const Tensor& theta, double step, const Value& value) {
  const Tensor along = torch::randn_like(theta);
  const double ours = gradient.dot(along).template item<double>(),
               length = gradient.norm().template item<double>();
  const auto at = [&](double s) { return value(theta + s * along); };
  double best = bilevel::everywhere;
  for (const double s : {step, step / 5, step / 25})
    best = std::min(best,
                    std::abs(ours - (8 * (at(s) - at(-s)) - (at(2 * s) - at(-2 * s))) / (12 * s)) / length);
  return best;
}

/// The gradient where a problem starts, with its certificate, and how far it is from whole solves.
struct Checked {
  bilevel::Estimate<Tensor> estimate;
  double apart;
};
inline Checked first_gradient(bilevel::torch::Losses<Tensor>& problem, bilevel::InnerSolver<Tensor>& train,
                              double step) {
  const bilevel::ImplicitMethod method;  // conjugate gradients
  const Tensor theta = problem.initial_theta();
  Checked first{bilevel::make_estimator<Tensor>(method, problem, train)->estimate(theta, {}), 0};
  first.apart = apart(first.estimate.gradient, theta, step, [&](const Tensor& moved) {
    return problem.outer(train.solve(moved, 0, first.estimate.phi).phi, moved, {});
  });
  return first;
}

/// What its certificate says, for `--json`.
inline void add_certificate(Json& result, const Checked& first) {
  const bilevel::Certificate& c = first.estimate.certificate;
  result["gradient_apart"] = first.apart;
  result["verdict"] = name(c.verdict);
  result["bound"] = c.bound;
  result["relative_bound"] = c.bound / bilevel::norm(first.estimate.gradient);
  result["mu"] = c.mu;
  result["smoothness"] = c.smoothness;
  result["settled"] = name(first.estimate.status);
  result["inner_residual"] = c.inner_residual;
  result["reason"] = c.reason;
}

/// Steps of Adam without certificates, each of which costs more than a step: the first gradient has one.
inline bilevel::MinimiseOptions by_adam(double step, bilevel::SolveOptions outer) {
  outer.tolerances = bilevel::ToleranceSchedule::fixed(1e-3, 1e-2);
  bilevel::ImplicitMethod quiet;
  quiet.common.certificate.enabled = false;
  return {.inner = bilevel::LbfgsOptions{},
          .estimator = quiet,
          .optimizer = bilevel::AdamOptimizerOptions{.step = step},
          .outer = std::move(outer)};
}

/// What was learned, as the tensor that the problem knows.
inline Tensor learned_theta(const bilevel::Summary& s, const Tensor& like) {
  Tensor theta = torch::empty_like(like);
  bilevel::Space<Tensor>::from_host(s.theta.data(), theta);
  return theta;
}

}  // namespace learning_run
