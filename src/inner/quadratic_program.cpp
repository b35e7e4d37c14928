#include <bilevel/inner/quadratic_program.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Cholesky>

namespace bilevel {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();
/// Shares of a sum that may be rounding: of a slack, of a normal beyond the span of others, of a multiplier's
/// fall.
constexpr double slack_noise = 1e-13, independent_share = 1e-10, falling_share = 1e-10;
/// How much further than its noise a slack may be off where the constraint depends on the active ones.
constexpr double loose = 1e3;

/// The constraints' normals, of which a bound's has one element.
class Normals {
 public:
  explicit Normals(const Eigen::MatrixXd& columns) : columns_(columns) {
    for (Eigen::Index i = 0; i < columns.cols(); ++i) {
      const auto normal = columns.col(i);
      Eigen::Index largest = 0;
      if (normal.size() > 0) normal.cwiseAbs().maxCoeff(&largest);
      const bool alone = normal.size() > 0 && normal.head(largest).isZero(0) &&
                         normal.tail(normal.size() - largest - 1).isZero(0);
      alone_.push_back(alone ? largest : -1);
    }
  }
  double dot(Eigen::Index i, const Eigen::VectorXd& x) const {
    const Eigen::Index k = alone_[static_cast<std::size_t>(i)];
    return k < 0 ? columns_.col(i).dot(x) : columns_(k, i) * x[k];
  }
  Eigen::VectorXd transposed_times(const Eigen::MatrixXd& j, Eigen::Index i) const {
    const Eigen::Index k = alone_[static_cast<std::size_t>(i)];
    if (k < 0) return j.transpose() * columns_.col(i);
    return columns_(k, i) * j.row(k).transpose();
  }
  double norm(Eigen::Index i) const { return columns_.col(i).norm(); }
  void subtract(double times, Eigen::Index i, Eigen::VectorXd& x) const {
    const Eigen::Index k = alone_[static_cast<std::size_t>(i)];
    if (k < 0)
      x -= times * columns_.col(i);
    else
      x[k] -= times * columns_(k, i);
  }

 private:
  const Eigen::MatrixXd& columns_;
  std::vector<Eigen::Index> alone_;
};

/// The active set with J = L⁻ᵀQ, whose first columns R factors: N = L·Q₁R for the active normals N.
struct ActiveSet {
  Eigen::MatrixXd j, r;
  Eigen::VectorXd u;  // multipliers, in the order of `members`
  std::vector<Eigen::Index> members;

  Eigen::Index size() const { return static_cast<Eigen::Index>(members.size()); }

  /// d = Jᵀn. Reflects J so that all of d beyond the set is in its next element, which becomes R's new
  /// column.
  void add(Eigen::Index member, const Eigen::VectorXd& d, double multiplier) {
    const Eigen::Index q = size(), rest = d.size() - q;
    Eigen::VectorXd w = d.tail(rest);
    double corner = w[0];
    if (rest > 1 && !w.tail(rest - 1).isZero(0)) {
      const double length = w.norm();
      corner = w[0] > 0 ? -length : length;
      w[0] -= corner;
      // Most of it is zero where H is diagonal.
      Eigen::VectorXd moved = Eigen::VectorXd::Zero(j.rows());
      for (Eigen::Index k = 0; k < rest; ++k)
        if (w[k] != 0) moved += w[k] * j.col(q + k);
      moved /= length * (length + std::abs(d[q]));
      for (Eigen::Index k = 0; k < rest; ++k)
        if (w[k] != 0) j.col(q + k) -= w[k] * moved;
    }
    r.col(q).head(q) = d.head(q);
    r(q, q) = corner;
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
      for (Eigen::Index i = 0; i < j.rows(); ++i) {
        const double left = j(i, k), right = j(i, k + 1);
        j(i, k) = c * left + s * right;
        j(i, k + 1) = c * right - s * left;
      }
    }
  }
};

