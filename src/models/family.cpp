#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/problem/gamma.hpp>

#include "network_penalties.hpp"

namespace bilevel::models {
namespace {

/// Below this share of the root mean square a coefficient is as good as none.
constexpr double least_size = 0.02;

/// −log a_j of each coefficient.
Vec slopes(const Prepared& p, const Vec& phi) {
  const auto& of = p.penalties.of;
  const auto n = static_cast<Index>(of.size());
  Vec squares = Vec::Zero(p.penalties.count), counts = squares;
  for (Index k = 0; k < n; ++k) {
    squares[of[static_cast<std::size_t>(k)]] += phi[k] * phi[k];
    counts[of[static_cast<std::size_t>(k)]] += 1;
  }
  const double mean_square = phi.head(n).squaredNorm() / static_cast<double>(n);
  Vec slope = Vec::Zero(n);
  if (!(mean_square > 0)) return slope;
  for (Index k = 0; k < n; ++k) {
    const Index g = of[static_cast<std::size_t>(k)];
    slope[k] = -std::log(std::max(std::sqrt(squares[g] / counts[g] / mean_square), least_size));
  }
  return slope;
}

}  // namespace

Family family_of(const Prepared& p, std::string kind, const PenaltyMap& map, std::vector<std::string> names) {
  Family f;
  f.kind = std::move(kind);
  f.folds.assign(p.folds.size(), map);
  f.final = map;
  f.names = std::move(names);
  f.prior.parts = map.count;
  if (p.elastic()) f.names.push_back("λ₂ (squares)");
  return f;
}

Family adaptive_family(const Prepared& p, const std::vector<Vec>& phi, const std::vector<Vec>& alone) {
  Family f = family_of(p, "adaptive", PenaltyMap::global(static_cast<Index>(p.names.size()), p.outputs),
                       p.hyperparameters);
  // The lasso has no coefficients at all under a strong penalty; what is kept must have the sizes that the
  // folds judged by.
  const auto n = static_cast<Index>(p.penalties.of.size());
  const bool stand =
      std::none_of(alone.begin(), alone.end(), [&](const Vec& each) { return each.head(n).isZero(0); });
  const auto both = [&](std::size_t k) {
    const Vec together = slopes(p, phi[k]);
    return stand ? Vec(0.5 * (together + slopes(p, alone[k]))) : together;
  };
  for (std::size_t k = 0; k < f.folds.size(); ++k) f.folds[k].slope = both(k);
  f.final.slope = both(phi.size() - 1);
  f.prior.parts = 0;
  return f;
}

Family layers_family(const Prepared& p) {
  std::vector<std::string> names;
  PenaltyMap map = layers_map(p.shape(), names);  // which fills them in
  return family_of(p, "per-layer", std::move(map), std::move(names));
}

void shift_by_layers(const Prepared& p, Family& family, const Vec& shifts) {
  std::vector<std::string> names;
  const PenaltyMap layers = layers_map(p.shape(), names);
  Vec offset(static_cast<Index>(layers.of.size()));
  for (Index k = 0; k < offset.size(); ++k) offset[k] = shifts[layers.of[static_cast<std::size_t>(k)]];
  for (PenaltyMap& map : family.folds) map.offset = offset;
  family.final.offset = offset;
}

double level_shift(const Prepared& p, const Family& family, const std::vector<Vec>& phi, double gamma) {
  const bool absolute = p.model == Model::lasso || p.elastic();
  double sum = 0;
  for (std::size_t k = 0; k < family.folds.size(); ++k) {
    const Vec& slope = family.folds[k].slope;
    Eigen::ArrayXd size = phi[k].head(slope.size()).array().abs();
    if (!absolute) size = size.square();
    const double before = size.sum(), after = (size * (gamma * slope.array()).exp()).sum();
    if (before > 0 && after > 0) sum += std::log(before / after);
  }
  return sum / static_cast<double>(family.folds.size());
}

Vec reported_penalties(const Prepared& p, const Family& family, const Vec& theta) {
  const auto& of = p.penalties.of;
  Vec out(static_cast<Index>(family.names.size()));
  if (out.size() == theta.size() && family.final.slope.size() + family.final.offset.size() == 0) return theta;
  for (std::size_t k = 0; k < of.size(); ++k)
    out[of[k]] = family.final.log_lambda(static_cast<Index>(k), theta);
  if (p.elastic()) out[out.size() - 1] = theta[theta.size() - 1];
  return out;
}

bilevel::Estimate<Vec> WithPrior::estimate(const Vec& theta, const bilevel::Warm<Vec>& warm) {
  bilevel::Estimate<Vec> e = Forwarding::estimate(theta, warm);
  const Vec apart = prior_.apart(theta);
  const double value = prior_.value(theta);
  e.outer_value += value;
  e.corrected_value += value;
  e.gradient.head(prior_.parts) += prior_.precision * apart;
  e.certificate.bound += bilevel::gamma(static_cast<double>(prior_.parts) + 8) *
                         (prior_.precision * apart.norm() + e.gradient.norm());
  // The share that the bound may have is one of the whole gradient.
  e.certificate.judge(e.gradient.norm(), outer_tolerance_, succeeded(e.status));
  return e;
}

}  // namespace bilevel::models
