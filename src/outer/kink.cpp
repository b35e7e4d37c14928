#include <bilevel/outer/impl/kink.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include <bilevel/space/decompositions.hpp>

namespace bilevel {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Radii shrink by tens. What is stationary within the claimed radius, in log λ a ten-thousandth of λ,
/// counts; whether it is so within the last one as well is tried.
constexpr double first_radius = 1e-2, claimed_radius = 1.01e-4, last_radius = 1.01e-6;
/// A step counts where it lowers the loss by this share of what the combination promises; a gradient counts
/// as news where along the step it promises less than the other share.
constexpr double decrease_share = 0.1, news_share = 0.5;
static_assert(decrease_share * first_radius == KinkSearch::first_gain);
constexpr long most_bisections = 40, most_doubts = 12, most_looks = 400;

std::string reason_of(std::size_t gradients) {
  return fmt::format("the worst of {} gradients around θ", gradients);
}

/// argmin ‖A x − b‖ over x ≥ 0, Lawson and Hanson's active sets.
Vec nonnegative_least_squares(const Mat& a, const Vec& b) {
  const Index n = a.cols();
  Vec x = Vec::Zero(n);
  std::vector<Index> set;
  std::vector<char> barred(static_cast<std::size_t>(n), 0);
  const Vec lengths = a.colwise().norm();
  for (Index round = 0; round < 3 * n; ++round) {
    const Vec residual = b - a * x, slope = a.transpose() * residual;
    const double tiny = 1e-14 * residual.norm();
    Index enters = -1;
    for (Index j = 0; j < n; ++j)
      if (!barred[static_cast<std::size_t>(j)] && std::find(set.begin(), set.end(), j) == set.end() &&
          slope[j] > tiny * lengths[j] &&
          (enters < 0 || slope[j] * lengths[enters] > slope[enters] * lengths[j]))
        enters = j;
    if (enters < 0) break;
    set.push_back(enters);
    while (!set.empty()) {
      Mat part(a.rows(), static_cast<Index>(set.size()));
      for (std::size_t k = 0; k < set.size(); ++k) part.col(static_cast<Index>(k)) = a.col(set[k]);
      const Vec z = least_squares(part, b);
      double step = 1;
      for (std::size_t k = 0; k < set.size(); ++k) {
        const double to = z[static_cast<Index>(k)], from = x[set[k]];
        if (to <= 0) step = std::min(step, from > to ? from / (from - to) : 0);
      }
      for (std::size_t k = 0; k < set.size(); ++k) x[set[k]] += step * (z[static_cast<Index>(k)] - x[set[k]]);
      if (step == 1) break;
      std::erase_if(set, [&](Index j) {
        const bool leaves = x[j] <= 1e-15;
        if (leaves) x[j] = 0;
        return leaves;
      });
    }
    // What leaves as soon as it enters would be chosen again and again.
    const bool stayed = std::find(set.begin(), set.end(), enters) != set.end();
    if (stayed)
      std::fill(barred.begin(), barred.end(), 0);
    else
      barred[static_cast<std::size_t>(enters)] = 1;
  }
  return x;
}

}  // namespace

HullPoint least_in_hull(const std::vector<Vec>& gradients, const Box& box, const Vec& theta) {
  const auto m = static_cast<Index>(gradients.size());
  const Index n = theta.size();
  double size = 0;
  for (const Vec& g : gradients) size = std::max(size, g.norm());
  HullPoint point{Vec::Zero(n), Vec::Constant(m, 1 / static_cast<double>(m))};
  if (size == 0) return point;
  // A bound takes up any push through it: one more generator for a coordinate that some gradients push
  // outwards, of this sign; a coordinate that none of them pushes inwards is simply left out.
  std::vector<std::pair<Index, double>> disputed;
  std::vector<char> dropped(static_cast<std::size_t>(n), 0);
  const auto stand_at = [&](Index i, double sign) {
    const auto some_push = [&](double direction) {
      return std::any_of(gradients.begin(), gradients.end(),
                         [&](const Vec& g) { return direction * g[i] > 0; });
    };
    if (!some_push(-sign)) return;
    if (some_push(sign))
      disputed.emplace_back(i, sign);
    else
      dropped[static_cast<std::size_t>(i)] = 1;
  };
  for (Index i = 0; i < n; ++i) {
    if (box.lower.size() && theta[i] <= box.lower[i]) stand_at(i, -1);
    if (box.upper.size() && theta[i] >= box.upper[i]) stand_at(i, 1);
  }
  // Least norm in the hull as least distance: min ‖Σ x_k g_k + Σ s_i w_i‖² + ω²(Σ x_k − 1)² over x, s ≥ 0 has
  // its x along the λ that is sought, whatever its length and whatever ω is. In this arithmetic ω must be of
  // the size of the least combination, which is not known before.
  const auto walls_left = static_cast<Index>(disputed.size());
  Mat a = Mat::Zero(n + 1, m + walls_left);
  for (Index k = 0; k < m; ++k)
    for (Index i = 0; i < n; ++i)
      if (!dropped[static_cast<std::size_t>(i)]) a(i, k) = gradients[static_cast<std::size_t>(k)][i] / size;
  for (Index k = 0; k < walls_left; ++k)
    a(disputed[static_cast<std::size_t>(k)].first, m + k) = disputed[static_cast<std::size_t>(k)].second;
  Vec b = Vec::Zero(n + 1);
  double least = everywhere;
  for (double omega = 1; omega > 1e-16;) {
    a.row(n).head(m).setConstant(omega);
    b[n] = omega;
    const Vec x = nonnegative_least_squares(a, b);
    const double total = x.head(m).sum();
    if (!(total > 0)) break;
    HullPoint found{Vec::Zero(n), x.head(m) / total};
    for (Index k = 0; k < m; ++k)
      found.direction += found.weights[k] * gradients[static_cast<std::size_t>(k)];
    for (Index i = 0; i < n; ++i)
      if (box.held(theta, found.direction, i)) found.direction[i] = 0;
    const double length = found.direction.norm();
    if (length < least) point = std::move(found);
    if (!(length < 0.5 * least)) break;
    least = length;
    omega = length / size;
  }
  return point;
}

