#include <bilevel/inner/quadratic_program.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Cholesky>

namespace bilevel {
namespace {

/// The active set with J = L⁻ᵀQ, whose first columns R factors: N = L·Q₁R for the active normals N.
struct ActiveSet {
  Eigen::MatrixXd j, r;
  Eigen::VectorXd u;  // multipliers, in the order of `members`
  std::vector<Eigen::Index> members;

  Eigen::Index size() const { return static_cast<Eigen::Index>(members.size()); }

  static void rotate(Eigen::MatrixXd& j, Eigen::Index i, Eigen::Index k, double c, double s) {
    const Eigen::VectorXd first = c * j.col(i) + s * j.col(k);
    j.col(k) = c * j.col(k) - s * j.col(i);
    j.col(i) = first;
  }
  /// d = Jᵀn. Turns J so that all of d beyond the set is in its next element, which becomes R's new column.
  void add(Eigen::Index member, Eigen::VectorXd d, double multiplier) {
    const Eigen::Index q = size();
    for (Eigen::Index k = d.size() - 1; k > q; --k) {
      const double length = std::hypot(d[k - 1], d[k]);
      if (length == 0 || d[k] == 0) continue;
      const double c = d[k - 1] / length, s = d[k] / length;
      d[k - 1] = length;
      d[k] = 0;
      rotate(j, k - 1, k, c, s);
    }
    r.col(q).head(q + 1) = d.head(q + 1);
    u[q] = multiplier;
    members.push_back(member);
  }
  void drop(Eigen::Index at) {
    const Eigen::Index q = size();
    for (Eigen::Index k = at; k + 1 < q; ++k) {
      r.col(k).head(q) = r.col(k + 1).head(q);
      u[k] = u[k + 1];
    }
    members.erase(members.begin() + at);
    for (Eigen::Index k = at; k + 1 < q; ++k) {
      const double length = std::hypot(r(k, k), r(k + 1, k));
      if (length == 0) continue;
      const double c = r(k, k) / length, s = r(k + 1, k) / length;
      for (Eigen::Index l = k; l + 1 < q; ++l) {
        const double upper = r(k, l), lower = r(k + 1, l);
        r(k, l) = c * upper + s * lower;
        r(k + 1, l) = c * lower - s * upper;
      }
      rotate(j, k, k + 1, c, s);
    }
  }
};

}  // namespace

bool inverse_transposed_factor(const Eigen::MatrixXd& h, Eigen::MatrixXd& out) {
  const Eigen::Index n = h.rows();
  if (!(h.diagonal().array() > 0).all()) return false;
  const Eigen::VectorXd scale = h.diagonal().array().rsqrt();
  const Eigen::LLT<Eigen::MatrixXd> factor(scale.asDiagonal() * h * scale.asDiagonal());
  if (factor.info() != Eigen::Success) return false;
  const double least = factor.matrixLLT().diagonal().minCoeff();
  if (!(least * least > 1e-15 * static_cast<double>(n))) return false;
  out.setIdentity(n, n);
  factor.matrixU().solveInPlace(out);
  out = (scale.asDiagonal() * out).eval();
  return true;
}

QuadraticProgramSolution solve_quadratic_program(const Eigen::MatrixXd& inverse_factor,
                                                 const Eigen::VectorXd& g,
                                                 const LinearConstraints& constraints) {
  using Eigen::Index;
  constexpr double tiny = 1e-12, none = std::numeric_limits<double>::infinity();
  const Index n = g.size(), count = constraints.limits.size();
  QuadraticProgramSolution solution;
  ActiveSet set{inverse_factor, Eigen::MatrixXd::Zero(n, n + 1), Eigen::VectorXd::Zero(n + 1), {}};
  Eigen::VectorXd& x = solution.x;
  x = -(inverse_factor * (inverse_factor.transpose() * g));
  Eigen::VectorXd size(count);
  for (Index i = 0; i < count; ++i) size[i] = std::max(constraints.normals.col(i).norm(), 1e-300);
  std::vector<bool> active(static_cast<std::size_t>(count), false),
      given_up(static_cast<std::size_t>(count), false);

  const auto violation = [&](Index i) { return constraints.normals.col(i).dot(x) - constraints.limits[i]; };
  const auto allowance = [&](Index i) {
    return tiny * (std::abs(constraints.limits[i]) + size[i] * (1e-3 + x.norm()));
  };
  // Every change adds a constraint, and the dual value grows: a few times their number is far more than
  // enough.
  for (long guard = 0; guard < 50 * (static_cast<long>(n + count) + 10); ++guard) {
    Index p = -1;
    double worst = 0;
    for (Index i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (active[at] || given_up[at]) continue;
      const double s = violation(i);
      const bool equality = i < constraints.equalities;
      if (equality) {
        p = i;  // all of them first
        break;
      }
      if (s < -allowance(i) && s / size[i] < worst) {
        worst = s / size[i];
        p = i;
      }
    }
    if (p < 0) {
      solution.feasible = true;
      break;
    }
    const bool equality = p < constraints.equalities;
    const Eigen::VectorXd normal = constraints.normals.col(p);
    double multiplier = 0;
    bool added = false;
    while (!added) {
      const Index q = set.size();
      const Eigen::VectorXd d = set.j.transpose() * normal;
      const Eigen::VectorXd z = set.j.rightCols(n - q) * d.tail(n - q);
      Eigen::VectorXd r = d.head(q);
      if (q > 0) set.r.topLeftCorner(q, q).triangularView<Eigen::Upper>().solveInPlace(r);
      const double s = violation(p);
      double dual = none, primal = none;
      Index leaves = -1;
      for (Index k = 0; k < q; ++k) {
        if (set.members[static_cast<std::size_t>(k)] < constraints.equalities) continue;
        // An equality that is violated from above moves the other way.
        const double falls = equality && s > 0 ? -r[k] : r[k];
        if (falls > 0 && set.u[k] / falls < dual) {
          dual = set.u[k] / falls;
          leaves = k;
        }
      }
      const double along = z.dot(normal);
      if (d.tail(n - q).norm() > 1e-10 * d.norm() && along > 0) primal = std::abs(s) / along;
      const double way = equality && s > 0 ? -1 : 1, step = std::min(dual, primal);
      if (step == none) {
        // The normal depends on those that are active: fine where it is satisfied, else nothing satisfies
        // all.
        if (std::abs(s) <= 1e3 * allowance(p)) {
          given_up[static_cast<std::size_t>(p)] = true;
          break;
        }
        return solution;
      }
      if (primal < none) x += way * step * z;
      set.u.head(q) -= way * step * r;
      multiplier += way * step;
      if (step == primal) {
        set.add(p, d, multiplier);
        active[static_cast<std::size_t>(p)] = true;
        added = true;
      } else {
        active[static_cast<std::size_t>(set.members[static_cast<std::size_t>(leaves)])] = false;
        set.drop(leaves);
      }
    }
  }
  solution.multipliers = Eigen::VectorXd::Zero(count);
  for (Index k = 0; k < set.size(); ++k)
    solution.multipliers[set.members[static_cast<std::size_t>(k)]] = set.u[k];
  solution.active = set.members;
  std::sort(solution.active.begin(), solution.active.end());
  return solution;
}

}  // namespace bilevel
