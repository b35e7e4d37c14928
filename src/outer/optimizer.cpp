#include <bilevel/outer/optimizer.hpp>

#include <cmath>

#include <bilevel/space/adam_moments.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/secant_pair.hpp>

namespace bilevel {
namespace {

using Vec = Eigen::VectorXd;

/// Armijo's constant, and the relative size of differences in the loss that are noise.
constexpr double sufficient_decrease = 1e-4;
constexpr double noise = 1e-12;

/// Is θ a good enough step from `base`? The loss must fall by Armijo's share of what the slope at the base
/// promises. Where the difference of the losses is lost in noise, the slopes decide (Hager and Zhang's
/// approximate Wolfe condition): the slope along the step must have flattened.
bool decreases(double value, double base, double slope_before, double slope_after) {
  if (!std::isfinite(value)) return false;
  if (slope_before < 0 && value <= base + sufficient_decrease * slope_before) return true;
  return std::abs(value - base) <= noise * std::abs(base) &&
         std::abs(slope_after) <= 0.9 * std::abs(slope_before);
}

class DescentOptimizer final : public Optimizer {
 public:
  explicit DescentOptimizer(const DescentOptimizerOptions& options)
      : options_(options), trial_(options.step) {
    options.validate().throw_if_any();
  }
  std::string_view name() const override { return "gradient-descent"; }
  void begin(const Box& box) override {
    box_ = box;
    base_.resize(0);
    trial_ = options_.step;
  }

  Move advance(double value, const Vec& gradient, Vec& theta) override {
    const bool first = base_.size() == 0;
    if (options_.step > 0 || first ||
        decreases(value, value_, gradient_.dot(theta - base_), gradient.dot(theta - base_))) {
      if (!std::isfinite(value)) return Move::stuck;
      if (options_.step == 0) {
        if (first) {
          const double length = gradient.norm();
          trial_ = length > 0 ? std::min(1.0, 1 / length) : 1.0;
        } else {
          // Barzilai–Borwein: the secant's inverse curvature; without curvature, a longer step.
          const Vec s = theta - base_;
          const double sy = s.dot(gradient - gradient_);
          trial_ = sy > 0 ? s.squaredNorm() / sy : 2 * trial_;
        }
      }
      base_ = theta;
      value_ = value;
      gradient_ = gradient;
      propose(theta);
      return Move::accepted;
    }
    trial_ *= 0.5;
    propose(theta);
    return (theta - base_).norm() <= 1e-15 * (1 + base_.norm()) ? Move::stuck : Move::rejected;
  }

  OptimizerState save() const override {
    return {{{"trial", trial_}, {"value", value_}}, {{"base", base_}, {"gradient", gradient_}}};
  }
  void load(const OptimizerState& state) override {
    trial_ = state.numbers.at("trial");
    value_ = state.numbers.at("value");
    base_ = state.vectors.at("base");
    gradient_ = state.vectors.at("gradient");
  }

 private:
  void propose(Vec& theta) const {
    theta = base_ - trial_ * gradient_;
    box_.project(theta);
  }

  DescentOptimizerOptions options_;
  Box box_;
  Vec base_, gradient_;
  double value_ = 0, trial_;
};

class AdamOptimizer final : public Optimizer {
 public:
  explicit AdamOptimizer(const AdamOptimizerOptions& options) : options_(options) {
    options.validate().throw_if_any();
  }
  std::string_view name() const override { return "adam"; }
  void begin(const Box& box) override {
    box_ = box;
    count_ = 0;
    first_.resize(0);
    second_.resize(0);
  }
  Move advance(double value, const Vec& gradient, Vec& theta) override {
    if (!std::isfinite(value)) return Move::stuck;
    if (first_.size() == 0) first_ = second_ = Vec::Zero(theta.size());
    count_ += 1;
    const AdamMoments moments{options_.beta1, options_.beta2};
    moments.update(gradient, first_, second_, square_);
    const double unbias1 = 1 / moments.first_weight(count_), unbias2 = 1 / moments.second_weight(count_);
    theta.array() -=
        options_.step * unbias1 * first_.array() / ((unbias2 * second_).array().sqrt() + options_.epsilon);
    box_.project(theta);
    return Move::accepted;
  }
  OptimizerState save() const override {
    return {{{"count", count_}}, {{"first", first_}, {"second", second_}}};
  }
  void load(const OptimizerState& state) override {
    count_ = state.numbers.at("count");
    first_ = state.vectors.at("first");
    second_ = state.vectors.at("second");
  }