Vec KinkSearch::begin(Nearby point, double value) {
  base_ = point.theta;
  value_ = value;
  radius_ = first_radius;
  doubts_ = looks_ = 0;
  least_ = {};
  nearby_.clear();
  // The first look goes along the gradient in any case: it need not be right to point somewhere.
  hull_ = least_in_hull({point.gradient}, box_, base_);
  if (point.certificate.verdict == Verdict::trusted && point.certificate.bound <= tolerance_)
    nearby_.push_back(std::move(point));
  Vec next;
  look(next);
  return next;
}

void KinkSearch::look(Vec& theta) {
  looked_ = hull_.direction;
  low_ = 0;
  value_low_ = value_;
  high_ = trial_ = radius_;
  misses_ = 0;
  step_to(theta, 0);
}

/// A step down the combination. Where it runs along a kink every gradient on it is in doubt: then with a
/// turn, another one each time.
void KinkSearch::step_to(Vec& theta, long turn) const {
  Vec step = -hull_.direction / std::max(norm(), 1e-300);
  if (turn > 0) {
    std::mt19937_64 draw(static_cast<std::uint64_t>(turn));
    Vec aside(step.size());
    for (double& x : aside) x = static_cast<double>(draw() >> 11) * 0x1p-52 - 1;
    step += 0.5 * aside.normalized();
    step.normalize();
  }
  theta = base_ + trial_ * step;
  box_.project(theta);
}

void KinkSearch::forget_far() {
  std::erase_if(nearby_, [&](const Nearby& n) { return (n.theta - base_).norm() > 1.01 * radius_; });
}

void KinkSearch::find_least() {
  std::vector<Vec> gradients;
  for (const Nearby& n : nearby_) gradients.push_back(n.gradient);
  hull_ = least_in_hull(gradients, box_, base_);
}

/// A tenth of the radius; false where it is small enough.
bool KinkSearch::narrow() {
  if (radius_ <= last_radius) return false;
  radius_ *= 0.1;
  misses_ = doubts_ = 0;
  forget_far();
  return true;
}

KinkSearch::Finding KinkSearch::give_up() {
  if (least_.norm <= tolerance_ && least_.radius <= claimed_radius) return Finding::stationary;
  note_least();
  return Finding::nothing;
}

void KinkSearch::note_least() {
  Least now{norm(), radius_, nearby_.size(), {}};
  Certificate& worst = now.certificate;
  worst.kind = Kind::rigorous;
  worst.verdict = Verdict::trusted;
  worst.bound = 0;
  for (std::size_t k = 0; k < nearby_.size() && static_cast<Index>(k) < hull_.weights.size(); ++k) {
    if (!(hull_.weights[static_cast<Index>(k)] > 0)) continue;
    const Certificate& c = nearby_[k].certificate;
    if (c.kind != Kind::rigorous) worst.kind = c.kind;
    worst.bound = std::max(worst.bound, c.bound);
  }
  worst.reason = reason_of(nearby_.size());
  // A proof within a wider radius, if it is narrow enough, is worth more than an estimate.
  const bool proven = least_.norm <= tolerance_ && least_.radius <= claimed_radius &&
                      least_.certificate.kind == Kind::rigorous;
  if (!proven || worst.kind == Kind::rigorous) least_ = std::move(now);
}

/// The next trial: down the least combination, or the end of the search.
KinkSearch::Finding KinkSearch::aim(Vec& theta) {
  const auto most = static_cast<std::size_t>(std::min<Index>(2 * base_.size() + 20, 100));
  for (;;) {
    // Where nothing is left, look again along the last step.
    if (nearby_.empty()) {
      hull_.direction = looked_;
      break;
    }
    find_least();
    if (norm() <= tolerance_)
      note_least();
    else if (nearby_.size() <= most)
      break;
    // What cancels over a wide radius need not do so over a narrow one.
    if (!narrow()) return give_up();
  }
  look(theta);
  return Finding::searching;
}

