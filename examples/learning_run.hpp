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

#include "pages.hpp"

namespace learning_run {

using pages::Json, pages::Series, pages::section;
using torch::Tensor;

inline const auto numbers = torch::dtype(torch::kDouble);

/// `--name value` pairs; every program has a default for each of its own.
class Told {
 public:
  Told(int argc, char** argv, std::map<std::string, std::string> defaults) : said_(std::move(defaults)) {
    for (const char* each : {"--json", "--report"}) said_.emplace(each, "");
    said_.emplace("--device", "cpu");
    std::string names;
    for (const auto& [name, value] : said_) names += fmt::format(" {} {}", name, value.empty() ? "…" : value);
    for (int i = 1; i < argc; i += 2) {
      if (!said_.count(argv[i]))
        throw bilevel::InvalidInput(fmt::format("what is '{}'? There are, with defaults:{}", argv[i], names));
      if (i + 1 == argc) throw bilevel::InvalidInput(fmt::format("{} wants a value", argv[i]));
      said_[argv[i]] = argv[i + 1];
    }
  }
  const std::string& text(const std::string& name) const { return said_.at(name); }
  double number(const std::string& name) const {
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(text(name), &used);
    } catch (const std::exception&) {
    }
    if (used == 0 || used != text(name).size() || !std::isfinite(value))
      throw bilevel::InvalidInput(fmt::format("{} is '{}', which is no number", name, text(name)));
    return value;
  }
  long whole(const std::string& name, long least = 1) const {
    const double value = number(name);
    if (value < static_cast<double>(least) || value > 1e9 || value != std::floor(value))
      throw bilevel::InvalidInput(
          fmt::format("{} is {}, and must be a whole number of {} or more", name, text(name), least));
    return static_cast<long>(value);
  }
  torch::Device device() const {
    try {
      const torch::Device device(text("--device"));
      torch::zeros({1}, device);
      return device;
    } catch (const c10::Error&) {
      throw bilevel::InvalidInput(fmt::format(
          "--device {}: this LibTorch knows no such device, or the machine has none; cpu is there always",
          text("--device")));
    }
  }

 private:
  std::map<std::string, std::string> said_;
};

/// The same for a program whose one outer loop can be kept.
inline std::map<std::string, std::string> kept(std::map<std::string, std::string> defaults) {
  defaults.insert({{"--checkpoint", ""}, {"--resume", "no"}});
  return defaults;
}

/// Exit codes are those of `bilevel`: 1 the aim was missed, 2 bad input, 3 an error of the program.
template <class Program>
int run(int argc, char** argv, std::map<std::string, std::string> defaults, Program program) {
  try {
    return program(Told(argc, argv, std::move(defaults))) ? 0 : 1;
  } catch (const bilevel::InvalidInput& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 3;
  }
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
    return std::pair{x.narrow(0, 0, most).to(torch::kDouble).to(told.device()),
                     y.narrow(0, 0, most).to(told.device())};
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

/// What the outer loop of a program may be told: `--steps`, and where to keep the run and go on.
inline bilevel::SolveOptions outer_options(const Told& told, const std::string& identity) {
  bilevel::SolveOptions outer;
  outer.max_iterations = told.whole("--steps");
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
inline Json progress(const bilevel::Summary& s, const std::string& loss) {
  Json losses = Json::array(), norms = losses, bounds = losses;
  for (const bilevel::HistoryEntry& h : s.history) {
    if (!h.accepted) continue;
    losses.push_back({h.iteration, h.outer_value});
    norms.push_back({h.iteration, h.gradient_norm});
    bounds.push_back({h.iteration, std::isfinite(h.bound) ? Json(h.bound) : Json()});
  }
  return section(
      "How it was learned",
      {pages::text(fmt::format("{}; {} of {} gradients were trusted.", s.message, trusted(s), s.evaluations)),
       pages::scaled(pages::chart("What is minimised", "step", loss, {Series{"outer loss", losses}}), "y",
                     "log"),
       pages::scaled(
           pages::chart("The gradient, and how far off it may be", "step", "norm",
                        {Series{"gradient", norms}, Series{"bound of its error", bounds, "dashed"}}),
           "y", "log")});
}

/// How far a gradient is from the slope of F(θ) = `value(θ)`, whole solves, along a random direction: by
/// differences of the fourth order, relative.
template <class Value>
double apart(const Tensor& gradient, const Tensor& theta, double step, const Value& value) {
  const Tensor along = torch::randn_like(theta);
  const auto at = [&](double s) { return value(theta + s * along); };
  const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
  return std::abs(gradient.dot(along).template item<double>() / slope - 1);
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

/// To the files that `--json` and `--report` name.
inline void write(const Told& told, const Json& result, const Json& page) {
  if (const std::string& path = told.text("--json"); !path.empty())
    pages::write_file(path, result.dump(1) + "\n");
  if (const std::string& path = told.text("--report"); !path.empty()) pages::write_page(path, page);
}

}  // namespace learning_run
