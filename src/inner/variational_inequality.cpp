#include <bilevel/inner/variational_inequality.hpp>

#include <Eigen/QR>

#include <bilevel/inner/on_face.hpp>

namespace bilevel {

VariationalInequality::VariationalInequality(Equilibrium<Vec>& free)
    : free_(free), start_(free.initial_phi()), force_(start_.size()) {
  require_shapes<Vec>(free, nullptr, nullptr, "variational inequality");
  const PhiConstraints constraints = free.phi_constraints();
  constraints.validate(start_.size()).throw_if_any();
  constraints_ = rows_of(constraints, start_.size());
  const QuadraticProgramSolution in =
      nearest_step(constraints_, start_, Vec::Zero(start_.size()), free.stop_token());
  if (in.end == QuadraticProgramEnd::infeasible)
    throw InvalidInput("variational inequality: no phi satisfies all of the constraints");
  if (in.feasible) start_ += in.x;
  keep_within(constraints_, start_);
  // ‖δ‖/‖F(φ + δ) − F(φ)‖ in one direction; whatever it is, the answer is the same.
  const Vec theta = free.initial_theta();
  Vec probe(start_.size()), there(start_.size());
  Space<Vec>::random(1, probe);
  probe *= 1e-4 * std::max(1.0, start_.norm()) / probe.norm();
  free_.residual(start_, theta, force_);
  free_.residual(start_ + probe, theta, there);
  const double step = probe.norm() / (there - force_).norm();
  if (std::isfinite(step) && step > 0) step_ = step;
}

QuadraticProgramSolution VariationalInequality::natural_step(const Vec& phi, const Vec& theta) {
  free_.residual(phi, theta, force_);
  if (pull_ > 0) force_ += pull_ * (phi - anchor_);
  if (!force_.allFinite()) return {};
  // Whole or not at all: solvers look at the stop token between residuals.
  return nearest_step(constraints_, phi, step_ * force_, nullptr);
}

void VariationalInequality::residual(const Vec& phi, const Vec& theta, Vec& out) {
  if (!held_) {
    const QuadraticProgramSolution step = natural_step(phi, theta);
    if (step.feasible)
      out = step.x / -step_;
    else
      out.setConstant(phi.size(), unknown);
    return;
  }
  free_.residual(phi, theta, force_);
  out = force_ + across_ * (across_.transpose() * ((phi - on_face_) / step_ - force_));
}

Eigen::MatrixXd VariationalInequality::normals_of(const std::vector<Index>& active) const {
  Eigen::MatrixXd normals(start_.size(), static_cast<Index>(active.size()));
  for (Index k = 0; k < normals.cols(); ++k)
    normals.col(k) = constraints_.rows.normals.col(active[static_cast<std::size_t>(k)]);
  if (normals.cols() == 0) return normals;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> factor(normals);
  return factor.householderQ() * Eigen::MatrixXd::Identity(start_.size(), factor.rank());
}

void VariationalInequality::hold(const Vec& phi, const Vec& theta) {
  const QuadraticProgramSolution step = natural_step(phi, theta);
  held_ = step.feasible;
  if (!held_) return;
  on_face_ = phi + step.x;
  across_ = normals_of(step.active);
}

class VariationalInequality::Following final : public InnerSolver<Vec> {
 public:
  Following(VariationalInequality& at, const InnerChoice& choice, const MinimiserOptions& options)
      : at_(at), inner_(make_inner_solver<Vec>(choice, static_cast<Equilibrium<Vec>&>(at), options)) {}
  std::string_view name() const override { return inner_->name(); }
  void set_tolerance(double tolerance) override { inner_->set_tolerance(tolerance); }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    at_.release();
    Solution<Vec> s = inner_->solve(theta, beta, start);
    constexpr int most = 50;
    Vec proximal = s.phi;
    double share = 0.1;
    int points = 0;
    while (s.status == Status::stalled && points < most && proximal.allFinite()) {
      at_.anchor_ = proximal;
      at_.pull_ = share / at_.step_;
      const Solution<Vec> near = inner_->solve(theta, beta, proximal);
      at_.pull_ = 0;
      ++points;
      share *= near.status == Status::stalled ? 10 : 0.3;
      proximal = near.phi;
      add(near, s);
      if (near.status == Status::stalled) continue;
      if (!succeeded(near.status)) {
        s.status = near.status;
        s.message = near.message;
        break;
      }
      Solution<Vec> next = inner_->solve(theta, beta, proximal);
      add(s, next);
      s = std::move(next);
    }
    if (points > 0) s.message += fmt::format("; led by {} proximal points", points);
    if (s.phi.allFinite()) at_.hold(s.phi, theta);
    return s;
  }