class DualMethod {
 public:
  DualMethod(const Eigen::MatrixXd& inverse_factor, const Eigen::VectorXd& g, const LinearConstraints& c,
             const QuadraticProgramOptions& options)
      : inverse_factor_(inverse_factor),
        g_(g),
        normals_(c.normals),
        limits_(c.limits),
        equalities_(c.equalities),
        stop_(options.stop),
        n_(g.size()),
        count_(c.limits.size()) {
    set_ = {inverse_factor, Eigen::MatrixXd::Zero(n_, n_), Eigen::VectorXd::Zero(n_), {}};
    active_.assign(static_cast<std::size_t>(count_), false);
    given_up_ = active_;
    norm_.resize(count_);
    length_.resize(count_);
    size_ = c.limits.cwiseAbs();
    for (Index i = 0; i < count_; ++i) {
      norm_[i] = std::max(normals_.norm(i), 1e-300);
      length_[i] = std::max(normals_.transposed_times(inverse_factor, i).norm(), 1e-300);
      if (!options.around) continue;
      limits_[i] -= normals_.dot(i, *options.around);
      size_[i] += norm_[i] * options.around->norm();
    }
    pull_ = (inverse_factor.transpose() * g).norm();
    x_ = -(inverse_factor * (inverse_factor.transpose() * g));
    reach_ = x_.norm();
  }

  QuadraticProgramSolution solve() {
    QuadraticProgramSolution s;
    s.end = run();
    s.feasible = s.end == QuadraticProgramEnd::solved;
    s.x = x_;
    s.multipliers = Eigen::VectorXd::Zero(count_);
    for (Index k = 0; k < set_.size(); ++k)
      s.multipliers[member(k)] = member(k) < equalities_ ? set_.u[k] : std::max(set_.u[k], 0.0);
    s.active = set_.members;
    std::sort(s.active.begin(), s.active.end());
    return s;
  }

 private:
  using Index = Eigen::Index;
  using End = QuadraticProgramEnd;

  Index member(Index k) const { return set_.members[static_cast<std::size_t>(k)]; }
  double slack(Index i) const { return normals_.dot(i, x_) - limits_[i]; }
  /// What rounding may do to a slack: x is a sum of terms as large as the free minimum was.
  double allowance(Index i) const {
    return slack_noise * (size_[i] + norm_[i] * x_.norm()) + 1e-15 * (norm_[i] * reach_ + length_[i] * pull_);
  }
  bool is_independent(const Eigen::VectorXd& d) const {
    const Index rest = n_ - set_.size();
    return rest > 0 && d.tail(rest).norm() > independent_share * d.norm();
  }

  End run() {
    if (!take_equalities()) return End::infeasible;
    const long most = 50 * (static_cast<long>(n_ + count_) + 10);
    bool sharp = false;  // x and u are as good as the factors can make them
    bool fresh = false;  // and so are the factors
    for (changes_ = 0; changes_ < most; ++changes_) {
      if (stop_wanted(stop_)) return End::interrupted;
      // Ties that go round in circles go by the lowest index (Bland 1977).
      const Index p = violated(changes_ > most / 2);
      if (p >= 0) {
        const Taken taken = take(p, changes_ > most / 2);
        if (taken == Taken::impossible) {
          if (fresh) return End::infeasible;
          refactor();
          fresh = true;
          continue;
        }
        sharp = fresh = false;
      } else if (!sharp) {
        sharpen();
        sharp = !drop_negative();
        if (!sharp) std::fill(given_up_.begin(), given_up_.end(), false);
      } else {
        if (stationary()) return End::solved;
        if (fresh) return End::gave_up;
        refactor();
        fresh = true;
      }
    }
    return End::gave_up;
  }

  /// All of them first. One that depends on others has to be satisfied already.
  bool take_equalities() {
    std::vector<Index> dependent;
    for (Index p = 0; p < equalities_; ++p) {
      const Eigen::VectorXd d = normals_.transposed_times(set_.j, p);
      active_[static_cast<std::size_t>(p)] = true;  // never looked at again
      if (is_independent(d))
        set_.add(p, d, 0);
      else
        dependent.push_back(p);
    }
    if (equalities_ == 0) return true;
    sharpen();
    return std::all_of(dependent.begin(), dependent.end(),
                       [&](Index p) { return std::abs(slack(p)) <= loose * allowance(p); });
  }

