// Is the automatic choice right? A grid of generated problems – condition numbers, sizes, saddles, first
// derivatives only, noisy inner solves, equilibria that minimise nothing – each under every estimator, at the
// same tolerances. Cost is gradient equivalents of the whole estimate, phase 1 included. A method qualifies
// where its relative error is at most `accuracy` (or twice the least that any reaches, where noise forbids
// more); the choice is right where it qualifies and costs at most twice the cheapest that does.

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <Eigen/LU>
#include <Eigen/QR>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>

namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using namespace bilevel;

constexpr double accuracy = 1e-4, tolerance = 1e-8;

Mat random_matrix(Index rows, Index columns, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  return Mat::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

/// A·φ = J·θ + b and L_out = ½‖φ − y‖²: a saddle of ½φᵀAφ − φᵀ(Jθ + b) where A is symmetric and indefinite,
/// an equilibrium that minimises nothing where it is not symmetric.
struct LinearSystem {
  Mat a, j;
  Vec b, y;

  void residual(const Vec& phi, const Vec& theta, Vec& out) const { out = a * phi - j * theta - b; }
  double outer(const Vec& phi, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = phi - y;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi - y).squaredNorm();
  }
  Vec gradient(const Vec& theta) const {
    const Vec phi = a.partialPivLu().solve(j * theta + b);
    const Vec pi = Mat(a.transpose()).partialPivLu().solve(phi - y);
    return j.transpose() * pi;
  }
};

struct LinearCurvature final : Curvature<Vec> {
  void times(const Vec& v, Vec& out) override { out = system->a * v + beta * v; }
  void transpose_times(const Vec& v, Vec& out) override { out = system->a.transpose() * v + beta * v; }
  void cross_times(const Vec& v, Vec& out) override { out = -(system->j.transpose() * v); }
  void cross_apply(const Vec& u, Vec& out) override { out = -(system->j * u); }
  const LinearSystem* system = nullptr;
  double beta = 0;
};

template <class Base>
class Linear : public Base {
 public:
  explicit Linear(LinearSystem system) : system_(std::move(system)) {}
  Vec initial_phi() const override { return Vec::Zero(system_.a.rows()); }
  Vec initial_theta() const override { return Vec::Ones(system_.j.cols()); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override { system_.residual(phi, theta, out); }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override { return system_.outer(phi, wanted); }
  void linearise(const Vec&, const Vec&, double beta, std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<LinearCurvature>();
    static_cast<LinearCurvature&>(*reuse).system = &system_;
    static_cast<LinearCurvature&>(*reuse).beta = beta;
  }
  const LinearSystem& system() const { return system_; }

 protected:
  LinearSystem system_;
};

class Saddle final : public Linear<Problem<Vec>> {
 public:
  using Linear::Linear;
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    if (wanted.phi) system_.residual(phi, theta, *wanted.phi);
    if (wanted.theta) *wanted.theta = -(system_.j.transpose() * phi);
    return phi.dot(0.5 * (system_.a * phi) - system_.j * theta - system_.b);
  }
};

class Asymmetric final : public Linear<Equilibrium<Vec>> {
 public:
  using Linear::Linear;
  Capabilities capabilities() const override { return {.symmetric = false}; }
};

/// Hides second derivatives.
class FirstOrder final : public Problem<Vec> {
 public:
  explicit FirstOrder(Problem<Vec>& whole) : whole_(whole) {}
  Vec initial_phi() const override { return whole_.initial_phi(); }
  Vec initial_theta() const override { return whole_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return whole_.inner(phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return whole_.outer(phi, theta, wanted);
  }
  Capabilities capabilities() const override { return {.curvature = false}; }

 private:
  Problem<Vec>& whole_;
};

/// Settles where no descent would: MINRES, or GMRES, on A·φ = J·θ + b, from the start it is given.
class LinearRest final : public InnerSolver<Vec> {
 public:
  explicit LinearRest(const LinearSystem& system)
      : system_(system), symmetric_(system.a.isApprox(system.a.transpose(), 1e-12)) {}
  std::string_view name() const override { return symmetric_ ? "minres" : "gmres"; }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    Shifted shifted(system_.a, beta, symmetric_);
    const auto solver =
        make_adjoint_solver<Vec>(name(), {.relative_tolerance = 1e-14, .absolute_tolerance = tolerance});
    LinearSolution<Vec> found =
        solver->solve(shifted, system_.j * theta + system_.b + beta * system_.y, &start);
    Solution<Vec> s;
    s.phi = std::move(found.x);
    s.status = found.status;
    s.message = std::move(found.message);
    s.iterations = found.iterations;
    s.cost.hessian_products = found.products;
    return s;
  }

