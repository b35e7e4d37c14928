#include <bilevel/models/example.hpp>

#include <cmath>
#include <random>
#include <utility>

#include <fmt/format.h>

#include <bilevel/data/make_dataset.hpp>

namespace bilevel::models {

bilevel::data::Dataset example_data(std::uint64_t seed) {
  constexpr int rows = 600, groups = 12, size = 5, strong = 4;
  std::mt19937_64 engine(seed);
  // Sums of twelve uniform numbers, nearly normal: the same on every platform.
  const auto uniform = [&] { return static_cast<double>(engine() >> 11) * 0x1p-53; };
  const auto normal = [&] {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += uniform();
    return sum;
  };
  std::vector<std::string> names;
  for (int g = 0; g < groups; ++g)
    for (int k = 0; k < size; ++k)
      names.push_back(g < strong
                          ? k == 0 ? fmt::format("strong_{}", g + 1) : fmt::format("echo_{}_{}", g + 1, k)
                          : fmt::format("noise_{}_{}", g + 1, k + 1));
  bilevel::data::DenseRows x(rows, groups * size);
  Eigen::VectorXd target(rows);
  for (int i = 0; i < rows; ++i) {
    double margin = 0;
    for (int g = 0; g < groups; ++g) {
      const double shared = normal();
      for (int k = 0; k < size; ++k) x(i, g * size + k) = 0.8 * shared + 0.6 * normal();
      if (g < strong) margin += (g % 2 == 0 ? 1.2 : -1.2) * x(i, g * size);
    }
    target[i] = uniform() < 1 / (1 + std::exp(-margin)) ? 1 : 0;
  }
  bilevel::data::Dataset d =
      bilevel::data::make_dataset(std::move(x), std::move(target), std::move(names), "answer");
  d.source = "the built-in example";
  d.levels = d.schema.target_levels = {"no", "yes"};
  return d;
}

}  // namespace bilevel::models
