#include <algorithm>
#include <array>
#include <random>
#include <string_view>

#include "dataset.hpp"

namespace training {
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

}  // namespace

void draw_digits(Index count, std::uint64_t seed, Part& part) {
  std::mt19937_64 engine(seed);
  const auto uniform = [&] { return static_cast<float>(engine() >> 40) * 0x1p-24f; };
  part.inputs = Matrix::Zero(side * side, count);
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

}  // namespace training