  Index violated(bool first) const {
    Index p = -1;
    double worst = 0;
    for (Index i = equalities_; i < count_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (active_[at] || given_up_[at]) continue;
      const double s = slack(i);
      if (!(s / length_[i] < worst) || !(s < -allowance(i))) continue;
      p = i;
      if (first) break;
      worst = s / length_[i];
    }
    return p;
  }

  enum class Taken { yes, given_up, impossible };
  Taken take(Index p, bool lowest) {
    double multiplier = 0;
    while (true) {
      const Index q = set_.size();
      const Eigen::VectorXd d = normals_.transposed_times(set_.j, p);
      Eigen::VectorXd r = d.head(q);
      if (!r.isZero(0)) set_.r.topLeftCorner(q, q).triangularView<Eigen::Upper>().solveInPlace(r);
      const bool independent = is_independent(d);
      const double s = slack(p);
      const auto [dual, leaves] = first_to_vanish(r, p, lowest);
      // Once it pushes, it may only be given up where nobody makes room for it.
      if (!independent && -s <= loose * allowance(p) && (multiplier == 0 || dual == none)) {
        given_up_[static_cast<std::size_t>(p)] = true;
        if (multiplier > 0) sharpen(), drop_negative();
        return Taken::given_up;
      }
      const double primal = independent ? std::max(-s, 0.0) / d.tail(n_ - q).squaredNorm() : none,
                   step = std::min(dual, primal);
      if (step == none) {
        if (multiplier > 0) sharpen(), drop_negative();
        return Taken::impossible;
      }
      if (independent) {
        for (Index k = q; k < n_; ++k)
          if (d[k] != 0) x_ += step * d[k] * set_.j.col(k);
        reach_ = std::max(reach_, x_.norm());
      }
      set_.u.head(q) -= step * r;
      multiplier += step;
      if (step == primal) {
        set_.add(p, d, multiplier);
        active_[static_cast<std::size_t>(p)] = true;
        std::fill(given_up_.begin(), given_up_.end(), false);
        return Taken::yes;
      }
      drop(leaves);
    }
  }

  /// The step at which a multiplier falls to zero, and whose it is: of those that do so at the same step, to
  /// rounding, the one that falls fastest.
  std::pair<double, Index> first_to_vanish(const Eigen::VectorXd& r, Index p, bool lowest) const {
    // In units in which normals have length one.
    const auto fall = [&](Index k) { return r[k] * length_[member(k)] / length_[p]; };
    const auto held = [&](Index k) { return std::max(set_.u[k], 0.0) * length_[member(k)]; };
    double fastest = 0, largest = 0;
    for (Index k = 0; k < r.size(); ++k) {
      fastest = std::max(fastest, std::abs(fall(k)));
      if (member(k) >= equalities_) largest = std::max(largest, held(k));
    }
    const auto falls = [&](Index k) {
      return member(k) >= equalities_ && fall(k) > falling_share * std::max(fastest, 1.0);
    };
    double first = none;
    for (Index k = 0; k < r.size(); ++k)
      if (falls(k)) first = std::min(first, (held(k) + 1e-14 * largest) / fall(k));
    Index leaves = -1;
    for (Index k = 0; k < r.size(); ++k) {
      if (!falls(k) || held(k) / fall(k) > first) continue;
      if (leaves < 0 || (lowest ? member(k) < member(leaves) : fall(k) > fall(leaves))) leaves = k;
    }
    return {leaves < 0 ? none : std::max(set_.u[leaves], 0.0) / r[leaves], leaves};
  }

  void drop(Index k) {
    active_[static_cast<std::size_t>(member(k))] = false;
    set_.drop(k);
  }
  bool drop_negative() {
    bool dropped = false;
    while (true) {
      Index lowest = -1;
      double least = 0, largest = 0;
      for (Index k = 0; k < set_.size(); ++k) {
        const double u = set_.u[k] * length_[member(k)];
        largest = std::max(largest, std::abs(u));
        if (member(k) < equalities_ || u >= least) continue;
        least = u;
        lowest = k;
      }
      if (lowest < 0 || -least <= 1e-10 * largest) return dropped;
      drop(lowest);
      sharpen();
      dropped = true;
    }
  }

