// How lasso and elastic net settle: coordinate descent on the features held by the Gram matrix, Newton steps
// on the support, and a pass over the data to see which other features want to enter.

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/space/cholesky.hpp>

#include "problems/lasso_gram.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

namespace {

constexpr long most_rounds = 500;
constexpr long most_sweeps = 20000;
constexpr Index first_entrants = 64;

double soft_threshold(double x, double threshold) {
  return x > threshold ? x - threshold : x < -threshold ? x + threshold : 0;
}

}  // namespace

/// The problem restricted to the held features, one slot each, with the intercept eliminated: all slopes are
/// those at its best value.
struct LassoDescent {
  LassoDescent(Lasso& owner) : model(owner), gram(*owner.gram_) {}

  void adopt(const Vec& phi, const Vec& gradient);
  double step(Index slot);
  double sweep_all();
  double sweep_support();
  bool newton();
  void run(double tolerance);

  Lasso& model;
  Lasso::Gram& gram;
  Vec phi, slope, lambda, before;
  std::vector<Index> support;
  long sweeps = 0;
  double swept = 0, factored = 0;  // operations so far
  Mat block;
  Vec right;
  Cholesky factor;
};

void LassoDescent::adopt(const Vec& whole, const Vec& gradient) {
  const Index n = gram.count();
  phi.resize(n);
  slope.resize(n);
  lambda.resize(n);
  const double of_intercept = model.intercept_ ? gradient[model.features_] : 0;
  for (Index a = 0; a < n; ++a) {
    const Index j = gram.features()[at(a)];
    phi[a] = whole[j];
    slope[a] = gradient[j] - gram.means()[j] * of_intercept;
    lambda[a] = model.lambda_[j];
  }
  before = phi;
}

/// Minimises over one coordinate; returns how far its optimality condition was off.
double LassoDescent::step(Index a) {
  const double curvature = gram(a, a);
  const double now = phi[a];
  if (now == 0 && std::abs(slope[a]) <= lambda[a]) return 0;
  const double whole = curvature + model.lambda2_;
  // A column without variation: nothing is to be gained.
  const double next =
      whole > 0 && curvature > 0 ? soft_threshold(curvature * now - slope[a], lambda[a]) / whole : 0;
  if (next == now) return 0;
  const double change = next - now;
  phi[a] = next;
  const Index n = gram.count();
  slope.noalias() += change * Eigen::Map<const Vec>(gram.column(a), n);
  swept += static_cast<double>(n);
  return std::abs(change) * whole;
}

double LassoDescent::sweep_all() {
  double largest = 0;
  support.clear();
  for (Index a = 0; a < gram.count(); ++a) {
    largest = std::max(largest, step(a));
    if (phi[a] != 0) support.push_back(a);
  }
  ++sweeps;
  return largest;
}

double LassoDescent::sweep_support() {
  double largest = 0;
  for (const Index a : support) largest = std::max(largest, step(a));
  ++sweeps;
  return largest;
}

/// The minimiser for the present support and signs, or, where a sign would change on the way there, as far as
/// that: the coefficient becomes zero and the rest goes on. L_in falls in every step, since on such a piece
/// it is a convex quadratic. Returns whether a minimiser was reached.
bool LassoDescent::newton() {
  const Index n = gram.count();
  std::vector<Index> active;
  for (Index a = 0; a < n; ++a)
    if (phi[a] != 0) active.push_back(a);
  for (;;) {
    const Index k = static_cast<Index>(active.size());
    if (k == 0) return true;
    // Factoring may take as long as sweeping did, plus a millisecond: whichever of the two is slow on these
    // data costs no more than twice the other.
    const double cubed = static_cast<double>(k) * static_cast<double>(k) * static_cast<double>(k) / 3;
    if (factored + cubed > swept + 4e6) return false;
    factored += cubed;
    block.resize(k, k);
    right.resize(k);
    for (Index b = 0; b < k; ++b) {
      const double* column = gram.column(active[at(b)]);
      for (Index a = b; a < k; ++a) block(a, b) = column[active[at(a)]];
      block(b, b) += model.lambda2_;
      const Index s = active[at(b)];
      right[b] = -(slope[s] + model.lambda2_ * phi[s] + (phi[s] > 0 ? lambda[s] : -lambda[s]));
    }
    factor.compute(block);
    const double largest = block.diagonal().maxCoeff();
    bool singular = !factor.succeeded();
    if (!singular)
      for (Index b = 0; b < k && !singular; ++b) {
        const double pivot = factor.pivots()[b];
        singular = !(pivot * pivot > 1e-13 * block(b, b));
      }
    if (singular) {
      // Columns depend on each other: slide along what they share until one of them is not needed.
      block.diagonal().array() += 1e-9 * largest;
      factor.compute(block);
      if (!factor.succeeded()) return false;
    }
    factor.solve_in_place(right);
    if (!right.allFinite()) return false;

    double length = 1;
    Index leaving = -1;
    for (Index b = 0; b < k; ++b) {
      const double here = phi[active[at(b)]];
      if (here * (here + right[b]) > 0) continue;
      const double until = -here / right[b];
      if (leaving < 0 || until < length) {
        length = std::min(until, 1.0);
        leaving = b;
      }
    }
    for (Index b = 0; b < k; ++b) {
      const Index a = active[at(b)];
      const double change = b == leaving ? -phi[a] : length * right[b];
      phi[a] += change;
      if (b == leaving) phi[a] = 0;
      slope.noalias() += change * Eigen::Map<const Vec>(gram.column(a), n);
    }
    if (leaving < 0) return !singular;
    active.erase(active.begin() + leaving);
  }
}