 private:
  static void add(const Solution<Vec>& done, Solution<Vec>& to) {
    to.iterations += done.iterations;
    to.cost += done.cost;
  }

  VariationalInequality& at_;
  std::unique_ptr<InnerSolver<Vec>> inner_;
};

std::unique_ptr<InnerSolver<Eigen::VectorXd>> VariationalInequality::solver(const InnerChoice& choice,
                                                                            const MinimiserOptions& options) {
  return std::make_unique<Following>(*this, choice, options);
}

struct VariationalInequality::Here final : Curvature<Vec> {
  std::unique_ptr<Curvature<Vec>> free, nudged;  // J, and that of F + β·∂φ L_out where β ≠ 0
  Eigen::MatrixXd across;                        // an orthonormal basis of the active normals
  Vec part, other;
  double step = 1, pull = 0;

  void project(Vec& v) const { v -= (across * (across.transpose() * v)).eval(); }
  void add_nudge(const Vec& v, Vec& out, void (Curvature<Vec>::*product)(const Vec&, Vec&)) {
    if (!nudged) return;
    ((*nudged).*product)(v, other);
    out += other;
    ((*free).*product)(v, other);
    out -= other;
  }
  void times(const Vec& v, Vec& out) override {
    free->times(v, part);
    part = (1 - step * pull) * v - step * part;
    project(part);
    out = (v - part) / step;
    add_nudge(v, out, &Curvature<Vec>::times);
  }
  void transpose_times(const Vec& v, Vec& out) override {
    part = v;
    project(part);
    free->transpose_times(part, out);
    out += (v - part) / step + pull * part;
    add_nudge(v, out, &Curvature<Vec>::transpose_times);
  }
  void cross_times(const Vec& v, Vec& out) override {
    part = v;
    project(part);
    free->cross_times(part, out);
    if (!nudged) return;
    Vec with = out, without = out;
    nudged->cross_times(v, with);
    free->cross_times(v, without);
    out += with - without;
  }
  void cross_apply(const Vec& u, Vec& out) override {
    free->cross_apply(u, out);
    if (nudged) {
      nudged->cross_apply(u, other);
      other -= out;
    }
    project(out);
    if (nudged) out += other;
  }
};

void VariationalInequality::linearise(const Vec& phi, const Vec& theta, double beta,
                                      std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<Here>();
  auto& here = static_cast<Here&>(*reuse);
  free_.linearise(phi, theta, 0, here.free);
  if (beta != 0)
    free_.linearise(phi, theta, beta, here.nudged);
  else
    here.nudged.reset();
  here.part = here.other = Vec::Zero(phi.size());
  here.step = step_;
  here.pull = pull_;
  here.across = held_ ? across_ : normals_of(natural_step(phi, theta).active);
}

std::string VariationalInequality::kink(const Vec& phi, const Vec& theta) {
  const QuadraticProgramSolution step = natural_step(phi, theta);
  if (!step.feasible) return free_.kink(phi, theta);
  Face face;
  face.active = step.active;
  face.multipliers = step.multipliers;
  face.slacks = constraints_.rows.normals.transpose() * (phi + step.x) - constraints_.rows.limits;
  // Multipliers of a nearest point are distances: the curvature is 1.
  const std::string why = one_sided(constraints_, face, phi.norm(), 1, step.x.norm());
  return why.empty() ? free_.kink(phi, theta) : why;
}

}  // namespace bilevel
