#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>

#include <bilevel/networks/training_data.hpp>

namespace bilevel::networks {
namespace {

// Seven rows of five, the way pocket calculators drew them.
constexpr std::array<std::array<std::string_view, 7>, 10> glyphs{{
    {".###.", "#...#", "#...#", "#...#", "#...#", "#...#", ".###."},
    {"..#..", ".##..", "#.#..", "..#..", "..#..", "..#..", "#####"},
    {".###.", "#...#", "....#", "...#.", "..#..", ".#...", "#####"},
    {"####.", "....#", "....#", ".###.", "....#", "....#", "####."},
    {"...#.", "..##.", ".#.#.", "#..#.", "#####", "...#.", "...#."},
    {"#####", "#....", "####.", "....#", "....#", "#...#", ".###."},
    {"..##.", ".#...", "#....", "####.", "#...#", "#...#", ".###."},
    {"#####", "....#", "...#.", "...#.", "..#..", "..#..", "..#.."},
    {".###.", "#...#", "#...#", ".###.", "#...#", "#...#", ".###."},
    {".###.", "#...#", "#...#", ".####", "....#", "...#.", ".##.."},
}};
constexpr int side = 12;

void draw_digits(Index count, std::uint64_t seed, LabelledSamples& part) {
  std::mt19937_64 engine(seed);
  const auto uniform = [&] { return static_cast<float>(engine() >> 40) * 0x1p-24f; };
  part.inputs = Eigen::MatrixXf::Zero(side * side, count);
  part.labels.resize(static_cast<std::size_t>(count));
  for (Index n = 0; n < count; ++n) {
    const int digit = static_cast<int>(engine() % 10);
    part.labels[static_cast<std::size_t>(n)] = digit;
    const int down = 1 + static_cast<int>(engine() % 3), right = 2 + static_cast<int>(engine() % 3);
    const float slant = 0.5f * (uniform() - 0.5f), ink = 0.6f + 0.4f * uniform();
    auto picture = part.inputs.col(n);
    const auto put = [&](int row, int column, float value) {
      if (row < 0 || column < 0 || row >= side || column >= side) return;
      float& pixel = picture[row * side + column];
      pixel = std::max(pixel, value);
    };
    for (int row = 0; row < 7; ++row)
      for (int column = 0; column < 5; ++column) {
        if (glyphs[static_cast<std::size_t>(digit)][static_cast<std::size_t>(row)]
                  [static_cast<std::size_t>(column)] != '#')
          continue;
        // The slant moves a pixel by a fraction: its ink falls on two columns.
        const float at = static_cast<float>(right + column) + slant * static_cast<float>(3 - row);
        const int left = static_cast<int>(std::floor(at));
        const float part_right = at - static_cast<float>(left);
        put(down + row, left, ink * (1 - part_right));
        put(down + row, left + 1, ink * part_right);
      }
    for (Index i = 0; i < picture.size(); ++i)
      picture[i] = std::clamp(picture[i] + 0.3f * (uniform() + uniform() - 1), 0.0f, 1.0f);
  }
}

}  // namespace

TrainingData drawn_digits(Index train_rows, std::uint64_t seed, Index test_rows) {
  if (train_rows < 1 || test_rows < 1)
    throw InvalidInput(fmt::format("{} and {} pictures cannot be drawn", train_rows, test_rows));
  TrainingData out;
  out.generated = true;
  out.image = {{side, side}};
  out.scaling = "grey values from 0 to 1";
  for (int digit = 0; digit < 10; ++digit) out.classes.push_back(fmt::format("{}", digit));
  out.train.source = out.test.source = "generated pictures of digits";
  draw_digits(train_rows, 1000 + seed, out.train);
  draw_digits(test_rows, 1000000 + seed, out.test);
  out.shift = Eigen::VectorXd::Zero(out.features());
  out.factor = Eigen::VectorXd::Ones(out.features());
  return out;
}

}  // namespace bilevel::networks
