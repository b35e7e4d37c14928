#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace report_test {

using Json = nlohmann::ordered_json;

/// A digit of seven strokes, ink in 0..1, a little blurred and slanted.
inline Json digit_image(int digit, int side, double slant) {
  // The ends of the strokes, and which strokes each digit has.
  static const double strokes[7][4] = {{-1, -2, 1, -2}, {-1, -2, -1, 0}, {1, -2, 1, 0}, {-1, 0, 1, 0},
                                       {-1, 0, -1, 2},  {1, 0, 1, 2},    {-1, 2, 1, 2}};
  static const char* const parts[10] = {"1110111", "0010010", "1011101", "1011011", "0111010",
                                        "1101011", "1101111", "1010010", "1111111", "1111011"};
  Json pixels = Json::array();
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column) {
      const double y = 6.0 * (row + 0.5) / side - 3, x = 6.0 * (column + 0.5) / side - 3 + slant * y;
      double nearest = 9;
      for (int k = 0; k < 7; ++k) {
        if (parts[digit % 10][k] == '0') continue;
        const double* s = strokes[k];
        const double cx = std::clamp(x, s[0], s[2]), cy = std::clamp(y, s[1], s[3]);
        nearest = std::min(nearest, std::hypot(x - cx, y - cy));
      }
      pixels.push_back(std::round(1000 * std::exp(-6 * nearest * nearest)) / 1000);
    }
  return pixels;
}

/// Weights that look for an edge at some place in some direction, and noise.
inline Json weight_image(int number, int side, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  const double angle = 0.7 * number, cx = side * (0.5 + 0.2 * std::cos(2.4 * number)),
               cy = side * (0.5 + 0.2 * std::sin(2.4 * number)), width = side / 5.0;
  Json weights = Json::array();
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column) {
      const double x = (column - cx) / width, y = (row - cy) / width;
      const double along = x * std::cos(angle) + y * std::sin(angle);
      weights.push_back(0.4 * std::sin(2 * along) * std::exp(-0.5 * (x * x + y * y)) + 0.02 * normal(engine));
    }
  return weights;
}

inline Json training_epochs(int epochs) {
  Json list = Json::array();
  for (int i = 1; i <= epochs; ++i)
    list.push_back({{"epoch", i},
                    {"train_error", 0.075 * std::pow(i, -1.6)},
                    {"test_error", 0.018 + 0.02 * std::pow(i, -1.2) + 0.0004 * std::sin(3.0 * i)},
                    {"train_cost", 0.06 * std::pow(i, -1.3)},
                    {"test_cost", 0.022 + 0.028 * std::pow(i, -1.1)},
                    {"samples_per_second", 20000 + 700 * std::sin(1.7 * i)},
                    {"relaxation_residual", 2.6e-5 * (1 + 0.3 * std::sin(2.0 * i)) * std::sqrt(i)},
                    {"gradient_cosine", 0.9987 - 0.0004 * std::log(i) + 0.0002 * std::sin(5.0 * i)},
                    {"gradient_error", 0.05 + 0.004 * std::log(i) + 0.003 * std::sin(5.0 * i)},
                    {"seconds", 3.1},
                    {"learning_rate", 0.1 * std::pow(0.98, i - 1)}});
  return list;
}

/// The energy begins with step 0, the movement with step 1.
inline Json settling(int steps, double from, double to, double rate, double moved) {
  Json energy = Json::array(), movement = Json::array();
  for (int k = 0; k <= steps; ++k) {
    energy.push_back(to + (from - to) * std::pow(rate, 2 * k));
    if (k > 0) movement.push_back(moved * std::pow(rate, k));
  }
  return {{"energy", energy}, {"moved", movement}};
}

/// A result of `bilevel train` with every field.
inline Json train_result(int epochs = 25, int side = 14, int units = 32, int wrong = 24) {
  std::mt19937_64 engine(5);
  Json classes = Json::array(), images = Json::array(), confusion = Json::array(), mistakes = Json::array();
  for (int c = 0; c < 10; ++c) {
    Json row = Json::array();
    for (int p = 0; p < 10; ++p)
      row.push_back(c == p ? 970 + 3 * c : std::max(0, (c * 7 + p * 5 + c * p) % 11 - 7));
    classes.push_back(fmt::format("{}", c));
    confusion.push_back(row);
  }
  confusion[4][9] = 21;
  confusion[9][4] = 12;
  confusion[7][2] = 8;
  for (int u = 0; u < units; ++u) images.push_back(weight_image(u, side, engine));
  for (int w = 0; w < wrong; ++w)
    mistakes.push_back({{"index", 115 + 97 * w},
                        {"label", fmt::format("{}", (3 * w + 4) % 10)},
                        {"predicted", fmt::format("{}", (3 * w + 9) % 10)},
                        {"image", digit_image((3 * w + 4) % 10, side, 0.25 * std::sin(w))},
                        {"outputs", {0.1, 0.4}}});
  Json plus = settling(4, -58.21, -58.34, 0.5, 0.02), minus = settling(4, -58.21, -58.27, 0.55, 0.015);
  plus["beta"] = 0.5;
  minus["beta"] = -0.5;
  return {{"command", "train"},
          {"version", "0.5.0"},
          {"status", "converged"},
          {"message", "all 25 epochs are done"},
          {"trusted", true},
          {"command_line", "bilevel train mnist --epochs 25 --seed 1"},
          {"data",
           {{"source", "mnist"},
            {"test_source", "t10k-images-idx3-ubyte.gz"},
            {"train_rows", 60000},
            {"test_rows", 10000},
            {"features", side * side},
            {"image", {side, side}},
            {"classes", classes},
            {"scaling", "divided by 255"},
            {"generated", false},
            {"notes", {"Pixels that are always paper were kept."}}}},
          {"network",
           {{"energy", "hopfield"},
            {"layers", {side * side, units, 10}},
            {"activation", "clip"},
            {"read_out", "squared"},
            {"input_gain", 1},
            {"gain", 1},
            {"parameters", (side * side + 11) * units + 10}}},
          {"settings",
           {{"estimator", "ep-central"},
            {"beta", 0.5},
            {"optimizer", "sgd"},
            {"learning_rates", {0.1, 0.05}},
            {"decay", 0.98},
            {"batch", 20},
            {"epochs", 25},
            {"schedule", "even-odd"},
            {"step", 1},
            {"free_steps", 20},
            {"nudged_steps", 4},
            {"tolerance", 0},
            {"persistent", false},
            {"noise", 0},
            {"seed", 1},
            {"threads", 2}}},
          {"epochs", training_epochs(epochs)},
          {"probe",
           {{"samples", 16},
            {"estimator", "ep-central"},
            {"cosine", 0.9987},
            {"relative_error", 0.05},
            {"exact", "implicit-cg-preconditioned"},
            {"certificate",
             {{"kind", "estimated"},
              {"bound", 9.6e-3},
              {"verdict", "trusted"},
              {"reason", "bias and noise of the nudge, estimated from a second β"}}},
            {"gradient_norm", 0.12}}},
          {"relaxation", {{"free", settling(20, -3.1, -58.21, 0.6, 0.5)}, {"nudged", {plus, minus}}}},
          {"weights", {{"rows", side}, {"columns", side}, {"images", images}}},
          {"confusion", confusion},
          {"wrong", mistakes},
          {"warnings", {"The test cost has not fallen for 3 epochs."}},
          {"seconds", 75.0}};
}

}  // namespace report_test