 private:
  AdamOptimizerOptions options_;
  Box box_;
  Vec first_, second_, square_;
  double count_ = 0;
};

class LbfgsOptimizer final : public Optimizer {
 public:
  explicit LbfgsOptimizer(const LbfgsOptimizerOptions& options) : options_(options) {
    options.validate().throw_if_any();
  }
  std::string_view name() const override { return "lbfgs"; }
  void begin(const Box& box) override {
    box_ = box;
    base_.resize(0);
    stretch_ = 1;
    pairs_.clear();
  }

  Move advance(double value, const Vec& gradient, Vec& theta) override {
    const bool first = base_.size() == 0;
    if (first || decreases(value, value_, gradient_.dot(theta - base_), gradient.dot(theta - base_))) {
      if (!std::isfinite(value)) return Move::stuck;
      if (!first) {
        const Vec s = theta - base_, y = gradient - gradient_;
        remember(s, y);
        // Where the loss bends downwards along the step no curvature says how far to go: further every time.
        stretch_ = s.dot(y) > 0 ? 1 : std::min(2 * stretch_, 1e6);
      }
      base_ = theta;
      value_ = value;
      gradient_ = gradient;
      choose_direction();
      propose(theta);
      return Move::accepted;
    }
    // The minimiser of the parabola through value, slope and trial, kept within [0.1, 0.5] of the last step.
    const double slope = gradient_.dot(direction_);
    double shrink = 0.5;
    if (std::isfinite(value)) {
      const double curvature = value - value_ - trial_ * slope;
      if (curvature > 0) shrink = std::clamp(-slope * trial_ / (2 * curvature), 0.1, 0.5);
    }
    trial_ *= shrink;
    propose(theta);
    if ((theta - base_).norm() > 1e-10 * (1 + base_.norm())) return Move::rejected;
    if (pairs_.empty()) return Move::stuck;
    // A memory of old curvature may point nowhere: forget it once before giving up.
    pairs_.clear();
    stretch_ = 1;
    choose_direction();
    propose(theta);
    return Move::rejected;
  }

  OptimizerState save() const override {
    OptimizerState state{{{"trial", trial_},
                          {"value", value_},
                          {"stretch", stretch_},
                          {"pairs", static_cast<double>(pairs_.size())}},
                         {{"base", base_}, {"gradient", gradient_}, {"direction", direction_}}};
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      state.vectors[fmt::format("s{}", i)] = pairs_[i].s;
      state.vectors[fmt::format("y{}", i)] = pairs_[i].y;
    }
    return state;
  }
  void load(const OptimizerState& state) override {
    trial_ = state.numbers.at("trial");
    value_ = state.numbers.at("value");
    stretch_ = state.numbers.at("stretch");
    base_ = state.vectors.at("base");
    gradient_ = state.vectors.at("gradient");
    direction_ = state.vectors.at("direction");
    pairs_.clear();
    for (std::size_t i = 0; i < static_cast<std::size_t>(state.count("pairs", options_.memory)); ++i)
      pairs_.push_back(
          {state.vectors.at(fmt::format("s{}", i)), state.vectors.at(fmt::format("y{}", i))});
  }

 private:
  void remember(const Vec& s, const Vec& y) {
    if (!(s.dot(y) > 1e-12 * s.norm() * y.norm())) return;
    if (pairs_.size() == static_cast<std::size_t>(options_.memory)) pairs_.erase(pairs_.begin());
    pairs_.push_back({s, y});
  }

  /// The two-loop recursion in the free variables alone: held ones are masked out of every product.
  void choose_direction() {
    Vec mask = Vec::Ones(base_.size());
    for (Index i = 0; i < base_.size(); ++i)
      if (box_.held(base_, gradient_, i)) mask[i] = 0;
    const Vec free = gradient_.cwiseProduct(mask);
    direction_ = -free;
    const double length = std::max(free.norm(), 1e-300);
    const double cautious =
        stretch_ * (options_.first_step > 0 ? options_.first_step / length : std::min(1.0, 1 / length));
    trial_ = pairs_.empty() ? cautious : stretch_;
    double scale = 0;  // of the newest pair with curvature
    for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
      pair->curvature = pair->s.cwiseProduct(mask).dot(pair->y);
      const double yy = pair->y.cwiseProduct(mask).squaredNorm();
      if (scale == 0 && pair->curvature > 0 && yy > 0) scale = pair->curvature / yy;
    }
    if (scale == 0) {
      trial_ = cautious;
      return;
    }
    Vec q = free;
    const auto newest_first = [this](long age) -> SecantPair<Vec>& {
      return pairs_[pairs_.size() - 1 - static_cast<std::size_t>(age)];
    };
    apply_secant_pairs(static_cast<long>(pairs_.size()), newest_first, scale, q,
                       [&](Vec& x) { x.array() *= mask.array(); });
    // Not a descent direction in this arithmetic: the gradient serves.
    if (q.allFinite() && q.dot(free) > 1e-12 * q.norm() * free.norm()) direction_ = -q;
  }

