#include <bilevel/ngspice/ngspice_solver.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/networks/circuit_solver.hpp>

#include "library.hpp"

namespace bilevel::networks {

using Vec = Eigen::VectorXd;

namespace {

NetlistOptions netlist_options(const NgspiceOptions& options, bool external) {
  NetlistOptions n;
  n.reltol = options.reltol;
  n.abstol = options.abstol;
  n.vntol = options.vntol;
  n.external_sources = external;
  return n;
}

OperatingPoint settle_text(const std::string& text, int nodes, const NgspiceOptions& options) {
  NgspiceLibrary& library = NgspiceLibrary::get(options.library);
  const std::lock_guard turn(library.turn);
  OperatingPoint point;
  point.voltages = Vec::Constant(nodes, unknown);
  point.residual = unknown;
  if (!library.load(text) || !library.settle()) {
    point.status = library.status();
    point.message = library.complaint();
  } else {
    point.status = Status::converged;
    point.message = "ngspice: at rest";
    if (nodes > 0) point.voltages[0] = 0;
    for (int node = 1; node < nodes; ++node) {
      point.voltages[node] = library.volts(fmt::format("n{}", node));
      if (std::isnan(point.voltages[node])) point.message += fmt::format("; there is no node n{}", node);
    }
  }
  library.forget();
  return point;
}

struct Judgement {
  Status status = Status::converged;
  std::string message{};
  double residual = unknown;
};

/// What ngspice returned is measured by Kirchhoff's law; and beyond the pole of a negative pull it returns a
/// state that is none of rest.
Judgement judge(CircuitEquations& equations, const Eigen::Ref<const Vec>& x, const NgspiceOptions& options) {
  Judgement j;
  if (!x.allFinite()) {
    j.status = Status::not_finite;
    j.message = "ngspice: a voltage is missing or not finite";
    return j;
  }
  j.residual = equations.measure(x, options.vntol / options.residual).residual;
  if (!(j.residual <= options.residual)) {
    j.status = Status::stalled;
    j.message = fmt::format("ngspice: its voltages miss Kirchhoff's current law by {:.3g}, asked for {:.3g}",
                            j.residual, options.residual);
    return j;
  }
  const auto& pulls = equations.circuit().pulls;
  if (std::any_of(pulls.begin(), pulls.end(), [](const Pull& p) { return p.siemens < 0; }) &&
      !equations.curves_upwards()) {
    j.status = Status::negative_curvature;
    j.message = "ngspice: its voltages are no minimum: pulls of negative siemens outweigh the conductances";
  }
  return j;
}

}  // namespace

Violations NgspiceOptions::validate() const {
  Violations v("ngspice");
  return v.positive("reltol", reltol)
      .positive("abstol", abstol)
      .positive("vntol", vntol)
      .positive("residual", residual);
}

OperatingPoint ngspice_operating_point(const std::string& text, int nodes, const NgspiceOptions& options) {
  options.validate().throw_if_any();
  if (nodes < 1) throw InvalidInput(fmt::format("ngspice: nodes = {} must be at least 1", nodes));
  return settle_text(text, nodes, options);
}

OperatingPoint ngspice_operating_point(const Circuit& circuit, const NgspiceOptions& options) {
  options.validate().throw_if_any();
  CircuitEquations equations(circuit);
  OperatingPoint point =
      settle_text(netlist(circuit, netlist_options(options, false)), circuit.nodes, options);
  if (!succeeded(point.status)) return point;
  Vec x(equations.size());
  for (Index i = 0; i < x.size(); ++i) x[i] = point.voltages[equations.free_node(i)];
  const Judgement judgement = judge(equations, x, options);
  point.residual = judgement.residual;
  if (!succeeded(judgement.status)) {
    point.status = judgement.status;
    point.message = judgement.message;
  }
  return point;
}

struct NgspiceSolver::State {
  CircuitProblem& problem;
  NgspiceOptions options;
  NgspiceLibrary& library;
  std::vector<std::string> nodes{};  // names of the free ones
  Vec theta{}, sources{}, pulls{};
  double beta = 0;
  long loads = 0, alters = 0, settled = 0;
  Status status = Status::not_run;
  std::string message{};

  bool fail(Status why, std::string text) {
    status = why;
    message = std::move(text);
    return false;
  }

