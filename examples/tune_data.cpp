// Tuning a model on a table in memory: one penalty for each feature, a certificate, predictions, and the
// model in a file.

#include <random>

#include <fmt/format.h>

#include <bilevel/data/make_dataset.hpp>
#include <bilevel/models/tune.hpp>

#include "arguments.hpp"

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  // 200 rows of three features, of which the price follows two.
  std::mt19937_64 engine(1);
  const auto noise = [&] { return static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5; };
  Eigen::MatrixXd x(200, 3);
  Eigen::VectorXd price(200);
  for (Eigen::Index i = 0; i < 200; ++i) {
    x.row(i) << 100 + 60 * noise(), 3 * noise(), noise();
    price[i] = 20 + 2 * x(i, 0) - 5 * x(i, 1) + noise();
  }

  const auto table = bilevel::data::make_dataset(x, price, {"area", "distance", "colour"}, "price");
  const auto tuned = bilevel::models::tune(
      table, {.model = bilevel::models::Model::ridge, .penalty = bilevel::models::Penalty::per_feature});
  fmt::print("{}, certificate {} {}\n", name(tuned.summary.status), name(tuned.summary.certificate.kind),
             name(tuned.summary.certificate.verdict));
  for (std::size_t j = 0; j < 3; ++j)
    fmt::print("{:<9} {:6.2f}\n", tuned.model.names()[j],
               tuned.model.coefficients[static_cast<Eigen::Index>(j)]);
  fmt::print("R² on the test rows {:.3f}\n", *tuned.chosen.test->r2);

  tuned.save("house_prices.json");  // for bilevel predict too
  const auto model = bilevel::models::SavedModel::load("house_prices.json");
  const Eigen::RowVector3d house(120, 1, 0);
  fmt::print("120 m², 1 km away: {:.0f}\n", model.predict(house).values[0]);
}