KinkSearch::Finding KinkSearch::advance(Nearby point, double value, Vec& theta) {
  const double length = norm();
  const bool usable = std::isfinite(value) && point.certificate.verdict == Verdict::trusted;
  moved_ = usable && value < value_ && value <= value_ - decrease_share * trial_ * length;
  if (moved_) {
    const bool plain = nearby_.size() <= 1;
    least_ = {};
    looks_ = 0;
    if (trial_ == radius_) radius_ = std::min(2 * radius_, first_radius);
    base_ = point.theta;
    value_ = value;
    nearby_.push_back(std::move(point));
    forget_far();
    return plain ? Finding::released : aim(theta);
  }
  // Along a step that does not lower the loss enough there is a point whose gradient promises less than the
  // combination did: it makes the hull's least point smaller. Bisection finds it (Goldstein).
  if (usable && (nearby_.empty() || point.gradient.dot(hull_.direction) < news_share * length * length)) {
    nearby_.push_back(std::move(point));
    return aim(theta);
  }
  if (++looks_ > most_looks) return give_up();
  doubts_ = usable ? 0 : doubts_ + 1;
  if (length == 0 || (nearby_.empty() && doubts_ > most_doubts)) return give_up();
  if (++misses_ > most_bisections || doubts_ > most_doubts) return narrow() ? aim(theta) : give_up();
  if (usable || !std::isfinite(value)) {
    const double between = 0.5 * (decrease_share + news_share);
    const double lifted = value + between * trial_ * length;
    if (!std::isfinite(value) || lifted >= value_low_) {
      high_ = trial_;
    } else {
      low_ = trial_;
      value_low_ = lifted;
    }
    trial_ = 0.5 * (low_ + high_);
  }
  step_to(theta, usable ? 0 : doubts_);
  return Finding::searching;
}

OptimizerState KinkSearch::save() const {
  if (!active()) return {};
  OptimizerState state{
      {{"value", value_},
       {"radius", radius_},
       {"low", low_},
       {"high", high_},
       {"trial", trial_},
       {"value_low", value_low_},
       {"misses", static_cast<double>(misses_)},
       {"doubts", static_cast<double>(doubts_)},
       {"looks", static_cast<double>(looks_)},
       {"least.norm", least_.norm},
       {"least.radius", least_.radius},
       {"least.gradients", static_cast<double>(least_.gradients)},
       {"least.kind", static_cast<double>(least_.certificate.kind)},
       {"least.bound", least_.certificate.bound},
       {"nearby", static_cast<double>(nearby_.size())}},
      {{"base", base_}, {"direction", hull_.direction}, {"looked", looked_}, {"weights", hull_.weights}}};
  for (std::size_t k = 0; k < nearby_.size(); ++k) {
    state.vectors[fmt::format("theta{}", k)] = nearby_[k].theta;
    state.vectors[fmt::format("gradient{}", k)] = nearby_[k].gradient;
    state.numbers[fmt::format("{}.bound", k)] = nearby_[k].certificate.bound;
    state.numbers[fmt::format("{}.kind", k)] = static_cast<double>(nearby_[k].certificate.kind);
  }
  return state;
}

void KinkSearch::load(const OptimizerState& state) {
  end();
  if (state.vectors.empty()) return;
  constexpr long most = 1'000'000'000;
  value_ = state.numbers.at("value");
  radius_ = state.numbers.at("radius");
  low_ = state.numbers.at("low");
  high_ = state.numbers.at("high");
  trial_ = state.numbers.at("trial");
  value_low_ = state.numbers.at("value_low");
  misses_ = state.count("misses", most);
  doubts_ = state.count("doubts", most);
  looks_ = state.count("looks", most);
  const auto trusted = [&](const std::string& key) {
    Certificate c;
    c.verdict = Verdict::trusted;
    c.kind = static_cast<Kind>(state.count(key + "kind", static_cast<long>(Kind::rigorous)));
    c.bound = state.numbers.at(key + "bound");
    return c;
  };
  least_ = {state.numbers.at("least.norm"), state.numbers.at("least.radius"),
            static_cast<std::size_t>(state.count("least.gradients", most)), trusted("least.")};
  least_.certificate.reason = reason_of(least_.gradients);
  base_ = state.vectors.at("base");
  hull_ = {state.vectors.at("direction"), state.vectors.at("weights")};
  looked_ = state.vectors.at("looked");
  nearby_.clear();
  for (std::size_t k = 0; k < static_cast<std::size_t>(state.count("nearby", most)); ++k)
    nearby_.push_back({state.vectors.at(fmt::format("theta{}", k)),
                       state.vectors.at(fmt::format("gradient{}", k)), trusted(fmt::format("{}.", k))});
}

}  // namespace bilevel
