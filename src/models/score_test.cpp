#include "score_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "threads/side_by_side.hpp"

namespace bilevel::models {
namespace {

using Mat = Eigen::MatrixXd;

/// Random mixtures of rows: tr J is off by √(2/(64·ν)) of itself, 1 in 10 at ν = 3.
constexpr Index probes = 64;
constexpr Index block = 128;

struct Sums {
  Vec mean, weighted;   // Σ ω_i c_i, Σ ω_i² c_i
  Mat second;           // Σ ω_i² c_i c_iᵀ
  double squares = 0;   // Σ ω_i²
  Mat mixed;            // Σ_i ω_i z_ia c_i for each probe a …
  Vec mixed_weight;     // … and Σ_i ω_i z_ia
};

Mat centred(Mat u, Index parts) {
  u.conservativeResize(parts, Eigen::NoChange);
  const Eigen::RowVectorXd means = u.colwise().mean();
  u.rowwise() -= means;
  return u;
}

Sums sums_of(RowHypergradients& rows, const Vec& omega, Index parts, bool exact, std::uint64_t seed) {
  Sums s;
  s.squares = omega.squaredNorm();
  if (!exact) {
    // The first column is the mean itself.
    std::mt19937_64 random(seed);
    Mat mixtures(rows.rows(), probes + 1);
    mixtures.col(0) = omega;
    for (Index a = 1; a <= probes; ++a)
      for (Index i = 0; i < rows.rows(); ++i) mixtures(i, a) = (random() >> 63) != 0 ? omega[i] : -omega[i];
    const Mat c = centred(rows.of(0, mixtures), parts);
    s.mean = c.col(0);
    s.mixed = c.rightCols(probes);
    s.mixed_weight = mixtures.rightCols(probes).colwise().sum();
    return s;
  }
  s.mean = s.weighted = Vec::Zero(parts);
  s.second = Mat::Zero(parts, parts);
  for (Index first = 0; first < rows.rows(); first += block) {
    const Index count = std::min(block, rows.rows() - first);
    const auto own = omega.segment(first, count);
    Mat c = centred(rows.of(first, Mat::Identity(count, count)), parts);
    s.mean.noalias() += c * own;
    c = c * own.asDiagonal();
    s.weighted.noalias() += c * own;
    s.second.selfadjointView<Eigen::Lower>().rankUpdate(c);
  }
  s.second.triangularView<Eigen::StrictlyUpper>() = s.second.transpose();
  return s;
}

}  // namespace

Score score_test(const std::vector<std::unique_ptr<RowHypergradients>>& folds,
                 const std::vector<std::vector<double>>& weights, Index parts, std::uint64_t seed,
                 double affordable) {
  bool exact = true;
  for (const auto& fold : folds)
    exact = exact && fold->factored() &&
            static_cast<double>(fold->rows()) *
                    std::pow(static_cast<double>(std::max(fold->unknowns(), parts)), 2) <=
                affordable;
  std::vector<Sums> all(folds.size());
  bilevel::side_by_side(folds.size(), [&](std::size_t k) {
    const Vec own = Eigen::Map<const Vec>(weights[k].data(), static_cast<Index>(weights[k].size()));
    const Vec omega = own / (own.sum() * static_cast<double>(folds.size()));
    all[k] = sums_of(*folds[k], omega, parts, exact, seed + k);
  });

  Sums total = all[0];
  for (std::size_t k = 1; k < all.size(); ++k) {
    total.mean += all[k].mean;
    total.squares += all[k].squares;
    if (exact) {
      total.weighted += all[k].weighted;
      total.second += all[k].second;
    } else {
      total.mixed += all[k].mixed;
      total.mixed_weight += all[k].mixed_weight;
    }
  }
  const Vec& g = total.mean;
  double trace = 0, trace_of_square = 0;
  if (exact) {
    const Mat j = total.second - total.weighted * g.transpose() - g * total.weighted.transpose() +
                  total.squares * g * g.transpose();
    trace = j.trace();
    trace_of_square = j.squaredNorm();
  } else {
    // For independent signs z: E|v_a|² = tr J and, of two mixtures, E(v_a·v_b)² = tr J².
    const Mat v = total.mixed - g * total.mixed_weight.transpose();
    const Mat inner = v.transpose() * v;
    const auto m = static_cast<double>(inner.rows());
    trace = inner.trace() / m;
    trace_of_square = (inner.squaredNorm() - inner.diagonal().squaredNorm()) / (m * (m - 1));
  }
  Score score;
  if (!(trace > 0) || !std::isfinite(trace) || !(trace_of_square > 0)) return score;
  score.rho = g.squaredNorm() / trace;
  score.nu = std::clamp(trace * trace / trace_of_square, 1.0, static_cast<double>(std::max<Index>(parts - 1, 1)));
  score.p = chi_square_tail(score.rho * score.nu, score.nu);
  return score;
}

/// The regularised upper incomplete gamma function Q(ν/2, x/2): its series below the mode, Lentz's continued
/// fraction above it.
double chi_square_tail(double x, double nu) {
  const double a = nu / 2, z = x / 2;
  if (!(z > 0)) return 1;
  const double front = std::exp(a * std::log(z) - z - std::lgamma(a));
  constexpr double enough = 1e-15;
  if (z < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; std::abs(term) > enough * std::abs(sum); ++n) {
      term *= z / n;
      sum += term;
    }
    return 1 - front * sum;
  }
  constexpr double tiny = 1e-300;
  double b = z + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int i = 1; i < 10000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (std::abs(d) < tiny) d = tiny;
    c = b + an / c;
    if (std::abs(c) < tiny) c = tiny;
    d = 1 / d;
    h *= d * c;
    if (std::abs(d * c - 1) < enough) break;
  }
  return front * h;
}

}  // namespace bilevel::models