void LassoDescent::run(double tolerance) {
  double least = everywhere;
  int idle = 0;
  while (sweeps < most_sweeps && !stop_wanted(model.stop_token())) {
    const double largest = sweep_all();
    if (largest <= tolerance) return;
    // Rounding may keep the conditions from being met any better.
    idle = largest < 0.5 * least ? 0 : idle + 1;
    least = std::min(least, largest);
    if (idle > 50) return;
    for (int k = 0; k < 8; ++k)
      if (sweep_support() <= std::max(tolerance, 0.05 * largest)) break;
    newton();
  }
}

/// Rounds of looking at all features, holding those that want to enter, and descending on what is held.
struct LassoSettling {
  LassoSettling(Lasso& owner, double target) : model(owner), tolerance(target), descent(owner) {}

  void begin(const Vec& start);
  void run();
  void find_entrants();
  void descend();
  void keep_largest(Index most);
  void remember(double length);
  Lasso::Settled finish();

  Lasso& model;
  double tolerance;
  LassoDescent descent;
  Vec phi, best;
  double least = everywhere;                       // residual, at `best`
  long idle = 0;                                   // rounds since it was halved
  std::vector<std::pair<double, Index>> entrants;  // how eager, and which feature
  std::vector<Index> wanted;
  Index support = 0;
  double outside = 0;  // the most eager one that is not held
  Lasso::Settled result;
};

void LassoSettling::keep_largest(Index most) {
  if (static_cast<Index>(entrants.size()) <= most) return;
  std::nth_element(entrants.begin(), entrants.begin() + most, entrants.end(),
                   [](const auto& a, const auto& b) {
                     return a.first != b.first ? a.first > b.first : a.second < b.second;
                   });
  entrants.resize(at(most));
}

/// A start with more coefficients than can be held keeps its largest; one that is worse than no features at
/// all is not used.
void LassoSettling::begin(const Vec& start) {
  const Index d = model.features_, rows = model.training_->row_count();
  phi = start;
  for (Index j = 0; j < d; ++j) {
    if (phi[j] == 0) continue;
    if (model.training_extent_.mean_square[j] == 0)
      phi[j] = 0;
    else
      entrants.emplace_back(std::abs(phi[j]), j);
  }
  if (model.gram_->count() < d && static_cast<Index>(entrants.size()) > rows) {
    keep_largest(std::min(Lasso::Gram::most / 2, std::max<Index>(rows, first_entrants)));
    Vec trimmed = Vec::Zero(model.size_);
    for (const auto& [size, j] : entrants) trimmed[j] = phi[j];
    if (model.intercept_) trimmed[d] = phi[d];
    phi = std::move(trimmed);
  }
  model.evaluate(phi);
  if (!(model.penalised_value(phi) <= model.null_loss_)) {
    phi.setZero();
    if (model.intercept_) phi[d] = model.null_intercept_;
  }
}

void LassoSettling::remember(double length) {
  if (!(length < least)) return;
  least = length;
  best = phi;
}

void LassoSettling::run() {
  for (long round = 0; round < most_rounds; ++round) {
    if (const auto why = stop_wanted(model.stop_token())) {
      result.message = sentence(*why);
      return;
    }
    model.evaluate(phi);
    ++result.passes;
    const double length = model.residual_norm(phi);
    if (!std::isfinite(length)) {
      result.message = fmt::format("the residual is not finite after {} passes", result.passes);
      return;
    }
    idle = length < 0.5 * least ? 0 : idle + 1;
    remember(length);
    if (length <= tolerance) {
      result.converged = true;
      return;
    }
    find_entrants();
    if (outside > 0) idle = 0;
    if (idle > 4) {
      result.message = fmt::format("rounding or dependent features keep the residual at {:.3g}, above {:.3g}",
                                   least, tolerance);
      return;
    }
    if (support > Lasso::Gram::most) {
      result.message =
          fmt::format("the support has more than {} features; use larger penalties", Lasso::Gram::most);
      return;
    }
    descend();
    if (descent.sweeps >= most_sweeps) {
      model.evaluate(phi);
      remember(model.residual_norm(phi));
      result.converged = least <= tolerance;
      result.message =
          fmt::format("{} sweeps left a residual of {:.3g}, above {:.3g}", descent.sweeps, least, tolerance);
      return;
    }
  }
}