  /// Brings ngspice's circuit to θ and β. Parsing costs as much as altering every resistor, and altering
  /// leaves some memory behind each time (ngspice 39).
  bool prepare(const Vec& new_theta, double new_beta) {
    if (library.owner != this || theta != new_theta) {
      Circuit circuit = problem.circuit();
      for (std::size_t i = 0; i < circuit.resistors.size(); ++i)
        circuit.resistors[i].siemens = new_theta[static_cast<Index>(i)];
      for (std::size_t i = problem.first_output_pull(); i < circuit.pulls.size(); ++i)
        circuit.pulls[i].siemens = new_beta;
      // The conductances are not negative, so that all that can be wrong is a node left alone by zeros.
      if (const Violations v = circuit.validate(); !v.empty())
        return fail(Status::singular, v.texts().front());
      ++loads;
      if (!library.load(netlist(circuit, netlist_options(options, true))))
        return fail(library.status(), library.complaint());
      for (std::size_t i = 0; i < circuit.pulls.size(); ++i)
        pulls[static_cast<Index>(i)] = circuit.pulls[i].volts;
      library.owner = this;
      theta = new_theta;
      beta = new_beta;
    }
    if (beta != new_beta) {
      for (std::size_t i = 0; i < problem.outputs().size(); ++i) {
        ++alters;
        if (!library.alter(fmt::format("@g{}[gain]", problem.first_output_pull() + i), new_beta)) {
          library.owner = nullptr;
          return fail(library.status(), library.complaint());
        }
      }
      beta = new_beta;
    }
    return true;
  }

  /// Sample k at rest into x; false where ngspice found nothing.
  bool settle(Index k, Eigen::Ref<Vec> x) {
    sources = problem.sources(k);
    pulls.tail(problem.targets(k).size()) = problem.targets(k);
    library.offer({sources.data(), static_cast<std::size_t>(sources.size())},
                  {pulls.data(), static_cast<std::size_t>(pulls.size())});
    ++settled;
    const bool found = library.settle();
    if (library.stepped()) library.owner = nullptr;
    if (found)
      for (std::size_t i = 0; i < nodes.size(); ++i) x[static_cast<Index>(i)] = library.volts(nodes[i]);
    library.offer({}, {});
    return found;
  }
};

NgspiceSolver::NgspiceSolver(CircuitProblem& problem, NgspiceOptions options) {
  options.validate().throw_if_any();
  NgspiceLibrary& library = NgspiceLibrary::get(options.library);
  state_ = std::make_unique<State>(State{problem, std::move(options), library});
  for (Index i = 0; i < problem.nodes(); ++i)
    state_->nodes.push_back(fmt::format("n{}", problem.equations().free_node(i)));
  state_->pulls = Vec::Zero(static_cast<Index>(problem.circuit().pulls.size()));
}

NgspiceSolver::~NgspiceSolver() {
  // Another solver may come to lie at this address and must not take the circuit for its own.
  const std::lock_guard turn(state_->library.turn);
  if (state_->library.owner == state_.get()) state_->library.owner = nullptr;
}

Solution<Vec> NgspiceSolver::solve(const Vec& theta, double beta, const Vec& start) {
  CircuitProblem& problem = state_->problem;
  problem.require_conductances(theta, name());
  require_shapes<Vec>(problem, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("ngspice: beta = {} must be finite", beta));
  Solution<Vec> s;
  s.phi = start;
  s.status = Status::converged;
  const auto blame = [&](Status status, std::string why) {
    if (succeeded(s.status)) {
      s.status = status;
      s.message = std::move(why);
    }
  };
  const Index n = problem.nodes();
  NgspiceLibrary& library = state_->library;
  const std::lock_guard turn(library.turn);
  problem.set_theta(theta);
  double worst = 0;
  for (Index k = 0; k < problem.samples(); ++k) {
    if (!state_->prepare(theta, beta)) {
      blame(state_->status, state_->message);
      break;
    }
    auto x = s.phi.segment(k * n, n);
    if (!state_->settle(k, x)) blame(library.status(), fmt::format("sample {}: {}", k, library.complaint()));
    library.forget();
    problem.set_sample(k, beta);
    const Judgement judgement = judge(problem.equations(), x, state_->options);
    worst = std::fmax(worst, judgement.residual);
    if (!succeeded(judgement.status))
      blame(judgement.status, fmt::format("sample {}: {}", k, judgement.message));
  }
  if (succeeded(s.status))
    s.message = fmt::format("{} samples at rest, residual at most {:.3g}", problem.samples(), worst);
  measure_solution(problem, theta, beta, s);
  return s;
}

long NgspiceSolver::loads() const {
  return state_->loads;
}
long NgspiceSolver::alters() const {
  return state_->alters;
}
long NgspiceSolver::settled() const {
  return state_->settled;
}

}  // namespace bilevel::networks
