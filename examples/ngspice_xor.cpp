// A circuit of resistors and diodes learns exclusive or. ngspice settles it; the outer gradient comes from
// where it rests when it is left alone and when its output is pulled a little, and from nothing else.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/ngspice/ngspice_solver.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  namespace networks = bilevel::networks;
  const auto network = networks::layered_circuit({.sizes = {2, 4, 1}, .input_volts = 4});
  const Eigen::MatrixXd inputs{{-1, -1, 1, 1}, {-1, 1, -1, 1}}, targets{{-0.3, 0.3, 0.3, -0.3}};
  networks::CircuitProblem problem(network.circuit, network.outputs, network.sources(inputs), targets);

  networks::NgspiceSolver ngspice(problem);
  bilevel::EquilibriumPropagation<Vec> estimator(problem, ngspice,
                                                 {.nudge = bilevel::Nudge::central, .beta = 1e-3});
  bilevel::SolveOptions options;
  options.gradient_tolerance = 1e-5;
  const Vec start = problem.initial_theta();
  options.box = {.lower = Vec::Constant(start.size(), 1e-4), .upper = Vec::Constant(start.size(), 10)};
  auto optimizer = bilevel::make_optimizer("lbfgs");
  const bilevel::Summary s = bilevel::solve<Vec>(estimator, *optimizer, start, options);

  fmt::print("{}; gradient {}\n", name(s.status), name(s.certificate.verdict));
  const Eigen::MatrixXd volts = problem.output_volts(s.phi);
  for (int k = 0; k < 4; ++k) fmt::print("{:+} {:+}: {:+.3f} V\n", inputs(0, k), inputs(1, k), volts(0, k));
}