 private:
  struct Shifted final : LinearOperator<Vec> {
    Shifted(const Mat& matrix, double shift, bool is_symmetric)
        : a(matrix), beta(shift), even(is_symmetric) {}
    void apply(const Vec& x, Vec& out) override { out = a * x + beta * x; }
    bool symmetric() const override { return even; }
    const Mat& a;
    double beta;
    bool even;
  };
  const LinearSystem& system_;
  bool symmetric_;
};

/// Adds an error of a given size to what another solver found, another one each time.
class Noisy final : public InnerSolver<Vec> {
 public:
  Noisy(InnerSolver<Vec>& solver, double size) : solver_(solver), size_(size) {}
  std::string_view name() const override { return "noisy"; }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    Solution<Vec> s = solver_.solve(theta, beta, start);
    Vec noise(s.phi.size());
    Space<Vec>::random(++draws_, noise);
    s.phi += size_ / noise.norm() * noise;
    return s;
  }

 private:
  InnerSolver<Vec>& solver_;
  double size_;
  std::uint64_t draws_ = 0;
};

struct Case {
  std::string kind, name;
  std::shared_ptr<Equilibrium<Vec>> problem;
  std::shared_ptr<Problem<Vec>> loss;   ///< the same problem where it has an inner loss
  std::shared_ptr<Problem<Vec>> whole;  ///< what a first-order problem hides
  std::shared_ptr<const LinearSystem> system;
  double noise = 0;
};

Case ready_made(const std::string& kind, const std::string& family, const problems::Settings& s) {
  Case c;
  c.kind = kind;
  c.name = fmt::format("{} {} φ{}{}", family, s.phi, s.theta > 0 ? fmt::format(", {} θ", s.theta) : "",
                       s.condition > 0 ? fmt::format(", κ = {:.0e}", s.condition) : ", " + s.penalty);
  c.loss = problems::make(family, s);
  c.problem = c.loss;
  return c;
}

Case linear(bool symmetric, Index n, double condition, double share, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  LinearSystem s;
  s.j = random_matrix(n, 5, engine) / std::sqrt(static_cast<double>(n));
  s.b = random_matrix(n, 1, engine);
  s.y = random_matrix(n, 1, engine);
  Case c;
  if (symmetric) {
    const Mat q = Eigen::HouseholderQR<Mat>(random_matrix(n, n, engine)).householderQ();
    Vec d(n);
    for (Index i = 0; i < n; ++i)
      d[i] =
          std::pow(condition, static_cast<double>(i) / static_cast<double>(std::max<Index>(n - 1, 1)) - 0.5);
    const Index negative = std::max<Index>(1, static_cast<Index>(share * static_cast<double>(n)));
    for (Index i = 0; i < negative; ++i) d[i * n / negative] *= -1;
    s.a = q * d.asDiagonal() * q.transpose();
    c.kind = "saddle";
    c.name = fmt::format("{} φ, κ = {:.0e}, {:.0f} % negative", n, condition, 100 * share);
    c.loss = std::make_shared<Saddle>(s);
    c.problem = c.loss;
  } else {
    Mat w = random_matrix(n, n, engine);
    w *= share / std::sqrt(static_cast<double>(n));  // spectral radius about `share`
    s.a = Mat::Identity(n, n) - w;
    c.kind = "not symmetric";
    c.name = fmt::format("{} φ, spectral radius {}", n, share);
    c.problem = std::make_shared<Asymmetric>(s);
  }
  c.system = std::make_shared<const LinearSystem>(s);
  return c;
}