  void refactor() {
    const std::vector<Index> members = std::move(set_.members);
    set_.members.clear();
    set_.j = inverse_factor_;
    set_.r.setZero();
    for (const Index p : members) {
      const Eigen::VectorXd d = normals_.transposed_times(set_.j, p);
      if (is_independent(d))
        set_.add(p, d, 0);
      else
        active_[static_cast<std::size_t>(p)] = p < equalities_;
    }
    std::fill(given_up_.begin(), given_up_.end(), false);
    sharpen();
    drop_negative();
  }

  /// r = g + Hx − Nu
  Eigen::VectorXd unbalanced() const {
    Eigen::VectorXd h = x_;
    const auto factor = inverse_factor_.triangularView<Eigen::Upper>();
    factor.solveInPlace(h);
    factor.transpose().solveInPlace(h);
    h += g_;
    for (Index k = 0; k < set_.size(); ++k) normals_.subtract(set_.u[k], member(k), h);
    return h;
  }

  /// x and u anew of the active set, then corrected by what they leave, measured in the units of x.
  void sharpen() {
    const Index q = set_.size();
    x_.setZero();
    set_.u.setZero();
    Eigen::VectorXd left = g_;
    for (int pass = 0; pass < 3; ++pass) {
      if (pass > 0) left = unbalanced();
      if (!left.allFinite()) return;
      const Eigen::VectorXd pull = set_.j.transpose() * left;
      Eigen::VectorXd y(n_);
      y.tail(n_ - q) = -pull.tail(n_ - q);
      for (Index k = 0; k < q; ++k) y[k] = -slack(member(k));
      const auto r = set_.r.topLeftCorner(q, q).triangularView<Eigen::Upper>();
      if (q > 0) {
        Eigen::VectorXd head = y.head(q);
        r.transpose().solveInPlace(head);
        y.head(q) = head;
        head += pull.head(q);
        r.solveInPlace(head);
        set_.u.head(q) += head;
      }
      x_ += set_.j * y;
    }
    reach_ = std::max(reach_, x_.norm());
  }

  bool stationary() const {
    const Eigen::VectorXd left = unbalanced();
    double size = g_.norm(), stiffest = 0;
    for (Index k = 0; k < n_; ++k) stiffest = std::max(stiffest, std::pow(inverse_factor_(k, k), -2));
    for (Index k = 0; k < set_.size(); ++k) size += std::abs(set_.u[k]) * norm_[member(k)];
    return left.norm() <= 1e-8 * size + 1e-13 * stiffest * reach_;
  }

  const Eigen::MatrixXd& inverse_factor_;
  const Eigen::VectorXd& g_;
  Normals normals_;
  Eigen::VectorXd limits_;
  Index equalities_;
  const StopToken* stop_;
  Index n_, count_;
  Eigen::VectorXd norm_, length_, size_;  // of normals: ‖n‖ and ‖L⁻¹n‖; of the terms of a limit
  double pull_ = 0, reach_ = 0;           // ‖L⁻¹g‖, and the largest ‖x‖ so far
  ActiveSet set_;
  Eigen::VectorXd x_;
  std::vector<bool> active_, given_up_;
  long changes_ = 0;
};

}  // namespace

const char* sentence(QuadraticProgramEnd end) {
  switch (end) {
    case QuadraticProgramEnd::solved:
      return "is solved";
    case QuadraticProgramEnd::infeasible:
      return "has no feasible point";
    case QuadraticProgramEnd::gave_up:
      return "is lost in rounding";
    case QuadraticProgramEnd::interrupted:
      return "was to end early";
  }
  return "";
}

bool inverse_transposed_factor(const Eigen::MatrixXd& h, Eigen::MatrixXd& out) {
  const Eigen::Index n = h.rows();
  if (!(h.diagonal().array() > 0).all()) return false;
  const Eigen::VectorXd scale = h.diagonal().array().rsqrt();
  if (h.isDiagonal(0)) {
    out = scale.asDiagonal();
    return true;
  }
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
                                                 const LinearConstraints& constraints,
                                                 const QuadraticProgramOptions& options) {
  return DualMethod(inverse_factor, g, constraints, options).solve();
}

}  // namespace bilevel
