#include <bilevel/models/example.hpp>

#include <cmath>
#include <random>

#include <fmt/format.h>

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
  bilevel::data::Dataset d;
  d.source = "the built-in example";
  d.format = bilevel::data::Format::csv;
  d.target_name = "answer";
  d.levels = {"no", "yes"};
  for (int g = 0; g < groups; ++g)
    for (int k = 0; k < size; ++k)
      d.names.push_back(g < strong
                            ? k == 0 ? fmt::format("strong_{}", g + 1) : fmt::format("echo_{}_{}", g + 1, k)
                            : fmt::format("noise_{}_{}", g + 1, k + 1));
  d.origins = d.names;
  bilevel::data::DenseRows x(rows, groups * size);
  d.target.resize(rows);
  for (int i = 0; i < rows; ++i) {
    double margin = 0;
    for (int g = 0; g < groups; ++g) {
      const double shared = normal();
      for (int k = 0; k < size; ++k) x(i, g * size + k) = 0.8 * shared + 0.6 * normal();
      if (g < strong) margin += (g % 2 == 0 ? 1.2 : -1.2) * x(i, g * size);
    }
    d.target[i] = uniform() < 1 / (1 + std::exp(-margin)) ? 1 : 0;
  }
  d.x = std::move(x);
  bilevel::data::Schema& s = d.schema;
  s.format = d.format;
  s.header = true;
  for (const std::string& name : d.names) s.columns.push_back({name, bilevel::data::ColumnKind::numeric, {}});
  s.columns.push_back({d.target_name, bilevel::data::ColumnKind::target, {}});
  s.target_name = d.target_name;
  s.target_levels = d.levels;
  s.features = d.features();
  s.names = d.names;
  return d;
}

}  // namespace bilevel::models