std::vector<Case> grid() {
  std::vector<Case> all;
  std::uint64_t seed = 1;
  for (const Index n : {10, 100, 600})
    for (const double condition : {1e1, 1e3, 1e5})
      for (const Index m : {2, 20})
        all.push_back(ready_made("convex", "quadratic",
                                 {.phi = n, .theta = m, .condition = condition, .seed = ++seed}));
  for (const Index n : {20, 200})
    for (const double condition : {1e1, 1e3})
      for (const Index m : {2, 20})
        all.push_back(
            ready_made("convex", "log-cosh", {.phi = n, .theta = m, .condition = condition, .seed = ++seed}));
  for (const Index n : {20, 100})
    for (const char* penalty : {"per-feature", "global"})
      all.push_back(
          ready_made("model", "logistic", {.phi = n, .samples = 1000, .penalty = penalty, .seed = ++seed}));
  for (const Index n : {10, 100, 300})
    for (const double condition : {1e1, 1e3})
      for (const double share : {0.1, 0.5}) all.push_back(linear(true, n, condition, share, ++seed));
  for (const Index n : {20, 200})
    for (const double radius : {0.5, 0.9}) all.push_back(linear(false, n, 0, radius, ++seed));
  for (const char* family : {"quadratic", "log-cosh"})
    for (const Index n : {20, 100})
      for (const double condition : {1e1, 1e3})
        for (const Index m : {2, 20}) {
          Case c = ready_made("first order only", family,
                              {.phi = n, .theta = m, .condition = condition, .seed = ++seed});
          c.whole = c.loss;
          c.loss = std::make_shared<FirstOrder>(*c.whole);
          c.problem = c.loss;
          all.push_back(c);
        }
  for (const char* family : {"quadratic", "log-cosh"})
    for (const Index n : {20, 200})
      for (const double noise : {1e-6, 1e-3}) {
        Case c = ready_made("noisy", family, {.phi = n, .theta = 5, .condition = 100, .seed = ++seed});
        c.noise = noise;
        c.name += fmt::format(", noise {:.0e}", noise);
        all.push_back(c);
      }
  return all;
}

Vec truth(const Case& c) {
  Problem<Vec>* whole = c.whole ? c.whole.get() : c.loss.get();
  if (c.system) return c.system->gradient(c.problem->initial_theta());
  MinimiserOptions tight;
  tight.gradient_tolerance = 1e-12;
  const auto inner = make_inner_solver<Vec>("newton", *whole, tight);
  return make_estimator<Vec>("exact", *whole, *inner)->estimate(whole->initial_theta(), {}).gradient;
}

struct Result {
  std::string method;
  double error = everywhere, cost = everywhere, seconds = 0;
  std::string message;
};

Result measure(const Case& c, const std::string& method, const Vec& expected) {
  MinimiserOptions options;
  options.gradient_tolerance = tolerance;
  std::unique_ptr<InnerSolver<Vec>> solver;
  if (c.system)
    solver = std::make_unique<LinearRest>(*c.system);
  else
    solver = make_inner_solver<Vec>("lbfgs", *c.loss, options);
  Noisy noisy(*solver, c.noise);
  InnerSolver<Vec>& inner = c.noise > 0 ? static_cast<InnerSolver<Vec>&>(noisy) : *solver;
  Result r;
  r.method = method;
  try {
    const auto estimator =
        c.loss ? make_estimator<Vec>(method, *c.loss, inner) : make_estimator<Vec>(method, *c.problem, inner);
    estimator->set_tolerances(tolerance, tolerance);
    const Estimate<Vec> e = estimator->estimate(c.problem->initial_theta(), {});
    const double error = (e.gradient - expected).norm() / expected.norm();
    if (std::isfinite(error)) r.error = error;
    r.cost = e.cost.gradient_equivalents();
    r.seconds = e.cost.seconds();
    r.message = e.message.substr(0, e.message.find(';'));
  } catch (const InvalidInput&) {
  }
  return r;
}

}  // namespace

int main(int argc, char**) {
  const bool talkative = argc > 1;
  fmt::print(
      "| kind | problem | auto: error | cost | seconds | cheapest that qualifies | error | cost | ratio | "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  int right = 0, count = 0;
  for (const Case& c : grid()) {
    const Vec expected = truth(c);
    std::vector<Result> results;
    for (const std::string& method : estimator_names())
      if (method != "auto" && method != "exact") results.push_back(measure(c, method, expected));
    const Result automatic = measure(c, "auto", expected);
    double least = automatic.error;
    for (const Result& r : results) least = std::min(least, r.error);
    const double enough = std::max(accuracy, 2 * least);
    const Result* best = &automatic;
    for (const Result& r : results)
      if (r.error <= enough && (best->error > enough || r.cost < best->cost)) best = &r;
    const double ratio = automatic.cost / best->cost;
    const bool good = automatic.error <= enough && ratio <= 2;
    right += good;
    ++count;
    fmt::print("| {} | {} | {:.1e} | {:.0f} | {:.0e} | {} | {:.1e} | {:.0f} | {:.2f} | {} |\n", c.kind,
               c.name, automatic.error, automatic.cost, automatic.seconds,
               best == &automatic ? "auto" : best->method, best->error, best->cost, ratio,
               good ? "right" : "**wrong**");
    if (talkative) fmt::print("<!-- {} -->\n", automatic.message);
    std::fflush(stdout);
  }
  fmt::print("\nright: {} of {} ({:.0f} %); accuracy {:.0e}, inner and adjoint tolerance {:.0e}\n", right,
             count, 100.0 * right / count, accuracy, tolerance);
  return right >= 0.9 * count ? 0 : 1;
}