  void propose(Vec& theta) const {
    theta = base_ + trial_ * direction_;
    box_.project(theta);
    // The projected quasi-Newton path can point uphill near a corner; the projected gradient path cannot.
    if (gradient_.dot(theta - base_) > 0) {
      theta = base_ - trial_ * gradient_;
      box_.project(theta);
    }
  }

  LbfgsOptimizerOptions options_;
  Box box_;
  Vec base_, gradient_, direction_;
  double value_ = 0, trial_ = 1, stretch_ = 1;
  std::vector<SecantPair<Vec>> pairs_;  // the newest is the last
};

}  // namespace

long OptimizerState::count(const std::string& key, long most) const {
  const double number = numbers.at(key);
  if (!(number >= 0 && number <= static_cast<double>(most)) || number != std::floor(number))
    throw InvalidInput(fmt::format("{} is {}", key, number));
  return static_cast<long>(number);
}

Violations DescentOptimizerOptions::validate() const {
  return Violations("gradient-descent").not_negative("step", step);
}

Violations AdamOptimizerOptions::validate() const {
  Violations v("adam");
  v.positive("step", step).positive("epsilon", epsilon);
  v.require(beta1 >= 0 && beta1 < 1, "beta1", beta1, "must lie in [0, 1)");
  v.require(beta2 >= 0 && beta2 < 1, "beta2", beta2, "must lie in [0, 1)");
  return v;
}

Violations LbfgsOptimizerOptions::validate() const {
  return Violations("lbfgs").at_least("memory", memory, 1).not_negative("first_step", first_step);
}

std::unique_ptr<Optimizer> make_gradient_descent(const DescentOptimizerOptions& options) {
  return std::make_unique<DescentOptimizer>(options);
}
std::unique_ptr<Optimizer> make_adam(const AdamOptimizerOptions& options) {
  return std::make_unique<AdamOptimizer>(options);
}
std::unique_ptr<Optimizer> make_lbfgs(const LbfgsOptimizerOptions& options) {
  return std::make_unique<LbfgsOptimizer>(options);
}

namespace {

const std::vector<OptimizerChoice>& all_optimizers() {
  static const std::vector<OptimizerChoice> all{DescentOptimizerOptions{}, AdamOptimizerOptions{},
                                                LbfgsOptimizerOptions{}};
  return all;
}

struct OptimizerName {
  std::string_view operator()(const DescentOptimizerOptions&) const { return "gradient-descent"; }
  std::string_view operator()(const AdamOptimizerOptions&) const { return "adam"; }
  std::string_view operator()(const LbfgsOptimizerOptions&) const { return "lbfgs"; }
};

struct OptimizerMaker {
  using Made = std::unique_ptr<Optimizer>;
  Made operator()(const DescentOptimizerOptions& o) const { return make_gradient_descent(o); }
  Made operator()(const AdamOptimizerOptions& o) const { return make_adam(o); }
  Made operator()(const LbfgsOptimizerOptions& o) const { return make_lbfgs(o); }
};

}  // namespace

std::string_view name(const OptimizerChoice& choice) {
  return std::visit(OptimizerName{}, choice);
}

Violations validate(const OptimizerChoice& choice) {
  return std::visit([](const auto& options) { return options.validate(); }, choice);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerChoice& each : all_optimizers()) names.emplace_back(name(each));
  return names;
}

const OptimizerChoice* find_optimizer(std::string_view name) {
  for (const OptimizerChoice& each : all_optimizers())
    if (bilevel::name(each) == name) return &each;
  return nullptr;
}

OptimizerChoice optimizer_named(std::string_view name) {
  if (const OptimizerChoice* found = find_optimizer(name)) return *found;
  throw InvalidInput(fmt::format("there is no outer optimiser '{}'; there are: {}", name,
                                 fmt::join(optimizer_names(), ", ")));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerChoice& choice) {
  return std::visit(OptimizerMaker{}, choice);
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, double step) {
  OptimizerChoice choice = optimizer_named(name);
  if (auto* descent = std::get_if<DescentOptimizerOptions>(&choice)) descent->step = step;
  if (auto* adam = std::get_if<AdamOptimizerOptions>(&choice); adam && step > 0) adam->step = step;
  return make_optimizer(choice);
}

}  // namespace bilevel