/// Who wants to enter, at the best intercept for these coefficients.
void LassoSettling::find_entrants() {
  const double of_intercept = model.intercept_ ? model.gradient_[model.features_] : 0;
  const Vec& means = model.gram_->means();
  entrants.clear();
  wanted.clear();
  outside = 0;
  support = 0;
  for (Index j = 0; j < model.features_; ++j) {
    if (phi[j] != 0) {
      ++support;
      wanted.push_back(j);
    }
    if (phi[j] != 0 || model.training_extent_.mean_square[j] == 0) continue;
    const double excess = std::abs(model.gradient_[j] - means[j] * of_intercept) - model.lambda_[j];
    if (!(excess > 0)) continue;
    // Held or not, the most eager ones count: while those that are held do not fit, others can wait.
    entrants.emplace_back(excess, j);
    if (model.gram_->slot(j) < 0) outside = std::max(outside, excess);
  }
}

void LassoSettling::descend() {
  Lasso::Gram& gram = *model.gram_;
  keep_largest(std::min(std::max(first_entrants, support),
                        Lasso::Gram::most - std::min(support, Lasso::Gram::most - 1)));
  for (const auto& [excess, j] : entrants) wanted.push_back(j);
  std::sort(wanted.begin(), wanted.end());
  gram.hold(wanted);

  descent.adopt(phi, model.gradient_);
  const double floor = 2e-16 * model.lambda_max_;
  descent.run(
      std::max({0.1 * tolerance / std::sqrt(static_cast<double>(model.size_)), 1e-2 * outside, floor}));
  double shift = model.intercept_ ? model.gradient_[model.features_] : 0;
  for (Index a = 0; a < gram.count(); ++a) {
    const Index j = gram.features()[at(a)];
    phi[j] = descent.phi[a];
    shift += gram.means()[j] * (descent.phi[a] - descent.before[a]);
  }
  if (model.intercept_) phi[model.features_] -= shift;
}

Lasso::Settled LassoSettling::finish() {
  result.phi = best.size() == model.size_ ? best : phi;
  model.evaluate(result.phi);
  result.kkt = model.residual_norm(result.phi);
  result.value = model.penalised_value(result.phi);
  result.sweeps = descent.sweeps;
  // The elastic net is a lasso with √λ₂·I as further rows. With r the residuals of both and α·r within the
  // dual constraints |∂_j| ≤ λ₁ⱼ, the dual value is α·y·r − ½α²‖r‖².
  double inside = 1, correlation = 0, absolute = 0;
  for (Index j = 0; j < model.features_; ++j) {
    const double g = model.gradient_[j] + model.lambda2_ * result.phi[j];
    if (std::abs(g) > model.lambda_[j]) inside = std::min(inside, model.lambda_[j] / std::abs(g));
    correlation += result.phi[j] * g;
    if (result.phi[j] != 0) absolute += model.lambda_[j] * std::abs(result.phi[j]);
  }
  const double squares = 2 * model.loss_ + model.lambda2_ * result.phi.head(model.features_).squaredNorm();
  result.duality_gap =
      std::max(0.0, 0.5 * squares * (1 - inside) * (1 - inside) + absolute + inside * correlation);
  if (result.message.empty())
    result.message = result.converged ? fmt::format("residual {:.3g} ≤ {:.3g} after {} sweeps and {} passes",
                                                    result.kkt, tolerance, result.sweeps, result.passes)
                                      : fmt::format("{} rounds left a residual of {:.3g}, above {:.3g}",
                                                    most_rounds, result.kkt, tolerance);
  return std::move(result);
}

Lasso::Settled Lasso::settle(const Vec& theta, const Vec& start, double tolerance) {
  if (!(tolerance > 0))
    throw InvalidInput(fmt::format("lasso: the tolerance {} must be positive", tolerance));
  if (start.size() != size_)
    throw InvalidInput(
        fmt::format("lasso: the start has {} elements, the problem wants {}", start.size(), size_));
  if (!start.allFinite() || !theta.allFinite())
    throw InvalidInput("lasso: the start or theta holds NaN or infinity");
  set_penalties(theta);
  LassoSettling settling(*this, tolerance);
  settling.begin(start);
  settling.run();
  return settling.finish();
}

}  // namespace bilevel::problems
