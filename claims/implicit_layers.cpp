#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/log_cosh.hpp>

#include "recurrent_net.hpp"
#include "root.hpp"

namespace claims {
namespace {
namespace of_implicit_layers {

constexpr Index units = 6, inputs = 3;

/// w·dφ*/dθ = −πχ with πJ = w, spelled out.
Vec pullback(const Laboratory& lab, bilevel::Equilibrium<Vec>& layer, const Vec& phi, const Vec& theta,
             const Vec& w, const char* solver) {
  const auto curvature = lab.curvature(layer, phi, theta);
  bilevel::CurvatureOperator<Vec> j(*curvature, layer.capabilities().symmetric, true);
  const Vec pi = lab.adjoint(solver, {.relative_tolerance = 1e-14})->solve(j, w, nullptr).x;
  Vec out(theta.size());
  curvature->cross_times(pi, out);
  return -out;
}

Vec joined(const Vec& a, const Vec& b) {
  Vec both(a.size() + b.size());
  both << a, b;
  return both;
}

Mat beside_identity(const Mat& weights) {
  Mat both(weights.rows(), weights.rows() + weights.cols());
  both << Mat::Identity(weights.rows(), weights.rows()), weights;
  return both;
}

void run(Laboratory& lab, Outcome& outcome) {
  double worst_vector = 0, worst_library = 0, worst_push = 0, worst_matrix = 0, worst_chain[3] = {0, 0, 0};
  std::vector<double> differenced, chained;  // by the input, for the eye
  const int draws = 40;
  for (int draw = 0; draw < draws; ++draw) {
    const auto number = std::uint64_t(100 * draw);
    // θ of the first layer is (b, x), of the second (c, z).
    const auto shape = bilevel::problems::LogCosh::random(
        {.phi = units, .theta = inputs, .condition = 10, .seed = lab.seed(number)});
    bilevel::problems::LogCosh first(shape.hessian(), beside_identity(lab.matrix(units, inputs, number + 1)),
                                     Vec::Zero(units), Mat::Zero(units, units + inputs), 1);
    const RecurrentNet plain = random_net(lab, units, units, 0.8, number + 2);
    RecurrentNet second(plain.w, beside_identity(plain.u), Vec::Zero(units), plain.y);
    const Vec x = lab.vector(inputs, number + 10), b = 0.5 * lab.vector(units, number + 11),
              c = 0.5 * lab.vector(units, number + 12);

    const auto rest_first = [&](const Vec& theta) { return root(first, theta, 0, first.initial_phi()); };
    const auto rest_second = [&](const Vec& theta) {
      Vec start = second.initial_phi();
      for (int k = 0; k < 100; ++k) start = second.drive(start, theta).array().tanh();
      return root(second, theta, 0, start);
    };
    const Vec theta_first = joined(b, x), z = rest_first(theta_first), theta_second = joined(c, z),
              phi = rest_second(theta_second);

    // Each layer by itself.
    const Vec w = lab.vector(units, number + 13);
    const auto examine = [&](bilevel::Equilibrium<Vec>& layer, const Vec& at, const Vec& theta,
                             const Mat& truth, std::initializer_list<const char*> solvers) {
      for (const char* solver : solvers)
        keep_worst(worst_vector, relative(pullback(lab, layer, at, theta, w, solver), truth.transpose() * w));
      bilevel::Sensitivity<Vec> sensitivity(layer);
      sensitivity.move_to(at, theta);
      const auto direct = lab.adjoint("direct");
      const Vec u = lab.vector(theta.size(), number + 14);
      Vec out(theta.size());
      sensitivity.pullback(w, *direct, out);
      keep_worst(worst_library, relative(out, truth.transpose() * w));
      keep_worst(worst_push, relative(sensitivity.pushforward(u, *direct).x, truth * u));
      keep_worst(worst_matrix, relative(*sensitivity.jacobian(), truth));
    };
    examine(first, z, theta_first, differences(rest_first, theta_first, 4e-3), {"direct", "cg", "minres"});
    examine(second, phi, theta_second, differences(rest_second, theta_second, 2e-3), {"direct", "gmres"});

    // The chain: loss → second layer → its input block → first layer.
    const Vec back_second = pullback(lab, second, phi, theta_second, phi - second.y, "gmres");
    const Vec back_first = pullback(lab, first, z, theta_first, back_second.tail(units), "cg");
    const auto loss = [&](const Vec& at_x, const Vec& at_b, const Vec& at_c) {
      const Vec end = rest_second(joined(at_c, rest_first(joined(at_b, at_x))));
      return Vec(Vec::Constant(1, 0.5 * (end - second.y).squaredNorm()));
    };
    const Mat by_x = differences([&](const Vec&at) { return loss(at, b, c); }, x, 2e-3),
              by_b = differences([&](const Vec&at) { return loss(x, at, c); }, b, 2e-3),
              by_c = differences([&](const Vec&at) { return loss(x, b, at); }, c, 2e-3);
    for (Index i = 0; i < inputs; ++i) {
      differenced.push_back(by_x(0, i));
      chained.push_back(back_first[units + i]);
    }
    keep_worst(worst_chain[0], relative(back_first.tail(inputs), by_x.transpose()));
    keep_worst(worst_chain[1], relative(back_first.head(units), by_b.transpose()));
    keep_worst(worst_chain[2], relative(back_second.head(units), by_c.transpose()));
  }
  outcome.at_most("w·dφ*/dθ of a layer, spelled out, against differences", 1e-8, worst_vector);
  outcome.at_most("the library's vector–Jacobian product against differences", 1e-8, worst_library);
  outcome.at_most("the library's Jacobian–vector product against differences", 1e-8, worst_push);
  outcome.at_most("the library's whole matrix dφ*/dθ against differences", 1e-8, worst_matrix);
  outcome.at_most("two layers: derivative with respect to the input x", 1e-8, worst_chain[0]);
  outcome.at_most("two layers: with respect to the first layer's biases", 1e-8, worst_chain[1]);
  outcome.at_most("two layers: with respect to the second layer's biases", 1e-8, worst_chain[2]);
  Table table("Largest relative errors of 40 pairs of layers", {"derivative", "error"});
  table.row({"w·dφ*/dθ, spelled out, one layer", fmt::format("{:.1e}", worst_vector)})
      .row({"the same by the library", fmt::format("{:.1e}", worst_library)})
      .row({"dφ*/dθ·u by the library", fmt::format("{:.1e}", worst_push)})
      .row({"dφ*/dθ by the library", fmt::format("{:.1e}", worst_matrix)})
      .row({"two layers, by the input", fmt::format("{:.1e}", worst_chain[0])})
      .row({"two layers, by the first biases", fmt::format("{:.1e}", worst_chain[1])})
      .row({"two layers, by the second biases", fmt::format("{:.1e}", worst_chain[2])});
  outcome.show(table);
  const auto [least, most] = std::minmax_element(differenced.begin(), differenced.end());
  outcome.show(Chart("Two layers: derivatives of the loss by the input x")
                   .x("differences of both solves")
                   .y("product chained through both layers")
                   .dots("40 pairs of layers", differenced, chained)
                   .line("equal", {*least, *most}, {*least, *most}, true));
  outcome.note(
      "The second layer minimises nothing: its Jacobian is not symmetric, and the product from the left "
      "needs "
      "the transposed system.");
  outcome.measured = fmt::format("layer {:.0e}, chain {:.0e}", worst_vector,
                                 std::max({worst_chain[0], worst_chain[1], worst_chain[2]}));
}

}  // namespace of_implicit_layers
}  // namespace

const Claim implicit_layers{
    .name = "implicit-layers",
    .title = "Derivatives with respect to inputs: implicit layers",
    .place = "Section 3, introduction",
    .statement =
        "Everything said of derivatives with respect to θ can be transposed to derivatives with respect "
        "to inputs, so that one can backpropagate through implicitly defined layers: the vector–Jacobian "
        "product of x ↦ φ*(x) is one solve with the Jacobian and one cross product.",
    .protocol =
        "40 pairs of layers. The first minimises ½φᵀHφ + Σ ln cosh(φ − Ux − b)_i (6 units, 3 inputs); the "
        "second rests at φ = tanh(Wφ + Vz + c) with ‖W‖ = 0.8 (6 units, the first layer's state as "
        "input). An input is a block of θ. Each layer's product w·dφ*/d(b, x) by hand from solver and "
        "cross product against the library's pullback, pushforward and matrix; the gradient of ½‖φ₂ − y‖² "
        "with respect to x, b and c by chaining the two.",
    .truth =
        "Central differences of eighth order of the states and of the whole composition, all solves to "
        "the last digits.",
    .slip = "",
    .expected = "1e-8 for each layer and the chain",
    .run = of_implicit_layers::run};

}  // namespace claims
