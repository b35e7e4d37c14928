#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/logistic.hpp>

#include "root.hpp"

namespace claims {
namespace {
namespace of_hessian_products {

/// Of one call, in seconds: the least mean of so many calls in 20 repetitions, since what others do to the
/// machine only adds.
double least_seconds(const std::function<void()>& call, int calls = 20) {
  call();
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 20; ++repeat) {
    const bilevel::Stopwatch watch;
    for (int k = 0; k < calls; ++k) call();
    least = std::min(least, watch.seconds() / calls);
  }
  return least;
}

struct Times {
  double gradient, product, prepared, dense;
};

Times measure(const Laboratory& lab, Index rows, Index features) {
  auto problem = bilevel::problems::Logistic::random({.rows = rows,
                                                      .validation_rows = 10,
                                                      .features = features,
                                                      .seed = lab.seed(std::uint64_t(rows + features))});
  const Vec phi = 0.1 * lab.vector(features, 1), theta = problem.initial_theta(), v = lab.vector(features, 2);
  Vec out(features), moved = phi;
  const auto curvature = lab.curvature(problem, phi, theta);
  std::unique_ptr<bilevel::Curvature<Vec>> fresh;
  Mat dense;
  Times times{};
  times.gradient = least_seconds([&] {
    moved[0] += 1e-3;  // another point: what is known of the last one is not computed again
    problem.residual(moved, theta, out);
  });
  times.product = least_seconds([&] { curvature->times(v, out); });
  times.prepared = least_seconds([&] {
    moved[0] += 1e-3;
    problem.linearise(moved, theta, 0, fresh);
    fresh->times(v, out);
  });
  times.dense = least_seconds(
      [&] {
        moved[0] += 1e-3;
        problem.linearise(moved, theta, 0, fresh);
        dense = bilevel::dense_matrix(*fresh, moved);
      },
      1);
  return times;
}

void run(Laboratory& lab, Outcome& outcome) {
  auto problem = bilevel::problems::Logistic::random(
      {.rows = 200, .validation_rows = 50, .features = 40, .seed = lab.seed(1)});
  const Vec phi = 0.3 * lab.vector(40, 2), theta = problem.initial_theta() + 0.3 * lab.vector(40, 3);
  const auto curvature = lab.curvature(problem, phi, theta);
  // Of another object: one that has formed its matrix may multiply by it.
  const Mat dense = bilevel::dense_matrix(*lab.curvature(problem, phi, theta), phi);
  double worst_difference = 0, worst_column = 0;
  for (std::uint64_t draw = 0; draw < 10; ++draw) {
    const Vec v = lab.vector(40, 10 + draw).normalized();
    Vec product(40), residual(40);
    curvature->times(v, product);
    const auto along = [&](const Vec& t) {
      problem.residual(phi + t[0] * v, theta, residual);
      return residual;
    };
    keep_worst(worst_difference, (product - differences(along, Vec::Zero(1), 2e-2)).norm() / product.norm());
    keep_worst(worst_column, (product - dense * v).norm() / product.norm());
  }
  outcome.at_most("products against differences of gradients, relative", 1e-9, worst_difference);
  outcome.at_most("products against the dense Hessian, relative", 1e-12, worst_column);

  Table table("Wall time in microseconds", {"samples", "features", "gradient", "product", "prepared product",
                                            "dense Hessian", "product/gradient"});
  double worst_ratio = 0;
  const auto record = [&](Index rows, Index features) {
    const Times t = measure(lab, rows, features);
    table.row({fmt::format("{}", rows), fmt::format("{}", features), fmt::format("{:.0f}", 1e6 * t.gradient),
               fmt::format("{:.0f}", 1e6 * t.product), fmt::format("{:.0f}", 1e6 * t.prepared),
               fmt::format("{:.0f}", 1e6 * t.dense), fmt::format("{:.2f}", t.product / t.gradient)});
    keep_worst(worst_ratio, t.product / t.gradient);
    return t;
  };
  std::vector<double> samples, gradients, products, prepared;
  double worst_prepared = 0;
  for (const Index rows : {250, 500, 1000, 2000, 4000}) {
    const Times t = record(rows, 32);
    samples.push_back(double(rows));
    gradients.push_back(t.gradient);
    products.push_back(t.product);
    prepared.push_back(t.prepared);
    keep_worst(worst_prepared, t.prepared / t.gradient);
  }
  std::vector<double> widths, dense_over_product;
  for (const Index features : {32, 64, 128, 192}) {
    const Times t = record(500, features);
    widths.push_back(double(features));
    dense_over_product.push_back(t.dense / t.product);
  }
  outcome.at_most("largest ratio of a product to a gradient", 5, worst_ratio);
  outcome.at_most("the same with the curvature prepared afresh", 5, worst_prepared);
  outcome.near("order in the number of samples of a product's time", 1, slope(samples, products), 0.35);
  outcome.near("order in the number of samples of a gradient's time", 1, slope(samples, gradients), 0.35);
  outcome.at_least("dense Hessian over product, 192 features", 2, dense_over_product.back());

  outcome.show(table);
  outcome.show(Chart("Time over the number of samples, 32 features")
                   .x("samples", true)
                   .y("seconds", true)
                   .path("gradient", samples, gradients)
                   .path("product", samples, products)
                   .path("prepared product", samples, prepared)
                   .caption("Wall time: it depends on the machine, the ratio hardly does."));
  outcome.measured = fmt::format("{:.1f} gradients; order {:.2f}", worst_ratio, slope(samples, products));
}

}  // namespace of_hessian_products
}  // namespace

const Claim hessian_products{
    .name = "hessian-products",
    .title = "A Hessian-vector product costs about a gradient",
    .place = "Section 3.1, “Choice of the optimizer”",
    .statement =
        "The product of the Hessian with a vector has the same complexity as a gradient, although the "
        "Hessian itself has quadratically many elements; so phase 2 by gradient descent or conjugate "
        "gradient is cheap.",
    .protocol =
        "Logistic regression with one penalty a feature. Products with 10 random vectors against "
        "differences of gradients and against the columns of the dense Hessian (40 features, 200 "
        "samples). Wall time, the least mean of 20 calls in 20 repetitions, of a gradient, a product, "
        "preparing the curvature and a product, and the dense Hessian: 32 features with 250 to 4000 "
        "samples, and 500 samples with 32 to 192 features, small enough to stay on one thread.",
    .truth =
        "Central differences of eighth order of ∂φL_in; operation counts: both take two passes over the "
        "data, so the ratio of times does not grow and each time is linear in the number of samples.",
    .slip = "",
    .expected = "at most 5 gradients; linear in the samples",
    .run = of_hessian_products::run};

}  // namespace claims
